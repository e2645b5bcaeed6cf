//! Traces of this node that are in progress.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::ApplicationId as Application;
use earmark_core::Time;
use earmark_core::timer::TimerId;
use earmark_wire::rsvp::{SenderTemplate, Session};
use serde::{Deserialize, Serialize};

use super::hop::{TraceEnd, TraceHop};

/// Parameters of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Session to trace.
    pub session: Session,
    /// Sender to trace; `None` for the only one that this node knows.
    pub sender: Option<SenderTemplate>,
    /// LAST-HOP, where the trace starts; `None` for the receiver of a unicast session, and for this node with a
    /// multicast one.
    pub last_hop: Option<IpAddr>,
    /// Limit of nodes; 0 for none.
    pub max_hops: u8,
    /// Maximum duration.
    pub patience: Duration,
}

/// A trace in progress.
#[derive(Debug)]
pub(super) struct PendingTrace {
    pub(super) application: Application,
    pub(super) session: Session,
    pub(super) sender: SenderTemplate,
    pub(super) last_hop: IpAddr,
    /// Local address, the destination of DREPs.
    pub(super) local_address: IpAddr,
    pub(super) max_hops: u8,
    /// Latest end.
    pub(super) ends_at: Time,
    /// Request ID of the current DREQ.
    pub(super) request_id: u32,
    /// Number of times that the current DREQ was sent.
    pub(super) attempt: u8,
    /// Hop limit of the current DREQ: 0 for none, otherwise part of the search for a silent node.
    pub(super) reach: u8,
    /// Fragments of the current DREP, by Fragment Offset.
    pub(super) parts: BTreeMap<u16, Part>,
    /// Result of the last search step that was answered.
    pub(super) known: Vec<TraceHop>,
    pub(super) timer: Option<TimerId>,
}

/// Fragment of a DREP.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) hops: Vec<TraceHop>,
    /// Octets of its responses, which give the offset of the next fragment.
    pub(super) octets: u16,
    /// Whether this is the last fragment.
    pub(super) last: bool,
}

impl PendingTrace {
    /// Returns the responses received without a gap, and whether the DREP is complete.
    pub(super) fn received_hops(&self) -> (Vec<TraceHop>, bool) {
        let (mut hops, mut offset) = (Vec::new(), 0);
        while let Some(part) = self.parts.get(&offset) {
            hops.extend_from_slice(&part.hops);
            if part.last {
                return (hops, true);
            }
            offset = offset.saturating_add(part.octets);
            if part.octets == 0 {
                break;
            }
        }
        (hops, false)
    }

    /// Returns why the DREP of these nodes goes no further; `None` if only the search limited it.
    pub(super) fn end(&self, hops: &[TraceHop]) -> Option<TraceEnd> {
        let last = hops.last()?;
        if last.no_path_state {
            return Some(TraceEnd::NoPathState);
        }
        if last.previous_hop.is_none() {
            return Some(TraceEnd::Sender);
        }
        let limit_reached = |limit: u8| limit != 0 && hops.len() >= usize::from(limit);
        match (limit_reached(self.max_hops), limit_reached(self.reach)) {
            (true, _) => Some(TraceEnd::HopLimit),
            (false, true) => None,
            (false, false) => Some(TraceEnd::GaveUp),
        }
    }
}
