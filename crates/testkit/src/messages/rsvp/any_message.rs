//! Any message of RSVP that can be written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_wire::rsvp::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{KINDS, OwnedIntegrity, Parts, STYLES};
use crate::messages::intserv::{bucket, flowspec};
use crate::messages::words;

fn address(ipv6: bool) -> BoxedStrategy<IpAddr> {
    if ipv6 {
        // Neither zero nor multicast.
        any::<u128>().prop_map(|n| Ipv6Addr::from(n >> 8 | 1 << 110).into()).boxed()
    } else {
        (1u32..0xe000_0000).prop_map(|n| Ipv4Addr::from(n).into()).boxed()
    }
}

/// Generates protocols, often one with a GPI or that of an aggregate.
fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 1u8.., 1 => 50u8..=51, 1 => Just(0)]
}

/// Gives the senders of a GPI session an SPI each, and those of an aggregate nothing but their address.
fn fit(session: &Session, filter: &mut FilterSpec) {
    if session.is_aggregate() {
        filter.selector = SourceSelector::Aggregator;
    }
    if session.has_gpi() {
        let number = filter.flow_label().unwrap_or(filter.port().into());
        filter.selector = SourceSelector::Spi(number.wrapping_mul(0x0001_0003).max(1));
    }
}

fn filter(ipv6: bool) -> impl Strategy<Value = FilterSpec> {
    (address(ipv6), any::<u16>(), option::of(0u32..1 << 24)).prop_map(
        move |(source, port, label)| {
            let selector = match label {
                Some(label) if ipv6 => SourceSelector::FlowLabel(label),
                _ => SourceSelector::Port(port),
            };
            FilterSpec { source, selector }
        },
    )
}

/// Generates a whole object of any of `classes`.
pub fn object(classes: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let class = proptest::sample::select(classes);
    (class, any::<u8>(), words(0..6)).prop_map(|(class, c_type, words)| {
        let length = u16::try_from(4 + 4 * words.len()).expect("short");
        let [high, low] = length.to_be_bytes();
        // POLICY_DATA of C-Type 1 has a format that messages do not check, but the object layer does.
        let c_type = if class == 14 { c_type.max(2) } else { c_type };
        [vec![high, low, class, c_type], words.concat()].concat()
    })
}

/// Generates an ADSPEC body with an override, a parameter and two unknown services.
pub fn adspec() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u32; 5]>(), any::<bool>(), any::<bool>(), words(0..4)).prop_map(
        |(values, guaranteed, load, unknown)| {
            let word = |id: u8, value: u32| [&[id, 0, 0, 1][..], &value.to_be_bytes()].concat();
            let fragment = |id: u8, broken: bool, data: Vec<u8>| {
                let words = u8::try_from(data.len() / 4).expect("short");
                [vec![id, if broken { 0x80 } else { 0 }, 0, words], data].concat()
            };
            let [hops, bandwidth, latency, mtu, c] = values;
            let general =
                [word(4, hops), word(6, bandwidth), word(8, latency), word(10, mtu), word(60, c)];
            let mut parts = vec![fragment(1, guaranteed, general.concat())];
            if guaranteed {
                let terms = [word(133, c), word(134, mtu), word(135, 0), word(136, 1), word(6, 9)];
                parts.push(fragment(2, load, terms.concat()));
            }
            parts.push(fragment(3, load, unknown.concat()));
            if load {
                parts.push(fragment(5, false, word(10, mtu)));
            }
            parts.push(fragment(200, true, Vec::new()));
            let data = parts.concat();
            let words = u16::try_from(data.len() / 4).expect("short").to_be_bytes();
            [vec![0, 0, words[0], words[1]], data].concat()
        },
    )
}

/// Generates the leading objects.
fn leading_objects() -> impl Strategy<Value = LeadingObjects> {
    let digest = vec(any::<u8>(), 4..80).prop_map(|mut digest| {
        digest.truncate(digest.len() / 4 * 4);
        digest
    });
    let integrity = (any::<u8>(), 0u64..1 << 48, any::<u64>(), digest).prop_map(
        |(flags, key_id, sequence, digest)| OwnedIntegrity { flags, key_id, sequence, digest },
    );
    let kind = any::<bool>()
        .prop_map(|ack| if ack { AcknowledgementKind::Ack } else { AcknowledgementKind::Nack });
    let acknowledgement = (kind, 0u32..1 << 24, any::<u32>())
        .prop_map(|(kind, epoch, id)| Acknowledgement { kind, epoch, id });
    let message_id = (any::<u8>(), 0u32..1 << 24, any::<u32>())
        .prop_map(|(flags, epoch, id)| MessageId { flags, epoch, id });
    (option::of(integrity), vec(acknowledgement, 0..4), option::of(message_id))
}

type LeadingObjects = (Option<OwnedIntegrity>, Vec<Acknowledgement>, Option<MessageId>);

/// Generates messages of RFC 2205, with the leading objects of RFC 2747 and RFC 2961.
pub fn parts() -> impl Strategy<Value = Parts> {
    (any::<bool>(), proptest::sample::select(&KINDS[..]), proptest::sample::select(&STYLES[..]))
        .prop_flat_map(|(ipv6, kind, style)| {
            let common = (
                0u8..16,
                any::<u8>(),
                leading_objects(),
                (address(ipv6), protocol(), any::<u8>(), 1u16..),
                (address(ipv6), any::<u32>(), any::<u32>()),
                (address(ipv6), any::<u8>(), any::<u8>(), any::<u16>()),
                option::of(address(ipv6)),
                option::of(vec(address(ipv6), 0..4)),
            );
            // POLICY_DATA is not allowed in every message; classes 11bbbbbb are.
            let carried: &[u8] = match kind {
                MessageType::PathTear | MessageType::ResvTear | MessageType::ResvConf => {
                    &[192, 200, 255]
                }
                _ => &[14, 192, 255],
            };
            let descriptors = (
                vec(object(carried), 0..3),
                option::of(filter(ipv6)),
                option::of(bucket()),
                option::of(adspec()),
                flowspec(),
                vec((flowspec(), filter(ipv6)), 1..5),
                any::<bool>(),
            );
            (Just((kind, style)), common, descriptors)
        })
        .prop_map(|((kind, style), common, descriptors)| {
            let (flags, send_ttl, front, session, hop, error, confirm, scope) = common;
            let (carried, mut template, tspec, adspec, flowspec, mut flows, bare) = descriptors;
            // Teardowns and errors may omit flowspecs; a ResvErr has at most one flow descriptor.
            let bare = bare && matches!(kind, MessageType::ResvTear | MessageType::ResvErr);
            if kind == MessageType::ResvErr && style == Style::FixedFilter {
                flows.truncate(1);
            }
            let (destination, protocol, session_flags, port) = session;
            // The port of an aggregate is its DSCP.
            let port = if protocol == 0 { port % 63 + 1 } else { port };
            let session = Session { destination, protocol, flags: session_flags, port };
            let filters = flows.iter_mut().map(|(_, filter)| filter).chain(&mut template);
            filters.for_each(|filter| fit(&session, filter));
            Parts {
                kind,
                flags,
                send_ttl,
                integrity: front.0,
                acknowledgements: front.1,
                message_id: front.2,
                session,
                hop: RsvpHop { address: hop.0, lih: hop.1 },
                refresh_ms: hop.2,
                error: ErrorSpec {
                    node: error.0,
                    flags: error.1,
                    code: ErrorCode::from_code(error.2),
                    value: error.3,
                },
                confirm,
                scope,
                carried: carried.concat(),
                template,
                tspec,
                adspec,
                style,
                flowspec: (!bare).then_some(flowspec),
                fixed: flows
                    .iter()
                    .map(|(flowspec, filter)| FixedFilterFlow {
                        flowspec: (!bare).then_some(*flowspec),
                        filter: *filter,
                    })
                    .collect(),
                filters: flows.iter().map(|(_, filter)| *filter).collect(),
            }
        })
}
