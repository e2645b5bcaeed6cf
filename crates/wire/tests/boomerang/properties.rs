//! Properties of Boomerang messages, for any message and any octets.

use earmark_testkit::messages::boomerang::parts;
use earmark_wire::icmp;
use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn messages_round_trip(parts in parts()) {
        let options = parts.options();
        let message = parts.message(&options);
        let wire = octets(&message);
        let read = Reservation::parse(&wire);
        prop_assert_eq!(&read, &Ok(message));
        prop_assert_eq!(octets(&read.expect("it was read")), wire);
    }

    #[test]
    fn arbitrary_octets_do_not_panic(
        mut input in proptest::collection::vec(any::<u8>(), 0..200),
        damage in proptest::collection::vec((0..200_usize, any::<u8>()), 0..5),
        parts in parts(),
        is_message: bool,
    ) {
        if is_message {
            let options = parts.options();
            input = octets(&parts.message(&options));
            for (at, octet) in damage {
                if let Some(slot) = input.get_mut(at) {
                    *slot = octet;
                }
            }
        }
        if let Ok(message) = Reservation::parse(&input) {
            let again = octets(&message);
            prop_assert_eq!(Reservation::parse(&again), Ok(message));
        }
        if let Ok(view) = View::parse(&input) {
            let _ = (view.shape(), view.options().check(), view.qos(), view.covered());
        }
    }

    #[test]
    fn common_form_parses_as_in_general_parser(parts in parts(), flags in 0..2_u16, options: bool) {
        let items = parts.options();
        let (items, family) = (if options { &items[..] } else { &[] }, Family::of(parts.classifier.source));
        let message = Reservation {
            flags: Flags(flags),
            mask: Shape::exact(family),
            ..parts.message(items)
        };
        let expected = flags == 0 && parts.list.is_none() && items.is_empty() && family == Family::V4;
        prop_assert_eq!(is_common_form(&echo(&octets(&message), pseudo_header(family))), expected);
    }

    /// The checksum stays valid after any edit, and nothing else changes.
    #[test]
    fn edits_change_their_field_only_and_keep_the_checksum_valid(
        parts in parts(), key: u64, interval: u8, new in any::<(u32, u32)>(), number in 0..20_usize,
    ) {
        let options = parts.options();
        let before = parts.message(&options);
        let data = octets(&before);
        let view = View::parse(&data).expect("it was read");
        let (family, pseudo_header) = (view.family(), pseudo_header(view.family()));
        let mut message = echo(&data, pseudo_header);
        let mut editor = Editor::new(&mut message, &view);
        editor.set_nack();
        editor.set_key(key);
        editor.lower_refresh_interval(interval);
        let rates = Rates { forward: new.0, reverse: new.1 };
        let mut expected = parts.clone();
        expected.head = (before.transaction_id, before.flags.0 | 1, before.refresh_interval.min(interval), key);
        if parts.list.is_none() {
            editor.set_rates(rates);
            expected.rates[0] = rates;
        } else if let Some(slot) = expected.rates.get_mut(number) {
            editor.zero_element(number);
            *slot = Rates::ZERO;
        }
        let read = Echo::parse(&message, pseudo_header).expect("the sum is right");
        prop_assert_eq!(Reservation::parse(read.data), Ok(expected.message(&options)));

        // An option can be appended unless an unknown one takes the rest.
        if options.iter().all(|option| !matches!(option, OptionItem::Unknown { .. })) {
            let note = OptionItem::Aggregation(Aggregation {
                flags: OptionFlags(0),
                node: parts.classifier.source,
                transaction_id: 1,
                classifier: parts.classifier,
                mask: parts.classifier,
                rate: 5,
            });
            let length = message.len();
            message.resize(length + 200, 0xa5);
            let grown = append(&mut message, length, pseudo_header, &note, family).expect("it fits");
            prop_assert_eq!(grown, length + note.buffer_len(family));
            let read = Echo::parse(&message[..grown], pseudo_header).expect("the sum is right");
            let more = [&options[..], &[note]].concat();
            prop_assert_eq!(Reservation::parse(read.data), Ok(expected.message(&more)));
            prop_assert_eq!(append(&mut message[..grown], grown, pseudo_header, &note, family), Err(EmitError::BufferTooShort));
        }
    }

    /// A wrong checksum stays wrong, so that edits do not hide damage.
    #[test]
    fn edited_message_keeps_wrong_checksum_wrong(parts in parts(), key: u64) {
        let options = parts.options();
        let data = octets(&parts.message(&options));
        let view = View::parse(&data).expect("it was read");
        let pseudo_header = pseudo_header(view.family());
        let mut message = echo(&data, pseudo_header);
        message[5] ^= 0x10;
        Editor::new(&mut message, &view).set_key(key);
        prop_assert_eq!(Echo::parse(&message, pseudo_header), Err(icmp::EchoError::Checksum));
    }
}
