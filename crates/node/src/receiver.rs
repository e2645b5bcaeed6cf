//! Receivers that answer by policy: a session to listen for, and what to ask for when a sender appears.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::admission::guaranteed_rate;
use earmark_core::{Effect, Effects, Rate};
use earmark_rsvp::{Application, Command, Offer, ReserveRequest};
use earmark_wire::intserv::{FlowSpec, Rspec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{SenderTemplate, Session};
use serde::{Deserialize, Serialize};

use crate::node::Event;

/// Answers every sender of a session with a reservation of its own (fixed filter), until the application is released
/// by [`earmark_rsvp::Command::Release`].
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
    listening: BTreeMap<Application, Listen>,
}

impl Receivers {
    pub(crate) fn is_empty(&self) -> bool {
        self.listening.is_empty()
    }

    /// Enters who listens: what the application listened for before.
    pub(crate) fn listen(&mut self, listen: Listen) -> Option<Listen> {
        self.listening.insert(listen.application, listen)
    }

    /// Takes [`Receivers::listen`] back.
    pub(crate) fn restore(&mut self, application: Application, before: Option<Listen>) {
        match before {
            Some(before) => self.listening.insert(application, before),
            None => self.listening.remove(&application),
        };
    }

    pub(crate) fn forget(&mut self, application: Application) {
        self.listening.remove(&application);
    }

    /// What to do about the senders that the effects from place `from` on announce.
    pub(crate) fn answers(
        &self,
        effects: &Effects<Event>,
        from: usize,
    ) -> Vec<Result<Command, Event>> {
        let mut answers = Vec::new();
        for effect in effects.iter().skip(from) {
            let Effect::Notify(Event::Rsvp(earmark_rsvp::Event::Path {
                application,
                template,
                tspec,
                offer,
                ..
            })) = effect
            else {
                continue;
            };
            let Some(listen) = self.listening.get(application) else { continue };
            answers.push(listen.answer(*template, tspec, offer.as_ref()));
        }
        answers
    }
}

impl Listen {
    fn answer(
        &self,
        template: SenderTemplate,
        tspec: &SenderTspec,
        offer: Option<&Offer>,
    ) -> Result<Command, Event> {
        let application = self.application;
        match self.ask.flowspec(tspec, offer) {
            Ok(flowspec) => Ok(Command::Reserve {
                application,
                request: ReserveRequest::FixedFilter { filter: template, flowspec },
                confirm: self.confirm,
            }),
            Err(reason) => Err(Event::NoAnswer { application, template, reason }),
        }
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

/// A rate in octets per second as a flowspec has it, rounded up: the nearest number may be too low to keep the bound.
fn not_below(rate: Rate) -> f32 {
    let nearest = rate.as_octets_per_second();
    if Rate::from_octets_per_second(nearest) < rate { nearest.next_up() } else { nearest }
}
