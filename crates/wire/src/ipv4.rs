//! The IPv4 header (RFC 791) with the router-alert option (RFC 2113).
//!
//! [`Packet`] is a checked view of a packet from a raw socket or a capture; its accessors cannot fail. [`Repr`] is a
//! header to be emitted. Options other than router alert can be parsed but not emitted.

use core::net::Ipv4Addr;

use crate::checksum;
use crate::writer::{EmitError, Writer};

/// Option type of router alert: copied into fragments, class control, number 20 (RFC 2113 section 2.1).
pub const ROUTER_ALERT: u8 = 148;
/// Length of a header without options, octets.
pub const MIN_HEADER_LEN: usize = 20;
/// Length of a router-alert option, octets.
const ROUTER_ALERT_LEN: usize = 4;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Parse errors of an IPv4 packet. Offsets are octets from the start of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HeaderError {
    /// The packet has fewer than 20 octets.
    #[error("IPv4 header truncated at octet {0}")]
    Truncated(usize),
    /// The version is not 4.
    #[error("IP version at octet 0 is {0}, not 4")]
    Version(u8),
    /// IHL is below 5 words or leads past the end.
    #[error("invalid length {0} in IHL at octet 0 of IPv4 header")]
    HeaderLength(usize),
    /// Total Length is below the header length or leads past the end.
    #[error("invalid length {0} in Total Length at octet 2 of IPv4 header")]
    TotalLength(usize),
    /// The header checksum is wrong.
    #[error("wrong header checksum at octet 10")]
    Checksum,
    /// The length of an option is below 2 or leads past the header.
    #[error("invalid option length at octet {0}")]
    OptionLength(usize),
}

/// A checked packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; MIN_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// Option type.
    pub kind: u8,
    /// Data behind type and length.
    pub data: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks the whole header. Octets behind Total Length (padding of short Ethernet frames) are not part of the
    /// packet.
    ///
    /// # Errors
    /// The first invalid field.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<Packet<'a>, HeaderError> {
        let (header, _) = octets
            .split_first_chunk::<MIN_HEADER_LEN>()
            .ok_or(HeaderError::Truncated(octets.len()))?;
        let [version_ihl, _, l0, l1, ..] = *header;
        if version_ihl >> 4 != 4 {
            return Err(HeaderError::Version(version_ihl >> 4));
        }
        let header_len = usize::from(version_ihl & 0x0f) * 4;
        let options =
            octets.get(MIN_HEADER_LEN..header_len).ok_or(HeaderError::HeaderLength(header_len))?;
        let total = usize::from(u16::from_be_bytes([l0, l1]));
        let payload = octets.get(header_len..total).ok_or(HeaderError::TotalLength(total))?;
        if checksum::sum(octets.get(..header_len).unwrap_or_default()) != 0xffff {
            return Err(HeaderError::Checksum);
        }
        let mut at = 0;
        while at < options.len() {
            let (_, length) =
                option_at(options, at).ok_or(HeaderError::OptionLength(MIN_HEADER_LEN + at))?;
            at += length;
        }
        Ok(Packet { header, options, payload })
    }

    /// Type of service: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        let [_, tos, ..] = *self.header;
        tos
    }

    /// Identification, shared by the fragments of one packet.
    #[inline]
    pub fn identification(&self) -> u16 {
        let [_, _, _, _, i0, i1, ..] = *self.header;
        u16::from_be_bytes([i0, i1])
    }

    /// Whether routers must not fragment the packet (DF).
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fragmentation() & 0x4000 != 0
    }

    /// Whether more fragments follow (MF).
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.fragmentation() & 0x2000 != 0
    }

    /// Offset of this fragment's payload, octets.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragmentation() & 0x1fff) * 8
    }

    /// Whether the packet is a fragment.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() != 0
    }

    #[inline]
    fn fragmentation(&self) -> u16 {
        let [_, _, _, _, _, _, f0, f1, ..] = *self.header;
        u16::from_be_bytes([f0, f1])
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        let [_, _, _, _, _, _, _, _, ttl, ..] = *self.header;
        ttl
    }

    /// Protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> u8 {
        let [_, _, _, _, _, _, _, _, _, protocol, ..] = *self.header;
        protocol
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        let [.., a, b, c, d, _, _, _, _] = *self.header;
        Ipv4Addr::new(a, b, c, d)
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        let [.., a, b, c, d] = *self.header;
        Ipv4Addr::new(a, b, c, d)
    }

    /// Iterates over the options up to the end of the list, without padding.
    #[inline]
    pub fn options(&self) -> impl Iterator<Item = Ipv4Option<'a>> + use<'a> {
        let options = self.options;
        let mut at = 0;
        core::iter::from_fn(move || {
            loop {
                let (option, length) = option_at(options, at)?;
                at += length;
                match option.kind {
                    END_OF_OPTIONS => return None,
                    NO_OPERATION => {}
                    _ => return Some(option),
                }
            }
        })
    }

    /// Returns the value of the router-alert option, if present; 0 means that routers examine the packet.
    #[inline]
    pub fn router_alert(&self) -> Option<u16> {
        let alert = self.options().find(|option| option.kind == ROUTER_ALERT)?;
        alert.data.first_chunk().map(|value| u16::from_be_bytes(*value))
    }

    /// Returns the payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Returns the option at `at` and its length in octets.
#[inline]
fn option_at(options: &[u8], at: usize) -> Option<(Ipv4Option<'_>, usize)> {
    let rest = options.get(at..)?;
    match *rest {
        [] => None,
        // Octets behind the end of the list are padding.
        [END_OF_OPTIONS, ..] => Some((Ipv4Option { kind: END_OF_OPTIONS, data: &[] }, rest.len())),
        [NO_OPERATION, ..] => Some((Ipv4Option { kind: NO_OPERATION, data: &[] }, 1)),
        [kind, length, ..] => {
            let length = usize::from(length);
            let data = rest.get(2..length)?;
            Some((Ipv4Option { kind, data }, length))
        }
        [_] => None,
    }
}

/// A header to be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification; the kernel fills it in for raw sockets when it is 0.
    pub identification: u16,
    /// Whether routers must not fragment the packet (DF).
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Value of a router-alert option; 0 is the only defined one.
    pub router_alert: Option<u16>,
    /// Length of the payload, octets.
    pub payload_len: usize,
}

impl Repr {
    /// Returns the header of a packet, without options other than router alert and without fragmentation fields.
    pub fn from_packet(packet: &Packet<'_>) -> Repr {
        Repr {
            tos: packet.tos(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            source: packet.source(),
            destination: packet.destination(),
            router_alert: packet.router_alert(),
            payload_len: packet.payload().len(),
        }
    }

    /// Length of the header, octets.
    #[inline]
    pub const fn header_len(&self) -> usize {
        MIN_HEADER_LEN + if self.router_alert.is_some() { ROUTER_ALERT_LEN } else { 0 }
    }

    /// Writes the header with its checksum, [`Repr::header_len`] octets; returns the length. The payload follows behind
    /// it.
    ///
    /// # Errors
    /// The buffer is too short, or header and payload together are too long for an IPv4 packet.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        const CHECKSUM: usize = 10;
        let length = self.header_len();
        let total = u16::try_from(length.saturating_add(self.payload_len));
        let [l0, l1] = total.map_err(|_| EmitError::TooLong)?.to_be_bytes();
        let version_ihl = if self.router_alert.is_some() { 0x46 } else { 0x45 };
        let [i0, i1] = self.identification.to_be_bytes();
        let flags = if self.dont_fragment { 0x40 } else { 0 };
        let mut writer = Writer::new(buffer);
        writer.put([version_ihl, self.tos, l0, l1, i0, i1, flags, 0])?;
        writer.put([self.ttl, self.protocol, 0, 0])?;
        writer.put(self.source.octets())?;
        writer.put(self.destination.octets())?;
        if let Some(value) = self.router_alert {
            let [v0, v1] = value.to_be_bytes();
            writer.put([ROUTER_ALERT, 4, v0, v1])?;
        }
        writer.patch(CHECKSUM, checksum::checksum(writer.written()).to_be_bytes())?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn repr() -> impl Strategy<Value = Repr> {
        let words = (any::<u8>(), any::<u16>(), any::<bool>(), any::<u8>(), any::<u8>());
        let addresses = (any::<u32>(), any::<u32>(), any::<Option<u16>>(), 0usize..100);
        (words, addresses).prop_map(|(words, addresses)| {
            let (tos, identification, dont_fragment, ttl, protocol) = words;
            let (source, destination, router_alert, payload_len) = addresses;
            let (source, destination) = (source.into(), destination.into());
            Repr {
                tos,
                identification,
                dont_fragment,
                ttl,
                protocol,
                source,
                destination,
                router_alert,
                payload_len,
            }
        })
    }

    proptest! {
        #[test]
        fn headers_round_trip(repr in repr()) {
            let mut packet = std::vec![0xa5; repr.header_len() + repr.payload_len + 3];
            prop_assert_eq!(repr.emit(&mut packet), Ok(repr.header_len()));
            let view = Packet::parse(&packet).expect("what was emitted parses");
            prop_assert_eq!(Repr::from_packet(&view), repr);
            prop_assert!(!view.is_fragment());
            for length in 0..repr.header_len() + repr.payload_len {
                prop_assert!(Packet::parse(&packet[..length]).is_err());
            }
        }

        #[test]
        fn arbitrary_octets_do_not_panic(mut octets in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let [first, _, l0, l1, ..] = &mut octets[..] {
                (*first, *l0, *l1) = (0x40 | *first & 0xf, 0, *l1 % 80);
            }
            // A valid checksum makes the options reachable.
            let end = octets.first().map_or(0, |ihl| usize::from(ihl & 0xf) * 4);
            if octets.len() >= 20 && (20..=octets.len()).contains(&end) {
                octets[10..12].fill(0);
                let check = checksum::checksum(&octets[..end]);
                octets[10..12].copy_from_slice(&check.to_be_bytes());
            }
            if let Ok(packet) = Packet::parse(&octets) {
                prop_assert!(packet.options().count() <= 20);
                prop_assert!(packet.payload().len() <= octets.len());
            }
        }
    }

    /// A Path from 10.0.1.1 to 10.0.9.9 with the option that `ping` would set, computed by hand.
    const ALERTED: [u8; 26] = [
        0x46, 0xc0, 0x00, 0x1a, 0x00, 0x01, 0x40, 0x00, 0x40, 0x2e, 0x86, 0xe7, 10, 0, 1, 1, 10, 0,
        9, 9, 0x94, 0x04, 0x00, 0x00, 0xab, 0xcd,
    ];

    #[test]
    fn fields_have_the_offsets_of_the_rfc() {
        let packet = Packet::parse(&ALERTED).expect("it is well formed");
        let expected = Repr {
            tos: 0xc0,
            identification: 1,
            dont_fragment: true,
            ttl: 64,
            protocol: 46,
            source: Ipv4Addr::new(10, 0, 1, 1),
            destination: Ipv4Addr::new(10, 0, 9, 9),
            router_alert: Some(0),
            payload_len: 2,
        };
        assert_eq!(Repr::from_packet(&packet), expected);
        assert_eq!(packet.payload(), [0xab, 0xcd]);
    }

    /// Each header has one invalid field, and its error.
    #[test]
    fn invalid_headers_are_refused_with_their_error() {
        let with_octet = |at: usize, octet: u8, fix_checksum: bool| {
            let mut packet = ALERTED;
            packet[at] = octet;
            if fix_checksum {
                packet[10..12].fill(0);
                let check = checksum::checksum(&packet[..24]);
                packet[10..12].copy_from_slice(&check.to_be_bytes());
            }
            Packet::parse(&packet).map(|_| ())
        };
        assert_eq!(with_octet(0, 0x66, true), Err(HeaderError::Version(6)));
        assert_eq!(with_octet(0, 0x44, true), Err(HeaderError::HeaderLength(16)));
        assert_eq!(with_octet(0, 0x4f, true), Err(HeaderError::HeaderLength(60)));
        assert_eq!(with_octet(3, 0x17, true), Err(HeaderError::TotalLength(23)));
        assert_eq!(with_octet(3, 0x1b, true), Err(HeaderError::TotalLength(27)));
        assert_eq!(with_octet(8, 63, false), Err(HeaderError::Checksum));
        assert_eq!(with_octet(21, 1, true), Err(HeaderError::OptionLength(20)));
        assert_eq!(with_octet(21, 5, true), Err(HeaderError::OptionLength(20)));
        assert_eq!(with_octet(8, 63, true), Ok(()));
        assert_eq!(Packet::parse(&ALERTED[..19]), Err(HeaderError::Truncated(19)));
    }
}
