//! What parameters say (RFC 5975 section 5.2).

use serde::{Deserialize, Serialize};

use super::error::ValueError;
use super::iana::{Excess, ObjectType, ParameterId, Y2171Priority};
use crate::intserv::TokenBucket;
use crate::nsis::object::WORD;
use crate::writer::{EmitError, Writer};

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The traffic: r and p in octets per second, b, m and the largest packet in octets.
    Tmod1(TokenBucket),
    /// A second description of traffic, for DiffServ.
    Tmod2(TokenBucket),
    /// Microseconds; all ones where nobody knows.
    PathLatency(u32),
    /// How much the latency varies.
    PathJitter(PathJitter),
    /// Packets lost of those sent.
    PathPlr(Ratio),
    /// Packets damaged of those arrived.
    PathPer(Ratio),
    /// By how much the delay may be longer, microseconds.
    SlackTerm(u32),
    /// Who displaces whom.
    PreemptionPriority(PreemptionPriority),
    /// How urgent the flow is.
    AdmissionPriority(AdmissionPriority),
    /// The resource priority of RFC 4412.
    RphPriority(RphPriority),
    /// What is done with traffic that exceeds the TMOD.
    ExcessTreatment(ExcessTreatment),
    /// Which per-hop behaviour.
    PhbClass(PhbField),
    /// The class type of DiffServ-aware traffic engineering (RFC 4124), 0 to 7.
    DsteClassType(u8),
    /// The QoS class of Y.1541, 0 to 7.
    Y1541QosClass(u8),
    /// One that nobody here knows.
    Unknown {
        /// Its identifier, twelve bits.
        id: u16,
        /// Its value, whole words.
        octets: &'a [u8],
    },
}

/// Statistics of the delay variation, microseconds; all ones where nobody knows (RFC 5975 section 5.2.4). The fourth is
/// reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathJitter {
    /// STAT1: the variance.
    pub variance: u32,
    /// STAT2: what 99.9 % of the packets do not exceed.
    pub percentile: u32,
    /// STAT3: the minimum latency.
    pub minimum_latency: u32,
}

/// A part of the packets, 0 to 1/10; 1/10 where nobody knows (RFC 5975 section 5.2.5). Two are equal when their bits are.
///
/// The RFC says "in units of 10^-11", which is taken as the resolution: the number on the wire is the ratio itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio {
    bits: u32,
}

impl Ratio {
    /// Any number; [`Value::validate`] judges it.
    #[inline]
    pub const fn new(ratio: f32) -> Ratio {
        Ratio { bits: ratio.to_bits() }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> f32 {
        f32::from_bits(self.bits)
    }
}

/// Who displaces whom (RFC 5975 section 5.2.8); higher is stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PreemptionPriority {
    /// While the flow is new: against the defending priority of others.
    pub preemption: u16,
    /// When the flow is there: against the preemption priority of others.
    pub defending: u16,
}

/// How urgent a flow is (RFC 5975 section 5.2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AdmissionPriority {
    /// End to end; nobody changes it.
    pub y2171: Y2171Priority,
    /// As the local administrator has it; the same number where `y2171` is not [`Y2171Priority::Local`].
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

/// What is done with excess traffic (RFC 5975 section 5.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExcessTreatment {
    /// What.
    pub excess: Excess,
    /// The DSCP that packets get where they are re-marked, six bits.
    pub remark: u8,
}

/// The field that names per-hop behaviours, as RFC 3140 has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PhbField(pub u16);

/// Which per-hop behaviours a [`PhbField`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phb {
    /// By the code point that is recommended for them.
    Standard {
        /// The code point, six bits.
        dscp: u8,
        /// Whether it is a set, of which this is the first.
        is_set: bool,
    },
    /// By a code that IANA has given them.
    Assigned {
        /// The code, twelve bits.
        code: u16,
        /// Whether it is a set.
        is_set: bool,
    },
}

impl PhbField {
    /// What it names; `None` where reserved bits are set.
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
    /// Of DSCP and code the low six and twelve bits.
    fn from(phb: Phb) -> PhbField {
        let (field, is_set) = match phb {
            Phb::Standard { dscp, is_set } => (u16::from(dscp & 0x3f) << 10, is_set),
            Phb::Assigned { code, is_set } => (code << 4 | 1, is_set),
        };
        PhbField(if is_set { field | 0b10 } else { field })
    }
}

/// Length of the value of a TMOD, octets.
const TMOD: usize = 20;

impl<'a> Value<'a> {
    /// The value of a parameter; `None` where its length is wrong.
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

    /// The value of a parameter of one word; `None` for others.
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

    /// Which parameter it is of.
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

    /// Octets of the value.
    pub(super) const fn len(&self) -> usize {
        match self {
            Value::Tmod1(_) | Value::Tmod2(_) => TMOD,
            Value::PathJitter(_) => 4 * WORD,
            Value::Unknown { octets, .. } => octets.len(),
            _ => WORD,
        }
    }

    /// Whether it would not be read as it was meant: a code point of more than six bits, an identifier that is known or
    /// of more than twelve bits, no whole words.
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

    /// Writes what is no [contradiction](Value::is_contradiction).
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

    /// Whether the value makes sense in an object of this type.
    ///
    /// A TMOD of which r, b and p are zero says in QoS Available that there is nothing left, and in Minimum QoS that
    /// anything will do (RFC 5975 section 4.3.2), although section 5.2.1 has no zero.
    ///
    /// # Errors
    /// What does not.
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
