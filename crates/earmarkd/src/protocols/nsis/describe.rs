//! Events of NSIS as text, and advice about their refusals.

use earmark_nsis::gist::{self, DropReason};
use earmark_nsis::nslp::Validity;
use earmark_nsis::{Event, ping, qos};
use earmark_wire::gist::Mri;

use earmark_control::protocols::nsis::outcome;
use earmark_control::text::with_port;

use super::natfw;
use crate::protocol::by_user;

/// Describes an event in one line.
pub(crate) fn event(event: &Event, on: &str) -> String {
    match event {
        Event::Gist(event) => of_gist(event),
        Event::Qos(event) => of_qos(event, on),
        Event::Natfw(event) => natfw::describe::describe(event, on),
        Event::Ping(event) => of_ping(event),
    }
}

fn of_gist(event: &gist::Event) -> String {
    match event {
        gist::Event::RoutingState { mri, status, peer, .. } => {
            let status = match status {
                Validity::Good => "stands",
                Validity::Tentative => "is doubtful",
                Validity::Bad => "has ended",
            };
            let peer = peer.map_or("nobody".to_owned(), |peer| peer.to_string());
            format!("routing state for {} with {peer} {status}", flow_of(mri))
        }
        gist::Event::Ignored { reason, source, .. } => {
            format!("message of GIST from {source} ignored: {}", why(*reason))
        }
        gist::Event::AssociationClosed { remote, reason } => {
            format!("association with {remote} closed: {reason}")
        }
        gist::Event::ErrorReceived { source, code, subcode } => {
            format!("{source} answered with error {code} of GIST (subcode {subcode})")
        }
    }
}

/// Describes the reason of a dropped message by the name of its counter.
fn why(reason: DropReason) -> String {
    reason.name().replace('_', " ")
}

pub(super) fn flow_of(mri: &Mri) -> String {
    let (source, destination) = mri.addresses();
    match mri {
        Mri::PathCoupled(flow) => {
            let port = flow.destination_port.unwrap_or_default();
            format!("{source} to {}", with_port(destination, port))
        }
        Mri::LooseEnd(_) => format!("{source} towards {destination}"),
    }
}

fn of_qos(event: &qos::Event, on: &str) -> String {
    use qos::Event::*;
    match event {
        Reserved { rate, reach, .. } => format!("{rate}: {reach}"),
        Translated { session, translation, .. } => format!("session {session}: {translation}"),
        Refused { outcome: why, source, available, reaction, .. } => {
            let offer = available.map_or(String::new(), |rate| format!("; {rate} is available"));
            let reaction = match reaction {
                qos::OnRefusal::Release => "the request has ended",
                qos::OnRefusal::Retry => "the request is repeated",
            };
            format!("refused{}: {}{offer}; {reaction}", by(source.as_ref()), outcome(*why))
        }
        Offered { rate, reach, .. } => format!("{rate} is available: {reach}"),
        TimedOut { .. } => "no answer".to_owned(),
        Lost { outcome: why, source, .. } => {
            format!("a part of the path is lost{}: {}", by(source.as_ref()), outcome(*why))
        }
        Released { .. } => "released".to_owned(),
        Incoming { flow, rate, reach, .. } => format!("{rate} for {}: {reach}", target(flow)),
        Gone { session, .. } => format!("session {session} ended"),
        Rejected { reason, .. } => format!("not carried out: {}", qos_rejection(*reason).0),
        Reservation { change, flow, demand, user, .. } => format!(
            "reservation of {} for {} on {on} {}{}",
            demand.rate,
            target(flow),
            match change {
                qos::Change::Created => "made",
                qos::Change::Changed => "changed",
                qos::Change::Moved => "removed: its route changed",
                qos::Change::Released => "released",
                qos::Change::Expired => "expired",
                qos::Change::Refused => "removed: refused by a node downstream",
                qos::Change::Preempted => "preempted",
                qos::Change::Failed => "refused by traffic control",
            },
            by_user(user.as_deref()),
        ),
        Denied { session, outcome: why, explanation, .. } => {
            let reason = explanation.as_ref().map_or(String::new(), |text| format!(": {text}"));
            format!("session {session} refused here: {}{reason}", outcome(*why))
        }
        Dropped { reason, session, .. } => {
            let reason = reason.name().replace('_', " ");
            format!("message of session {session} ignored: {reason}")
        }
    }
}

pub(super) fn target(flow: &earmark_core::Flow) -> String {
    with_port(flow.destination, flow.destination_port)
}

fn by(source: Option<&qos::Source>) -> String {
    source.map_or(String::new(), |source| format!(" by {}", qos_source(source)))
}

/// Formats the source of an outcome.
pub(crate) fn qos_source(source: &qos::Source) -> String {
    match source {
        qos::Source::Address(address) => address.to_string(),
        qos::Source::Name(name) => name.clone(),
    }
}

fn of_ping(event: &ping::Event) -> String {
    use ping::Event::*;
    match event {
        Pong { sequence, round_trip, nodes, .. } => {
            let round_trip = earmark_core::amounts::show_duration(*round_trip);
            format!("ping {sequence} is back after {round_trip}: {nodes} nodes take part")
        }
        Lost { sequence, failure: Some(failure), .. } => {
            format!("ping {sequence} is lost: {failure}")
        }
        Lost { sequence, failure: None, .. } => format!("ping {sequence} has not come back"),
        Finished { .. } => "all pings are done".to_owned(),
        Rejected { reason, .. } => format!("not carried out: {reason}"),
    }
}

/// Advice about a command that Ping NSLP rejected.
pub(crate) fn ping_hint(reason: ping::Rejection) -> &'static str {
    use ping::Rejection::*;
    match reason {
        NoRoute => {
            "is the outgoing interface up, and in the daemon's configuration? `earmark show \
             links` lists those that are"
        }
        Destination => "give the address of another host",
        Interval => "send fewer messages, or less often: --count, --interval",
        TooMany => "end others first (`earmark show applications`)",
        Open | NotOpen => "this is a defect of earmark's; please report it",
    }
}

/// Describes why QoS NSLP rejected a command, with advice.
pub(crate) fn qos_rejection(reason: qos::Rejection) -> (&'static str, &'static str) {
    use qos::Rejection::*;
    match reason {
        SessionOpen | NoSession | SessionTaken => (
            "the application has a session, or none",
            "this is a defect of earmark's; please report it",
        ),
        NoRoute => (
            "there is no route to the destination",
            "is the outgoing interface up, and in the daemon's configuration? `earmark show \
             links` lists those that are",
        ),
        BadFlow => (
            "the flow matches no packets, or does not begin on this host",
            "a sender reserves for its own packets: leave --from out, or give an address of this \
             host",
        ),
        BadQos => (
            "invalid rates or sizes",
            "rates are positive, the smaller one is at most the larger one, and --burst holds a \
             packet",
        ),
        TooMany => ("session limit reached", "release some, or raise the limit"),
        NoTransport => (
            "this host has no transport of the wanted kind",
            "a secure one needs a certificate or a key in [nsis.tls] of its configuration, a reliable one [nsis] tcp or \
             that; or leave --secure and --reliable out",
        ),
    }
}
