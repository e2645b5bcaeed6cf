//! Receivers of this host that answer senders by a policy ([`Listen`]).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use earmark_core::{Effect, Effects};
use earmark_rsvp::{Application, Command, Filters, Offer, ReserveRequest, least_upper_bound};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::iana::PolicyControlError;
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, SenderTemplate, Style};

use super::listen::Listen;
use crate::protocols::Event;

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
        let before = self.listeners.remove(&application);
        // Until the senders are reported again, they share what they shared before.
        let mut flowspecs = match &before {
            Some(before) if before.listen.style == listen.style => before.flowspecs.clone(),
            _ => BTreeMap::new(),
        };
        flowspecs.retain(|template, _| listen.wants(template));
        self.listeners.insert(application, Listener { listen, flowspecs });
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
                    let listener = self.listeners.get(application);
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

/// Whether an error reports a reduced reservation, and not a lost one.
fn is_reduction(error: &ErrorSpec) -> bool {
    let reduced = PolicyControlError::PartiallyPreempted.code();
    (error.code, error.value) == (ErrorCode::PolicyControlFailure, reduced)
}
