//! Requests of RSVP.

use earmark_control::{
    ApplicationRow, Ask, Identity, Listen, Problem, Role, Send, SenderName, Signalling, StyleName,
};
use earmark_core::outcome::Outcome;
use earmark_node::outcome::application_of;
use earmark_node::{Command, Event};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::{SenderTemplate, Session, Style};
use serde_json::Value;

use super::checks::{check_senders, template, tspec};
use crate::control::requests::{Lifetime, RequestHandler, rejected};
use crate::driver::Kernel;

/// End of a flow that an application is, with its filter.
#[derive(Clone, Copy)]
enum End<'a> {
    Sender(SenderTemplate),
    Receiver(StyleName, &'a [SenderName]),
}

impl End<'_> {
    fn style(&self) -> Option<StyleName> {
        match *self {
            End::Sender(_) => None,
            End::Receiver(style, _) => Some(style),
        }
    }

    fn senders(&self) -> Vec<SenderName> {
        match self {
            End::Sender(template) if template.source.is_unspecified() => Vec::new(),
            End::Sender(template) => vec![template.into()],
            End::Receiver(_, senders) => senders.to_vec(),
        }
    }
}

impl<K: Kernel> RequestHandler<'_, K> {
    pub(crate) fn send(&mut self, request: &Send) -> Result<Value, Problem> {
        let session = self.session(request.to, request.ip_protocol)?;
        let template = template(request)?;
        let tspec = tspec(request)?;
        let lifetime = Lifetime { hold: request.hold, follow: request.follow };
        let ttl = request.ttl;
        let end = End::Sender(template);
        self.open(session, end, lifetime, &request.identity, |application| {
            vec![
                Command::Rsvp(rsvp::Command::Session { application, session }),
                Command::Rsvp(rsvp::Command::Sender { application, template, tspec, ttl }),
            ]
        })
    }

    pub(crate) fn listen(&mut self, request: &Listen) -> Result<Value, Problem> {
        let session = self.session(request.on, request.ip_protocol)?;
        let destination = session.destination;
        if !destination.is_multicast() && !self.driver.is_local(destination) {
            return Err(rejected(
                format!("{destination} is none of this host's addresses, so nothing arrives there"),
                "listen on an address of this host (`ip address` lists them), or run this on the receiver",
            ));
        }
        check_senders(request)?;
        let lifetime = Lifetime { hold: request.hold, follow: request.follow };
        let &Listen { ask, style, confirm, ref senders, .. } = request;
        let end = End::Receiver(style, senders);
        self.open(session, end, lifetime, &request.identity, |application| {
            let (ask, style, senders) = (requested(ask), style_of(style), senders.clone());
            let all = earmark_node::Listen::new(application, session);
            vec![Command::Listen(earmark_node::Listen { ask, confirm, style, senders, ..all })]
        })
    }

    /// Assigns a number to an application, has the node carry out its commands, and records it unless the node rejects one.
    fn open(
        &mut self,
        session: Session,
        end: End<'_>,
        lifetime: Lifetime,
        identity: &Identity,
        commands: impl FnOnce(rsvp::Application) -> Vec<Command>,
    ) -> Result<Value, Problem> {
        let (role, template) = match end {
            End::Sender(template) => (Role::Sender, Some(template)),
            End::Receiver(..) => (Role::Receiver, None),
        };
        let row = ApplicationRow {
            application: 0, // the number is assigned by `enter`
            protocol: Signalling::Rsvp,
            role,
            destination: session.destination,
            destination_port: session.port,
            ip_protocol: session.protocol,
            style: end.style(),
            senders: end.senders(),
            held: lifetime.hold,
            outcome: Outcome::default(),
            last: None,
        };
        self.enter(row, template, lifetime, |number| {
            let application = rsvp::Application(number);
            let identity = (!identity.is_empty()).then(|| {
                let Identity { user, application: name, priority } = identity.clone();
                let identity = rsvp::policy::Identity { user, application: name, priority };
                Command::Rsvp(rsvp::Command::Identity { application, identity })
            });
            identity.into_iter().chain(commands(application)).collect()
        })
    }
}

/// Converts the policy of a receiver.
fn requested(ask: Ask) -> earmark_node::Ask {
    match ask {
        Ask::ControlledLoad => earmark_node::Ask::ControlledLoad,
        Ask::Rate(rate) => earmark_node::Ask::Rate(rate),
        Ask::Delay(delay) => earmark_node::Ask::Delay(delay),
    }
}

/// Converts a reservation style.
fn style_of(name: StyleName) -> Style {
    match name {
        StyleName::Ff => Style::FixedFilter,
        StyleName::Se => Style::SharedExplicit,
        StyleName::Wf => Style::Wildcard,
    }
}

pub(crate) fn rejection(event: &Event, number: u64) -> Option<rsvp::Rejection> {
    match event {
        Event::Rsvp(rsvp::Event::Rejected { reason, .. })
            if application_of(event) == Some(number) =>
        {
            Some(*reason)
        }
        _ => None,
    }
}
