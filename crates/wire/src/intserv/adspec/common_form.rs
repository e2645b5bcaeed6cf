//! Fast parsing of the common form of an ADSPEC (RFC 2210 section 3.3.6), recognized by its header words: general
//! parameters and both services, without override values or unknown parts.
//!
//! Every Path carries an ADSPEC and is refreshed throughout the lifetime of its session, so that fast parsing and
//! emission pay off.

use super::{Adspec, ControlledLoad, Fragments, General, Guaranteed, GuaranteedTerms};
use super::{HopCharacteristics, LocalOverrides, Overrides, Parameters};

/// Length of the body, words.
const WORDS: usize = 20;

/// Header words by position, in the order of RFC 2210: message, three services, eight parameters.
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
/// Bits of a header that are compared: number and length. The break bit is read later; reserved bits and flags are
/// ignored.
const NUMBER_AND_LENGTH: u32 = 0xff00_ffff;
/// Bits of the message header that are compared: the version has only four bits.
const VERSION_AND_LENGTH: u32 = 0xf000_ffff;
/// The break bit of a service header.
const BREAK_BIT: u32 = 0x0080_0000;

/// Returns the words of a body of the common form.
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

/// All values of an ADSPEC of the common form.
struct Values {
    general: General<'static>,
    guaranteed_break: bool,
    terms: GuaranteedTerms,
    load_break: bool,
}

/// The octets shared by all ADSPECs of the common form, with zeros in place of the values.
const FRAME: [[u8; 4]; WORDS] = {
    let mut frame = [[0; 4]; WORDS];
    let mut rest: &[(usize, u32)] = &HEADERS;
    while let [(place, header), behind @ ..] = rest {
        frame[*place] = header.to_be_bytes();
        rest = behind;
    }
    frame
};

impl Values {
    #[inline]
    fn read(words: &[[u8; 4]; WORDS]) -> Values {
        let word = |place: usize| u32::from_be_bytes(words[place]);
        let broken = |place: usize| word(place) & BREAK_BIT != 0;
        Values {
            general: General {
                break_bit: broken(1),
                hops: word(3),
                bandwidth: f32::from_bits(word(5)),
                latency_us: word(7),
                mtu: word(9),
                extra: Parameters { octets: &[] },
            },
            guaranteed_break: broken(10),
            terms: GuaranteedTerms {
                c_total: word(12),
                d_total: word(14),
                c_sum: word(16),
                d_sum: word(18),
            },
            load_break: broken(19),
        }
    }

    /// Writes the body, if the buffer is long enough; returns the length in octets.
    #[inline]
    fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let words: &mut [[u8; 4]; WORDS] = buffer.as_chunks_mut().0.first_chunk_mut()?;
        *words = FRAME;
        let Values { general, terms, .. } = self;
        let breaks = [(1, general.break_bit), (10, self.guaranteed_break), (19, self.load_break)];
        for (place, broken) in breaks {
            words[place][1] |= if broken { BREAK_BIT.to_be_bytes()[1] } else { 0 };
        }
        let values = [
            (3, general.hops),
            (5, general.bandwidth.to_bits()),
            (7, general.latency_us),
            (9, general.mtu),
            (12, terms.c_total),
            (14, terms.d_total),
            (16, terms.c_sum),
            (18, terms.d_sum),
        ];
        for (place, value) in values {
            words[place] = value.to_be_bytes();
        }
        Some(4 * WORDS)
    }
}

/// Parses an ADSPEC of the common form.
#[inline]
pub(super) fn parse(body: &[u8]) -> Option<Adspec<'_>> {
    let Values { general, guaranteed_break, terms, load_break } = Values::read(words(body)?);
    let overrides = Overrides { extra: Parameters { octets: &[] }, ..Overrides::default() };
    let terms = Some(terms);
    Some(Adspec {
        general,
        guaranteed: Some(Guaranteed { break_bit: guaranteed_break, terms, overrides }),
        controlled_load: Some(ControlledLoad { break_bit: load_break, overrides }),
        others: Fragments { octets: &[], broken: false },
    })
}

/// Length of the body of an ADSPEC of the common form, octets.
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

/// Writes the body of an ADSPEC of the common form, if the buffer is long enough; returns the length in octets.
#[inline]
pub(super) fn emit(adspec: &Adspec<'_>, buffer: &mut [u8]) -> Option<usize> {
    length(adspec)?;
    let (guaranteed, load) = (adspec.guaranteed.as_ref()?, adspec.controlled_load.as_ref()?);
    let General { break_bit, hops, bandwidth, latency_us, mtu, .. } = adspec.general;
    let extra = Parameters { octets: &[] };
    let values = Values {
        general: General { break_bit, hops, bandwidth, latency_us, mtu, extra },
        guaranteed_break: guaranteed.break_bit,
        terms: guaranteed.terms?,
        load_break: load.break_bit,
    };
    values.write(buffer)
}

/// Writes the ADSPEC for the next hop for a received body of the common form, if the hop offers the same values to all
/// services: the result has the common form again.
#[inline]
pub(super) fn forward(body: &[u8], hop: &HopCharacteristics, buffer: &mut [u8]) -> Option<usize> {
    let guaranteed = hop.guaranteed.as_ref()?;
    let none = LocalOverrides::default();
    if guaranteed.overrides != none || hop.controlled_load != Some(none) {
        return None;
    }
    let arrived = Values::read(words(body)?);
    let terms = arrived.terms.add(guaranteed);
    Values { general: arrived.general.compose(hop), terms, ..arrived }.write(buffer)
}
