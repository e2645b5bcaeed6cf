//! What the engine shows of its state, for listings. Blocks are shown in the order of their slabs, a page at a time,
//! so that even a million of them can be listed without holding the engine up for long.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec};
use earmark_wire::rsvp::{SenderTemplate, Session, Style};

use crate::api::Filters;
use crate::instance::Rsvp;
use crate::refresh_reduction::Liveness;
use crate::state::{Holder, Index, Rsb};

/// One sender of one session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderView<'s> {
    /// Its session.
    pub session: Session,
    /// Who sends.
    pub template: SenderTemplate,
    /// What.
    pub tspec: SenderTspec,
    /// PHOP; `None` for a sender of this host.
    pub previous_hop: Option<IpAddr>,
    /// Where its Path comes in.
    pub incoming: Option<InterfaceId>,
    /// Where its data goes out, in ascending order.
    pub outgoing: &'s [InterfaceId],
    /// Whether its data ends on this host, be it nowhere else or here too.
    pub here: bool,
    /// RSVP hops so far, where the path advertises them.
    pub hops: Option<u32>,
    /// When it ends without a refresh; never, for a sender of this host.
    pub expires_at: Time,
    /// Whether there is a reservation for it.
    pub reserved: bool,
}

/// One reservation request.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservationView {
    /// Its session.
    pub session: Session,
    /// In which style.
    pub style: Style,
    /// For whom.
    pub filters: Filters,
    /// What was asked for.
    pub flowspec: FlowSpec,
    /// On which link; `None` for a receiver of this host.
    pub outgoing: Option<InterfaceId>,
    /// NHOP; `None` for a receiver of this host.
    pub next_hop: Option<IpAddr>,
    /// When it ends without a refresh; never, for a receiver of this host.
    pub expires_at: Time,
    /// The bandwidth that it holds, alone or with others that are merged; `None` where nothing is queued.
    pub claim: Option<ClaimId>,
}

/// One neighbour that state hangs on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeighborView {
    /// Its address.
    pub address: IpAddr,
    /// Behind which interface.
    pub interface: InterfaceId,
    /// Senders whose PHOP it is.
    pub senders: u32,
    /// Reservations whose NHOP it is.
    pub reservations: u32,
    /// When it made or refreshed state last; where it has none, when it was heard last.
    pub heard: Time,
    /// What refresh reduction knows of it; `None` where it takes no part.
    pub reduction: Option<ReductionView>,
    /// What Hello knows of it.
    pub hello: Liveness,
}

/// A neighbour that takes part in refresh reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReductionView {
    /// Its epoch, if it has named a message yet.
    pub epoch: Option<u32>,
    /// States that it has acknowledged, and that are refreshed in summaries.
    pub summarized: usize,
    /// States that it acknowledged once and must be told again.
    pub to_repeat: usize,
    /// Summary refreshes sent to it.
    pub summaries_sent: u64,
    /// Summary refreshes received from it.
    pub summaries_received: u64,
}

impl Rsvp {
    /// How many sessions, senders and reservation requests there are.
    pub fn population(&self) -> (usize, usize, usize) {
        (self.store.session_blocks.len(), self.store.psbs.len(), self.store.rsbs.len())
    }

    /// The claim that a request from behind `interface` for a sender, or, without one, for all that share a reservation,
    /// would change.
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

    /// All senders.
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

    /// All reservation requests.
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
            claim: tcsb.claim,
        }
    }

    /// For whom a request is.
    pub(crate) fn filters_of_request(&self, rsb: &Rsb) -> Filters {
        match self.store.tcsb(rsb.tcsb).holder {
            Holder::Sender(psb) => Filters::One(self.store.psb(psb).template),
            Holder::Pool(_) => rsb.filters().iter().map(|f| f.spec).collect::<Vec<_>>().into(),
        }
    }

    /// Whether anything is reserved for a sender on a way that its data takes.
    fn is_reserved(&self, index: Index) -> bool {
        let psb = self.store.psb(index);
        let mut holders = [Some(Holder::Sender(index)), None];
        holders[1] = self.store.pool_of(psb.session).map(Holder::Pool);
        holders.into_iter().flatten().any(|holder| {
            self.store.tcsbs_of(holder).any(|tcsb| {
                psb.goes(self.store.tcsb(tcsb).outgoing)
                    && self.has_part(holder, tcsb, &psb.template)
            })
        })
    }

    /// All neighbours: those that state hangs on, by slab order, and then those that are only known to take part in
    /// refresh reduction or to say Hello.
    pub fn neighbors(&self) -> impl Iterator<Item = NeighborView> {
        let with_state = self.store.neighbors.iter().map(|(_, neighbor)| NeighborView {
            senders: neighbor.senders,
            reservations: neighbor.reservations,
            heard: neighbor.heard,
            ..self.refresh_reduction.view(neighbor.interface, neighbor.address)
        });
        let without = self
            .refresh_reduction
            .addresses()
            .filter(|&(interface, address)| self.store.find_neighbor(interface, address).is_none());
        with_state.chain(
            without.map(|(interface, address)| self.refresh_reduction.view(interface, address)),
        )
    }

    /// The epoch of this node's names, and how many messages wait for their acknowledgement.
    pub fn reduction(&self) -> (u32, usize) {
        self.refresh_reduction.outlook()
    }
}
