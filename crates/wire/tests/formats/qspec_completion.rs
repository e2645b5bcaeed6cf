//! QSPECs whose TMODs lack the maximum packet size (RFC 5975 sections 5.2.1 and 5.2.2).

use earmark_testkit::messages::qspec;
use earmark_wire::EmitError;
use earmark_wire::qspec::iana::ParameterId;
use earmark_wire::qspec::*;
use proptest::prelude::*;

/// A TMOD-1 of four words: 1 000 octets/s, 1 500 octets, no peak rate, minimum policed unit 64.
const SHORT: [u8; 20] =
    [0x80, 1, 0, 4, 0x44, 0x7a, 0, 0, 0x44, 0xbb, 0x80, 0, 0x7f, 0x80, 0, 0, 0, 0, 0, 64];
const LATENCY: [u8; 8] = [0, 3, 0, 1, 0, 0, 0, 7];

fn completed(octets: &[u8], size: u32) -> Result<Vec<u8>, EmitError> {
    let mut buffer = vec![0xa5; completed_len(octets.len())];
    let length = emit_with_packet_size(octets, size, &mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

#[test]
fn tmod_of_four_words_is_completed() {
    let octets =
        [&[0, 0, 0, 14][..], &[0, 0, 0, 5], &SHORT, &[0, 1, 0, 7], &LATENCY, &SHORT].concat();
    assert!(lacks_packet_size(&octets));
    assert!(Qspec::parse(&octets).is_err(), "the format stays exact");
    let whole = [&[0x80, 1, 0, 5][..], &SHORT[4..], &[0, 0, 0x05, 0xdc]].concat();
    let expected =
        [&[0, 0, 0, 16][..], &[0, 0, 0, 6], &whole, &[0, 1, 0, 8], &LATENCY, &whole].concat();
    assert_eq!(completed(&octets, 1_500), Ok(expected.clone()));
    assert!(!lacks_packet_size(&expected));
    assert_eq!([0, 20, 39, 40].map(completed_len), [0, 24, 46, 48]);
    assert_eq!(Qspec::parse(&expected).and_then(|qspec| qspec.validate()), Ok(()));
}

/// The maximum packet size is no smaller than the minimum policed unit.
#[test]
fn packet_size_is_at_least_the_minimum_policed_unit() {
    let mut octets = [&[0, 0, 0, 6][..], &[0, 0, 0, 5], &SHORT].concat();
    octets[24..].copy_from_slice(&9_000_u32.to_be_bytes());
    let octets = completed(&octets, 1_500).expect("complete");
    let qspec = Qspec::parse(&octets).expect("a QSPEC");
    assert_eq!(qspec.validate(), Ok(()));
    let tmod = qspec.desired.expect("there").parameters.find(ParameterId::Tmod1);
    let Some(Parameter { value: Value::Tmod1(bucket), .. }) = tmod else { panic!("{tmod:?}") };
    assert_eq!((bucket.min_policed_unit, bucket.max_packet_size), (9_000, 9_000));
}

/// TMODs of three or six words, and other parameters of a wrong length, are as malformed as before.
#[test]
fn other_lengths_are_not_completed() {
    for words in [0, 3, 6] {
        let mut tmod = vec![0x80, 1, 0, words];
        tmod.resize(4 + 4 * usize::from(words), 1);
        let octets = [&[0, 0, 0, 2 + words][..], &[0, 0, 0, 1 + words], &tmod].concat();
        assert!(!lacks_packet_size(&octets), "{words} words");
        assert!(Qspec::parse(&octets).is_err(), "{words} words");
    }
    let latency = [0, 3, 0, 4].into_iter().chain([0; 16]).collect::<Vec<u8>>();
    let octets = [&[0, 0, 0, 6][..], &[0, 0, 0, 5], &latency].concat();
    assert!(!lacks_packet_size(&octets));
}

proptest! {
    /// A QSPEC that is complete stays as it is.
    #[test]
    fn complete_qspec_stays_as_it_is(owned in qspec::owned()) {
        let octets = owned.with(qspec::emit);
        let parsed = Qspec::parse(&octets).expect("a QSPEC");
        prop_assume!(parsed.initiator.is_none());
        prop_assert!(!lacks_packet_size(&octets));
        prop_assert_eq!(completed(&octets, 1_500), Ok(octets));
    }

    #[test]
    fn any_octets_are_completed_or_refused(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        lacks_packet_size(&octets);
        if let Ok(whole) = completed(&octets, 1_500) {
            prop_assert!(!lacks_packet_size(&whole));
            prop_assert!(whole.len() >= octets.len());
        }
        prop_assert_eq!(emit_with_packet_size(&octets, 1_500, &mut []).is_ok(), false);
    }
}
