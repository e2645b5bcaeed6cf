//! Receivers that answer by policy: a session to listen for, and what to ask for when a sender appears.

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
use crate::show::SenderName;

/// Answers every sender of a session with a reservation, of its own (FF) or one that all share (WF, SE), until the
/// application is released by [`earmark_rsvp::Command::Release`].
///
/// A shared reservation is large enough for any one of its senders at a time (the least upper bound of what each of them
/// would have got), as fits a conference where one speaks and the others listen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listen {
    /// For which application.
    pub application: Application,
    /// Which session.
    pub session: Session,
    /// What to ask for.
    pub ask: Ask,
    /// Whether to ask for a confirmation.
    pub confirm: bool,
    /// How senders share.
    #[serde(default = "fixed_filter")]
    pub style: Style,
    /// Which senders are answered; none named: all. Of no use with WF, whose messages name no senders.
    #[serde(default)]
    pub senders: Vec<SenderName>,
}

fn fixed_filter() -> Style {
    Style::FixedFilter
}

/// What a receiver asks for when a Path arrives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Controlled load for just what the sender announces.
    ControlledLoad,
    /// Controlled load at this token rate, whatever the sender announces.
    Rate(Rate),
    /// Guaranteed service with the R that keeps the queueing delay below this bound (RFC 2212).
    Delay(Duration),
}

/// Why a policy has no answer to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Unanswerable {
    /// A delay bound needs to know the path, and this one does not tell (RFC 2210 section 3.3).
    #[error(
        "the path does not advertise guaranteed service at every hop, so no delay can be promised"
    )]
    NoGuaranteedService,
    /// No rate keeps the delay below the bound.
    #[error("no rate keeps the delay below the bound on this path")]
    DelayBound,
    /// The path's MTU cannot even carry the smallest packet that the sender announces.
    #[error("the path carries only packets smaller than those the sender announces")]
    PathMtu,
}

/// Those that listen, by application. A few on a host, so an ordered map serves.
#[derive(Debug, Default)]
pub(crate) struct Receivers {
    listening: BTreeMap<Application, Listener>,
}

/// Who listens, and what has been heard.
#[derive(Debug)]
pub(crate) struct Listener {
    listen: Listen,
    /// What each sender would get alone; kept where they share.
    heard: BTreeMap<SenderTemplate, FlowSpec>,
}

impl Receivers {
    pub(crate) fn is_empty(&self) -> bool {
        self.listening.is_empty()
    }

    /// Enters who listens: what the application listened for before.
    pub(crate) fn listen(&mut self, listen: Listen) -> Option<Listener> {
        let application = listen.application;
        self.listening.insert(application, Listener { listen, heard: BTreeMap::new() })
    }

    /// Takes [`Receivers::listen`] back.
    pub(crate) fn restore(&mut self, application: Application, before: Option<Listener>) {
        match before {
            Some(before) => self.listening.insert(application, before),
            None => self.listening.remove(&application),
        };
    }

    pub(crate) fn forget(&mut self, application: Application) {
        self.listening.remove(&application);
    }

    /// What to do about the senders that the effects from place `from` on announce or take back.
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
                    let listener = self.listening.get_mut(application);
                    let listener = listener.filter(|l| l.listen.wants(template));
                    answers.extend(listener.map(|l| l.answer(*template, tspec, offer.as_ref())));
                }
                earmark_rsvp::Event::PathGone { application, template, .. } => {
                    let listener = self.listening.get_mut(application);
                    answers.extend(listener.and_then(|l| l.sender_goes(template)).map(Ok));
                }
                earmark_rsvp::Event::ResvError {
                    application,
                    error,
                    filters: Filters::One(filter),
                    flowspec: Some(left),
                    ..
                } if is_reduction(error) => {
                    let listener = self.listening.get(application);
                    answers.extend(listener.and_then(|l| l.accept_less(*filter, *left)).map(Ok));
                }
                _ => {}
            }
        }
        answers
    }
}

impl Listen {
    /// Answers all senders of a session, each with a reservation of its own for what it announces; unconfirmed.
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
        self.senders.is_empty() || self.senders.iter().any(|name| name.is_of(sender))
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
        self.heard.insert(template, flowspec);
        Ok(self.reserve(self.shared().unwrap_or(ReserveRequest::Wildcard { flowspec })))
    }

    /// What is left of a reservation that had to give way in part is asked for from now on, so that all nodes on the way
    /// hold no more than that (RFC 4495 section 5.3). A delay bound cannot be had with less, and a shared reservation
    /// waits for its senders to announce less.
    fn accept_less(&self, filter: SenderTemplate, flowspec: FlowSpec) -> Option<Command> {
        let FlowSpec::ControlledLoad(_) = flowspec else { return None };
        (self.listen.style == Style::FixedFilter)
            .then(|| self.reserve(ReserveRequest::FixedFilter { filter, flowspec }))
    }

    /// A sender less: those that are left may share less.
    fn sender_goes(&mut self, template: &SenderTemplate) -> Option<Command> {
        self.heard.remove(template)?;
        self.shared().map(|request| self.reserve(request))
    }

    /// What all senders that were heard share.
    fn shared(&self) -> Option<ReserveRequest> {
        let merge = |a: FlowSpec, b: FlowSpec| least_upper_bound(&a, &b).unwrap_or(a);
        let flowspec = self.heard.values().copied().reduce(merge)?;
        Some(match self.listen.style {
            Style::SharedExplicit => {
                let filters = self.heard.keys().copied().collect();
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
    /// What to ask for when a sender announces `tspec` over a path that offers `offer`. The largest packet is what
    /// both the sender and the path can do (RFC 2210 section 2.3.2).
    ///
    /// # Errors
    /// The path cannot give what the policy wants.
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
                let rspec = Rspec { rate: not_below(rate), slack_us: 0 };
                Ok(FlowSpec::Guaranteed(bucket, rspec))
            }
        }
    }
}

/// Whether an error says that a reservation was reduced, and to what.
fn is_reduction(error: &ErrorSpec) -> bool {
    let reduced = PolicyControlError::PartiallyPreempted.code();
    (error.code, error.value) == (ErrorCode::PolicyControlFailure, reduced)
}

/// A rate in octets per second as a flowspec has it, rounded up: the nearest number may be too low to keep the bound.
fn not_below(rate: Rate) -> f32 {
    let nearest = rate.as_octets_per_second();
    if Rate::from_octets_per_second(nearest) < rate { nearest.next_up() } else { nearest }
}
