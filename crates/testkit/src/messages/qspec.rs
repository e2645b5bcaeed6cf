//! QSPEC: any QSPEC.

use earmark_wire::intserv::TokenBucket;
use earmark_wire::qspec::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::intserv::BUCKET;
use super::words;

/// Emits a QSPEC into a buffer with other contents.
///
/// # Panics
/// The QSPEC cannot be emitted.
pub fn emit(qspec: &Qspec<'_>) -> Vec<u8> {
    let mut buffer = vec![0xa5; qspec.buffer_len()];
    assert_eq!(qspec.emit(&mut buffer), Ok(buffer.len()), "{qspec:?}");
    buffer
}

/// A parameter with owned parts: flags, and a value of numbers and words.
type OwnedParameter = ((bool, bool, bool), u16, [u32; 5], Vec<[u8; 4]>);
/// An object: E flag and parameters.
type OwnedObject = (bool, Vec<OwnedParameter>);

fn parameter(owned: &OwnedParameter) -> Parameter<'_> {
    let ((is_mandatory, is_failed, is_not_supported), id, numbers, words) = owned;
    let [a, b, c, d, e] = *numbers;
    let [high, _, low, _] = a.to_be_bytes();
    let bucket = TokenBucket {
        rate: f32::from_bits(a),
        depth: f32::from_bits(b),
        peak: f32::from_bits(c),
        min_policed_unit: d,
        max_packet_size: e,
    };
    let value = match id {
        1 => Value::Tmod1(bucket),
        2 => Value::Tmod2(bucket),
        3 => Value::PathLatency(a),
        4 => Value::PathJitter(PathJitter { variance: a, percentile: b, minimum_latency: c }),
        5 => Value::PathPlr(Ratio::new(f32::from_bits(a))),
        6 => Value::PathPer(Ratio::new(f32::from_bits(a))),
        7 => Value::SlackTerm(a),
        8 => Value::PreemptionPriority(PreemptionPriority {
            preemption: a as u16,
            defending: b as u16,
        }),
        9 => Value::AdmissionPriority(AdmissionPriority { y2171: high.into(), local: low }),
        10 => Value::RphPriority(RphPriority { namespace: a as u16, priority: low }),
        11 => Value::ExcessTreatment(ExcessTreatment { excess: high.into(), remark: low >> 2 }),
        12 => Value::PhbClass(PhbField(a as u16)),
        13 => Value::DsteClassType(high),
        14 => Value::Y1541QosClass(high),
        id => Value::Unknown { id: *id, octets: words.as_flattened() },
    };
    let constant = *id == 1;
    Parameter {
        is_mandatory: *is_mandatory || constant,
        is_failed: *is_failed,
        is_not_supported: *is_not_supported && !constant,
        value,
    }
}

fn object() -> impl Strategy<Value = OwnedObject> {
    let id = prop_oneof![4 => 1_u16..15, 1 => 0_u16..4_096];
    let parameter = (any::<(bool, bool, bool)>(), id, any::<[u32; 5]>(), words(0..3));
    let parameters = vec(parameter, 1..6);
    (any::<bool>(), parameters).prop_map(|(is_failed, mut parameters)| {
        let mut seen = Vec::new();
        parameters.retain(|(_, id, ..)| {
            let is_new = !seen.contains(id);
            seen.push(*id);
            is_new
        });
        (is_failed, parameters)
    })
}

/// A QSPEC with owned parts.
#[derive(Clone, Debug)]
pub struct Owned {
    header: (bool, u8, u8),
    first: OwnedObject,
    rest: [Option<OwnedObject>; 3],
    rotation: usize,
}

/// Generates QSPECs.
pub fn owned() -> impl Strategy<Value = Owned> {
    let rest = [(); 3].map(|()| proptest::option::of(object()));
    ((any::<bool>(), 0_u8..32, any::<u8>()), object(), rest, 0_usize..4)
        .prop_map(|(header, first, rest, rotation)| Owned { header, first, rest, rotation })
}

impl Owned {
    /// Calls `then` with the QSPEC.
    pub fn with<R>(&self, then: impl FnOnce(&Qspec<'_>) -> R) -> R {
        let [a, b, c] = &self.rest;
        let mut owned = [Some(&self.first), a.as_ref(), b.as_ref(), c.as_ref()];
        owned.rotate_left(self.rotation);
        let parameters: [Vec<Parameter<'_>>; 4] = owned.map(|object| {
            object.map_or(Vec::new(), |(_, parameters)| parameters.iter().map(parameter).collect())
        });
        let object = |i: usize| {
            let (is_failed, _) = owned[i]?;
            Some(QosObject { is_failed: *is_failed, ..QosObject::new(&parameters[i]) })
        };
        let (is_local, qspec_type, octet) = self.header;
        then(&Qspec {
            is_local,
            qspec_type: qspec_type.into(),
            desired: object(0),
            available: object(1),
            reserved: object(2),
            minimum: object(3),
            ..Qspec::new(Procedure { sequence: (octet >> 4).into(), combination: octet & 0xf })
        })
    }
}

/// Returns a QSPEC with two objects.
///
/// # Panics
/// Never: the QSPEC is complete.
pub fn valid() -> Vec<u8> {
    let bucket = TokenBucket { peak: f32::INFINITY, ..BUCKET };
    let parameters = [
        Parameter::mandatory(Value::Tmod1(bucket)),
        Parameter::optional(Value::PathLatency(5)),
        Parameter::optional(Value::Unknown { id: 77, octets: &[1, 2, 3, 4] }),
    ];
    let sequence = iana::MessageSequence::TwoWay;
    let qspec = Qspec {
        desired: Some(QosObject::new(&parameters)),
        available: Some(QosObject::new(&parameters[1..])),
        ..Qspec::new(Procedure { sequence, combination: 0 })
    };
    emit(&qspec)
}
