//! Requests of QoS NSLP.

use earmark_control::protocols::nsis::{ListenOptions, ReserveOptions};
use earmark_control::{
    ApplicationId, ApplicationRow, ListenRequest, Problem, ReservationRequest, Role, SenderName,
};
use earmark_core::Flow;
use earmark_core::admission::Priority;
use earmark_node::Command;
use earmark_nsis::nslp::Attributes;
use earmark_nsis::{self as nsis, qos};
use earmark_wire::qos_nslp::BoundSessionId;
use earmark_wire::qos_nslp::iana::BindingCode;

use super::Nsis;
use crate::protocol::{
    Host, Opening, check_arrival, check_destination, named, options, rate, rejected, row, source,
    token,
};

/// Opens a session as the sender.
pub(super) fn reserve(request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
    let query = request.query;
    opening(request, host, move |application, request, by_receiver| match (query, by_receiver) {
        (true, _) => qos::Command::Query { application, request },
        (false, true) => qos::Command::Invite { application, request },
        (false, false) => qos::Command::Reserve { application, request },
    })
}

/// Changes the reservation of a session.
pub(super) fn change(request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
    if request.options.get("by_receiver") == Some(&true.into()) {
        return Err(rejected(
            "the receiver reserves for this session".to_owned(),
            "release it, and reserve again with the other rate",
        ));
    }
    opening(request, host, |application, request, _| qos::Command::Modify {
        application,
        qos: request.qos,
    })
}

fn opening(
    mut request: ReservationRequest,
    host: &dyn Host,
    command: impl FnOnce(ApplicationId, qos::Request, bool) -> qos::Command + 'static,
) -> Result<Opening, Problem> {
    let ReserveOptions { minimum_bps, by_receiver, reliable, secure, bound_to } =
        options(&Nsis, std::mem::take(&mut request.options))?;
    let (to, from) = (request.to, source(request.from, request.to)?);
    check_destination(to, request.ip_protocol, host)?;
    let flow = Flow {
        destination: to.ip(),
        source: (!from.ip().is_unspecified()).then_some(from.ip()),
        protocol: request.ip_protocol,
        destination_port: to.port(),
        source_port: from.port(),
        flow_label: request.flow_label.unwrap_or(0),
        spi: request.spi.unwrap_or(0),
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let priority = request.identity.priority;
    let wanted = qos::RequestedQos {
        burst: request.burst_octets,
        peak: request.peak_bps,
        min_packet: request.min_packet,
        max_packet: request.max_packet,
        minimum: minimum_bps,
        priority: priority.map(|priority| Priority { preemption: priority, defending: priority }),
        ..qos::RequestedQos::of(rate(&request)?)
    };
    let wanted = qos::Request {
        token: token(&request.identity)?,
        bound: bound_to
            .map(|opener| bound_session(opener, host))
            .transpose()?
            .into_iter()
            .collect(),
        attributes: (reliable || secure).then(|| attributes(reliable, secure)),
        ..qos::Request::new(flow, wanted)
    };
    let senders = named(from).into_iter().map(|name| SenderName {
        flow_label: request.flow_label,
        spi: request.spi,
        ..name
    });
    let senders = senders.collect();
    let row = row(&Nsis, Role::Sender, to, request.ip_protocol, request.hold);
    Ok(Opening {
        row: ApplicationRow { senders, ..row },
        sender: None,
        follow: request.follow,
        commands: Box::new(move |application| {
            let command = command(application, wanted, by_receiver);
            vec![Command::Nsis(nsis::Command::Qos(command))]
        }),
    })
}

/// Returns the session of an application that has opened the path of the data.
fn bound_session(opener: ApplicationId, host: &dyn Host) -> Result<BoundSessionId, Problem> {
    let engine = host.node().engine::<nsis::Nsis>();
    let session = engine.and_then(|engine| engine.natfw().session_of_application(opener));
    let session = session.ok_or_else(|| {
        rejected(
            format!("application {opener} has opened no path"),
            "run `earmark open` first, and give the number that `earmark show applications` shows for it",
        )
    })?;
    Ok(BoundSessionId { binding: BindingCode::Dependent, session })
}

/// Opens an application as the receiver.
pub(super) fn listen(mut request: ListenRequest, host: &dyn Host) -> Result<Opening, Problem> {
    let ListenOptions { reverse_bps } = options(&Nsis, std::mem::take(&mut request.options))?;
    if request.identity.priority.is_some() {
        return Err(rejected(
            "the sender sets the priority of a reservation by nsis".to_owned(),
            "leave it out here, and give it to `earmark reserve`",
        ));
    }
    let on = request.on;
    let anywhere = on.ip().is_unspecified();
    if !anywhere {
        check_arrival(on.ip(), host)?;
    }
    let listen = qos::Listen {
        destination: (!anywhere).then_some(on.ip()),
        protocol: Some(request.ip_protocol),
        port: (on.port() != 0).then_some(on.port()),
        most: request.rate_bps,
        token: token(&request.identity)?,
        reverse: reverse_bps.map(qos::RequestedQos::of),
    };
    Ok(Opening {
        row: row(&Nsis, Role::Receiver, on, request.ip_protocol, request.hold),
        sender: None,
        follow: request.follow,
        commands: Box::new(move |application| {
            let command = qos::Command::Listen { application, listen };
            vec![Command::Nsis(nsis::Command::Qos(command))]
        }),
    })
}

/// Returns transport attributes; a secure transport is also reliable.
pub(super) fn attributes(reliable: bool, secure: bool) -> Attributes {
    Attributes { reliable: reliable || secure, secure }
}
