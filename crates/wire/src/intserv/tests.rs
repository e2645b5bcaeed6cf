//! Traffic and service specifications: layouts computed by hand, invalid values, and composition.

use std::vec;
use std::vec::Vec;

use super::*;

const BUCKET: TokenBucket = TokenBucket {
    rate: 250_000.0,
    depth: 3000.0,
    peak: f32::INFINITY,
    min_policed_unit: 64,
    max_packet_size: 1500,
};

/// Octets from hexadecimal digits; blanks are ignored.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|digit| u8::try_from(digit).expect("a digit is small"))
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// r = 250 000 is 0x48742400, b = 3000 is 0x453b8000, positive infinity 0x7f800000.
const BUCKET_HEX: &str = "7f000005 48742400 453b8000 7f800000 00000040 000005dc";

/// The figure of RFC 2210 section 3.1.
#[test]
fn sender_tspec_matches_figure_of_the_rfc() {
    let body = hex(&std::format!("00000007 01000006 {BUCKET_HEX}"));
    assert_eq!(SenderTspec::parse(&body), Ok(BUCKET));
    let mut again = vec![0xa5; SenderTspec::BODY_LEN];
    assert_eq!(BUCKET.emit(&mut again), Ok(body.len()));
    assert_eq!(again, body);
}

/// The figures of RFC 2210 sections 3.2.1 and 3.2.2; R = 300 000 is 0x48927c00.
#[test]
fn flowspecs_match_figures_of_the_rfc() {
    let rspec = Rspec { rate: 300_000.0, slack_us: 20 };
    let cases = [
        (FlowSpec::ControlledLoad(BUCKET), std::format!("00000007 05000006 {BUCKET_HEX}")),
        (
            FlowSpec::Guaranteed(BUCKET, rspec),
            std::format!("0000000a 02000009 {BUCKET_HEX} 82000002 48927c00 00000014"),
        ),
    ];
    for (flowspec, digits) in cases {
        let body = hex(&digits);
        assert_eq!(FlowSpec::parse(&body), Ok(flowspec));
        let mut again = vec![0xa5; flowspec.buffer_len()];
        assert_eq!(flowspec.emit(&mut again), Ok(body.len()));
        assert_eq!(again, body);
        for length in 0..body.len() {
            assert!(FlowSpec::parse(&body[..length]).is_err(), "cut at {length}");
        }
    }
}

/// Fragments of more than one service are not supported (RFC 2210 section 2.2), and neither is a second parameter.
#[test]
fn second_service_or_parameter_is_malformed() {
    let fault = |offset, problem| Some(FormatError { problem, offset });
    let parse = |digits: &str| FlowSpec::parse(&hex(digits)).err();
    let guaranteed = std::format!("02000009 {BUCKET_HEX} 82000002 48927c00 00000014");
    let two_services = std::format!("00000011 {guaranteed} 05000006 {BUCKET_HEX}");
    assert_eq!(parse(&two_services), fault(44, FormatProblem::Length));
    let two_buckets = std::format!("0000000d 0500000c {BUCKET_HEX} {BUCKET_HEX}");
    assert_eq!(parse(&two_buckets), fault(32, FormatProblem::UnexpectedParameter));
    let tspecs = std::format!("0000000e 01000006 {BUCKET_HEX} 05000006 {BUCKET_HEX}");
    assert_eq!(SenderTspec::parse(&hex(&tspecs)).err(), fault(32, FormatProblem::Length));
}

/// Reserved bits and parameter flags are ignored (RFC 2210 appendix 1).
#[test]
fn reserved_bits_are_ignored() {
    let body = hex(&std::format!("0fff0007 057f0006 {}", BUCKET_HEX.replacen("7f00", "7fff", 1)));
    assert_eq!(FlowSpec::parse(&body), Ok(FlowSpec::ControlledLoad(BUCKET)));
}

/// One invalid value at a time.
#[test]
fn invalid_values_are_reported() {
    let bucket = |change: fn(&mut TokenBucket)| {
        let mut bucket = BUCKET;
        change(&mut bucket);
        bucket.validate()
    };
    assert_eq!(bucket(|_| ()), Ok(()));
    assert_eq!(bucket(|b| b.peak = b.rate), Ok(()));
    assert_eq!(bucket(|b| b.rate = 0.0), Err(ValueError::TokenRate));
    assert_eq!(bucket(|b| b.rate = -0.0), Err(ValueError::TokenRate));
    assert_eq!(bucket(|b| b.rate = -1.0), Err(ValueError::TokenRate));
    assert_eq!(bucket(|b| b.rate = f32::NAN), Err(ValueError::TokenRate));
    assert_eq!(bucket(|b| b.rate = f32::INFINITY), Err(ValueError::TokenRate));
    assert_eq!(bucket(|b| b.depth = f32::INFINITY), Err(ValueError::BucketDepth));
    assert_eq!(bucket(|b| b.depth = 0.0), Err(ValueError::BucketDepth));
    assert_eq!(bucket(|b| b.peak = f32::NAN), Err(ValueError::PeakRate));
    assert_eq!(bucket(|b| b.peak = f32::NEG_INFINITY), Err(ValueError::PeakRate));
    assert_eq!(bucket(|b| b.peak = 249_999.0), Err(ValueError::PeakBelowTokenRate));
    assert_eq!(bucket(|b| b.min_policed_unit = 0), Err(ValueError::MinPolicedUnit));
    assert_eq!(bucket(|b| b.max_packet_size = 63), Err(ValueError::MaxPacketSize));

    let guaranteed = |rate| FlowSpec::Guaranteed(BUCKET, Rspec { rate, slack_us: 0 }).validate();
    assert_eq!(guaranteed(250_000.0), Ok(()));
    assert_eq!(guaranteed(249_999.0), Err(ValueError::ReservedRate));
    assert_eq!(guaranteed(f32::NAN), Err(ValueError::ReservedRate));
    assert_eq!(guaranteed(f32::INFINITY), Err(ValueError::ReservedRate));
}

/// RFC 2211 section 5 and RFC 2212 "Invocation Information": a request for r, R or b outside the range is an error. The
/// peak rate may be ignored, so that a peak beyond the range is none.
#[test]
fn requests_outside_the_range_are_reported() {
    let bucket = |rate, depth| TokenBucket { rate, depth, ..BUCKET };
    let next = f32::next_up;
    for (rate, depth, expected) in [
        (1.0, 1.0, Ok(())),
        (40e12, 250e9, Ok(())),
        (1_f32.next_down(), 1.0, Err(ValueError::RateRange)),
        (next(40e12), 1.0, Err(ValueError::RateRange)),
        (1.0, 1_f32.next_down(), Err(ValueError::DepthRange)),
        (1.0, next(250e9), Err(ValueError::DepthRange)),
    ] {
        let bucket = bucket(rate, depth);
        assert_eq!(FlowSpec::ControlledLoad(bucket).validate(), expected, "{rate} {depth}");
        let rspec = Rspec { rate, slack_us: 0 };
        assert_eq!(FlowSpec::Guaranteed(bucket, rspec).validate(), expected, "{rate} {depth}");
        // Senders announce what they can send; the range is a rule for requests.
        assert_eq!(bucket.validate(), Ok(()));
    }
    let rspec = |rate| FlowSpec::Guaranteed(BUCKET, Rspec { rate, slack_us: 0 }).validate();
    assert_eq!(rspec(40e12), Ok(()));
    assert_eq!(rspec(next(40e12)), Err(ValueError::RateRange));
    let peak = TokenBucket { peak: f32::MAX, ..BUCKET };
    assert_eq!(FlowSpec::ControlledLoad(peak).validate(), Ok(()));
}

/// Text formats keep every bit of a bucket.
#[test]
fn equality_compares_bits() {
    let nan = TokenBucket { rate: f32::NAN, ..BUCKET };
    assert_eq!(nan, nan);
    assert_ne!(TokenBucket { rate: 0.0, ..BUCKET }, TokenBucket { rate: -0.0, ..BUCKET });
}

/// The figure of RFC 2210 section 3.3.6, with values: 3 hops, 1 250 000 octets/s (0x49989680), 150 us, MTU 1500.
const EXAMPLE: &str = "00000013 01000008 04000001 00000003 06000001 49989680 08000001 00000096 \
    0a000001 000005dc 02000008 85000001 00000bb8 86000001 00000064 87000001 000005dc 88000001 \
    00000032 05000000";

fn example() -> Adspec<'static> {
    let mut adspec = Adspec::for_sender();
    adspec.general =
        General { hops: 3, bandwidth: 1_250_000.0, latency_us: 150, mtu: 1500, ..adspec.general };
    let terms = GuaranteedTerms { c_total: 3000, d_total: 100, c_sum: 1500, d_sum: 50 };
    adspec.guaranteed = Some(Guaranteed { terms: Some(terms), ..Guaranteed::default() });
    adspec
}

const HOP: HopCharacteristics = HopCharacteristics {
    non_is_hop: false,
    bandwidth: 1_000_000.0,
    latency_us: 25,
    mtu: 9000,
    guaranteed: Some(GuaranteedHop {
        c: 1500,
        d: 12,
        reshapes: false,
        overrides: LocalOverrides { bandwidth: None, latency_us: None, mtu: None },
    }),
    controlled_load: Some(LocalOverrides { bandwidth: None, latency_us: None, mtu: None }),
};

fn emitted(adspec: &Adspec<'_>) -> Vec<u8> {
    let mut body = vec![0xa5; adspec.buffer_len()];
    assert_eq!(adspec.emit(&mut body), Ok(body.len()));
    body
}

#[test]
fn adspec_matches_figure_of_the_rfc() {
    let body = hex(EXAMPLE);
    assert_eq!(Adspec::parse(&body), Ok(example()));
    assert_eq!(emitted(&example()), body);
    for length in 0..body.len() {
        assert!(Adspec::parse(&body[..length]).is_err(), "cut at {length}");
    }
    assert_eq!(example().validate(), Ok(()));
}

/// RFC 2215 section 3 and RFC 2212: hops + 1, minimum of bandwidths, sum of latencies, minimum of MTUs, sums of error
/// terms.
#[test]
fn a_hop_composes_every_value() {
    let next = example().advertise(&HOP);
    let expected = General {
        hops: 4,
        bandwidth: 1_000_000.0,
        latency_us: 175,
        mtu: 1500,
        ..example().general
    };
    assert_eq!(next.general, expected);
    let terms = GuaranteedTerms { c_total: 4500, d_total: 112, c_sum: 3000, d_sum: 62 };
    assert_eq!(next.guaranteed.and_then(|guaranteed| guaranteed.terms), Some(terms));
    assert_eq!(next.guaranteed.map(|guaranteed| guaranteed.break_bit), Some(false));

    let reshaping = GuaranteedHop { reshapes: true, ..HOP.guaranteed.unwrap_or_default() };
    let next = example().advertise(&HopCharacteristics { guaranteed: Some(reshaping), ..HOP });
    let terms = GuaranteedTerms { c_total: 4500, d_total: 112, c_sum: 1500, d_sum: 12 };
    assert_eq!(next.guaranteed.and_then(|guaranteed| guaranteed.terms), Some(terms));
}

/// RFC 2212 "Exported Information": sums of C and D end at 2^32 - 1, also where they begin again.
#[test]
fn error_terms_end_at_the_largest_value() {
    for reshapes in [false, true] {
        let far =
            GuaranteedHop { c: u32::MAX - 1, d: u32::MAX, reshapes, ..GuaranteedHop::default() };
        let hop = HopCharacteristics { guaranteed: Some(far), ..HOP };
        let terms = example().advertise(&hop).guaranteed.and_then(|guaranteed| guaranteed.terms);
        let c_sum = if reshapes { u32::MAX - 1 } else { u32::MAX };
        let (c_total, d_total, d_sum) = (u32::MAX, u32::MAX, u32::MAX);
        assert_eq!(terms, Some(GuaranteedTerms { c_total, d_total, c_sum, d_sum }));
    }
}

/// Unknown values stay unknown, and sums are limited.
#[test]
fn unknown_values_take_precedence() {
    let hop = HopCharacteristics { latency_us: u32::MAX, bandwidth: 0.0, ..HOP };
    let next = example().advertise(&hop).advertise(&HOP);
    assert_eq!((next.general.latency_us, next.general.bandwidth), (u32::MAX, 0.0));
    let mut far = example();
    far.general.latency_us = u32::MAX - 2;
    assert_eq!(far.advertise(&HOP).general.latency_us, u32::MAX);
}

#[test]
fn break_bits_are_set_where_a_service_is_missing_and_stay() {
    let poor =
        HopCharacteristics { guaranteed: None, controlled_load: None, non_is_hop: true, ..HOP };
    let next = example().advertise(&poor).advertise(&HOP);
    assert!(next.general.break_bit);
    assert_eq!(next.guaranteed.map(|guaranteed| guaranteed.break_bit), Some(true));
    assert_eq!(next.controlled_load.map(|load| load.break_bit), Some(true));
    // Headers of words 2, 11 and 20 of the figure.
    let body = emitted(&next);
    assert_eq!((body[5], body[41], body[77]), (0x80, 0x80, 0x80));
    // A hop without the service does not touch its terms.
    let terms = example().advertise(&poor).guaranteed.and_then(|guaranteed| guaranteed.terms);
    assert_eq!(terms, example().guaranteed.and_then(|guaranteed| guaranteed.terms));
}

/// The first hop that offers the service fills an empty fragment and keeps its break bit (RFC 2210 section 3.3.3). A
/// service that the sender does not request is not added.
#[test]
fn empty_fragments_are_filled_and_none_are_added() {
    let general = &EXAMPLE[9..EXAMPLE.find("02000008").expect("it is there")];
    let body = hex(&std::format!("0000000a {general} 02800000"));
    let adspec = Adspec::parse(&body).expect("it is well formed");
    assert_eq!(emitted(&adspec), body);
    let next = adspec.advertise(&HOP);
    let terms = GuaranteedTerms { c_total: 1500, d_total: 12, c_sum: 1500, d_sum: 12 };
    let expected = Guaranteed { break_bit: true, terms: Some(terms), ..Guaranteed::default() };
    assert_eq!(next.guaranteed, Some(expected));
    assert_eq!(next.controlled_load, None);
}

/// Fast and general parser agree on the frame of nearly every TSpec and FLOWSPEC, whatever octet of it is damaged.
#[test]
fn fast_parser_of_single_buckets_agrees_with_general_parser() {
    let bucket = TokenBucket {
        rate: 1.5,
        depth: 2.5,
        peak: 9.5,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };
    let mut bodies = [[0; 32]; 2];
    assert_eq!(bucket.emit(&mut bodies[0]), Ok(32));
    assert_eq!(FlowSpec::ControlledLoad(bucket).emit(&mut bodies[1]), Ok(32));
    assert_eq!(bodies[0][..12], hex("00000007 01000006 7f000005"));
    assert_eq!(bodies[1][..12], hex("00000007 05000006 7f000005"));
    for body in bodies {
        for bit in 0..body.len() * 8 {
            let mut damaged = body;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(TokenBucket::parse(&damaged), TokenBucket::parse_any(&damaged), "{bit}");
            assert_eq!(FlowSpec::parse(&damaged), FlowSpec::parse_any(&damaged), "{bit}");
        }
        for length in 0..body.len() {
            assert_eq!(FlowSpec::parse(&body[..length]), FlowSpec::parse_any(&body[..length]));
        }
    }
}

/// RFC 2210 section 3.3.5: an override takes precedence over the general value on either side; new overrides are added.
#[test]
fn override_values_are_composed_and_added() {
    let own = LocalOverrides { bandwidth: Some(500_000.0), latency_us: None, mtu: Some(576) };
    let hop = HopCharacteristics { controlled_load: Some(own), ..HOP };
    let load = |adspec: &Adspec<'_>| {
        let overrides = adspec.controlled_load.expect("it is there").overrides;
        (overrides.bandwidth, overrides.latency_us, overrides.mtu)
    };
    let once = example().advertise(&hop);
    assert_eq!(load(&once), (Some(500_000.0), None, Some(576)));
    assert_eq!((once.general.bandwidth, once.general.mtu), (1_000_000.0, 1500));
    // At a hop without overrides, received overrides are composed with the hop's general values.
    let slow = HopCharacteristics { bandwidth: 400_000.0, ..HOP };
    let twice = once.advertise(&slow);
    assert_eq!(load(&twice), (Some(400_000.0), None, Some(576)));
    let body = emitted(&twice);
    assert_eq!(Adspec::parse(&body), Ok(twice));
    assert_eq!(body[76..], hex("05000004 06000001 48c35000 0a000001 00000240"));
}

/// Parameters of a fragment stand in the order of their numbers, with unknown ones among them (RFC 2210 section 3.3).
#[test]
fn unknown_parameters_keep_their_place_by_number() {
    let body = hex(
        "00000011 0100000c 03000000 04000001 00000003 06000001 49989680 07000001 aabbccdd 08000001 \
         00000096 0a000001 000005dc 0b000000 05000003 07000000 0a000001 00000240",
    );
    let adspec = Adspec::parse(&body).expect("it is well formed");
    assert_eq!(emitted(&adspec), body);
    let next = emitted(&adspec.advertise(&HOP));
    assert_eq!(next.len(), body.len());
    assert_eq!(next[4..12], hex("0100000c 03000000"));
    assert_eq!(next[28..36], hex("07000001 aabbccdd"));
    assert_eq!(next[52..], hex("0b000000 05000003 07000000 0a000001 00000240"));
}

/// Unknown services are forwarded with the break bit set (RFC 2210 section 3.3).
#[test]
fn unknown_services_are_forwarded_with_break_bit() {
    let general = &EXAMPLE[9..EXAMPLE.find("02000008").expect("it is there")];
    let body = hex(&std::format!(
        "00000010 {general} 03000001 aabbccdd 05000000 c8000003 01000002 11111111 22222222"
    ));
    let adspec = Adspec::parse(&body).expect("it is well formed");
    assert_eq!(emitted(&adspec), body);
    let next = emitted(&adspec.advertise(&HOP));
    assert_eq!(next[40..], hex("03800001 aabbccdd 05000000 c8800003 01000002 11111111 22222222"));
}

/// The ADSPEC that a sender's host sends after composition with its own link.
#[test]
fn a_new_adspec_takes_the_values_of_the_first_link() {
    let first = Adspec::for_sender().advertise(&HOP);
    let general = first.general;
    assert_eq!((general.hops, general.bandwidth), (1, 1_000_000.0));
    assert_eq!((general.latency_us, general.mtu, general.break_bit), (25, 9000, false));
    assert_eq!(first.validate(), Ok(()));
    assert_eq!(emitted(&first).len(), hex(EXAMPLE).len());
}

#[test]
fn invalid_bandwidths_are_reported() {
    for bandwidth in [f32::NAN, f32::INFINITY, -1.0, -0.0] {
        let mut adspec = example();
        adspec.general.bandwidth = bandwidth;
        assert_eq!(adspec.validate(), Err(ValueError::PathBandwidth));
        // The value must stay invalid after the next hop, too.
        let next = adspec.advertise(&HopCharacteristics { bandwidth: 1e9, ..HOP });
        assert!(bandwidth == f32::INFINITY || next.validate().is_err(), "{bandwidth}");
        let mut adspec = example();
        let overrides = Overrides { bandwidth: Some(bandwidth), ..Overrides::default() };
        adspec.controlled_load = Some(ControlledLoad { break_bit: false, overrides });
        assert_eq!(adspec.validate(), Err(ValueError::PathBandwidth));
    }
}
