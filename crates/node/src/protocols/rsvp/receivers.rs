//! Receivers of this host that answer senders by a policy ([`Listen`]).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use earmark_core::{Effect, Effects};
use earmark_rsvp::{Application, Command, Filters, Offer, ReserveRequest, least_upper_bound};
use earmark_wire::intserv::{FlowSpec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::iana::PolicyControlError;
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, SenderTemplate, Style};

use super::listen::Listen;
use crate::protocols::Event;

/// Listeners by application. A host has few of them, so that an ordered map suffices.
#[derive(Debug, Default)]
pub(crate) struct Receivers {
    listeners: BTreeMap<Application, Listener>,
}

/// A listener with the requests for its senders.
#[derive(Debug)]
pub(crate) struct Listener {
    listen: Listen,
    /// Current requests by sender.
    requests: BTreeMap<SenderTemplate, SenderRequest>,
}

/// Request for one sender; in a shared reservation, as if it were alone.
#[derive(Clone, Copy, Debug)]
struct SenderRequest {
    flowspec: FlowSpec,
    /// Maximum packet size that the sender announces, octets.
    max_packet_size: u32,
    /// Path MTU from the sender, octets.
    path_mtu: u32,
}

impl SenderRequest {
    /// Returns the request for both senders. Shared packets may have the largest announced size up to the smallest
    /// path MTU (RFC 2210 section 2.3.2), so that a sender of small packets does not limit those of the others.
    fn merge(self, other: SenderRequest) -> SenderRequest {
        let flowspec = least_upper_bound(&self.flowspec, &other.flowspec).unwrap_or(self.flowspec);
        let max_packet_size = self.max_packet_size.max(other.max_packet_size);
        let path_mtu = self.path_mtu.min(other.path_mtu);
        let resize =
            |bucket| TokenBucket { max_packet_size: max_packet_size.min(path_mtu), ..bucket };
        let flowspec = match flowspec {
            FlowSpec::ControlledLoad(bucket) => FlowSpec::ControlledLoad(resize(bucket)),
            FlowSpec::Guaranteed(bucket, rspec) => FlowSpec::Guaranteed(resize(bucket), rspec),
        };
        SenderRequest { flowspec, max_packet_size, path_mtu }
    }
}

impl Receivers {
    pub(crate) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Adds a listener; returns the application's previous one.
    pub(crate) fn listen(&mut self, listen: Listen) -> Option<Listener> {
        let application = listen.application;
        let before = self.listeners.remove(&application);
        // Until the senders are reported again, they share what they shared before.
        let mut requests = match &before {
            Some(before) if before.listen.style == listen.style => before.requests.clone(),
            _ => BTreeMap::new(),
        };
        requests.retain(|template, _| listen.wants(template));
        self.listeners.insert(application, Listener { listen, requests });
        before
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
                    let listener = self.listeners.get_mut(application);
                    answers.extend(listener.and_then(|l| l.accept_reduced(*filter, *left)).map(Ok));
                }
                _ => {}
            }
        }
        answers
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
        let request = SenderRequest {
            flowspec,
            max_packet_size: tspec.max_packet_size,
            path_mtu: self.listen.ask.path_mtu(offer),
        };
        self.requests.insert(template, request);
        if self.listen.style == Style::FixedFilter {
            return Ok(self.reserve(ReserveRequest::FixedFilter { filter: template, flowspec }));
        }
        Ok(self.reserve(self.shared_request().unwrap_or(ReserveRequest::Wildcard { flowspec })))
    }

    /// Requests the rate that a partly preempted reservation has left, so that all nodes on the path reserve no more than
    /// that (RFC 4495 section 5.3). `None` if no less is left than requested: an error is repeated, overtaken, or about
    /// the merged request of others. `None` also for a delay bound, which requires the full rate, and for a shared
    /// reservation, whose senders must announce less.
    fn accept_reduced(&mut self, filter: SenderTemplate, left: FlowSpec) -> Option<Command> {
        if self.listen.style != Style::FixedFilter {
            return None;
        }
        let request = self.requests.get_mut(&filter)?;
        let (FlowSpec::ControlledLoad(before), FlowSpec::ControlledLoad(left)) =
            (request.flowspec, left)
        else {
            return None;
        };
        let peak = before.peak.min(left.peak).max(left.rate);
        let flowspec = FlowSpec::ControlledLoad(TokenBucket { rate: left.rate, peak, ..before });
        if left.rate >= before.rate || flowspec.validate().is_err() {
            return None;
        }
        request.flowspec = flowspec;
        Some(self.reserve(ReserveRequest::FixedFilter { filter, flowspec }))
    }

    /// Removes a sender; the remaining ones may share less.
    fn remove_sender(&mut self, template: &SenderTemplate) -> Option<Command> {
        self.requests.remove(template)?;
        if self.listen.style == Style::FixedFilter {
            return None;
        }
        self.shared_request().map(|request| self.reserve(request))
    }

    /// Returns the request that all senders share.
    fn shared_request(&self) -> Option<ReserveRequest> {
        let flowspec = self.requests.values().copied().reduce(SenderRequest::merge)?.flowspec;
        Some(match self.listen.style {
            Style::SharedExplicit => {
                let filters = self.requests.keys().copied().collect();
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

/// Whether an error reports a reduced reservation, and not a lost one.
fn is_reduction(error: &ErrorSpec) -> bool {
    let reduced = PolicyControlError::PartiallyPreempted.code();
    (error.code, error.value) == (ErrorCode::PolicyControlFailure, reduced)
}
