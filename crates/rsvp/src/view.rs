//! Read-only views of the engine's state for listings. Blocks are listed in slab order, a page at a time, so that
//! listing a million of them does not block the engine.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec};
use earmark_wire::rsvp::{SenderTemplate, Session, Style};

use crate::filters::Filters;
use crate::instance::Rsvp;
use crate::policy::User;
use crate::refresh_reduction::Liveness;
use crate::state::{Block, Holder, Index, Rsb};
use crate::tolerated::Deviations;

/// One sender of one session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderView<'s> {
    /// Session of the sender.
    pub session: Session,
    /// Address and port of the sender.
    pub template: SenderTemplate,
    /// Tspec of the sender.
    pub tspec: SenderTspec,
    /// PHOP; `None` for a sender of this host.
    pub previous_hop: Option<IpAddr>,
    /// Incoming interface of the Path.
    pub incoming: Option<InterfaceId>,
    /// Outgoing interfaces of the data, in ascending order.
    pub outgoing: &'s [InterfaceId],
    /// Whether the data ends on this host, only or among others.
    pub here: bool,
    /// Number of RSVP hops so far, if the ADSPEC has it.
    pub hops: Option<u32>,
    /// Time when the sender expires; [`Time::MAX`] for a sender of this host.
    pub expires_at: Time,
    /// Whether there is a reservation for the sender.
    pub reserved: bool,
}

/// One reservation request.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservationView {
    /// Session of the request.
    pub session: Session,
    /// Style of the request.
    pub style: Style,
    /// Senders of the request.
    pub filters: Filters,
    /// Requested flowspec.
    pub flowspec: FlowSpec,
    /// Outgoing interface; `None` for a receiver of this host.
    pub outgoing: Option<InterfaceId>,
    /// NHOP; `None` for a receiver of this host.
    pub next_hop: Option<IpAddr>,
    /// Time when the request expires; [`Time::MAX`] for a receiver of this host.
    pub expires_at: Time,
    /// User who requested it, if the request names one.
    pub user: Option<User>,
    /// Claim of the merged reservation that the request belongs to; `None` without traffic control.
    pub claim: Option<ClaimId>,
}

/// A neighbour with state, or with refresh reduction or Hello.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeighborView {
    /// Address of the neighbour.
    pub address: IpAddr,
    /// Interface towards the neighbour.
    pub interface: InterfaceId,
    /// Number of senders with this PHOP.
    pub senders: u32,
    /// Number of reservations with this NHOP.
    pub reservations: u32,
    /// Time when the neighbour last created or refreshed state; without state, time of its last message.
    pub heard: Time,
    /// State of refresh reduction; `None` without support.
    pub reduction: Option<ReductionView>,
    /// State of Hello.
    pub hello: Liveness,
    /// Deviations from the standards that were accepted.
    pub tolerated: Deviations,
}

/// Refresh reduction with a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReductionView {
    /// Epoch of the neighbour, if it has sent a MESSAGE_ID.
    pub epoch: Option<u32>,
    /// Number of acknowledged states in summary refreshes.
    pub summarized: usize,
    /// Number of acknowledged states that must be sent again.
    pub to_repeat: usize,
    /// Number of summary refreshes sent.
    pub summaries_sent: u64,
    /// Number of summary refreshes received.
    pub summaries_received: u64,
}

impl Rsvp {
    /// Returns the numbers of sessions, senders and reservation requests.
    pub fn population(&self) -> (usize, usize, usize) {
        (self.store.session_blocks.len(), self.store.psbs.len(), self.store.rsbs.len())
    }

    /// Returns the claim that a request received through `interface` would change: that of a sender, or without one of
    /// all that share a reservation.
    pub fn claim_for(
        &self,
        session: &Session,
        sender: Option<&SenderTemplate>,
        interface: InterfaceId,
    ) -> Option<ClaimId> {
        let holder = match sender {
            Some(sender) => Holder::Sender(self.store.find_sender(session, sender)?),
            None => Holder::Pool(self.store.pool_of(self.store.find_session(session)?)?),
        };
        self.store.tcsb(self.store.find_tcsb(holder, Some(interface))?).claim
    }

    /// Returns all senders.
    pub fn senders(&self) -> impl Iterator<Item = SenderView<'_>> {
        self.store.psbs.iter().map(|(index, psb)| SenderView {
            session: self.store.session(psb.session).session,
            template: psb.template,
            tspec: psb.tspec,
            previous_hop: self.store.neighbor_of(psb.hop).map(|(_, hop)| hop.address),
            incoming: self.store.neighbor_of(psb.hop).map(|(interface, _)| interface),
            outgoing: psb.outgoing.as_slice(),
            here: psb.is_here(),
            hops: psb
                .adspec
                .as_deref()
                .and_then(|body| Adspec::parse(body).ok())
                .map(|adspec| adspec.general.hops),
            expires_at: psb.expires_at,
            reserved: self.is_reserved(index as Index),
        })
    }

    /// Returns all reservation requests.
    pub fn reservations(&self) -> impl Iterator<Item = ReservationView> {
        self.store.rsbs.iter().map(|(_, rsb)| self.reservation_view(rsb))
    }

    /// The reservation that a claim is behind; of requests that are merged into one, the first.
    pub fn reservation_of(&self, claim: ClaimId, owner: Owner) -> Option<ReservationView> {
        let rsb = self.store.rsbs_of(self.block_of(claim, owner)?).next()?;
        Some(self.reservation_view(self.store.rsb(rsb)))
    }

    fn reservation_view(&self, rsb: &Rsb) -> ReservationView {
        let tcsb = self.store.tcsb(rsb.tcsb);
        ReservationView {
            session: self.store.session_key(tcsb.holder),
            style: self.store.style(tcsb.holder),
            filters: self.filters_of_request(rsb),
            flowspec: rsb.flowspec,
            outgoing: tcsb.outgoing,
            next_hop: self.store.neighbor_of(rsb.hop).map(|(_, hop)| hop.address),
            expires_at: rsb.expires_at,
            user: self.user_of(rsb),
            claim: tcsb.claim,
        }
    }

    /// Returns the senders of a request.
    pub(crate) fn filters_of_request(&self, rsb: &Rsb) -> Filters {
        match self.store.tcsb(rsb.tcsb).holder {
            Holder::Sender(psb) => Filters::One(self.store.psb(psb).template),
            Holder::Pool(_) => rsb.filters().iter().map(|f| f.spec).collect::<Vec<_>>().into(),
        }
    }

    /// Returns whether there is a reservation for a sender on an outgoing interface of its data.
    fn is_reserved(&self, index: Index) -> bool {
        let psb = self.store.psb(index);
        let mut holders = [Some(Holder::Sender(index)), None];
        holders[1] = self.store.pool_of(psb.session).map(Holder::Pool);
        holders.into_iter().flatten().any(|holder| {
            self.store.tcsbs_of(holder).any(|tcsb| {
                psb.leaves_through(self.store.tcsb(tcsb).outgoing)
                    && self.includes_sender(holder, tcsb, &psb.template)
            })
        })
    }

    /// Returns all neighbours: those with state in slab order, then those with only refresh reduction or Hello.
    pub fn neighbors(&self) -> impl Iterator<Item = NeighborView> {
        let with_state = self.store.neighbors.iter().map(|(_, neighbor)| {
            let view = self.refresh_reduction.view(neighbor.interface, neighbor.address);
            NeighborView {
                senders: neighbor.blocks[Block::Sender as usize],
                reservations: neighbor.blocks[Block::Reservation as usize],
                heard: neighbor.last_refresh_at,
                tolerated: view.tolerated.union(neighbor.deviations),
                ..view
            }
        });
        let without = self
            .refresh_reduction
            .addresses()
            .filter(|&(interface, address)| self.store.find_neighbor(interface, address).is_none());
        with_state.chain(
            without.map(|(interface, address)| self.refresh_reduction.view(interface, address)),
        )
    }

    /// Returns the epoch of this node and the number of messages waiting for acknowledgement.
    pub fn reduction(&self) -> (u32, usize) {
        self.refresh_reduction.epoch_and_unacknowledged()
    }
}
