//! The resource management function: the meaning of a QSPEC (RFC 5975) for a link. The values that the node writes are
//! in [`qspec`](super::qspec).
//!
//! The QoS model is the default one. TMOD-1 is a token bucket, admitted as controlled load: the token rate r counts
//! against the link. With the PHB class EF (RFC 3246) it is guaranteed service with R = r, because EF promises that a
//! link serves the flow at no less than r; all other classes are controlled load. If less than desired is acceptable,
//! it is in QoS Available, which each node lowers to what it can give, no lower than Minimum QoS.
//!
//! TMOD-2 is the burst traffic besides TMOD-1, the average (section 3.3.1, for the markers of RFC 2697 and RFC 2698).
//! The link must carry both: the larger rate is admitted; if both rates are equal, a burst may empty both buckets.
//!
//! Path Latency is added up, no higher than in Minimum QoS; Preemption Priority is obeyed; other parameters are marked
//! as not supported (N), and refused if they are mandatory (M).

use earmark_core::Rate;
use earmark_core::admission::{Demand, Priority};
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{MessageType, ProtocolError, TransientFailure};
use earmark_wire::qspec::iana::{MessageSequence, ObjectType, ParameterId, QspecType};
use earmark_wire::qspec::{
    Parameter, ParseError, Phb, PhbField, PreemptionPriority, Procedure, Qspec, Value,
};

/// Resources that a QSPEC requests from this node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    /// Requested demand.
    pub(super) demand: Demand,
    /// Minimum token rate; `None` for all or nothing.
    pub(super) minimum: Option<Rate>,
    /// Latency that this node may add, microseconds.
    pub(super) latency_left_us: u32,
    pub(super) priority: Priority,
    /// Object that the demand is taken from.
    pub(super) from: ObjectType,
    /// Whether this node has to write into the QSPEC: see [`compose`](super::qspec::compose).
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
/// The QSPEC is malformed, lacks objects of its procedure, has an unsupported mandatory parameter, or exceeds its own
/// maximum of the latency; in a RESERVE, a node before this one has set an E flag.
pub(super) fn evaluate(octets: &[u8], message: MessageType) -> Result<Wanted, Fault> {
    let qspec = Qspec::parse(octets)?;
    if qspec.qspec_type != QspecType::Default {
        // Another QoS model has other rules (RFC 5975 section 4.1).
        let outcome = Outcome::ProtocolError(ProtocolError::IncompatibleQspec);
        return Err(Fault { outcome, object: None, parameter: None });
    }
    qspec.check_objects(message)?;
    qspec.validate()?;
    let supported = SupportedParameters::read(&qspec)?;
    if message == MessageType::Reserve && (supported.any_failed || has_failed_object(&qspec)) {
        // A stateless node forwards what it refuses; the next stateful one responds (RFC 5975 section 4.2.4).
        return Err(reservation_failure(None));
    }
    wanted(&qspec, &supported, message)
}

fn has_failed_object(qspec: &Qspec<'_>) -> bool {
    let objects = [&qspec.desired, &qspec.available, &qspec.reserved, &qspec.minimum];
    objects.into_iter().flatten().any(|object| object.is_failed)
}

/// Returns whether an object or a parameter has the E flag.
pub(super) fn is_failed(qspec: &Qspec<'_>) -> bool {
    has_failed_object(qspec) || parameters(qspec).any(|(_, parameter)| parameter.is_failed)
}

/// Returns the failure of a reservation whose latency exceeds that of Minimum QoS.
pub(super) fn latency_exceeded() -> Fault {
    reservation_failure(Some((ObjectType::QosAvailable, ParameterId::PathLatency)))
}

/// Returns the failure of a reservation by an unmet parameter of an object, if one is known.
pub(super) fn reservation_failure(unmet: Option<(ObjectType, ParameterId)>) -> Fault {
    let outcome = Outcome::TransientFailure(TransientFailure::ReservationFailure);
    let (object, parameter) = unmet.unzip();
    Fault { outcome, object, parameter }
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
    /// Path Latency of QoS Available and of Minimum QoS.
    latency_us: Option<u32>,
    most_latency_us: Option<u32>,
    /// Whether there are unsupported parameters.
    more: bool,
    /// Whether a parameter has the E flag.
    any_failed: bool,
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
        self.any_failed |= parameter.is_failed;
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
            (Value::PathLatency(us), _) if object == ObjectType::QosAvailable => {
                self.latency_us = Some(us);
            }
            (Value::PathLatency(us), _) if is_least => self.most_latency_us = Some(us),
            (value, _) if is_supported(value.id()) => {}
            // It is not unmet: N tells of it, not E (RFC 5975 section 4.2.3).
            _ if parameter.is_mandatory => return Err(reservation_failure(None)),
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
pub(super) fn is_offer(procedure: Procedure, message: MessageType) -> bool {
    let found = procedure.sequence == MessageSequence::ThreeWay && procedure.combination == 2;
    message == MessageType::Query || !found
}

/// Returns all parameters with their objects.
pub(super) fn parameters<'q>(
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

pub(super) fn is_supported(parameter: ParameterId) -> bool {
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
    let latency_left_us = match (supported.latency_us, supported.most_latency_us) {
        (Some(so_far), Some(most)) if so_far > most => return Err(latency_exceeded()),
        (Some(so_far), Some(most)) => most - so_far,
        _ => u32::MAX,
    };
    let is_edited = has_offer || supported.more;
    Ok(Wanted { demand, minimum, latency_left_us, priority, from, is_edited })
}
