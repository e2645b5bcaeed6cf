//! QSPEC as properties: emitted QSPECs parse to the same value, and arbitrary octets do not panic.

use earmark_testkit::damage::flip;
use earmark_testkit::messages::qspec::{emit, owned};
use earmark_wire::qspec::*;
use proptest::collection::vec;
use proptest::prelude::*;

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
        flip(&mut octets, &damage);
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
