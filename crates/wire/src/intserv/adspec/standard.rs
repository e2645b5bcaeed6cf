//! The shape that nearly every ADSPEC has (RFC 2210 section 3.3.6), recognized by its header words: general parameters
//! and both services, none of them with override values or anything unknown.
//!
//! Every Path carries one and is refreshed for as long as its session lives, so this is worth a shortcut, both ways.

use super::{Adspec, ControlledLoad, Fragments, General, Guaranteed, GuaranteedTerms};
use super::{Overrides, Parameters};

/// Length, words.
const WORDS: usize = 20;

/// Header words by place, in the order of the picture: message, three services, eight parameters.
const HEADERS: [(usize, u32); 12] = [
    (0, 0x0000_0013),
    (1, 0x0100_0008),
    (10, 0x0200_0008),
    (19, 0x0500_0000),
    (2, 0x0400_0001),
    (4, 0x0600_0001),
    (6, 0x0800_0001),
    (8, 0x0a00_0001),
    (11, 0x8500_0001),
    (13, 0x8600_0001),
    (15, 0x8700_0001),
    (17, 0x8800_0001),
];
/// Number and length count; the break bit is looked at later, reserved bits and flags never.
const NUMBER_AND_LENGTH: u32 = 0xff00_ffff;
/// Of the message header: the version is only half an octet.
const VERSION_AND_LENGTH: u32 = 0xf000_ffff;
/// The break bit of a service header.
const BREAK_BIT: u32 = 0x0080_0000;

/// The words, if they are of the standard shape.
#[inline]
pub(super) fn words(body: &[u8]) -> Option<&[[u8; 4]; WORDS]> {
    let (words, []) = body.as_chunks::<4>() else {
        return None;
    };
    let words: &[[u8; 4]; WORDS] = words.try_into().ok()?;
    let mut difference = 0;
    for (place, header) in HEADERS {
        let mask = if place == 0 { VERSION_AND_LENGTH } else { NUMBER_AND_LENGTH };
        difference |= (u32::from_be_bytes(words[place]) ^ header) & mask;
    }
    (difference == 0).then_some(words)
}

/// The ADSPEC, if it is of the standard shape.
#[inline]
pub(super) fn parse(body: &[u8]) -> Option<Adspec<'_>> {
    let words = words(body)?;
    let word = |place: usize| u32::from_be_bytes(words[place]);
    let nothing = Parameters { octets: &[] };
    let overrides = Overrides { extra: nothing, ..Overrides::default() };
    let terms =
        GuaranteedTerms { c_total: word(12), d_total: word(14), c_sum: word(16), d_sum: word(18) };
    Some(Adspec {
        general: General {
            break_bit: word(1) & BREAK_BIT != 0,
            hops: word(3),
            bandwidth: f32::from_bits(word(5)),
            latency_us: word(7),
            mtu: word(9),
            extra: nothing,
        },
        guaranteed: Some(Guaranteed {
            break_bit: word(10) & BREAK_BIT != 0,
            terms: Some(terms),
            overrides,
        }),
        controlled_load: Some(ControlledLoad { break_bit: word(19) & BREAK_BIT != 0, overrides }),
        others: Fragments { octets: &[], broken: false },
    })
}

/// Length of the body, if the ADSPEC is of the standard shape, octets.
#[inline]
pub(super) fn length(adspec: &Adspec<'_>) -> Option<usize> {
    let (guaranteed, load) = (adspec.guaranteed.as_ref()?, adspec.controlled_load.as_ref()?);
    let plain = guaranteed.terms.is_some()
        && adspec.general.extra.octets.is_empty()
        && guaranteed.overrides.is_empty()
        && load.overrides.is_empty()
        && adspec.others.octets.is_empty();
    plain.then_some(4 * WORDS)
}

/// Writes the body, if the ADSPEC is of the standard shape and the buffer long enough; says how many octets.
#[inline]
pub(super) fn emit(adspec: &Adspec<'_>, buffer: &mut [u8]) -> Option<usize> {
    let octets = buffer.get_mut(..length(adspec)?)?;
    let (general, guaranteed, load) =
        (&adspec.general, adspec.guaranteed.as_ref()?, adspec.controlled_load.as_ref()?);
    let terms = guaranteed.terms?;
    let mut words = [0_u32; WORDS];
    for (place, header) in HEADERS {
        words[place] = header;
    }
    for (place, broken) in
        [(1, general.break_bit), (10, guaranteed.break_bit), (19, load.break_bit)]
    {
        words[place] |= if broken { BREAK_BIT } else { 0 };
    }
    (words[3], words[5]) = (general.hops, general.bandwidth.to_bits());
    (words[7], words[9]) = (general.latency_us, general.mtu);
    (words[12], words[14]) = (terms.c_total, terms.d_total);
    (words[16], words[18]) = (terms.c_sum, terms.d_sum);
    for (octets, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *octets = word.to_be_bytes();
    }
    Some(octets.len())
}
