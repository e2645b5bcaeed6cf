//! Which packets belong to a reservation, and which addresses to a route.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// The packets of one reservation, as a classifier can tell them apart. A port of 0 means: not looked at.
///
/// The packets of one flow, or, where bits of an address are open, those of all flows of a range ([`Flow::is_range`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Flow {
    /// Where they go.
    pub destination: IpAddr,
    /// Where they come from; `None` for every sender (wildcard filter).
    pub source: Option<IpAddr>,
    /// IP protocol number; 0: not looked at.
    pub protocol: u8,
    /// Destination port.
    pub destination_port: u16,
    /// Source port.
    pub source_port: u16,
    /// IPv6 flow label, as filters have it that name no port; 0: not looked at.
    #[serde(default)]
    pub flow_label: u32,
    /// Last bits of the destination that are not looked at: 0 for one address, 8 for an IPv4 network of 24 bits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub destination_open: u8,
    /// Likewise of the source.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub source_open: u8,
}

fn is_zero(bits: &u8) -> bool {
    *bits == 0
}

/// Protocols whose first four octets are the ports: TCP, UDP, DCCP, SCTP, UDP-Lite. No classifier looks at the ports of
/// others.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// A flow label has 20 bits (RFC 8200 section 3).
const LARGEST_LABEL: u32 = 0xf_ffff;

impl Flow {
    /// Every packet to a range of addresses.
    pub fn to_range(range: Prefix) -> Flow {
        Flow {
            destination: range.address,
            source: None,
            protocol: 0,
            destination_port: 0,
            source_port: 0,
            flow_label: 0,
            destination_open: bits_of(range.address) - range.length,
            source_open: 0,
        }
    }

    /// Whether it leaves bits of an address, or the protocol, open: it may contain more specific flows than those that a
    /// look-up of whole addresses finds.
    pub fn is_range(&self) -> bool {
        self.destination_open != 0 || self.source_open != 0 || self.protocol == 0
    }

    /// The destinations.
    pub fn destinations(&self) -> Prefix {
        range(self.destination, self.destination_open)
    }

    /// The sources; `None` for every sender.
    pub fn sources(&self) -> Option<Prefix> {
        self.source.map(|source| range(source, self.source_open))
    }

    /// Whether all packets of `other` are among these. Flow labels are not looked at in ranges.
    pub fn covers(&self, other: &Flow) -> bool {
        let sources = match (self.sources(), other.sources()) {
            (None, _) => true,
            (Some(mine), Some(theirs)) => mine.covers(theirs),
            (Some(_), None) => false,
        };
        let same = |mine: u32, theirs: u32| mine == 0 || mine == theirs;
        sources
            && self.destinations().covers(other.destinations())
            && same(self.protocol.into(), other.protocol.into())
            && same(self.destination_port.into(), other.destination_port.into())
            && same(self.source_port.into(), other.source_port.into())
            && same(self.flow_label, other.flow_label)
    }

    /// Which of two ranges takes a packet that is in both: the one with the lower number. The longer prefix of the
    /// destination counts most, then that of the source, then whether it names a port, then a protocol.
    pub fn openness(&self) -> u32 {
        let all = bits_of(self.destination);
        let source = if self.source.is_some() { self.source_open } else { all };
        let kind = match (self.destination_port, self.protocol) {
            (0, 0) => 2,
            (0, _) => 1,
            _ => 0,
        };
        (u32::from(self.destination_open) * 129 + u32::from(source)) * 3 + kind
    }

    /// Whether a classifier can tell these packets apart. Addresses of two families are no flow, an IPv6 address must not
    /// look like an IPv4 one, and every range has one way to be written.
    pub fn check(&self) -> Result<(), FlowError> {
        let (destination, source) = (self.destination, self.source);
        let is_mapped = |a: IpAddr| matches!(a, IpAddr::V6(a) if a.to_ipv4_mapped().is_some());
        let all = bits_of(destination);
        let reason = if source.is_some_and(|s| s.is_ipv4() != destination.is_ipv4()) {
            FlowError::Families
        } else if source.is_some_and(|s| s.is_unspecified()) && self.source_open == 0 {
            FlowError::UnspecifiedSource
        } else if source.into_iter().chain([destination]).any(is_mapped) {
            FlowError::Mapped
        } else if self.destination_open > all || self.source_open > all {
            FlowError::TooManyBits
        } else if self.destinations().address != destination
            || self.sources().map(|sources| sources.address) != source
        {
            FlowError::HostBits
        } else if source.map_or(self.source_open != 0, |_| self.source_open == all) {
            FlowError::AnySource
        } else if self.protocol == 0 && (self.destination_port != 0 || self.source_port != 0) {
            FlowError::NoProtocol
        } else if self.is_range() && (self.source_port != 0 || self.flow_label != 0) {
            FlowError::TooNarrow
        } else if (self.destination_port != 0 || self.source_port != 0)
            && !WITH_PORTS.contains(&self.protocol)
        {
            FlowError::NoPorts
        } else if self.flow_label > LARGEST_LABEL {
            FlowError::LargeLabel
        } else if self.flow_label != 0 && destination.is_ipv4() {
            FlowError::LabelOfIpv4
        } else if self.flow_label != 0 && self.source_port != 0 {
            FlowError::PortAndLabel
        } else {
            return Ok(());
        };
        Err(reason)
    }
}

/// Why the packets of a flow cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// Source and destination.
    #[error("its addresses are of different families")]
    Families,
    /// No packet comes from there.
    #[error("its source is the unspecified address")]
    UnspecifiedSource,
    /// Such as ::ffff:10.0.0.1.
    #[error("it names an IPv4 address in the form of an IPv6 one")]
    Mapped,
    /// More than the address has.
    #[error("it leaves more bits open than an address has")]
    TooManyBits,
    /// Two spellings of one range would be two flows.
    #[error("an address has bits that the range leaves open")]
    HostBits,
    /// A range of all sources is written as no source.
    #[error("a range of sources is empty or everything")]
    AnySource,
    /// Ports have a meaning for some protocols only.
    #[error("it names a port but no protocol")]
    NoProtocol,
    /// Of a range.
    #[error("a range names a source port or a flow label")]
    TooNarrow,
    /// What follows its header is no port.
    #[error("its protocol has no ports")]
    NoPorts,
    /// RFC 8200 section 3.
    #[error("its flow label has more than 20 bits")]
    LargeLabel,
    /// RFC 791.
    #[error("it names a flow label, which IPv4 packets have not")]
    LabelOfIpv4,
    /// A filter has one of them.
    #[error("it names a source port and a flow label")]
    PortAndLabel,
}

/// Bits of an address.
fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// All but the last `open` bits of an address.
fn range(address: IpAddr, open: u8) -> Prefix {
    Prefix::new(address, bits_of(address).saturating_sub(open))
}

/// An address range: `10.0.1.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Prefix {
    /// First address of the range; host bits are zero.
    address: IpAddr,
    /// Leading bits that count.
    length: u8,
}

impl Prefix {
    /// The range of `length` leading bits around `address`; a length past the family's is cut to it.
    #[inline]
    pub fn new(address: IpAddr, length: u8) -> Prefix {
        match address {
            IpAddr::V4(_) if length == 32 => Prefix { address, length },
            IpAddr::V4(a) => {
                let length = length.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Prefix { address: IpAddr::V4(Ipv4Addr::from(u32::from(a) & mask)), length }
            }
            IpAddr::V6(a) => {
                let length = length.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Prefix { address: IpAddr::V6(Ipv6Addr::from(u128::from(a) & mask)), length }
            }
        }
    }

    /// The one address `address`.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix::new(address, if address.is_ipv4() { 32 } else { 128 })
    }

    /// All addresses of a family.
    pub fn everything(ipv6: bool) -> Prefix {
        match ipv6 {
            false => Prefix { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), length: 0 },
            true => Prefix { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), length: 0 },
        }
    }

    /// First address of the range.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Leading bits that count.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether `address` lies in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Prefix::new(address, self.length).address == self.address
    }

    /// Whether all of `other` lies in the range.
    pub fn covers(self, other: Prefix) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Why a text is not an address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address range looks like 10.0.1.0/24 or 2001:db8::/32")]
pub struct PrefixError;

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address, length) = text.split_once('/').ok_or(PrefixError)?;
        let address: IpAddr = address.parse().map_err(|_| PrefixError)?;
        let length: u8 = length.parse().map_err(|_| PrefixError)?;
        if length > if address.is_ipv4() { 32 } else { 128 } {
            return Err(PrefixError);
        }
        Ok(Prefix::new(address, length))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("an address range")
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn host_bits_do_not_count() {
        assert_eq!(prefix("10.1.2.3/16"), prefix("10.1.0.0/16"));
        assert_eq!(prefix("10.1.2.3/16").to_string(), "10.1.0.0/16");
        assert_eq!(prefix("2001:db8::1/32").to_string(), "2001:db8::/32");
        assert_eq!(prefix("10.1.2.3/0").address(), address("0.0.0.0"));
        assert_eq!(Prefix::host(address("10.1.2.3")).to_string(), "10.1.2.3/32");
        assert_eq!(Prefix::host(address("::1")).length(), 128);
    }

    #[test]
    fn lengths_past_the_family_are_cut_in_code_and_refused_in_text() {
        assert_eq!(Prefix::new(address("10.1.2.3"), 99).length(), 32);
        assert_eq!(Prefix::new(address("::1"), 200).length(), 128);
        for text in ["10.0.0.0/33", "::/129", "10.0.0.0", "10.0.0/8", "10.0.0.0/", "/8", "::/-1"] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError), "{text}");
        }
    }

    #[test]
    fn a_range_contains_its_own_family_only() {
        let range = prefix("10.1.0.0/16");
        assert!(range.contains(address("10.1.0.0")) && range.contains(address("10.1.255.255")));
        assert!(!range.contains(address("10.2.0.0")) && !range.contains(address("10.0.255.255")));
        let (all_v4, all_v6) = (prefix("0.0.0.0/0"), prefix("::/0"));
        assert!(all_v4.contains(address("192.0.2.1")) && !all_v4.contains(address("::1")));
        assert!(all_v6.contains(address("::1")) && !all_v6.contains(address("192.0.2.1")));
    }

    fn flow(destination: &str, source: Option<&str>, protocol: u8, ports: (u16, u16)) -> Flow {
        let (to, from) = (destination.split_once('/'), source.and_then(|s| s.split_once('/')));
        let open = |part: Option<(&str, &str)>| part.map_or(0, |(_, n)| n.parse().expect("bits"));
        Flow {
            destination: address(to.map_or(destination, |(address, _)| address)),
            source: source.map(|s| address(from.map_or(s, |(address, _)| address))),
            protocol,
            destination_port: ports.0,
            source_port: ports.1,
            flow_label: 0,
            destination_open: open(to),
            source_open: open(from),
        }
    }

    /// What is let in is found again by every classifier, and read back from it as the same flow.
    #[test]
    fn only_flows_that_can_be_told_apart_are_let_in() {
        for (destination, source, protocol, ports, expected) in [
            ("10.0.0.9", Some("10.0.0.1"), 17, (5_000, 6_000), Ok(())),
            ("10.0.0.9", None, 6, (80, 0), Ok(())),
            ("10.0.0.9", None, 50, (0, 0), Ok(())),
            ("2001:db8::9", Some("2001:db8::1"), 132, (1, 2), Ok(())),
            ("10.0.0.9", Some("2001:db8::1"), 17, (1, 2), Err(FlowError::Families)),
            ("2001:db8::9", Some("::"), 17, (1, 2), Err(FlowError::UnspecifiedSource)),
            ("10.0.0.9", Some("0.0.0.0"), 17, (1, 2), Err(FlowError::UnspecifiedSource)),
            ("::ffff:10.0.0.9", None, 17, (1, 2), Err(FlowError::Mapped)),
            ("2001:db8::9", Some("::ffff:10.0.0.9"), 17, (1, 2), Err(FlowError::Mapped)),
            ("10.0.0.9", Some("10.0.0.1"), 17, (0, 6_000), Ok(())),
            ("10.0.0.9", Some("10.0.0.1"), 50, (0, 6_000), Err(FlowError::NoPorts)),
            ("10.0.0.9", Some("10.0.0.1"), 50, (5_000, 0), Err(FlowError::NoPorts)),
            // Open bits, written behind a stroke.
            ("10.0.9.0/8", Some("10.0.0.0/16"), 17, (5_000, 0), Ok(())),
            ("10.0.9.0/8", None, 0, (0, 0), Ok(())),
            ("0.0.0.0/32", Some("0.0.0.0/31"), 6, (0, 0), Ok(())),
            ("2001:db8::/96", Some("2001:db8::1"), 0, (0, 0), Ok(())),
            ("10.0.9.1/8", None, 17, (0, 0), Err(FlowError::HostBits)),
            ("10.0.9.0", Some("10.0.0.1/1"), 17, (0, 0), Err(FlowError::HostBits)),
            ("10.0.9.0", Some("0.0.0.0/32"), 17, (0, 0), Err(FlowError::AnySource)),
            ("0.0.0.0/33", None, 17, (0, 0), Err(FlowError::TooManyBits)),
            ("10.0.9.0/8", None, 17, (5_000, 6_000), Err(FlowError::TooNarrow)),
            ("10.0.9.0", None, 0, (5_000, 0), Err(FlowError::NoProtocol)),
        ] {
            let flow = flow(destination, source, protocol, ports);
            assert_eq!(flow.check(), expected, "{flow:?}");
        }
        let six = flow("2001:db8::9", Some("2001:db8::1"), 17, (5_000, 0));
        let four = flow("10.0.0.9", Some("10.0.0.1"), 17, (5_000, 0));
        let label = 0x1_2345;
        for (flow, expected) in [
            (Flow { flow_label: label, ..six }, Ok(())),
            (Flow { flow_label: label, destination_port: 0, ..six }, Ok(())),
            (Flow { flow_label: label, source_port: 6_000, ..six }, Err(FlowError::PortAndLabel)),
            (Flow { flow_label: 1 << 20, ..six }, Err(FlowError::LargeLabel)),
            (Flow { flow_label: label, ..four }, Err(FlowError::LabelOfIpv4)),
        ] {
            assert_eq!(flow.check(), expected, "{flow:?}");
        }
        let no_source = Flow { source: None, source_open: 3, ..four };
        assert_eq!(no_source.check(), Err(FlowError::AnySource));
    }

    #[test]
    fn ranges_cover_what_lies_in_them_and_the_narrower_one_comes_first() {
        let inner = flow("10.0.9.9", Some("10.0.0.1"), 17, (5_000, 6_000));
        let ranges = [
            flow("10.0.9.8/3", Some("10.0.0.0/8"), 17, (5_000, 0)),
            flow("10.0.9.8/3", Some("10.0.0.0/8"), 17, (0, 0)),
            flow("10.0.9.8/3", Some("10.0.0.0/8"), 0, (0, 0)),
            flow("10.0.9.8/3", None, 17, (0, 0)),
            flow("10.0.0.0/16", Some("10.0.0.1"), 17, (0, 0)),
            Flow::to_range(prefix("10.0.0.0/8")),
        ];
        for (index, range) in ranges.iter().enumerate() {
            assert!(range.covers(&inner) && range.covers(range) && !inner.covers(range));
            for later in &ranges[index + 1..] {
                assert!(range.openness() < later.openness(), "{range:?} {later:?}");
            }
        }
        assert!(ranges[5].covers(&ranges[0]) && !ranges[0].covers(&ranges[5]));
        let outside = Flow { destination: address("10.1.9.9"), ..inner };
        assert!(!ranges[4].covers(&outside) && ranges[5].covers(&outside));
        assert!(!ranges[0].covers(&Flow { protocol: 6, ..inner }));
    }

    /// What was written before there were ranges is read, and what is no range is written as ever.
    #[test]
    fn open_bits_are_written_where_there_are_some() {
        let plain = flow("10.0.9.9", None, 17, (5_000, 0));
        let text = serde_json::to_string(&plain).expect("written");
        assert!(!text.contains("open"), "{text}");
        assert_eq!(serde_json::from_str::<Flow>(&text).expect("read"), plain);
        let range = Flow::to_range(prefix("10.0.0.0/8"));
        let text = serde_json::to_string(&range).expect("written");
        assert_eq!(serde_json::from_str::<Flow>(&text).expect("read"), range);
    }
}
