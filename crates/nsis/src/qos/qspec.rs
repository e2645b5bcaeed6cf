//! QSPECs that this node writes: in transit, in responses, and for requests of applications (RFC 5975).

use alloc::vec;
use alloc::vec::Vec;

use earmark_core::Rate;
use earmark_core::admission::Priority;
use earmark_wire::intserv::TokenBucket;
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{MessageType, ProtocolError};
use earmark_wire::qspec::iana::{MessageSequence, ObjectType, ParameterId};
use earmark_wire::qspec::{
    Editor, Parameter, ParseError, PreemptionPriority, Procedure, QosObject, Qspec, Value,
};

use super::api::RequestedQos;
use super::rmf::{Fault, is_failed, is_offer, is_supported, parameters};

/// Resources of this node for a flow, up to the next node.
#[derive(Clone, Copy)]
pub(super) struct Resources {
    pub(super) available: Rate,
    /// Latency of the outgoing link, microseconds, 0 if unknown; `None` if the packets end here.
    pub(super) latency_us: Option<u32>,
    /// Largest packet, octets.
    pub(super) mtu: u32,
}

/// Writes the values of this node into a QSPEC in transit: marks unsupported parameters, and, if QoS Available is
/// updated, adds the latency and limits rate and packet size.
pub(super) fn compose(octets: &mut [u8], message: MessageType, resources: Resources) {
    let Ok(qspec) = Qspec::parse(octets) else { return };
    let offer = qspec.available.filter(|_| is_offer(qspec.procedure, message));
    let offered: Vec<Parameter<'static>> = offer
        .iter()
        .flat_map(|object| object.parameters.iter())
        .filter_map(|parameter| offered(&parameter, resources))
        .collect();
    mark_unsupported(octets);
    let Ok(mut editor) = Editor::new(octets) else { return };
    for parameter in &offered {
        editor.replace(ObjectType::QosAvailable, parameter);
    }
}

/// Sets the N flags of unsupported parameters (RFC 5975 section 4.2.2).
fn mark_unsupported(octets: &mut [u8]) {
    let Ok(qspec) = Qspec::parse(octets) else { return };
    let unsupported: Vec<(ObjectType, ParameterId)> = parameters(&qspec)
        .map(|(object, parameter)| (object, parameter.value.id()))
        .filter(|(_, id)| !is_supported(*id))
        .collect();
    let Ok(mut editor) = Editor::new(octets) else { return };
    for (object, parameter) in unsupported {
        editor.not_supported(object, parameter);
    }
}

/// Returns the new value of a parameter of QoS Available, if this node changes it.
fn offered(parameter: &Parameter<'_>, resources: Resources) -> Option<Parameter<'static>> {
    let Parameter { is_mandatory, is_failed, mut is_not_supported, .. } = *parameter;
    let value = match parameter.value {
        Value::Tmod1(bucket) => Value::Tmod1(within(bucket, resources)),
        Value::Tmod2(bucket) => Value::Tmod2(within(bucket, resources)),
        Value::PathLatency(so_far) => {
            let latency_us = resources.latency_us?;
            // The sum is a lower bound then (RFC 5975 section 5.2.3).
            is_not_supported |= latency_us == 0;
            Value::PathLatency(so_far.saturating_add(latency_us.min(MAX_LATENCY_US)))
        }
        _ => return None,
    };
    Some(Parameter { is_mandatory, is_failed, is_not_supported, value })
}

/// Limits a bucket to what the link carries (RFC 5975 section 3.3.1); m stays no larger than the packets.
fn within(bucket: TokenBucket, resources: Resources) -> TokenBucket {
    let bucket = at_most(bucket, resources.available);
    let max_packet_size = bucket.max_packet_size.min(resources.mtu);
    let min_policed_unit = bucket.min_policed_unit.min(max_packet_size);
    TokenBucket { min_policed_unit, max_packet_size, ..bucket }
}

/// Limits the rate of a bucket; all zero if nothing is available (RFC 5975 section 4.3.2).
fn at_most(bucket: TokenBucket, available: Rate) -> TokenBucket {
    if Rate::from_octets_per_second(bucket.rate) <= available {
        return bucket;
    }
    let rate = octets_within(available);
    if rate < 1.0 {
        return TokenBucket { rate: 0.0, depth: 0.0, peak: 0.0, ..bucket };
    }
    TokenBucket { rate, ..bucket }
}

/// Returns the largest number of octets per second that does not exceed `rate`.
fn octets_within(rate: Rate) -> f32 {
    let octets = rate.as_octets_per_second();
    if Rate::from_octets_per_second(octets) > rate { octets.next_down() } else { octets }
}

/// Value of an unknown latency: all ones (RFC 5975 section 5.2.3).
const UNKNOWN_LATENCY: u32 = u32::MAX;

/// Most that a node adds to the latency (RFC 5975 section 5.2.3).
const MAX_LATENCY_US: u32 = 1 << 28;

/// Returns the QSPEC of a refusal: the received one, with the E flag at the unmet parameter, the N flag at unsupported
/// ones, and with the available rate in QoS Available, which is added if missing. A malformed QSPEC has the E flag at
/// each invalid value instead.
pub(super) fn refusal(octets: &[u8], fault: &Fault, available: Option<Resources>) -> Vec<u8> {
    let mut refused = match available.and_then(|available| with_available(octets, available)) {
        Some(added) => added,
        None => octets.to_vec(),
    };
    if fault.outcome == Outcome::ProtocolError(ProtocolError::MalformedQspec) {
        mark_invalid(&mut refused);
    } else {
        mark_unsupported(&mut refused);
    }
    if let Ok(mut editor) = Editor::new(&mut refused)
        && let Some(object) = fault.object
        && !editor.fail(object, fault.parameter)
    {
        editor.fail(object, None);
    }
    refused
}

/// Returns whether a parameter has the flag E or N, or an object the flag E.
pub(super) fn has_flags(octets: &[u8]) -> bool {
    Qspec::parse(octets).is_ok_and(|qspec| {
        is_failed(&qspec) || parameters(&qspec).any(|(_, parameter)| parameter.is_not_supported)
    })
}

/// Sets the E flags of invalid values (RFC 5975 section 4.2.1).
fn mark_invalid(octets: &mut [u8]) {
    let Ok(qspec) = Qspec::parse(octets) else { return };
    let invalid: Vec<_> = qspec.invalid_values().collect();
    let Ok(mut editor) = Editor::new(octets) else { return };
    for ParseError { object, parameter, .. } in invalid {
        if let Some(object) = object {
            editor.fail(object, parameter);
        }
    }
}

fn with_available(octets: &[u8], available: Resources) -> Option<Vec<u8>> {
    let mut qspec = Qspec::parse(octets).ok()?;
    if qspec.available.is_some() {
        let mut written = emitted(&qspec)?;
        compose(&mut written, MessageType::Query, available);
        return Some(written);
    }
    let desired = qspec.desired?.parameters;
    let traffic = desired.iter().filter(|parameter| is_traffic(parameter.value.id()));
    let offer: Vec<Parameter<'_>> =
        traffic.filter_map(|parameter| offered(&parameter, available)).collect();
    qspec.available = Some(QosObject::new(&offer)).filter(|_| !offer.is_empty());
    emitted(&qspec)
}

fn emitted(qspec: &Qspec<'_>) -> Option<Vec<u8>> {
    let mut octets = vec![0; qspec.buffer_len()];
    qspec.emit(&mut octets).ok()?;
    Some(octets)
}

/// Returns the QSPEC of the RESPONSE to a successful RESERVE (RFC 5975 section 4.3): QoS Reserved has the parameters of
/// QoS Desired, with the values of QoS Available if present there.
pub(super) fn success(octets: &[u8]) -> Option<Vec<u8>> {
    let qspec = Qspec::parse(octets).ok()?;
    let desired = qspec.desired?.parameters;
    let reserved: Vec<Parameter<'_>> = desired
        .iter()
        .map(|parameter| {
            let offered = qspec.available.map(|object| object.parameters);
            offered.and_then(|offered| offered.find(parameter.value.id())).unwrap_or(parameter)
        })
        .collect();
    // Tables 1 and 2: if the sender has seeded QoS Available in its QUERY, the RESPONSE omits it.
    let Procedure { sequence, combination } = qspec.procedure;
    let drops_available = sequence == MessageSequence::ThreeWay && combination == 2;
    emitted(&Qspec {
        desired: None,
        reserved: Some(QosObject::new(&reserved)),
        available: qspec.available.filter(|_| !drops_available),
        minimum: None,
        ..qspec
    })
}

/// Returns the QSPEC of the RESERVE that answers a QUERY with RESERVE-INIT (RFC 5975 section 4.3.2), for no more than
/// `most`.
pub(super) fn answer(octets: &[u8], most: Rate) -> Option<Vec<u8>> {
    let qspec = Qspec::parse(octets).ok()?;
    let desired: Vec<Parameter<'_>> = qspec
        .desired?
        .parameters
        .iter()
        .map(|parameter| {
            let offered = qspec.available.map(|object| object.parameters);
            let found = offered.and_then(|offered| offered.find(parameter.value.id()));
            limited(found.unwrap_or(parameter), most)
        })
        .collect();
    let minimum = qspec.minimum;
    // Combination 1: with Minimum QoS, less than desired is acceptable, so the RESERVE collects QoS Available.
    let seed: Vec<Parameter<'_>> = desired.iter().filter_map(seeded).collect();
    let (available, combination) = match (qspec.procedure.combination, minimum) {
        (1, Some(_)) => (Some(QosObject::new(&seed)), 1),
        (1, None) => (None, 0),
        (combination, _) => (qspec.available, combination),
    };
    let procedure = Procedure { combination, ..qspec.procedure };
    let desired = Some(QosObject::new(&desired));
    emitted(&Qspec { desired, available, minimum, procedure, ..qspec })
}

/// Returns the parameter that QoS Available begins with for one of QoS Desired (RFC 5975 section 4.3.1).
fn seeded<'q>(desired: &Parameter<'q>) -> Option<Parameter<'q>> {
    match desired.value {
        Value::Tmod1(_) | Value::Tmod2(_) => Some(*desired),
        Value::PathLatency(_) => Some(Parameter { value: Value::PathLatency(0), ..*desired }),
        _ => None,
    }
}

/// Returns the QSPEC of a RESERVE for exactly this rate, without negotiation.
pub(super) fn resized(octets: &[u8], rate: Rate) -> Option<Vec<u8>> {
    let qspec = Qspec::parse(octets).ok()?;
    let desired: Vec<Parameter<'_>> =
        qspec.desired?.parameters.iter().map(|parameter| limited(parameter, rate)).collect();
    emitted(&Qspec {
        desired: Some(QosObject::new(&desired)),
        available: None,
        minimum: None,
        procedure: Procedure { combination: 0, ..qspec.procedure },
        ..qspec
    })
}

/// Returns the QSPEC of a QUERY that asks for the RESERVE with this QSPEC again.
pub(super) fn as_query(octets: &[u8]) -> Option<Vec<u8>> {
    let qspec = Qspec::parse(octets).ok()?;
    let keeps_available = qspec.procedure.combination == 2;
    let available = qspec.available.filter(|_| keeps_available);
    emitted(&Qspec { available, ..qspec })
}

fn limited(parameter: Parameter<'_>, most: Rate) -> Parameter<'_> {
    let value = match parameter.value {
        Value::Tmod1(bucket) => Value::Tmod1(at_most(bucket, most)),
        Value::Tmod2(bucket) => Value::Tmod2(at_most(bucket, most)),
        other => other,
    };
    Parameter { value, ..parameter }
}

const fn is_traffic(parameter: ParameterId) -> bool {
    matches!(parameter, ParameterId::Tmod1 | ParameterId::Tmod2)
}

/// Purpose of a QSPEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A RESERVE of the sender.
    Reserve,
    /// A QUERY with RESERVE-INIT.
    Invite,
    /// A QUERY for resources.
    Query,
}

/// Returns the QSPEC of a request.
pub(super) fn of_request(qos: &RequestedQos, purpose: Purpose) -> Option<Vec<u8>> {
    let bucket = TokenBucket {
        rate: qos.rate.as_octets_per_second(),
        depth: qos.burst as f32,
        peak: qos.peak.map_or(f32::INFINITY, Rate::as_octets_per_second),
        min_policed_unit: qos.min_packet.min(qos.max_packet),
        max_packet_size: qos.max_packet,
    };
    let tmod = Parameter::mandatory(Value::Tmod1(bucket));
    let mut desired = vec![tmod];
    if let Some(Priority { preemption, defending }) = qos.priority {
        let priority = PreemptionPriority { preemption, defending };
        desired.push(Parameter::optional(Value::PreemptionPriority(priority)));
    }
    if let Some(phb) = qos.phb {
        desired.push(Parameter::mandatory(Value::PhbClass(phb)));
    }
    let available = [tmod, Parameter::optional(Value::PathLatency(0))];
    let minimum = qos.minimum.map(|minimum| {
        let octets = minimum.as_octets_per_second();
        let least = if minimum == Rate::ZERO {
            TokenBucket { rate: 0.0, depth: 0.0, peak: 0.0, ..bucket }
        } else {
            TokenBucket { rate: octets, ..bucket }
        };
        [Parameter::mandatory(Value::Tmod1(least))]
    });
    let is_negotiable = minimum.is_some();
    let (sequence, combination) = match (purpose, is_negotiable) {
        (Purpose::Reserve, false) => (MessageSequence::TwoWay, 0),
        (Purpose::Reserve, true) => (MessageSequence::TwoWay, 2),
        (Purpose::Invite, false) => (MessageSequence::ThreeWay, 0),
        (Purpose::Invite, true) => (MessageSequence::ThreeWay, 1),
        (Purpose::Query, _) => (MessageSequence::ResourceQuery, 0),
    };
    let mut qspec = Qspec::new(Procedure { sequence, combination });
    if purpose != Purpose::Query {
        qspec.desired = Some(QosObject::new(&desired));
    }
    if purpose == Purpose::Query || purpose == Purpose::Reserve && is_negotiable {
        qspec.available = Some(QosObject::new(&available));
    }
    if purpose != Purpose::Query {
        qspec.minimum = minimum.as_ref().map(|minimum| QosObject::new(minimum));
    }
    emitted(&qspec)
}

/// Values of the QSPEC in a response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ResponseValues {
    /// Reserved rate.
    pub(super) reserved: Option<Rate>,
    /// Available rate.
    pub(super) available: Option<Rate>,
    pub(super) latency_us: Option<u32>,
}

/// Returns the values of the QSPEC in a response.
pub(super) fn response_values(octets: Option<&[u8]>) -> ResponseValues {
    let Some(Ok(qspec)) = octets.map(Qspec::parse) else { return ResponseValues::default() };
    let rate = |object: Option<QosObject<'_>>| {
        tmod(&object?).map(|bucket| Rate::from_octets_per_second(bucket.rate))
    };
    let latency =
        qspec.available.and_then(|object| object.parameters.find(ParameterId::PathLatency));
    let latency_us = match latency {
        Some(Parameter { is_not_supported: false, value: Value::PathLatency(us), .. }) => {
            Some(us).filter(|us| *us != UNKNOWN_LATENCY)
        }
        _ => None,
    };
    ResponseValues { reserved: rate(qspec.reserved), available: rate(qspec.available), latency_us }
}

fn tmod(object: &QosObject<'_>) -> Option<TokenBucket> {
    match object.parameters.find(ParameterId::Tmod1)?.value {
        Value::Tmod1(bucket) => Some(bucket),
        _ => None,
    }
}
