//! Events in words: one line for people, the same in the daemon's listings and on the command line.

use earmark_core::Rate;
use earmark_node::Event;
use earmark_rsvp::{self as rsvp, Change};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::iana::{AdmissionControlError, TrafficControlError, error_value};
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, FilterSpec, Session, SourceSelector};

/// What happened, in one line.
pub fn event(event: &Event) -> String {
    use rsvp::Event::*;
    let event = match event {
        Event::Rsvp(event) => event,
        Event::NoAnswer { template, reason, .. } => {
            return format!("nothing was reserved for sender {}: {reason}", filter(template));
        }
        Event::NotAdopted { interface, flow, reason } => {
            let of = with_port(flow.destination, flow.destination_port);
            return format!(
                "reservation for {of} on interface {} could not be adopted: {reason}",
                interface.0
            );
        }
    };
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
        Resv { session, filter: of, flowspec, .. } => {
            format!(
                "reservation of {} from {} to {} is in place",
                rate(flowspec),
                filter(of),
                to(session)
            )
        }
        ResvGone { session, filter: of, .. } => {
            format!("reservation from {} to {} is gone", filter(of), to(session))
        }
        PathError { session, error, .. } => {
            format!("the path to {} failed: {}", to(session), error_text(error))
        }
        ResvError { session, error, .. } => {
            format!("the reservation for {} failed: {}", to(session), error_text(error))
        }
        Confirmed { session, node, filter: of, .. } => {
            format!("{node} confirms the reservation from {} to {}", filter(of), to(session))
        }
        Rejected { reason, .. } => format!("not carried out: {reason}"),
        PathState { change, session, template } => {
            format!("path from {} to {} {}", filter(template), to(session), changed(*change))
        }
        Reservation { change, session, filter: of, interface, flowspec } => format!(
            "reservation of {} from {} to {} on interface {} {}",
            rate(flowspec),
            filter(of),
            to(session),
            interface.0,
            changed(*change)
        ),
        Refused { session, filter: of, interface, error, available_bps } => format!(
            "reservation from {} to {} refused on interface {}: {}; {} could be had",
            filter(of),
            to(session),
            interface.0,
            error_text(error),
            Rate::from_bps(*available_bps)
        ),
        Dropped { reason, source, .. } => {
            format!("message from {source} dropped: {}", reason.name())
        }
    }
}

/// An error in words: what, which sub-code, and which node found it.
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

/// The name of a globally defined sub-code (RFC 2205 appendix B).
fn detail(error: &ErrorSpec) -> Option<&'static str> {
    if error.value & error_value::DEFINED_BY != 0 {
        return None;
    }
    let code = error.value & error_value::SUB_CODE;
    let name = match error.code {
        ErrorCode::AdmissionControlFailure => AdmissionControlError::from_code(code).name(),
        ErrorCode::TrafficControlError => TrafficControlError::from_code(code).name(),
        _ => return None,
    };
    (name != "unknown").then_some(name)
}

/// The rate that counts against a link: r of controlled load, R of guaranteed service.
pub fn rate(flowspec: &FlowSpec) -> Rate {
    match flowspec {
        FlowSpec::ControlledLoad(bucket) => Rate::from_octets_per_second(bucket.rate),
        FlowSpec::Guaranteed(_, rspec) => Rate::from_octets_per_second(rspec.rate),
    }
}

fn to(session: &Session) -> String {
    with_port(session.destination, session.port)
}

fn filter(filter: &FilterSpec) -> String {
    match filter.selector {
        SourceSelector::Port(port) => with_port(filter.source, port),
        SourceSelector::FlowLabel(label) => format!("{} label {label:#x}", filter.source),
    }
}

/// `10.0.2.2:5001`, or the address alone where the protocol has no ports.
pub fn with_port(address: std::net::IpAddr, port: u16) -> String {
    match port {
        0 => address.to_string(),
        port => std::net::SocketAddr::new(address, port).to_string(),
    }
}

/// The name of an IP protocol, or its number.
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
        Change::Orphaned => "gone with what it hung on",
    }
}
