//! Events as text, one line each, for the daemon's listings and the command line.

mod interface;
mod light;
mod nsis;

use std::net::IpAddr;

use earmark_core::{Flow, Rate};
use earmark_node::{AggregateChange, EnforcementChange, Event, OtherEvent};
use earmark_rsvp::diagnostics::TraceEnd;
use earmark_rsvp::{self as rsvp, Change};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::iana::{AdmissionControlError, TrafficControlError, error_value};
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, FilterSpec, Session, SourceSelector};

pub use interface::interface_of;
pub use light::{boomerang_rejection, failure, rates, way, yessir_hint};
pub use nsis::{outcome, ping_hint, qos_rejection, qos_source};

/// Describes an event in one line; `on` is the name of the interface that the event contains as an index ([`interface_of`]).
pub fn event(event: &Event, on: &str) -> String {
    match event {
        Event::Rsvp(event) => of_rsvp(event, on),
        Event::Boomerang(event) => light::of_boomerang(event, on),
        Event::Yessir(event) => light::of_yessir(event, on),
        Event::Nsis(event) => nsis::event(event, on),
        Event::Other(OtherEvent { name, event, .. }) => format!("{name}: {event}"),
        Event::NoAnswer { template, reason, .. } => {
            format!("nothing was reserved for sender {}: {reason}", filter(template))
        }
        Event::NotAdopted { flow, reason, .. } => {
            let of = with_port(flow.destination, flow.destination_port);
            format!("reservation for {of} on {on} could not be adopted: {reason}")
        }
        Event::Enforcement { change, interface, flow, reason } => {
            let whose = match flow {
                Some(flow) => format!("the reservation for {}", flow_text(flow)),
                None => "what is reserved".to_owned(),
            };
            let what = match change {
                EnforcementChange::Unenforced => "is not enforced",
                EnforcementChange::EnforcedAgain => "is enforced again",
            };
            format!("{whose} on {interface} {what}: {reason}")
        }
        Event::Aggregate { change, to, range, granted, need } => {
            let what = match change {
                AggregateChange::Grown => "has grown",
                AggregateChange::Shrunk => "has shrunk",
                AggregateChange::Released => "is not needed any more",
                AggregateChange::Refused => "cannot grow",
                AggregateChange::Failing => "is refused or not answered any more",
                AggregateChange::Lost => "is lost, and its flows' reservations with it",
            };
            format!("aggregate to {range} by {to} {what}: {need} of {granted} in use")
        }
    }
}

/// Formats a flow with its addresses and ports.
fn flow_text(flow: &Flow) -> String {
    let source = match (flow.sources(), flow.source_port) {
        (None, _) => "all senders".to_owned(),
        (Some(source), 0) if flow.source_open == 0 => source.address().to_string(),
        (Some(source), 0) => source.to_string(),
        (Some(source), port) => with_port(source.address(), port),
    };
    let destination = match flow.destination_open {
        0 => with_port(flow.destination, flow.destination_port),
        _ => flow.destinations().to_string(),
    };
    format!("{source} to {destination}")
}

/// Describes an event of RSVP in one line.
fn of_rsvp(event: &rsvp::Event, on: &str) -> String {
    use rsvp::Event::*;
    match event {
        Path { session, template, tspec, offer, .. } => {
            let rate = Rate::from_octets_per_second(tspec.rate);
            let hops =
                offer.map_or(String::new(), |offer| format!(", {} RSVP hops away", offer.hops));
            format!("sender {} announces {rate} to {}{hops}", filter(template), to(session))
        }
        PathGone { session, template, .. } => {
            format!("sender {} to {} is gone", filter(template), to(session))
        }
        Resv { session, filter: of, flowspec, reach, .. } => {
            let (rate, of, to) = (rate(flowspec), filter(of), to(session));
            format!("reservation of {rate} from {of} to {to}: {reach}")
        }
        ResvGone { session, filter: of, .. } => {
            format!("reservation from {} to {} is gone", filter(of), to(session))
        }
        PathError { session, error, .. } => {
            format!("the path to {} failed: {}", to(session), error_text(error))
        }
        ResvError { session, error, .. } => {
            let advice = advice(error, None).map_or(String::new(), |advice| format!("; {advice}"));
            format!("the reservation for {} failed: {}{advice}", to(session), error_text(error))
        }
        Confirmed { session, node, filters: of, reach, .. } => {
            let (of, to) = (filters(of), to(session));
            format!("{node} confirms the reservation from {of} to {to}: {reach}")
        }
        Tracing { last_hop, known, attempt, reach, .. } => {
            tracing(*last_hop, *known, *attempt, *reach)
        }
        Traced { session, sender, hops, end, .. } => {
            let (from, to) = (filter(sender), to(session));
            format!(
                "the way from {from} to {to} was asked for: {} nodes, {}",
                hops.len(),
                trace_end(end)
            )
        }
        Rejected { reason, .. } => format!("not carried out: {reason}"),
        PathState { change, session, template } => {
            format!("path from {} to {} {}", filter(template), to(session), changed(*change))
        }
        Reservation { change, session, filters: of, flowspec, .. } => format!(
            "reservation of {} from {} to {} on {on} {}",
            rate(flowspec),
            filters(of),
            to(session),
            changed(*change)
        ),
        Refused { session, filters: of, error, available_bps, .. } => format!(
            "reservation from {} to {} refused on {on}: {}; {} could be had",
            filters(of),
            to(session),
            error_text(error),
            Rate::from_bps(*available_bps)
        ),
        Translated { template, translation, .. } => {
            format!("sender {}: {translation}", filter(template))
        }
        LastKeyExpired { key } => format!(
            "key {key} is used although its time is over, for there is no other; add a key that is valid"
        ),
        NeighborLost { address, .. } => {
            format!("neighbor {address} on {on} is silent or has restarted")
        }
        Dropped { reason, source, .. } => {
            format!("message from {source} dropped: {}", reason.name())
        }
    }
}

/// Describes the progress of a trace.
pub fn tracing(last_hop: IpAddr, known: usize, attempt: u8, reach: u8) -> String {
    let again = if attempt > 1 { ", again" } else { "" };
    match reach {
        0 => format!("asking the nodes from {last_hop} towards the sender{again}"),
        reach => format!("looking for a silent node: {known} answer, asking {reach}{again}"),
    }
}

/// Describes why a trace ended.
pub fn trace_end(end: &TraceEnd) -> String {
    match end {
        TraceEnd::Sender => "up to the sender".to_owned(),
        TraceEnd::NoPathState => "the last of which knows nothing of it".to_owned(),
        TraceEnd::HopLimit => "and no more were wanted".to_owned(),
        TraceEnd::GaveUp => "the last of which passed the question on to nobody".to_owned(),
        TraceEnd::Silent { node } => format!("and {node} does not answer"),
        TraceEnd::Incomplete => "and parts of the answer are missing".to_owned(),
    }
}

/// Describes an error: error code, sub-code, and the node that reports it.
pub fn error_text(error: &ErrorSpec) -> String {
    let what = match error.code {
        ErrorCode::Unknown(code) => format!("error {code}"),
        known => known.name().to_lowercase(),
    };
    let detail = match detail(error) {
        Some(detail) => format!(" ({})", detail.to_lowercase()),
        None if error.value != 0 => format!(" (value {})", error.value),
        None => String::new(),
    };
    format!("{what}{detail}, found by {}", error.node)
}

/// Advice about a refused reservation for its requester; `None` if none is known. `available` is the rate that could have been
/// granted, which a node reports on its own host only.
pub fn advice(error: &ErrorSpec, available: Option<Rate>) -> Option<String> {
    let remedy = remedy(error, available)?;
    let stands = error.flags & ErrorSpec::IN_PLACE != 0;
    Some(if stands { format!("{remedy}; what was reserved before still stands") } else { remedy })
}

fn remedy(error: &ErrorSpec, available: Option<Rate>) -> Option<String> {
    let node = error.node;
    Some(match error.code {
        ErrorCode::AdmissionControlFailure => match (sub_code(error), available) {
            (Some(BANDWIDTH), Some(Rate::ZERO)) => {
                format!("nothing is left there; release other reservations on {node}")
            }
            (Some(BANDWIDTH), Some(rate)) => format!("ask for less: at most {rate}"),
            (Some(BANDWIDTH), None) => format!(
                "ask for less, or release other reservations (`earmark show links` on {node} tells what is left)"
            ),
            (Some(DELAY), _) => "allow for a longer delay".to_owned(),
            (Some(MTU), _) => "have the sender announce smaller packets (--max-packet)".to_owned(),
            _ => return None,
        },
        ErrorCode::ServicePreempted => {
            "something more important took its place; ask again later".to_owned()
        }
        ErrorCode::NoPathInformation | ErrorCode::NoSenderInformation => {
            "the sender has stopped, or the path has changed; try again when it announces itself"
                .to_owned()
        }
        ErrorCode::ConflictingStyle => {
            "use the reservation style of the session's other receivers".to_owned()
        }
        ErrorCode::PolicyControlFailure => format!("ask whoever runs {node} for permission"),
        ErrorCode::TrafficControlError
        | ErrorCode::TrafficControlSystemError
        | ErrorCode::RsvpSystemError => format!("the daemon's log on {node} says more"),
        _ => return None,
    })
}

const DELAY: u16 = AdmissionControlError::DelayBoundCannotBeMet.code();
const BANDWIDTH: u16 = AdmissionControlError::BandwidthUnavailable.code();
const MTU: u16 = AdmissionControlError::MtuTooLarge.code();

/// The sub-code of an error value, if it is globally defined (RFC 2205 appendix B).
fn sub_code(error: &ErrorSpec) -> Option<u16> {
    (error.value & error_value::DEFINED_BY == 0).then_some(error.value & error_value::SUB_CODE)
}

/// The name of a globally defined sub-code (RFC 2205 appendix B).
fn detail(error: &ErrorSpec) -> Option<&'static str> {
    let code = sub_code(error)?;
    let name = match error.code {
        ErrorCode::AdmissionControlFailure => AdmissionControlError::from_code(code).name(),
        ErrorCode::TrafficControlError => TrafficControlError::from_code(code).name(),
        _ => return None,
    };
    (name != "unknown").then_some(name)
}

/// The rate that is admitted on a link: r for controlled load, R for guaranteed service.
pub fn rate(flowspec: &FlowSpec) -> Rate {
    match flowspec {
        FlowSpec::ControlledLoad(bucket) => Rate::from_octets_per_second(bucket.rate),
        FlowSpec::Guaranteed(_, rspec) => Rate::from_octets_per_second(rspec.rate),
    }
}

fn to(session: &Session) -> String {
    with_port(session.destination, session.port)
}

/// Formats a sender: `10.0.0.1:4000`.
pub fn filter(filter: &FilterSpec) -> String {
    match filter.selector {
        SourceSelector::Port(port) => with_port(filter.source, port),
        SourceSelector::FlowLabel(label) => format!("{} label {label:#x}", filter.source),
    }
}

/// Formats the senders that a reservation is for.
fn filters(filters: &rsvp::Filters) -> String {
    match filters.as_slice() {
        [] => "all senders".to_owned(),
        several => several.iter().map(filter).collect::<Vec<_>>().join(", "),
    }
}

/// Formats an endpoint: `10.0.2.2:5001`, or the address alone if the protocol has no ports.
pub fn with_port(address: std::net::IpAddr, port: u16) -> String {
    match port {
        0 => address.to_string(),
        port => std::net::SocketAddr::new(address, port).to_string(),
    }
}

/// Returns the name of an IP protocol, or its number.
pub fn ip_protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        number => number.to_string(),
    }
}

fn changed(change: Change) -> &'static str {
    match change {
        Change::Created => "made",
        Change::Changed => "changed",
        Change::Torn => "torn down",
        Change::Expired => "expired",
        Change::Preempted => "gave way to a more important one",
        Change::Orphaned => "gone with what it hung on",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(flags: u8, code: ErrorCode, value: u16) -> ErrorSpec {
        ErrorSpec { node: [10, 0, 12, 1].into(), flags, code, value }
    }

    /// The text of a refusal contains the error, the node and advice; values of RFC 2205 appendix B.
    #[test]
    fn refusal_has_error_node_and_advice() {
        let full = error(0, ErrorCode::AdmissionControlFailure, BANDWIDTH);
        assert_eq!(
            error_text(&full),
            "admission control failure (requested bandwidth unavailable), found by 10.0.12.1"
        );
        let rate = Some(Rate::from_bps(1_500_000));
        assert_eq!(advice(&full, rate).unwrap(), "ask for less: at most 1.5 Mbit/s");
        assert!(advice(&full, None).unwrap().contains("`earmark show links` on 10.0.12.1"));
        assert!(advice(&full, Some(Rate::ZERO)).unwrap().starts_with("nothing is left"));

        let stands = error(ErrorSpec::IN_PLACE, ErrorCode::AdmissionControlFailure, MTU);
        let text = advice(&stands, None).unwrap();
        assert!(text.contains("--max-packet") && text.ends_with("still stands"), "{text}");
    }

    /// Organization-defined sub-codes may have any number and must not be read as globally defined ones.
    #[test]
    fn organization_sub_codes_are_not_read_as_global() {
        let value = error_value::BY_ORGANIZATION | BANDWIDTH;
        let foreign = error(0, ErrorCode::AdmissionControlFailure, value);
        assert!(error_text(&foreign).contains("(value 32770)"), "{}", error_text(&foreign));
        assert_eq!(advice(&foreign, None), None);
        assert_eq!(advice(&error(0, ErrorCode::Unknown(99), 0), None), None);
    }
}
