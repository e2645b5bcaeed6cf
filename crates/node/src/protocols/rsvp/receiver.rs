//! Receivers that answer by a policy: the session, and the reservation to request when a sender appears.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::admission::guaranteed_rate;
use earmark_core::{Effect, Effects, Rate};
use earmark_rsvp::{Application, Command, Filters, Offer, ReserveRequest, least_upper_bound};
use earmark_wire::intserv::{FlowSpec, Rspec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::iana::PolicyControlError;
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, SenderTemplate, Session, Style};
use serde::{Deserialize, Serialize};

use crate::api::Event;
use earmark_core::listing::SenderName;

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

/// Listeners by application. A host has few of them, so that an ordered map suffices.
#[derive(Debug, Default)]
pub(crate) struct Receivers {
    listeners: BTreeMap<Application, Listener>,
}

/// A listener with the flowspecs for its senders.
#[derive(Debug)]
pub(crate) struct Listener {
    listen: Listen,
    /// Flowspec for each sender alone; only for shared reservations.
    flowspecs: BTreeMap<SenderTemplate, FlowSpec>,
}

impl Receivers {
    pub(crate) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Adds a listener; returns the application's previous one.
    pub(crate) fn listen(&mut self, listen: Listen) -> Option<Listener> {
        let application = listen.application;
        self.listeners.insert(application, Listener { listen, flowspecs: BTreeMap::new() })
    }

    /// Undoes [`Receivers::listen`].
    pub(crate) fn restore(&mut self, application: Application, before: Option<Listener>) {
        match before {
            Some(before) => self.listeners.insert(application, before),
            None => self.listeners.remove(&application),
        };
    }

    pub(crate) fn remove(&mut self, application: Application) {
        self.listeners.remove(&application);
    }

    /// Returns the commands and events for the senders that the effects from `from` on announce or remove.
    pub(crate) fn answers(
        &mut self,
        effects: &Effects<Event>,
        from: usize,
    ) -> Vec<Result<Command, Box<Event>>> {
        let mut answers = Vec::new();
        for effect in effects.iter().skip(from) {
            let Effect::Notify(Event::Rsvp(event)) = effect else { continue };
            match event {
                earmark_rsvp::Event::Path { application, template, tspec, offer, .. } => {
                    let listener = self.listeners.get_mut(application);
                    let listener = listener.filter(|l| l.listen.wants(template));
                    answers.extend(listener.map(|l| l.answer(*template, tspec, offer.as_ref())));
                }
                earmark_rsvp::Event::PathGone { application, template, .. } => {
                    let listener = self.listeners.get_mut(application);
                    answers.extend(listener.and_then(|l| l.remove_sender(template)).map(Ok));
                }
                earmark_rsvp::Event::ResvError {
                    application,
                    error,
                    filters: Filters::One(filter),
                    flowspec: Some(left),
                    ..
                } if is_reduction(error) => {
                    let listener = self.listeners.get(application);
                    answers.extend(listener.and_then(|l| l.accept_reduced(*filter, *left)).map(Ok));
                }
                _ => {}
            }
        }
        answers
    }
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

    fn wants(&self, sender: &SenderTemplate) -> bool {
        self.senders.is_empty() || self.senders.iter().any(|name| name.matches(sender))
    }
}

impl Listener {
    fn answer(
        &mut self,
        template: SenderTemplate,
        tspec: &SenderTspec,
        offer: Option<&Offer>,
    ) -> Result<Command, Box<Event>> {
        let application = self.listen.application;
        let flowspec = self
            .listen
            .ask
            .flowspec(tspec, offer)
            .map_err(|reason| Box::new(Event::NoAnswer { application, template, reason }))?;
        if self.listen.style == Style::FixedFilter {
            return Ok(self.reserve(ReserveRequest::FixedFilter { filter: template, flowspec }));
        }
        self.flowspecs.insert(template, flowspec);
        Ok(self.reserve(self.shared_request().unwrap_or(ReserveRequest::Wildcard { flowspec })))
    }

    /// Requests the reduced flowspec of a partially preempted reservation, so that all nodes on the path reserve no
    /// more than that (RFC 4495 section 5.3). `None` for a delay bound, which requires the full rate, and for a shared
    /// reservation, whose senders must announce less.
    fn accept_reduced(&self, filter: SenderTemplate, flowspec: FlowSpec) -> Option<Command> {
        let FlowSpec::ControlledLoad(_) = flowspec else { return None };
        (self.listen.style == Style::FixedFilter)
            .then(|| self.reserve(ReserveRequest::FixedFilter { filter, flowspec }))
    }

    /// Removes a sender; the remaining ones may share less.
    fn remove_sender(&mut self, template: &SenderTemplate) -> Option<Command> {
        self.flowspecs.remove(template)?;
        self.shared_request().map(|request| self.reserve(request))
    }

    /// Returns the request that all senders share.
    fn shared_request(&self) -> Option<ReserveRequest> {
        let merge = |a: FlowSpec, b: FlowSpec| least_upper_bound(&a, &b).unwrap_or(a);
        let flowspec = self.flowspecs.values().copied().reduce(merge)?;
        Some(match self.listen.style {
            Style::SharedExplicit => {
                let filters = self.flowspecs.keys().copied().collect();
                ReserveRequest::SharedExplicit { filters, flowspec }
            }
            _ => ReserveRequest::Wildcard { flowspec },
        })
    }

    fn reserve(&self, request: ReserveRequest) -> Command {
        let Listen { application, confirm, .. } = self.listen;
        Command::Reserve { application, request, confirm }
    }
}

impl Ask {
    /// Returns the flowspec for a sender that announces `tspec` over a path with `offer`. The maximum packet size is
    /// the minimum of sender and path (RFC 2210 section 2.3.2).
    ///
    /// # Errors
    /// The path cannot satisfy the policy.
    pub fn flowspec(
        self,
        tspec: &SenderTspec,
        offer: Option<&Offer>,
    ) -> Result<FlowSpec, Unanswerable> {
        let path_mtu = offer.map_or(u32::MAX, |offer| offer.path_mtu);
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
}

/// Whether an error reports a reduced reservation, and not a lost one.
fn is_reduction(error: &ErrorSpec) -> bool {
    let reduced = PolicyControlError::PartiallyPreempted.code();
    (error.code, error.value) == (ErrorCode::PolicyControlFailure, reduced)
}

/// Returns a rate in octets per second for a flowspec, rounded up: the nearest number may be too low for the delay
/// bound.
fn octet_rate_rounded_up(rate: Rate) -> f32 {
    let nearest = rate.as_octets_per_second();
    if Rate::from_octets_per_second(nearest) < rate { nearest.next_up() } else { nearest }
}
