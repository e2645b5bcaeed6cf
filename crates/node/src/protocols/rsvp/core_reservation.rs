//! RSVP sessions that reserve aggregates across a core, for an edge that aggregates flows of RSVP: for the packets with a DSCP
//! (RFC 3175), or for those of a tunnel (RFC 2746).
//!
//! The near edge is the aggregating router, or the entry of the tunnel: it sends Paths to the far edge, and announces the rate
//! that it needs. The far edge, the deaggregating router or exit, answers with a Resv for what is announced (RFC 3175 section
//! 1.4.12, RFC 2746 section 2.2), so the rate is decided in one place.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::Rate;
use earmark_core::admission::Demand;
use earmark_rsvp::{self as rsvp, Application, EDGE};
use earmark_wire::intserv::SenderTspec;
use earmark_wire::rsvp::{Dscp, SenderTemplate, Session, SourceSelector};

use super::aggregation::core_packets::{CorePackets, TunnelProtocol};
use super::listen::{Listen, octet_rate_rounded_up};
use super::outcome;
use crate::edge::CoreEvent;
use crate::protocols::{Command, Event, application_of};

/// Name of the protocol that reserves aggregates.
pub(crate) const PROTOCOL_NAME: &str = "rsvp";

/// TTL of Paths.
const TTL: u8 = 64;
/// Smallest and largest packet of an aggregate, octets.
const PACKETS: (u32, u32) = (64, 1_500);
/// Time in which the rate of an aggregate fills its bucket, seconds.
const BURST: f32 = 0.1;
/// First of the applications that answer as deaggregating router. Those before it are aggregates.
const DEAGGREGATORS: Application = Application(EDGE.start.0 + (1 << 32));

/// Returns the commands to reserve the aggregate of this number, for these packets, to the far edge `to`.
pub(crate) fn reserve(number: u32, to: IpAddr, packets: CorePackets, rate: Rate) -> [Command; 2] {
    let open =
        rsvp::Command::Session { application: application(number), session: session(to, packets) };
    [Command::Rsvp(open), modify(number, to, packets, rate)]
}

/// Returns the session of an aggregate.
fn session(to: IpAddr, packets: CorePackets) -> Session {
    match packets {
        CorePackets::Dscp(dscp) => Session::aggregate(to, Dscp(dscp)),
        CorePackets::Tunnel(TunnelProtocol { ip_protocol, port }) => {
            Session { destination: to, protocol: ip_protocol, flags: 0, port }
        }
    }
}

/// Returns the command to announce another rate of an aggregate.
pub(crate) fn modify(number: u32, to: IpAddr, packets: CorePackets, rate: Rate) -> Command {
    // The address of this host on the route to the far edge.
    let source = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let rate = octet_rate_rounded_up(rate);
    let tspec = SenderTspec {
        rate,
        depth: (rate * BURST).max(2.0 * PACKETS.1 as f32),
        peak: f32::INFINITY,
        min_policed_unit: PACKETS.0,
        max_packet_size: PACKETS.1,
    };
    let selector = match packets {
        CorePackets::Dscp(_) => SourceSelector::Aggregator,
        CorePackets::Tunnel(_) => SourceSelector::Port(0),
    };
    let template = SenderTemplate { source, selector };
    let application = application(number);
    Command::Rsvp(rsvp::Command::Sender { application, template, tspec, ttl: TTL })
}

/// Returns the command to release an aggregate.
pub(crate) fn release(number: u32) -> Command {
    Command::Rsvp(rsvp::Command::Release { application: application(number) })
}

/// Returns the command to answer the Paths of aggregates to an address of this host, as deaggregating router, or exit of a
/// tunnel, of this number.
pub(super) fn answer(number: u32, at: IpAddr, packets: CorePackets) -> Command {
    let application = Application(DEAGGREGATORS.0 + u64::from(number));
    Command::Listen(Listen::new(application, session(at, packets)))
}

/// Returns whether an event is about answers of this host as deaggregating router.
pub(super) fn is_of_deaggregator(event: &Event) -> bool {
    let is_of_rsvp = matches!(event, Event::Rsvp(_) | Event::NoAnswer { .. });
    let application = application_of(event).map(Application).filter(|_| is_of_rsvp);
    application.is_some_and(|application| (DEAGGREGATORS..EDGE.end).contains(&application))
}

/// Returns an event of an aggregate's reservation, with the number of the aggregate if the application is one. `None` for
/// other events.
pub(crate) fn event_of_aggregate(event: &rsvp::Event) -> Option<(usize, CoreEvent)> {
    use rsvp::Event::*;
    let application = Application(outcome::application(event)?);
    if !(EDGE.start..DEAGGREGATORS).contains(&application) {
        return None;
    }
    let told = match event {
        Resv { flowspec, .. } => CoreEvent::Granted(Demand::from_flowspec(flowspec).rate),
        ResvGone { .. } => CoreEvent::Lost,
        Rejected { .. } => CoreEvent::Rejected,
        PathError { .. } | Notified { .. } => CoreEvent::Refused,
        _ => CoreEvent::Offered,
    };
    Some((usize::try_from(application.0 - EDGE.start.0).ok()?, told))
}

/// Application number of an aggregate.
fn application(number: u32) -> Application {
    Application(EDGE.start.0 + u64::from(number))
}
