//! The resource management function: the meaning of a QSPEC (RFC 5975) for a link, and the values that the node writes
//! into it.
//!
//! The QoS model is the default one. TMOD-1 is a token bucket, admitted as controlled load: the token rate r counts
//! against the link. With the PHB class EF (RFC 3246) it is guaranteed service with R = r, because EF promises that a
//! link serves the flow at no less than r; all other classes are controlled load. If less than desired is acceptable,
//! it is in QoS Available, which each node lowers to what it can give, no lower than Minimum QoS.
//!
//! TMOD-2 is the burst traffic besides TMOD-1, the average (section 3.3.1, for the markers of RFC 2697 and RFC 2698).
//! The link must carry both: the larger rate is admitted; if both rates are equal, a burst may empty both buckets.
//!
//! Path Latency is added up, Preemption Priority is obeyed; other parameters are marked as not supported (N), and
//! refused if they are mandatory (M).

use alloc::vec;
use alloc::vec::Vec;

use earmark_core::Rate;
use earmark_core::admission::{Demand, Priority};
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{MessageType, ProtocolError, TransientFailure};
use earmark_wire::qspec::iana::{MessageSequence, ObjectType, ParameterId, QspecType};
use earmark_wire::qspec::{
    Editor, Parameter, ParseError, Phb, PhbField, PreemptionPriority, Procedure, QosObject, Qspec,
    Value,
};

use super::api::RequestedQos;

/// Resources that a QSPEC requests from this node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    /// Requested demand.
    pub(super) demand: Demand,
    /// Minimum token rate; `None` for all or nothing.
    pub(super) minimum: Option<Rate>,
    pub(super) priority: Priority,
    /// Object that the demand is taken from.
    pub(super) from: ObjectType,
    /// Whether this node has to write into the QSPEC: see [`compose`].
    pub(super) is_edited: bool,
}

/// Why a QSPEC is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) outcome: Outcome,
    /// The faulty object, if any, and the faulty parameter, if any.
    pub(super) object: Option<ObjectType>,
    pub(super) parameter: Option<ParameterId>,
}

impl From<ParseError> for Fault {
    fn from(error: ParseError) -> Fault {
        Fault { outcome: error.outcome(), object: error.object, parameter: error.parameter }
    }
}

/// PHB class EF (RFC 3246), its recommended code point.
const EF: u8 = 0b10_1110;

/// Parses and evaluates a QSPEC of a RESERVE or a QUERY.
///
/// # Errors
/// The QSPEC is malformed, lacks objects of its procedure, or has an unsupported mandatory parameter.
pub(super) fn evaluate(octets: &[u8], message: MessageType) -> Result<Wanted, Fault> {
    let qspec = Qspec::parse(octets)?;
    if qspec.qspec_type != QspecType::Default {
        // Another QoS model has other rules (RFC 5975 section 4.1).
        let outcome = Outcome::ProtocolError(ProtocolError::IncompatibleQspec);
        return Err(Fault { outcome, object: None, parameter: None });
    }
    qspec.check_objects(message)?;
    qspec.validate()?;
    wanted(&qspec, &SupportedParameters::read(&qspec)?, message)
}

/// Supported parameters of a QSPEC.
#[derive(Default)]
struct SupportedParameters {
    desired: Traffic,
    available: Traffic,
    minimum: Traffic,
    /// Value of the first object that has one, except Minimum QoS; the same for the priority.
    phb: Option<PhbField>,
    priority: Option<PreemptionPriority>,
    /// Whether there are unsupported parameters.
    more: bool,
}

/// Traffic parameters of an object.
#[derive(Default)]
struct Traffic {
    average: Option<TokenBucket>,
    burst: Option<TokenBucket>,
}

impl SupportedParameters {
    /// Reads the parameters once.
    ///
    /// # Errors
    /// A mandatory parameter is unsupported.
    fn read(qspec: &Qspec<'_>) -> Result<SupportedParameters, Fault> {
        let mut supported = SupportedParameters::default();
        for (object, parameter) in parameters(qspec) {
            supported.read_parameter(object, &parameter)?;
        }
        Ok(supported)
    }

    fn read_parameter(
        &mut self,
        object: ObjectType,
        parameter: &Parameter<'_>,
    ) -> Result<(), Fault> {
        let traffic = match object {
            ObjectType::QosDesired => Some(&mut self.desired),
            ObjectType::QosAvailable => Some(&mut self.available),
            ObjectType::MinimumQos => Some(&mut self.minimum),
            ObjectType::QosReserved | ObjectType::Unknown(_) => None,
        };
        let is_least = object == ObjectType::MinimumQos;
        match (parameter.value, traffic) {
            (Value::Tmod1(bucket), Some(traffic)) => traffic.average = Some(bucket),
            (Value::Tmod2(bucket), Some(traffic)) => traffic.burst = Some(bucket),
            (Value::PhbClass(field), _) if !is_least => {
                self.phb.get_or_insert(field);
            }
            (Value::PreemptionPriority(priority), _) if !is_least => {
                self.priority.get_or_insert(priority);
            }
            (value, _) if is_supported(value.id()) => {}
            (value, _) if parameter.is_mandatory => {
                let outcome = Outcome::TransientFailure(TransientFailure::ReservationFailure);
                let parameter = Some(value.id());
                return Err(Fault { outcome, object: Some(object), parameter });
            }
            _ => self.more = true,
        }
        Ok(())
    }
}

impl Traffic {
    /// Returns TMOD-1 and TMOD-2 combined.
    fn in_all(&self) -> Option<TokenBucket> {
        let average = self.average?;
        let Some(burst) = self.burst else { return Some(average) };
        let larger = if burst.rate > average.rate { burst } else { average };
        let is_same = burst.rate == average.rate;
        let depth = if is_same { average.depth + burst.depth } else { larger.depth };
        let max_packet_size = average.max_packet_size.max(burst.max_packet_size);
        Some(TokenBucket { depth, max_packet_size, ..larger })
    }
}

/// Returns whether nodes update QoS Available. In a RESERVE that answers a QUERY it has the values found by the QUERY,
/// and is read only (RFC 5975 section 4.3.2, case 3).
fn is_offer(procedure: Procedure, message: MessageType) -> bool {
    let found = procedure.sequence == MessageSequence::ThreeWay && procedure.combination == 2;
    message == MessageType::Query || !found
}

/// Returns all parameters with their objects.
fn parameters<'q>(
    qspec: &Qspec<'q>,
) -> impl Iterator<Item = (ObjectType, Parameter<'q>)> + use<'q> {
    [
        (ObjectType::QosDesired, qspec.desired),
        (ObjectType::QosAvailable, qspec.available),
        (ObjectType::QosReserved, qspec.reserved),
        (ObjectType::MinimumQos, qspec.minimum),
    ]
    .into_iter()
    .filter_map(|(object, found)| Some((object, found?)))
    .flat_map(|(object, found)| found.parameters.iter().map(move |parameter| (object, parameter)))
}

fn is_supported(parameter: ParameterId) -> bool {
    matches!(
        parameter,
        ParameterId::Tmod1
            | ParameterId::Tmod2
            | ParameterId::PathLatency
            | ParameterId::PreemptionPriority
            | ParameterId::PhbClass
    )
}

fn wanted(
    qspec: &Qspec<'_>,
    supported: &SupportedParameters,
    message: MessageType,
) -> Result<Wanted, Fault> {
    let has_offer = qspec.available.is_some() && is_offer(qspec.procedure, message);
    let offered = supported.available.in_all().filter(|_| has_offer);
    let (bucket, from) = match (offered, supported.desired.in_all()) {
        (Some(bucket), _) => (bucket, ObjectType::QosAvailable),
        (None, Some(bucket)) => (bucket, ObjectType::QosDesired),
        (None, None) => {
            let object = if qspec.desired.is_some() {
                ObjectType::QosDesired
            } else {
                ObjectType::QosAvailable
            };
            let outcome = Outcome::ProtocolError(ProtocolError::MalformedQspec);
            return Err(Fault { outcome, object: Some(object), parameter: None });
        }
    };
    let phb = supported.phb.and_then(PhbField::phb);
    let is_expedited = matches!(phb, Some(Phb::Standard { dscp: EF, .. }));
    let demand = Demand::from_flowspec(&if is_expedited {
        FlowSpec::Guaranteed(bucket, Rspec { rate: bucket.rate, slack_us: 0 })
    } else {
        FlowSpec::ControlledLoad(bucket)
    });
    let priority = supported.priority.map_or_else(Priority::default, |priority| {
        Priority::new(priority.preemption, priority.defending)
    });
    let minimum = (from == ObjectType::QosAvailable).then(|| {
        let least = supported.minimum.in_all();
        least.map_or(Rate::ZERO, |bucket| Rate::from_octets_per_second(bucket.rate))
    });
    Ok(Wanted { demand, minimum, priority, from, is_edited: has_offer || supported.more })
}

fn tmod(object: &QosObject<'_>) -> Option<TokenBucket> {
    match object.parameters.find(ParameterId::Tmod1)?.value {
        Value::Tmod1(bucket) => Some(bucket),
        _ => None,
    }
}

/// Writes the values of this node into a QSPEC in transit: marks unsupported parameters, and, if QoS Available is
/// updated, adds the latency and limits the rate to `available`.
pub(super) fn compose(octets: &mut [u8], message: MessageType, available: Rate, latency_us: u32) {
    let Ok(qspec) = Qspec::parse(octets) else { return };
    let unsupported: Vec<(ObjectType, ParameterId)> = parameters(&qspec)
        .map(|(object, parameter)| (object, parameter.value.id()))
        .filter(|(_, id)| !is_supported(*id))
        .collect();
    let offer = qspec.available.filter(|_| is_offer(qspec.procedure, message));
    let offered: Vec<Parameter<'static>> = offer
        .iter()
        .flat_map(|object| object.parameters.iter())
        .filter_map(|parameter| offered(&parameter, available, latency_us))
        .collect();
    let Ok(mut editor) = Editor::new(octets) else { return };
    for (object, parameter) in unsupported {
        editor.not_supported(object, parameter);
    }
    for parameter in &offered {
        editor.replace(ObjectType::QosAvailable, parameter);
    }
}

/// Returns the new value of a parameter of QoS Available, if this node changes it.
fn offered(
    parameter: &Parameter<'_>,
    available: Rate,
    latency_us: u32,
) -> Option<Parameter<'static>> {
    let Parameter { is_mandatory, is_failed, is_not_supported, .. } = *parameter;
    let value = match parameter.value {
        Value::Tmod1(bucket) => {
            return Some(Parameter::mandatory(Value::Tmod1(at_most(bucket, available))));
        }
        Value::Tmod2(bucket) => Value::Tmod2(at_most(bucket, available)),
        Value::PathLatency(so_far) if so_far != UNKNOWN_LATENCY => {
            Value::PathLatency(so_far.saturating_add(latency_us))
        }
        _ => return None,
    };
    Some(Parameter { is_mandatory, is_failed, is_not_supported, value })
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

/// Returns the QSPEC of a refusal: the received one, with the E flag at the unmet parameter, and with the available
/// rate in QoS Available, which is added if missing.
pub(super) fn refusal(octets: &[u8], fault: &Fault, available: Option<Rate>) -> Vec<u8> {
    let mut refused = match available.and_then(|available| with_available(octets, available)) {
        Some(added) => added,
        None => octets.to_vec(),
    };
    if let Ok(mut editor) = Editor::new(&mut refused)
        && let Some(object) = fault.object
        && !editor.fail(object, fault.parameter)
    {
        editor.fail(object, None);
    }
    refused
}

fn with_available(octets: &[u8], available: Rate) -> Option<Vec<u8>> {
    let mut qspec = Qspec::parse(octets).ok()?;
    if qspec.available.is_some() {
        let mut written = emitted(&qspec)?;
        compose(&mut written, MessageType::Query, available, 0);
        return Some(written);
    }
    let desired = qspec.desired?.parameters;
    let traffic = desired.iter().filter(|parameter| is_traffic(parameter.value.id()));
    let offer: Vec<Parameter<'_>> =
        traffic.filter_map(|parameter| offered(&parameter, available, 0)).collect();
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
    // Combination 1: less than desired is acceptable, so the RESERVE collects QoS Available.
    let seed: Vec<Parameter<'_>> =
        desired.iter().copied().filter(|parameter| is_traffic(parameter.value.id())).collect();
    let available = match qspec.procedure.combination {
        1 => Some(QosObject::new(&seed)),
        _ => qspec.available,
    };
    emitted(&Qspec { desired: Some(QosObject::new(&desired)), available, minimum, ..qspec })
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
        min_policed_unit: 64.min(qos.max_packet),
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
