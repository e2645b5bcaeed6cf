//! Entries of listings.

use core::net::IpAddr;

use earmark_core::admission::ClaimId;
use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{SenderTemplate, Session, Style};

use crate::filters::Filters;
use crate::neighbors::graceful_restart::RestartView;
use crate::neighbors::refresh_reduction::Liveness;
use crate::rules::policy::User;
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
    /// Restart of the neighbour that is in progress.
    pub restart: Option<RestartView>,
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
