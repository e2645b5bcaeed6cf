//! Texts of amounts: any text is parsed or rejected, and what is parsed can be formatted.

use std::time::Duration;

use earmark_core::amounts::{parse_duration, parse_octets, show_duration, show_octets};
use earmark_core::{Octets, OctetsError, Prefix, Rate};
use proptest::prelude::*;

fn handled(text: &str) {
    if let Ok(rate) = text.parse::<Rate>() {
        assert!(!rate.to_string().is_empty());
    }
    if let Ok(prefix) = text.parse::<Prefix>() {
        assert_eq!(prefix.to_string().parse(), Ok(prefix));
    }
    if let Ok(span) = parse_duration(text) {
        assert!(!show_duration(span).is_empty());
    }
    if let Ok(octets) = parse_octets(text) {
        assert!(!show_octets(octets.into()).is_empty());
    }
    match text.parse::<Octets>() {
        Ok(octets) => assert_eq!(octets.to_string().to_lowercase(), text.to_lowercase()),
        Err(OctetsError::Digit { offset }) => assert!(offset < text.len()),
        Err(OctetsError::Odd { length }) => assert_eq!(length, text.len()),
    }
}

proptest! {
    #[test]
    fn arbitrary_text_is_parsed_or_rejected(text: String) {
        handled(&text);
    }

    #[test]
    fn arbitrary_amount_is_parsed_or_rejected(
        number in "[0-9.]{0,40}",
        space in " ?",
        unit in "(u|µ|m|k|K|M|G|Ki|Mi)?(s|in|B|bit|bps|b/s)?.?",
    ) {
        handled(&format!("{number}{space}{unit}"));
    }

    #[test]
    fn arbitrary_range_is_parsed_or_rejected(address in "[0-9a-f.:]{0,20}", length in "[0-9+-]{0,4}") {
        handled(&format!("{address}/{length}"));
    }

    /// Formatted values are parsed again.
    #[test]
    fn formatted_values_are_parsed_again(bps in 0..1_u64 << 50, octets in proptest::collection::vec(any::<u8>(), 0..40)) {
        let rate = Rate::from_bps(bps);
        let read: Rate = rate.to_string().parse().expect("a rate");
        let difference = read.as_bps().abs_diff(bps);
        prop_assert!(difference <= bps / 1_000, "{} for {}", read, rate);
        let octets = Octets(octets);
        prop_assert_eq!(octets.to_string().parse(), Ok(octets));
        let span = parse_duration(&format!("{bps}us"));
        prop_assert!(span.is_ok_and(|span| span.abs_diff(Duration::from_micros(bps)) <= span / 1_000));
    }
}
