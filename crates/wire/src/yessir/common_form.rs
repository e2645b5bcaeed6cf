//! Fast parsing of the common form of a report, as far as necessary to recognize a repeated request.

use super::fragment::{Generic, HEADER, LinkInfo};
use super::iana::FragmentType;
use super::message::{EditOffsets, Failures, Message, NAME, Report, VERSION, flowspec_of};
use crate::rtcp::{PacketType, SenderInfo};

/// A report of the common form: a sender report without report blocks, a source description, and an APP packet of
/// GENERIC, a flowspec and, if the sender requests it, LINK_INFO; a leaving sender's BYE may follow.
///
/// Values are not checked: the report is usable only if [`super::Report`] has parsed the same octets before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonForm<'a> {
    /// SSRC of the reporting source.
    pub ssrc: u32,
    /// Octets of the sender report.
    report: &'a [u8; BEHIND_REPORT],
    /// Octets of the fragments GENERIC and FLOWSPEC.
    request: &'a [u8],
    link_info: Option<&'a [u8; LINK_INFO]>,
    goodbye: bool,
    offsets: EditOffsets,
}

/// First word of each packet without its length: version 2, no padding, count, type.
const REPORT: [u8; 4] = [0x80, PacketType::SenderReport.code(), 0, 6];
const DESCRIPTION: [u8; 2] = [0x81, PacketType::SourceDescription.code()];
const APPLICATION: [u8; 2] = [0x80 | VERSION, PacketType::Application.code()];
/// Whole first word of a BYE of one source without a reason.
const GOODBYE: [u8; 4] = [0x81, PacketType::Goodbye.code(), 0, 1];
/// Offset of the source description.
const BEHIND_REPORT: usize = 28;
/// Length of an APP packet's header, octets.
const APP_HEADER: usize = 12;
/// Length of GENERIC, and of LINK_INFO; octets.
const GENERIC: usize = 12;
const LINK_INFO: usize = LinkInfo::LEN;

impl<'a> CommonForm<'a> {
    /// Parses a compound; `None` if it has another form.
    #[inline]
    pub fn read(compound: &'a [u8]) -> Option<CommonForm<'a>> {
        let report = compound.first_chunk::<BEHIND_REPORT>()?;
        let description = compound.get(BEHIND_REPORT..)?.first_chunk::<4>()?;
        let [version, kind, l0, l1] = *description;
        if report[..4] != REPORT || [version, kind] != DESCRIPTION {
            return None;
        }
        let app = BEHIND_REPORT + 4 * (usize::from(u16::from_be_bytes([l0, l1])) + 1);
        let packet = compound.get(app..)?;
        let &[version, kind, l0, l1, s0, s1, s2, s3, n0, n1, n2, n3, ref fragments @ ..] =
            packet.first_chunk::<{ APP_HEADER + GENERIC + HEADER }>()?;
        let ssrc = [s0, s1, s2, s3];
        if [version, kind] != APPLICATION || [n0, n1, n2, n3] != NAME || ssrc != report[4..8] {
            return None;
        }
        let length = 4 * (usize::from(u16::from_be_bytes([l0, l1])) + 1);
        let (packet, behind) = packet.split_at_checked(length)?;
        let goodbye = !behind.is_empty();
        if goodbye && (behind.len() != 8 || behind[..4] != GOODBYE || behind[4..] != ssrc) {
            return None;
        }
        let data = packet.get(APP_HEADER..)?;
        let [number, _, l0, l1, .., flowspec, _, f0, f1] = *fragments;
        if number != FragmentType::Generic.code() || [l0, l1] != [0, GENERIC as u8] {
            return None;
        }
        let flowspecs =
            FragmentType::FlowspecIntserv.code()..=FragmentType::FlowspecMeasured.code();
        if !flowspecs.contains(&flowspec) {
            return None;
        }
        let end = GENERIC + usize::from(u16::from_be_bytes([f0, f1]));
        let (request, rest) = data.split_at_checked(end)?;
        let start = app + APP_HEADER;
        let mut offsets = EditOffsets { app, end: start + data.len(), ..EditOffsets::default() };
        let link_info = match rest {
            [] => None,
            _ => {
                let whole: &[u8; LINK_INFO] = rest.try_into().ok()?;
                let [number, _, l0, l1, ..] = *whole;
                if number != FragmentType::LinkInfo.code() || [l0, l1] != [0, LINK_INFO as u8] {
                    return None;
                }
                offsets.link_info = Some(start + end);
                Some(whole)
            }
        };
        Some(CommonForm {
            ssrc: u32::from_be_bytes(ssrc),
            report,
            request,
            link_info,
            goodbye,
            offsets,
        })
    }

    /// Whether the sender leaves.
    #[inline]
    pub fn goodbye(&self) -> bool {
        self.goodbye
    }

    /// Whether data and reports use the same ports.
    #[inline]
    pub fn multiplexed(&self) -> bool {
        self.request.get(1).is_some_and(|flags| flags & 1 != 0)
    }

    /// Returns the result of [`Report::parse`] with less work; `None` if that would find a fault.
    #[inline]
    pub fn report(&self) -> Option<Report<'a>> {
        let (generic, flowspec) = self.request.split_first_chunk::<GENERIC>()?;
        let &[_, flags, _, _, ref body @ ..] = generic;
        let generic = Generic::read(flags, *body);
        if generic.unknown().is_some() {
            return None;
        }
        let message = Message {
            ssrc: self.ssrc,
            generic,
            flowspec: Some(flowspec_of(flowspec)?),
            link_info: self.link_info(),
            failures: Failures::default(),
            auth: None,
            token: None,
            others: &[],
        };
        let (words, _) = self.report.as_chunks::<4>();
        let word = |i: usize| u32::from_be_bytes(words.get(i).copied().unwrap_or_default());
        let sender = SenderInfo {
            ntp: u64::from(word(2)) << 32 | u64::from(word(3)),
            rtp_timestamp: word(4),
            packets: word(5),
            octets: word(6),
        };
        let message = Some((message, self.offsets));
        let goodbye = self.goodbye;
        Some(Report { ssrc: self.ssrc, sender: Some(sender), goodbye, message })
    }

    /// LINK_INFO so far.
    #[inline]
    pub fn link_info(&self) -> Option<LinkInfo> {
        let &[_, send_ttl, _, _, ref body @ ..] = self.link_info?;
        Some(LinkInfo::read(send_ttl, *body))
    }

    /// Returns the offsets for edits.
    #[inline]
    pub fn edit_offsets(&self) -> &EditOffsets {
        &self.offsets
    }

    /// Returns a hash of the request: equal for equal octets, and almost certainly different for different ones. It is
    /// not secret: a sender who makes two requests with the same value only has the second one ignored. Never zero.
    #[inline]
    pub fn fingerprint(&self) -> u64 {
        // Digits of the golden ratio and of pi, as numbers without pattern.
        const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x243f_6a88_85a3_08d3];
        let mut sum = self.request.len() as u64;
        let mut add = |a: u64, b: u64| {
            let product = u128::from(sum ^ a ^ FACTORS[0]) * u128::from(b ^ FACTORS[1]);
            sum = (product >> 64) as u64 ^ product as u64;
        };
        let (pairs, tail) = self.request.as_chunks::<16>();
        for pair in pairs {
            let pair = u128::from_le_bytes(*pair);
            add(pair as u64, (pair >> 64) as u64);
        }
        for word in tail.as_chunks::<4>().0 {
            add(u32::from_le_bytes(*word).into(), 0);
        }
        sum | 1
    }
}
