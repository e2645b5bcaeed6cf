//! Policies of receivers that answer senders: the session, and the reservation to request when a sender appears.

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::Rate;
use earmark_core::admission::guaranteed_rate;
use earmark_core::listing::SenderName;
use earmark_rsvp::{Application, Offer};
use earmark_wire::intserv::{FlowSpec, Rspec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{SenderTemplate, Session, Style};
use serde::{Deserialize, Serialize};

/// Answers every sender of a session with a reservation of its own (FF) or one shared by all senders (WF, SE), until
/// [`earmark_rsvp::Command::Release`] ends the application.
///
/// A shared reservation is large enough for any one of its senders at a time (the least upper bound of their individual
/// reservations), as in a conference with one speaker at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listen {
    /// Application of the receiver.
    pub application: Application,
    /// Session of the receiver.
    pub session: Session,
    /// Policy for the request.
    pub ask: Ask,
    /// Whether to request a confirmation.
    pub confirm: bool,
    /// Style: how senders share the reservation.
    #[serde(default = "fixed_filter")]
    pub style: Style,
    /// Senders that are answered; all if empty. Without effect for WF, whose messages name no senders.
    #[serde(default)]
    pub senders: Vec<SenderName>,
}

fn fixed_filter() -> Style {
    Style::FixedFilter
}

/// Policy for the request when a Path arrives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Controlled load for the announced traffic.
    ControlledLoad,
    /// Controlled load at this token rate, for any announced traffic.
    Rate(Rate),
    /// Guaranteed service with the R that keeps the queueing delay below this bound (RFC 2212).
    Delay(Duration),
}

/// Reasons why a policy cannot answer a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Unanswerable {
    /// The path does not advertise guaranteed service at every hop, as a delay bound requires (RFC 2210 section 3.3).
    #[error(
        "the path does not advertise guaranteed service at every hop, so no delay can be promised"
    )]
    NoGuaranteedService,
    /// No rate keeps the delay below the bound.
    #[error("no rate keeps the delay below the bound on this path")]
    DelayBound,
    /// The path MTU is below the smallest packet that the sender announces.
    #[error("the path carries only packets smaller than those the sender announces")]
    PathMtu,
}

impl Listen {
    /// Creates a listener for all senders of a session, each with a reservation of its own for the announced traffic;
    /// unconfirmed.
    pub fn new(application: Application, session: Session) -> Listen {
        Listen {
            application,
            session,
            ask: Ask::ControlledLoad,
            confirm: false,
            style: Style::FixedFilter,
            senders: Vec::new(),
        }
    }

    pub(super) fn wants(&self, sender: &SenderTemplate) -> bool {
        let sender = SenderName::from(sender.parts());
        self.senders.is_empty() || self.senders.iter().any(|name| name.matches(&sender))
    }
}

impl Ask {
    /// Returns the flowspec for a sender that announces `tspec` over a path with `offer`. The maximum packet size is
    /// the minimum of sender and path, for the requested service (RFC 2210 section 2.3.2).
    ///
    /// # Errors
    /// The path cannot satisfy the policy.
    pub fn flowspec(
        self,
        tspec: &SenderTspec,
        offer: Option<&Offer>,
    ) -> Result<FlowSpec, Unanswerable> {
        let path_mtu = self.path_mtu(offer);
        let bucket = TokenBucket { max_packet_size: tspec.max_packet_size.min(path_mtu), ..*tspec };
        if bucket.max_packet_size < bucket.min_policed_unit {
            return Err(Unanswerable::PathMtu);
        }
        match self {
            Ask::ControlledLoad => Ok(FlowSpec::ControlledLoad(bucket)),
            Ask::Rate(rate) => {
                let rate = rate.as_octets_per_second();
                let peak = bucket.peak.max(rate);
                Ok(FlowSpec::ControlledLoad(TokenBucket { rate, peak, ..bucket }))
            }
            Ask::Delay(bound) => {
                let terms = offer.filter(|offer| !offer.broken).and_then(|offer| offer.guaranteed);
                let (c, d) = terms.ok_or(Unanswerable::NoGuaranteedService)?;
                let bound = u32::try_from(bound.as_micros()).unwrap_or(u32::MAX);
                let rate = guaranteed_rate(&bucket, c, d, bound).ok_or(Unanswerable::DelayBound)?;
                let rspec = Rspec { rate: octet_rate_rounded_up(rate), slack_us: 0 };
                Ok(FlowSpec::Guaranteed(bucket, rspec))
            }
        }
    }

    /// Returns the path MTU of the requested service; the maximum if unknown.
    pub(super) fn path_mtu(self, offer: Option<&Offer>) -> u32 {
        offer.map_or(u32::MAX, |offer| match self {
            Ask::ControlledLoad | Ask::Rate(_) => offer.controlled_load_mtu,
            Ask::Delay(_) => offer.guaranteed_mtu,
        })
    }
}

/// Returns a rate in octets per second for a flowspec, rounded up: the nearest number may be too low for the delay
/// bound.
pub(super) fn octet_rate_rounded_up(rate: Rate) -> f32 {
    let nearest = rate.as_octets_per_second();
    if Rate::from_octets_per_second(nearest) < rate { nearest.next_up() } else { nearest }
}
