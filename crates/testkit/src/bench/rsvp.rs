//! Messages about one flow through a router with RSVP, from its two neighbors.

use earmark_core::InterfaceId;
use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Message, Resv, RsvpHop,
    SenderTemplate, Session, SourceSelector,
};

use super::ip;

/// Neighbor towards the sender, on eth1.
pub const UPSTREAM: &str = "10.0.1.1";
/// Neighbor towards the receiver, on eth2.
pub const DOWNSTREAM: &str = "10.0.2.2";
/// Address of the sender.
pub const SENDER: &str = "10.0.0.1";
/// Address of the receiver.
pub const RECEIVER: &str = "10.0.9.9";
/// Upstream interface.
pub const ETH1: InterfaceId = InterfaceId(1);
/// Downstream interface.
pub const ETH2: InterfaceId = InterfaceId(2);

/// Returns the octets of a message with this body.
pub fn octets(body: Body<'_>, send_ttl: u8) -> Vec<u8> {
    emit(&Message::new(send_ttl, body))
}

/// Returns the octets of a message.
pub fn emit(message: &Message<'_>) -> Vec<u8> {
    let mut octets = vec![0xa5; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}

/// Returns the session of the flow.
pub fn session() -> Session {
    Session { destination: ip(RECEIVER), protocol: 17, flags: 0, port: 5_004 }
}

/// Returns the template of the sender.
pub fn template() -> SenderTemplate {
    FilterSpec { source: ip(SENDER), selector: SourceSelector::Port(4_000) }
}

/// Returns `mbps` Mbit/s with a bucket of two packets of 1 500 octets.
pub fn tspec(mbps: u32) -> SenderTspec {
    TokenBucket {
        rate: mbps as f32 * 125_000.0,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 100,
        max_packet_size: 1_500,
    }
}

/// Returns a controlled-load flowspec of `mbps` Mbit/s.
pub fn flowspec(mbps: u32) -> FlowSpec {
    FlowSpec::ControlledLoad(tspec(mbps))
}

/// Returns the body of a sender's initial ADSPEC.
pub fn adspec() -> Vec<u8> {
    let adspec = Adspec::for_sender();
    let mut body = vec![0; adspec.buffer_len()];
    adspec.emit(&mut body).expect("it fits");
    body
}

/// Returns a controlled-load request of `mbps` Mbit/s.
pub fn flow(mbps: u32) -> FixedFilterFlow {
    FixedFilterFlow { flowspec: Some(flowspec(mbps)), filter: template() }
}

/// Returns the Resv of the downstream neighbor for these flows, with the number of eth2 as its LIH.
pub fn resv(flows: &[FixedFilterFlow]) -> Resv<'_> {
    Resv {
        session: session(),
        hop: RsvpHop { address: ip(DOWNSTREAM), lih: ETH2.0 },
        refresh_ms: 30_000,
        confirm: None,
        scope: None,
        carried: Carried::NONE,
        flows: FlowDescriptors::FixedFilter(List::Items(flows)),
    }
}
