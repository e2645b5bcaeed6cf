//! Requests of RSVP.

use std::net::SocketAddr;
use std::time::Duration;

use earmark_control::protocols::rsvp::{ListenOptions, ReserveOptions};
use earmark_control::{
    ApplicationId, ApplicationRow, Identity, ListenRequest, Problem, ReservationRequest, Role,
    StyleName,
};
use earmark_node::{Ask, Command, Event, Listen};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::{Session, Style};

use super::Rsvp;
use super::checks::{check_senders, template, tspec};
use crate::protocol::{Host, Opening, check_arrival, check_destination, options, rate, row, token};

/// Opens the sender or receiver that this host can be.
pub(super) fn reserve(
    mut request: ReservationRequest,
    host: &dyn Host,
) -> Result<Opening, Problem> {
    let ReserveOptions { role } = options(&Rsvp, std::mem::take(&mut request.options))?;
    let is_receiver = match role {
        Some(role) => role == Role::Receiver,
        None => host.is_local(request.to.ip()),
    };
    if is_receiver {
        let rate_bps = Some(rate(&request)?);
        let ReservationRequest { to, ip_protocol, identity, hold, follow, .. } = request;
        let of = ListenRequest {
            ip_protocol,
            rate_bps,
            identity,
            hold,
            follow,
            ..ListenRequest::new(to)
        };
        return receiver(of, ListenOptions { confirm: true, ..ListenOptions::default() }, host);
    }
    let session = session(request.to, request.ip_protocol, host)?;
    let template = template(&request)?;
    let tspec = tspec(&request, rate(&request)?)?;
    let identity = identity(request.identity)?;
    let senders = match template.source.is_unspecified() {
        true => Vec::new(),
        false => vec![template.parts().into()],
    };
    let row = row(&Rsvp, Role::Sender, request.to, request.ip_protocol, request.hold);
    let ttl = request.ttl;
    Ok(Opening {
        row: ApplicationRow { senders, ..row },
        sender: Some(template.parts().into()),
        follow: request.follow,
        commands: Box::new(move |application| {
            let open = rsvp::Command::Session { application, session };
            let announce = rsvp::Command::Sender { application, template, tspec, ttl };
            let identity = identify(application, identity);
            identity.into_iter().chain([Command::Rsvp(open), Command::Rsvp(announce)]).collect()
        }),
    })
}

/// Opens a receiver.
pub(super) fn listen(mut request: ListenRequest, host: &dyn Host) -> Result<Opening, Problem> {
    let options = options(&Rsvp, std::mem::take(&mut request.options))?;
    receiver(request, options, host)
}

fn receiver(
    request: ListenRequest,
    options: ListenOptions,
    host: &dyn Host,
) -> Result<Opening, Problem> {
    let session = session(request.on, request.ip_protocol, host)?;
    check_arrival(session.destination, host)?;
    check_senders(&request, &options)?;
    let identity = identity(request.identity)?;
    let ListenOptions { delay_ms, style, senders, confirm } = options;
    let ask = match (request.rate_bps, delay_ms) {
        (Some(rate), _) => Ask::Rate(rate),
        (None, Some(delay)) => {
            Ask::Delay(Duration::try_from_secs_f64(delay / 1e3).unwrap_or_default())
        }
        (None, None) => Ask::ControlledLoad,
    };
    let row = row(&Rsvp, Role::Receiver, request.on, request.ip_protocol, request.hold);
    Ok(Opening {
        row: ApplicationRow { style: Some(style), senders: senders.clone(), ..row },
        sender: None,
        follow: request.follow,
        commands: Box::new(move |application| {
            let style = style_of(style);
            let all = Listen::new(application, session);
            let listen = Command::Listen(Listen { ask, confirm, style, senders, ..all });
            identify(application, identity).into_iter().chain([listen]).collect()
        }),
    })
}

/// Returns the session, if its data can exist and this host can signal for it.
pub(super) fn session(
    destination: SocketAddr,
    ip_protocol: u8,
    host: &dyn Host,
) -> Result<Session, Problem> {
    check_destination(destination, ip_protocol, host)?;
    Ok(Session {
        destination: destination.ip(),
        protocol: ip_protocol,
        flags: 0,
        port: destination.port(),
    })
}

/// Reads the identity of a request.
fn identity(identity: Identity) -> Result<rsvp::policy::Identity, Problem> {
    let token = token(&identity)?;
    let Identity { user, application, priority, .. } = identity;
    Ok(rsvp::policy::Identity { user, application, priority, token })
}

fn identify(application: ApplicationId, identity: rsvp::policy::Identity) -> Option<Command> {
    (!identity.is_empty()).then(|| Command::Rsvp(rsvp::Command::Identity { application, identity }))
}

/// Converts a reservation style.
fn style_of(name: StyleName) -> Style {
    match name {
        StyleName::Ff => Style::FixedFilter,
        StyleName::Se => Style::SharedExplicit,
        StyleName::Wf => Style::Wildcard,
    }
}

/// Returns why RSVP rejected the command of an application, if the event says so.
pub(super) fn rejection(event: &Event, of: ApplicationId) -> Option<rsvp::Rejection> {
    match event {
        Event::Rsvp(rsvp::Event::Rejected { application, reason }) if *application == of => {
            Some(*reason)
        }
        _ => None,
    }
}
