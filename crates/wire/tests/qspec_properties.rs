//! QSPEC as properties: emitted QSPECs parse to the same value, and arbitrary octets do not panic.

use earmark_wire::intserv::TokenBucket;
use earmark_wire::qspec::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn emit(qspec: &Qspec<'_>) -> Vec<u8> {
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
    let words = vec(any::<[u8; 4]>(), 0..3);
    let parameters = vec((any::<(bool, bool, bool)>(), id, any::<[u32; 5]>(), words), 1..6);
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

#[derive(Clone, Debug)]
struct Owned {
    header: (bool, u8, u8),
    first: OwnedObject,
    rest: [Option<OwnedObject>; 3],
    rotation: usize,
}

fn owned() -> impl Strategy<Value = Owned> {
    let rest = [(); 3].map(|()| proptest::option::of(object()));
    ((any::<bool>(), 0_u8..32, any::<u8>()), object(), rest, 0_usize..4)
        .prop_map(|(header, first, rest, rotation)| Owned { header, first, rest, rotation })
}

impl Owned {
    fn with<R>(&self, then: impl FnOnce(&Qspec<'_>) -> R) -> R {
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

proptest! {
    #[test]
    fn emitted_qspecs_parse_to_the_same_value(owned in owned()) {
        owned.with(|qspec| {
            let octets = emit(qspec);
            let read = Qspec::parse(&octets).expect("it was emitted");
            assert_eq!(&read, qspec);
            assert_eq!(emit(&read), octets);
        });
    }

    #[test]
    fn initiator_qspec_inside_local_one_round_trips(outer in owned(), inner in owned()) {
        let inner = inner.with(|qspec| emit(&Qspec { is_local: false, ..*qspec }));
        outer.with(|qspec| {
            let qspec = Qspec { is_local: true, initiator: Some(&inner), ..*qspec };
            assert_eq!(Qspec::parse(&emit(&qspec)), Ok(qspec));
        });
    }

    #[test]
    fn arbitrary_octets_do_not_panic(mut octets in vec(any::<u8>(), 0..200), is_whole in any::<bool>()) {
        if is_whole && octets.len() >= 8 {
            octets.truncate(octets.len() / 4 * 4);
            let words = u8::try_from(octets.len() / 4 - 1).unwrap();
            octets[..4].copy_from_slice(&[0, 0, 0, words]);
        }
        round_trips(&octets);
    }

    #[test]
    fn damaged_qspecs_do_not_panic(owned in owned(), damage in vec(any::<(u16, u8)>(), 1..4)) {
        let mut octets = owned.with(emit);
        for (at, octet) in damage {
            let at = usize::from(at) % octets.len();
            octets[at] ^= octet;
        }
        round_trips(&octets);
    }
}

/// Parsed QSPECs round-trip, and the first invalid value can be marked.
fn round_trips(octets: &[u8]) {
    let qspec = match Qspec::parse(octets) {
        Ok(qspec) => qspec,
        Err(error) => {
            return assert!(error.offset <= octets.len() && !error.to_string().is_empty());
        }
    };
    let mut wire = emit(&qspec);
    assert_eq!(Qspec::parse(&wire), Ok(qspec));
    let Err(error) = qspec.validate() else { return };
    let object = error.object.expect("values are in objects");
    let mut editor = Editor::new(&mut wire).expect("it was emitted");
    assert!(editor.fail(object, error.parameter));
    let marked = Qspec::parse(&wire).expect("flags do not break it");
    assert!(marked.validate().is_err());
}
