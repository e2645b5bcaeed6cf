//! Traffic control: what the reservation requests of a sender add up to on a link (RFC 2209, UPDATE TRAFFIC CONTROL).
//!
//! A change is first tried on the ledger, with everything computed and nothing written. Only what was granted is
//! written into the state blocks, so that a refusal leaves nothing to undo.

use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Demand, Owner, Protocol, Reason, Refusal};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Flow, Installation, InterfaceId, Time};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::iana::{AdmissionControlError, TrafficControlError};
use earmark_wire::rsvp::{ErrorCode, FilterSpec, Session, SourceSelector};

use crate::api::{Change, Event};
use crate::error::ResvFault;
use crate::instance::{Rsvp, Turn};
use crate::merge::least_upper_bound;
use crate::state::{Block, Index, Kept, NONE, Origin, Peer, Rsb, Tcsb, Timer, TimerKind};

/// What one next hop, or one application, asks for one sender.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) origin: Origin,
    /// OI; `None` for an application of this host.
    pub(crate) outgoing: Option<InterfaceId>,
    pub(crate) flowspec: FlowSpec,
    pub(crate) carried: Kept,
    /// Receiver that wants to know.
    pub(crate) confirm: Option<IpAddr>,
    pub(crate) expires_at: Time,
}

impl Rsvp {
    /// Makes or changes a reservation: all of it, or nothing and the reason why.
    pub(crate) fn reserve<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        psb: Index,
        request: Request,
    ) -> Result<(), ResvFault> {
        let tcsb = self.store.find_tcsb(psb, request.outgoing);
        let rsb = tcsb.and_then(|tcsb| self.store.find_rsb(tcsb, request.origin));
        if let (Some(tcsb), None) = (tcsb, rsb)
            && self.store.rsbs_of(tcsb).count() >= self.config.max_next_hops as usize
        {
            return Err(ResvFault::too_much());
        }
        let merged = self.merged(tcsb, rsb, Some(&request.flowspec)).ok_or_else(|| {
            let value = TrafficControlError::ServiceConflict.code();
            ResvFault::new(ErrorCode::TrafficControlError, value)
        })?;
        let before = tcsb.map(|tcsb| self.store.tcsb(tcsb).flowspec);
        let tcsb = match tcsb {
            Some(tcsb) => {
                self.change_traffic_control(turn, tcsb, merged)?;
                tcsb
            }
            None => self.add_traffic_control(turn, psb, request.outgoing, merged)?,
        };
        mark(Checkpoint::ReservationManagement);
        let asked = (request.flowspec, request.confirm);
        self.write_request(turn.now, tcsb, rsb, request);
        let changed = before != Some(merged);
        if changed {
            let change = if before.is_some() { Change::Changed } else { Change::Created };
            self.notify_reservation(turn, tcsb, change);
        }
        self.spread_reservation(turn, psb, tcsb, asked, changed);
        Ok(())
    }

    /// Takes one reservation request back, and traffic control with it if it was the last. Gives whether anything is
    /// left to be asked for upstream.
    pub(crate) fn withdraw<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        rsb: Index,
        change: Change,
    ) -> Remainder {
        let tcsb = self.store.rsb(rsb).tcsb;
        let gone = self.store.remove_rsb(rsb);
        self.store.part(gone.hop, Block::Reservation);
        mark(Checkpoint::TearRsb);
        let Some(merged) = self.merged(Some(tcsb), None, None) else {
            self.void(turn, tcsb, change);
            return Remainder::Nothing;
        };
        let before = self.store.tcsb(tcsb).flowspec;
        if self.change_traffic_control(turn, tcsb, merged).is_err() {
            // A lower rate is never refused, but larger packets may be: whoever asked for small ones has gone, and the
            // link has no room for those of the others. They keep what it has room for.
            let smaller = with_packets_of(merged, &before);
            let _ = self.change_traffic_control(turn, tcsb, smaller);
        }
        if self.store.tcsb(tcsb).flowspec == before {
            return Remainder::Same;
        }
        self.notify_reservation(turn, tcsb, Change::Changed);
        Remainder::Less
    }

    /// Takes a reservation out of traffic control at one stroke, with all requests that are merged into it.
    pub(crate) fn void<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        tcsb: Index,
        change: Change,
    ) {
        self.notify_reservation(turn, tcsb, change);
        while let Some(rsb) = self.store.first_rsb(tcsb) {
            let gone = self.store.remove_rsb(rsb);
            self.store.part(gone.hop, Block::Reservation);
        }
        let tcsb = self.store.remove_tcsb(tcsb);
        if let Some(claim) = tcsb.claim {
            turn.context.ledger.release(claim);
            turn.out.remove(claim);
        }
    }

    /// The claim behind a reservation could not be put into traffic control: the reservation is void.
    pub(crate) fn traffic_control_refuses<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
        errno: u16,
    ) {
        let tcsb = owner.block;
        let ours = owner.protocol == Protocol::Rsvp
            && self.store.tcsbs.get(tcsb as usize).is_some_and(|t| t.claim == Some(claim));
        if !ours {
            return;
        }
        let fault = ResvFault::new(ErrorCode::TrafficControlSystemError, errno);
        let mut next = self.store.first_rsb(tcsb);
        while let Some(rsb) = next {
            next = self.store.next_rsb(rsb);
            self.report_loss(turn, rsb, &fault);
        }
        let &Tcsb { psb, outgoing, flowspec, .. } = self.store.tcsb(tcsb);
        self.void(turn, tcsb, Change::Orphaned);
        self.tell_upstream_of(turn, psb, outgoing, Remainder::Nothing, flowspec);
    }

    /// The least upper bound of the requests of a block, with `instead` in the place of `rsb`. `None` where nothing is
    /// asked for, or what is asked for does not go together.
    fn merged(
        &self,
        tcsb: Option<Index>,
        rsb: Option<Index>,
        instead: Option<&FlowSpec>,
    ) -> Option<FlowSpec> {
        let mut merged = instead.copied();
        for other in tcsb.into_iter().flat_map(|tcsb| self.store.rsbs_of(tcsb)) {
            if Some(other) == rsb {
                continue;
            }
            let flowspec = &self.store.rsb(other).flowspec;
            merged = Some(match &merged {
                Some(so_far) => least_upper_bound(so_far, flowspec)?,
                None => *flowspec,
            });
        }
        merged
    }

    /// TC_AddFlowspec.
    fn add_traffic_control<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        psb: Index,
        outgoing: Option<InterfaceId>,
        flowspec: FlowSpec,
    ) -> Result<Index, ResvFault> {
        let mut claim = None;
        if let Some(interface) = outgoing {
            let flow = self.flow(psb);
            let demand = Demand::from_flowspec(&flowspec);
            let block = self.store.tcsbs.vacant_key() as Index;
            let owner = Owner { protocol: Protocol::Rsvp, block };
            let granted = turn.context.ledger.claim(interface, owner, &flow, demand);
            mark(Checkpoint::Admission);
            let granted = granted.map_err(ResvFault::refused)?;
            turn.out.install(Installation { claim: granted, interface, flow, demand });
            claim = Some(granted);
        }
        let tcsb = Tcsb { psb, next: NONE, rsbs: NONE, outgoing, flowspec, claim };
        Ok(self.store.insert_tcsb(tcsb))
    }

    /// TC_ModFlowspec.
    fn change_traffic_control<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        tcsb: Index,
        flowspec: FlowSpec,
    ) -> Result<(), ResvFault> {
        let block = self.store.tcsb(tcsb);
        if block.flowspec == flowspec {
            return Ok(());
        }
        if let (Some(claim), Some(interface)) = (block.claim, block.outgoing) {
            let demand = Demand::from_flowspec(&flowspec);
            let granted = turn.context.ledger.change(claim, demand);
            mark(Checkpoint::Admission);
            granted.map_err(ResvFault::refused)?;
            let flow = self.flow(block.psb);
            turn.out.install(Installation { claim, interface, flow, demand });
        }
        self.store.tcsb_mut(tcsb).flowspec = flowspec;
        Ok(())
    }

    /// Writes a request that was granted into its block, a new one where there was none.
    fn write_request(&mut self, now: Time, tcsb: Index, rsb: Option<Index>, request: Request) {
        let carried = request.carried;
        if let Some(index) = rsb {
            let rsb = self.store.rsb_mut(index);
            rsb.flowspec = request.flowspec;
            rsb.carried = carried;
            rsb.expires_at = request.expires_at;
            let (timer, peer) = (rsb.timer, rsb.hop);
            if let Some(timer) = timer {
                self.store.timers.rearm(timer, request.expires_at);
            }
            return self.store.heard(peer, now);
        }
        let hop = self.store.meet(request.origin, Block::Reservation, now);
        let index = self.store.insert_rsb(Rsb {
            tcsb,
            next: NONE,
            hop,
            flowspec: request.flowspec,
            carried,
            expires_at: request.expires_at,
            timer: None,
        });
        if request.expires_at < Time::MAX {
            let timer = Timer { kind: TimerKind::Reservation, block: index };
            let armed = self.store.timers.arm(request.expires_at, timer);
            self.store.rsb_mut(index).timer = Some(armed);
        }
    }

    /// Tells whoever must know of a granted request: the previous hop, or the sender if it is one of ours, and the
    /// receiver that asked for it.
    fn spread_reservation<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        psb: Index,
        tcsb: Index,
        (flowspec, confirm): (FlowSpec, Option<IpAddr>),
        changed: bool,
    ) {
        // RFC 2209: only the largest request has to be confirmed by those upstream.
        let biggest = self.store.tcsb(tcsb).flowspec == flowspec;
        let block = self.store.psb(psb);
        if let Peer::Local(application) = block.hop {
            if changed {
                turn.out.notify(Event::Resv {
                    application,
                    session: self.store.session_of(psb),
                    filter: block.template,
                    flowspec: self.store.tcsb(tcsb).flowspec,
                });
            }
            if let Some(receiver) = confirm {
                self.send_resv_conf(turn, psb, tcsb, receiver);
            }
            return;
        }
        if changed || (confirm.is_some() && biggest) {
            self.resv_refresh(turn, psb, confirm.filter(|_| biggest));
            self.schedule_resv_refresh(turn.now, psb);
            self.rearm_sender(psb);
        }
        if let Some(receiver) = confirm
            && !biggest
        {
            self.send_resv_conf(turn, psb, tcsb, receiver);
        }
    }

    /// The packets of a sender.
    pub(crate) fn flow(&self, psb: Index) -> Flow {
        flow(&self.store.session_of(psb), &self.store.psb(psb).template)
    }

    fn notify_reservation<E: From<Event>>(
        &self,
        turn: &mut Turn<'_, '_, E>,
        tcsb: Index,
        change: Change,
    ) {
        let block = self.store.tcsb(tcsb);
        if let Some(interface) = block.outgoing {
            turn.out.notify(Event::Reservation {
                change,
                session: self.store.session_of(block.psb),
                filter: self.store.psb(block.psb).template,
                interface,
                flowspec: block.flowspec,
            });
        }
    }
}

/// What is left of a reservation after one request was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remainder {
    /// Nothing: it must be torn upstream.
    Nothing,
    /// Less: upstream must be told.
    Less,
    /// As much as before.
    Same,
}

impl ResvFault {
    /// The error of RFC 2205 appendix B for a refusal of the ledger.
    fn refused(refusal: Refusal) -> ResvFault {
        let (code, value) = match refusal.reason {
            Reason::Bandwidth => (
                ErrorCode::AdmissionControlFailure,
                AdmissionControlError::BandwidthUnavailable.code(),
            ),
            Reason::MaxPacket => {
                (ErrorCode::AdmissionControlFailure, AdmissionControlError::MtuTooLarge.code())
            }
            Reason::NoSuchLink => {
                (ErrorCode::TrafficControlError, TrafficControlError::ServiceUnsupported.code())
            }
        };
        ResvFault { available: Some(refusal.available), ..ResvFault::new(code, value) }
    }
}

/// `flowspec`, but with packets no larger than those of `other`.
fn with_packets_of(mut flowspec: FlowSpec, other: &FlowSpec) -> FlowSpec {
    let (FlowSpec::ControlledLoad(other) | FlowSpec::Guaranteed(other, _)) = other;
    let (FlowSpec::ControlledLoad(bucket) | FlowSpec::Guaranteed(bucket, _)) = &mut flowspec;
    bucket.max_packet_size = bucket.max_packet_size.min(other.max_packet_size);
    bucket.min_policed_unit = bucket.min_policed_unit.min(bucket.max_packet_size);
    flowspec
}

fn flow(session: &Session, filter: &FilterSpec) -> Flow {
    let (source_port, flow_label) = match filter.selector {
        SourceSelector::Port(port) => (port, 0),
        SourceSelector::FlowLabel(label) => (0, label),
    };
    Flow {
        destination: session.destination,
        source: Some(filter.source),
        protocol: session.protocol,
        destination_port: session.port,
        source_port,
        flow_label,
    }
}
