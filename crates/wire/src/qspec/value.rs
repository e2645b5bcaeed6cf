//! Values of parameters (RFC 5975 section 5.2).

use serde::{Deserialize, Serialize, Serializer};

use super::error::ValueError;
use super::iana::{Excess, ObjectType, ParameterId, Y2171Priority};
use crate::intserv::TokenBucket;
use crate::nsis::object::WORD;
use crate::serialize::Hex;
use crate::writer::{EmitError, Writer};

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value<'a> {
    /// TMOD-1: r and p in octets per second; b, m and the maximum packet size in octets.
    Tmod1(TokenBucket),
    /// TMOD-2: a second traffic description, for DiffServ.
    Tmod2(TokenBucket),
    /// Path latency, microseconds; all ones if unknown.
    PathLatency(u32),
    /// Path jitter: variation of the latency.
    PathJitter(PathJitter),
    /// Path packet loss ratio: lost packets of those sent.
    #[serde(serialize_with = "ratio")]
    PathPlr(Ratio),
    /// Path packet error ratio: damaged packets of those received.
    #[serde(serialize_with = "ratio")]
    PathPer(Ratio),
    /// Slack term: permitted increase of the delay, microseconds.
    SlackTerm(u32),
    /// Preemption and defending priority.
    PreemptionPriority(PreemptionPriority),
    /// Admission priority of the flow.
    #[serde(serialize_with = "admission_priority")]
    AdmissionPriority(AdmissionPriority),
    /// The resource priority of RFC 4412.
    RphPriority(RphPriority),
    /// Treatment of traffic that exceeds the TMOD.
    #[serde(serialize_with = "excess_treatment")]
    ExcessTreatment(ExcessTreatment),
    /// Per-hop behaviour.
    PhbClass(PhbField),
    /// The class type of DiffServ-aware traffic engineering (RFC 4124), 0 to 7.
    DsteClassType(u8),
    /// The QoS class of Y.1541, 0 to 7.
    Y1541QosClass(u8),
    /// An unknown parameter.
    #[serde(serialize_with = "unknown")]
    Unknown {
        /// Identifier of the parameter, twelve bits.
        id: u16,
        /// Value of the parameter, whole words.
        octets: &'a [u8],
    },
}

fn ratio<S: Serializer>(ratio: &Ratio, to: S) -> Result<S::Ok, S::Error> {
    ratio.get().serialize(to)
}

fn admission_priority<S: Serializer>(it: &AdmissionPriority, to: S) -> Result<S::Ok, S::Error> {
    map! { "y2171": it.y2171.name(), "local": it.local }.serialize(to)
}

fn excess_treatment<S: Serializer>(it: &ExcessTreatment, to: S) -> Result<S::Ok, S::Error> {
    map! { "excess": it.excess.name(), "remark": it.remark }.serialize(to)
}

fn unknown<S: Serializer>(_id: &u16, octets: &&[u8], to: S) -> Result<S::Ok, S::Error> {
    Hex(octets).serialize(to)
}

/// Statistics of the delay variation, microseconds; all ones if unknown (RFC 5975 section 5.2.4). The fourth is
/// reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathJitter {
    /// STAT1: the variance.
    pub variance: u32,
    /// STAT2: the 99.9th percentile.
    pub percentile: u32,
    /// STAT3: the minimum latency.
    pub minimum_latency: u32,
}

/// A ratio of packets, 0 to 1/10; 1/10 if unknown (RFC 5975 section 5.2.5). Equality compares bits.
///
/// The RFC's "in units of 10^-11" is taken as the resolution: the number on the wire is the ratio itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio {
    bits: u32,
}

impl Ratio {
    /// Creates a ratio from any number; [`Value::validate`] checks it.
    #[inline]
    pub const fn new(ratio: f32) -> Ratio {
        Ratio { bits: ratio.to_bits() }
    }

    /// Returns the number.
    #[inline]
    pub const fn get(self) -> f32 {
        f32::from_bits(self.bits)
    }
}

/// Preemption priorities (RFC 5975 section 5.2.8); a higher number preempts a lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PreemptionPriority {
    /// Preemption priority, of a new flow: compared with the defending priority of established flows.
    pub preemption: u16,
    /// Defending priority, of an established flow: compared with the preemption priority of new flows.
    pub defending: u16,
}

/// Admission priority of a flow (RFC 5975 section 5.2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AdmissionPriority {
    /// End-to-end priority; nodes on the path do not change it.
    pub y2171: Y2171Priority,
    /// Priority of the local administration; the same number unless `y2171` is [`Y2171Priority::Local`].
    pub local: u8,
}

/// The resource priority of RFC 4412 (RFC 5975 section 5.2.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RphPriority {
    /// Number of the namespace.
    pub namespace: u16,
    /// Number of the priority in it.
    pub priority: u8,
}

/// Treatment of excess traffic (RFC 5975 section 5.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExcessTreatment {
    /// Action on excess packets.
    pub excess: Excess,
    /// DSCP of re-marked packets, six bits.
    pub remark: u8,
}

/// The field that identifies per-hop behaviours (RFC 3140).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PhbField(pub u16);

/// Per-hop behaviours that a [`PhbField`] identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phb {
    /// Standard behaviours, identified by the recommended code point.
    Standard {
        /// Code point, six bits.
        dscp: u8,
        /// Whether it is a set, of which this is the first.
        is_set: bool,
    },
    /// Behaviours identified by a code that IANA has assigned.
    Assigned {
        /// Assigned code, twelve bits.
        code: u16,
        /// Whether it is a set.
        is_set: bool,
    },
}

impl PhbField {
    /// Returns the per-hop behaviours; `None` if reserved bits are set.
    pub const fn phb(self) -> Option<Phb> {
        let is_set = self.0 & 0b10 != 0;
        match (self.0 & 0b1, self.0 & 0b1100, self.0 & 0x03fc) {
            (0, _, 0) => Some(Phb::Standard { dscp: (self.0 >> 10) as u8, is_set }),
            (1, 0, _) => Some(Phb::Assigned { code: self.0 >> 4, is_set }),
            _ => None,
        }
    }
}

impl From<Phb> for PhbField {
    /// Converts to the field. The low six bits of DSCP and the low twelve of the code count.
    fn from(phb: Phb) -> PhbField {
        let (field, is_set) = match phb {
            Phb::Standard { dscp, is_set } => (u16::from(dscp & 0x3f) << 10, is_set),
            Phb::Assigned { code, is_set } => (code << 4 | 1, is_set),
        };
        PhbField(if is_set { field | 0b10 } else { field })
    }
}

/// Length of the value of a TMOD, octets.
pub(super) const TMOD: usize = 20;

impl<'a> Value<'a> {
    /// Parses the value of a parameter; `None` if its length is wrong.
    #[inline]
    pub(super) fn parse(id: u16, octets: &'a [u8]) -> Option<Value<'a>> {
        let id = match ParameterId::from_code(id) {
            ParameterId::Unknown(id) => return Some(Value::Unknown { id, octets }),
            ParameterId::Tmod1 => {
                return Some(Value::Tmod1(TokenBucket::from_octets(octets.try_into().ok()?)));
            }
            ParameterId::Tmod2 => {
                return Some(Value::Tmod2(TokenBucket::from_octets(octets.try_into().ok()?)));
            }
            ParameterId::PathJitter => {
                let (&[variance, percentile, minimum_latency, _], []) = octets.as_chunks() else {
                    return None;
                };
                return Some(Value::PathJitter(PathJitter {
                    variance: u32::from_be_bytes(variance),
                    percentile: u32::from_be_bytes(percentile),
                    minimum_latency: u32::from_be_bytes(minimum_latency),
                }));
            }
            id => id,
        };
        Value::from_word(id, octets.try_into().ok()?)
    }

    /// Parses the value of a parameter of one word; `None` for other parameters.
    fn from_word(id: ParameterId, word: [u8; WORD]) -> Option<Value<'a>> {
        let [a, b, c, d] = word;
        let (number, high) = (u32::from_be_bytes(word), u16::from_be_bytes([a, b]));
        Some(match id {
            ParameterId::PathLatency => Value::PathLatency(number),
            ParameterId::PathPlr => Value::PathPlr(Ratio { bits: number }),
            ParameterId::PathPer => Value::PathPer(Ratio { bits: number }),
            ParameterId::SlackTerm => Value::SlackTerm(number),
            ParameterId::PreemptionPriority => Value::PreemptionPriority(PreemptionPriority {
                preemption: high,
                defending: u16::from_be_bytes([c, d]),
            }),
            ParameterId::AdmissionPriority => Value::AdmissionPriority(AdmissionPriority {
                y2171: Y2171Priority::from_code(a),
                local: b,
            }),
            ParameterId::RphPriority => {
                Value::RphPriority(RphPriority { namespace: high, priority: c })
            }
            ParameterId::ExcessTreatment => Value::ExcessTreatment(ExcessTreatment {
                excess: Excess::from_code(a),
                remark: b >> 2,
            }),
            ParameterId::PhbClass => Value::PhbClass(PhbField(high)),
            ParameterId::DsteClassType => Value::DsteClassType(a),
            ParameterId::Y1541QosClass => Value::Y1541QosClass(a),
            ParameterId::Tmod1
            | ParameterId::Tmod2
            | ParameterId::PathJitter
            | ParameterId::Unknown(_) => return None,
        })
    }

    /// Returns the identifier of the parameter.
    #[inline]
    pub const fn id(&self) -> ParameterId {
        match self {
            Value::Tmod1(_) => ParameterId::Tmod1,
            Value::Tmod2(_) => ParameterId::Tmod2,
            Value::PathLatency(_) => ParameterId::PathLatency,
            Value::PathJitter(_) => ParameterId::PathJitter,
            Value::PathPlr(_) => ParameterId::PathPlr,
            Value::PathPer(_) => ParameterId::PathPer,
            Value::SlackTerm(_) => ParameterId::SlackTerm,
            Value::PreemptionPriority(_) => ParameterId::PreemptionPriority,
            Value::AdmissionPriority(_) => ParameterId::AdmissionPriority,
            Value::RphPriority(_) => ParameterId::RphPriority,
            Value::ExcessTreatment(_) => ParameterId::ExcessTreatment,
            Value::PhbClass(_) => ParameterId::PhbClass,
            Value::DsteClassType(_) => ParameterId::DsteClassType,
            Value::Y1541QosClass(_) => ParameterId::Y1541QosClass,
            Value::Unknown { id, .. } => ParameterId::from_code(*id),
        }
    }

    /// Length of the value, octets.
    pub(super) const fn len(&self) -> usize {
        match self {
            Value::Tmod1(_) | Value::Tmod2(_) => TMOD,
            Value::PathJitter(_) => 4 * WORD,
            Value::Unknown { octets, .. } => octets.len(),
            _ => WORD,
        }
    }

    /// Whether receivers would misread the value: a code point of more than six bits, an unknown parameter whose
    /// identifier is known or has more than twelve bits, or a length that is not whole words.
    pub(super) const fn is_contradiction(&self) -> bool {
        match self {
            Value::ExcessTreatment(treatment) => treatment.remark > 0x3f,
            Value::Unknown { id, octets } => {
                let known = !matches!(ParameterId::from_code(*id), ParameterId::Unknown(_));
                known || *id > 0x0fff || !octets.len().is_multiple_of(WORD)
            }
            _ => false,
        }
    }

    /// Writes a value that is not a [contradiction](Value::is_contradiction).
    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        match *self {
            Value::Tmod1(bucket) | Value::Tmod2(bucket) => writer.put(bucket.to_octets()),
            Value::PathLatency(number) | Value::SlackTerm(number) => {
                writer.put(number.to_be_bytes())
            }
            Value::PathJitter(PathJitter { variance, percentile, minimum_latency }) => {
                [variance, percentile, minimum_latency, 0]
                    .iter()
                    .try_for_each(|number| writer.put(number.to_be_bytes()))
            }
            Value::PathPlr(ratio) | Value::PathPer(ratio) => writer.put(ratio.bits.to_be_bytes()),
            Value::PreemptionPriority(PreemptionPriority { preemption, defending }) => {
                writer.put(preemption.to_be_bytes())?;
                writer.put(defending.to_be_bytes())
            }
            Value::AdmissionPriority(AdmissionPriority { y2171, local }) => {
                writer.put([y2171.code(), local, 0, 0])
            }
            Value::RphPriority(RphPriority { namespace, priority }) => {
                writer.put(namespace.to_be_bytes())?;
                writer.put([priority, 0])
            }
            Value::ExcessTreatment(ExcessTreatment { excess, remark }) => {
                writer.put([excess.code(), remark << 2, 0, 0])
            }
            Value::PhbClass(PhbField(field)) => {
                writer.put(field.to_be_bytes())?;
                writer.put([0, 0])
            }
            Value::DsteClassType(class) | Value::Y1541QosClass(class) => {
                writer.put([class, 0, 0, 0])
            }
            Value::Unknown { octets, .. } => writer.put_slice(octets),
        }
    }

    /// Checks the value for an object of this type.
    ///
    /// A TMOD with r, b and p of zero is valid in QoS Available, where it means that nothing is left, and in Minimum
    /// QoS, where it means that anything is acceptable (RFC 5975 section 4.3.2), although section 5.2.1 excludes zero.
    ///
    /// # Errors
    /// The invalid value.
    pub fn validate(&self, object: ObjectType) -> Result<(), ValueError> {
        match self {
            Value::Tmod1(bucket) | Value::Tmod2(bucket) => {
                let values = [bucket.rate, bucket.depth, bucket.peak];
                let nothing = values.iter().all(|value| value.to_bits() == 0);
                match object {
                    ObjectType::QosAvailable | ObjectType::MinimumQos if nothing => return Ok(()),
                    _ => {}
                }
                bucket.validate().map_err(ValueError::Bucket)?;
                require(values.iter().all(|value| *value >= 1.0), ValueError::Exponent)
            }
            Value::PathPlr(ratio) | Value::PathPer(ratio) => {
                let sign = ratio.bits >> 31;
                require(sign == 0 && (0.0..=0.1).contains(&ratio.get()), ValueError::Ratio)
            }
            Value::AdmissionPriority(priority) => require(
                !matches!(priority.y2171, Y2171Priority::Unknown(_)),
                ValueError::AdmissionPriority,
            ),
            Value::ExcessTreatment(treatment) => require(
                !matches!(treatment.excess, Excess::Unknown(_)),
                ValueError::ExcessTreatment,
            ),
            Value::PhbClass(field) => require(field.phb().is_some(), ValueError::PhbClass),
            Value::DsteClassType(class) => require(*class < 8, ValueError::DsteClassType),
            Value::Y1541QosClass(class) => require(*class < 8, ValueError::Y1541QosClass),
            Value::PathLatency(_)
            | Value::PathJitter(_)
            | Value::SlackTerm(_)
            | Value::PreemptionPriority(_)
            | Value::RphPriority(_)
            | Value::Unknown { .. } => Ok(()),
        }
    }
}

fn require(condition: bool, error: ValueError) -> Result<(), ValueError> {
    if condition { Ok(()) } else { Err(error) }
}
