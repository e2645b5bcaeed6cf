//! Flows (packets of a reservation) and prefixes (destinations of a route).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use earmark_wire::ipsec;
use serde::{Deserialize, Serialize};

/// Packets of one reservation, as a classifier matches them. A port of 0 matches any port.
///
/// The packets of one flow, or, if address bits are open, of all flows in a range ([`Flow::is_range`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Flow {
    /// Destination address.
    pub destination: IpAddr,
    /// Source address; `None` for every sender (wildcard filter).
    pub source: Option<IpAddr>,
    /// IP protocol number; 0 for any.
    pub protocol: u8,
    /// Destination port; 0 for any.
    pub destination_port: u16,
    /// Source port; 0 for any.
    pub source_port: u16,
    /// IPv6 flow label, in filters without ports; 0 for any.
    #[serde(default)]
    pub flow_label: u32,
    /// SPI (Security Parameters Index) of ESP or AH; 0 for any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spi: u32,
    /// Number of open low bits of the destination: 0 for one address, 8 for an IPv4 network of 24 bits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub destination_open: u8,
    /// Number of open low bits of the source.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub source_open: u8,
    /// DSCP of the packets, in ranges without a protocol; 0 for any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dscp: u8,
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// Protocols whose first four octets are the ports: TCP, UDP, DCCP, SCTP, UDP-Lite. Classifiers match ports only of
/// these.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// Largest flow label: 20 bits (RFC 8200 section 3).
const LARGEST_LABEL: u32 = 0xf_ffff;
/// Largest DSCP: 6 bits (RFC 2474 section 3).
const LARGEST_DSCP: u8 = 63;

impl Flow {
    /// Creates the flow of all packets to a range of addresses.
    pub fn to_range(range: Prefix) -> Flow {
        Flow {
            destination: range.address,
            source: None,
            protocol: 0,
            destination_port: 0,
            source_port: 0,
            flow_label: 0,
            spi: 0,
            destination_open: bits_of(range.address) - range.length,
            source_open: 0,
            dscp: 0,
        }
    }

    /// Creates the flow of all packets with a DSCP: a behavior aggregate of differentiated services (RFC 2475).
    pub fn of_dscp(ipv6: bool, dscp: u8) -> Flow {
        Flow { dscp, ..Flow::to_range(Prefix::everything(ipv6)) }
    }

    /// Returns whether address bits, or the protocol, are open: the flow may contain more specific ones that a lookup
    /// by whole addresses finds.
    pub fn is_range(&self) -> bool {
        self.destination_open != 0 || self.source_open != 0 || self.protocol == 0
    }

    /// Returns the destinations.
    pub fn destinations(&self) -> Prefix {
        range(self.destination, self.destination_open)
    }

    /// Returns the sources; `None` for every sender.
    pub fn sources(&self) -> Option<Prefix> {
        self.source.map(|source| range(source, self.source_open))
    }

    /// Returns whether all packets of `other` are in this flow. Flow labels are not compared in ranges.
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
            && same(self.spi, other.spi)
            && same(self.dscp.into(), other.dscp.into())
    }

    /// Returns the order of overlapping ranges: a packet in both belongs to the lower number. The longer prefix of
    /// the destination counts most, then that of the source, then a port, then a protocol or a DSCP.
    pub fn openness(&self) -> u32 {
        let all = bits_of(self.destination);
        let source = if self.source.is_some() { self.source_open } else { all };
        let kind = match (self.destination_port, self.protocol, self.dscp) {
            (0, 0, 0) => 2,
            (0, ..) => 1,
            _ => 0,
        };
        (u32::from(self.destination_open) * 129 + u32::from(source)) * 3 + kind
    }

    /// Checks whether a classifier can match these packets. Source and destination must be of one family, an IPv6
    /// address must not be IPv4-mapped, and every range has one canonical form.
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
        } else if self.is_range()
            && (self.source_port != 0 || self.flow_label != 0 || self.spi != 0)
        {
            FlowError::TooNarrow
        } else if self.dscp > LARGEST_DSCP {
            FlowError::LargeDscp
        } else if self.dscp != 0 && self.protocol != 0 {
            FlowError::DscpAndProtocol
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
        } else if self.spi != 0 && !ipsec::has_spi(self.protocol) {
            FlowError::NoSpi
        } else if self.spi != 0 && self.flow_label != 0 {
            FlowError::SpiAndLabel
        } else {
            return Ok(());
        };
        Err(reason)
    }
}

/// Reason why a classifier cannot match a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// Source and destination are of different families.
    #[error("its addresses are of different families")]
    Families,
    /// The source is unspecified; no packet has it.
    #[error("its source is the unspecified address")]
    UnspecifiedSource,
    /// An IPv4-mapped address such as ::ffff:10.0.0.1.
    #[error("it has an IPv4-mapped IPv6 address")]
    Mapped,
    /// More open bits than the address has.
    #[error("it leaves more bits open than an address has")]
    TooManyBits,
    /// An open bit is set; a range has one canonical form.
    #[error("an address has bits that the range leaves open")]
    HostBits,
    /// An empty source range, or one of all addresses, which is written as no source.
    #[error("a range of sources is empty or everything")]
    AnySource,
    /// Ports without a protocol.
    #[error("it names a port but no protocol")]
    NoProtocol,
    /// A source port, flow label or SPI in a range.
    #[error("a range names a source port, a flow label or an SPI")]
    TooNarrow,
    /// The DSCP exceeds 6 bits (RFC 2474 section 3).
    #[error("its DSCP has more than 6 bits")]
    LargeDscp,
    /// A DSCP and a protocol in one range.
    #[error("it names a DSCP and a protocol")]
    DscpAndProtocol,
    /// The protocol has no ports.
    #[error("its protocol has no ports")]
    NoPorts,
    /// The flow label exceeds 20 bits (RFC 8200 section 3).
    #[error("its flow label has more than 20 bits")]
    LargeLabel,
    /// A flow label in IPv4 (RFC 791).
    #[error("it names a flow label, which IPv4 packets lack")]
    LabelOfIpv4,
    /// Ports and a flow label in one filter.
    #[error("it names a source port and a flow label")]
    PortAndLabel,
    /// Only ESP and AH have an SPI.
    #[error("its protocol has no SPI")]
    NoSpi,
    /// An SPI and a flow label in one filter.
    #[error("it names an SPI and a flow label")]
    SpiAndLabel,
}

/// Returns the number of bits of an address.
fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the prefix without the last `open` bits of an address.
fn range(address: IpAddr, open: u8) -> Prefix {
    Prefix::new(address, bits_of(address).saturating_sub(open))
}

/// An address range: `10.0.1.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prefix {
    /// First address of the range; host bits are zero.
    address: IpAddr,
    /// Number of leading bits that count.
    length: u8,
}

impl Prefix {
    /// Creates the range of `length` leading bits around `address`; too long a length is cut to that of the family.
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

    /// Creates the range of one address.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix::new(address, if address.is_ipv4() { 32 } else { 128 })
    }

    /// Creates the range of all addresses of a family.
    pub fn everything(ipv6: bool) -> Prefix {
        match ipv6 {
            false => Prefix { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), length: 0 },
            true => Prefix { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), length: 0 },
        }
    }

    /// Returns the first address of the range.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the last address of the range.
    pub fn last_address(self) -> IpAddr {
        let length = u32::from(self.length);
        match self.address {
            IpAddr::V4(a) => {
                IpAddr::V4((a.to_bits() | u32::MAX.checked_shr(length).unwrap_or(0)).into())
            }
            IpAddr::V6(a) => {
                IpAddr::V6((a.to_bits() | u128::MAX.checked_shr(length).unwrap_or(0)).into())
            }
        }
    }

    /// Returns the number of leading bits that count.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Returns whether `address` is in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Prefix::new(address, self.length).address == self.address
    }

    /// Returns whether all of `other` is in the range.
    pub fn covers(self, other: Prefix) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Error: the text is not an address range.
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
    fn prefix_clears_host_bits() {
        assert_eq!(prefix("10.1.2.3/16"), prefix("10.1.0.0/16"));
        assert_eq!(prefix("10.1.2.3/16").to_string(), "10.1.0.0/16");
        assert_eq!(prefix("2001:db8::1/32").to_string(), "2001:db8::/32");
        assert_eq!(prefix("10.1.2.3/0").address(), address("0.0.0.0"));
        assert_eq!(Prefix::host(address("10.1.2.3")).to_string(), "10.1.2.3/32");
        assert_eq!(Prefix::host(address("::1")).length(), 128);
    }

    #[test]
    fn last_address_of_prefix() {
        for (range, last) in [
            ("10.1.2.3/32", "10.1.2.3"),
            ("10.1.2.0/24", "10.1.2.255"),
            ("0.0.0.0/0", "255.255.255.255"),
            ("2001:db8::1/128", "2001:db8::1"),
            ("2001:db8::/32", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            assert_eq!(prefix(range).last_address(), address(last), "{range}");
        }
    }

    #[test]
    fn prefix_length_over_family_is_cut_or_rejected() {
        assert_eq!(Prefix::new(address("10.1.2.3"), 99).length(), 32);
        assert_eq!(Prefix::new(address("::1"), 200).length(), 128);
        for text in ["10.0.0.0/33", "::/129", "10.0.0.0", "10.0.0/8", "10.0.0.0/", "/8", "::/-1"] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError), "{text}");
        }
    }

    #[test]
    fn prefix_contains_own_family_only() {
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
            spi: 0,
            destination_open: open(to),
            source_open: open(from),
            dscp: 0,
        }
    }

    /// A valid flow is matched by every classifier, and read back from it as the same flow.
    #[test]
    fn flow_that_classifiers_cannot_match_is_rejected() {
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
            // Open bits, written behind a slash.
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
        let esp = flow("10.0.0.9", Some("10.0.0.1"), 50, (0, 0));
        let esp6 = flow("2001:db8::9", None, 50, (0, 0));
        let wide = flow("10.0.0.8", None, 50, (0, 0));
        let label = 0x1_2345;
        for (flow, expected) in [
            (Flow { flow_label: label, ..six }, Ok(())),
            (Flow { flow_label: label, destination_port: 0, ..six }, Ok(())),
            (Flow { flow_label: label, source_port: 6_000, ..six }, Err(FlowError::PortAndLabel)),
            (Flow { flow_label: 1 << 20, ..six }, Err(FlowError::LargeLabel)),
            (Flow { flow_label: (1 << 20) - 1, source_port: 0, ..six }, Ok(())),
            (Flow { flow_label: label, ..four }, Err(FlowError::LabelOfIpv4)),
            (Flow { spi: 1, ..esp }, Ok(())),
            (Flow { spi: u32::MAX, protocol: 51, ..esp }, Ok(())),
            (Flow { spi: 1, source: None, ..esp }, Ok(())),
            (Flow { spi: 1, ..four }, Err(FlowError::NoSpi)),
            (Flow { spi: 1, flow_label: label, ..esp6 }, Err(FlowError::SpiAndLabel)),
            (Flow { spi: 1, source_open: 1, ..esp }, Err(FlowError::HostBits)),
            (Flow { spi: 1, destination_open: 1, ..wide }, Err(FlowError::TooNarrow)),
        ] {
            assert_eq!(flow.check(), expected, "{flow:?}");
        }
        let dscp = Flow::of_dscp(false, 46);
        for (flow, expected) in [
            (dscp, Ok(())),
            (Flow::of_dscp(true, 63), Ok(())),
            (Flow { dscp: 1, ..Flow::to_range(prefix("10.0.0.0/8")) }, Ok(())),
            (Flow::of_dscp(false, 64), Err(FlowError::LargeDscp)),
            (Flow { protocol: 17, ..dscp }, Err(FlowError::DscpAndProtocol)),
        ] {
            assert_eq!(flow.check(), expected, "{flow:?}");
        }
        let everything = Flow::of_dscp(false, 0);
        assert!(everything.covers(&dscp) && !dscp.covers(&everything));
        assert!(dscp.openness() < everything.openness());
        let no_source = Flow { source: None, source_open: 3, ..four };
        assert_eq!(no_source.check(), Err(FlowError::AnySource));
    }

    #[test]
    fn range_covers_its_flows_and_narrower_comes_first() {
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
        let any_port = flow("10.0.9.9", Some("10.0.0.1"), 0, (0, 0));
        let wider_source = flow("10.0.9.9", Some("10.0.0.0/1"), 17, (5_000, 0));
        assert!(
            any_port.openness() < wider_source.openness(),
            "the source counts more than the port"
        );
        assert!(ranges[5].covers(&ranges[0]) && !ranges[0].covers(&ranges[5]));
        let outside = Flow { destination: address("10.1.9.9"), ..inner };
        assert!(!ranges[4].covers(&outside) && ranges[5].covers(&outside));
        assert!(!ranges[0].covers(&Flow { protocol: 6, ..inner }));
    }

    /// Texts without open bits are still read, and flows without a range are written as before.
    #[test]
    fn open_bits_are_serialized_only_if_set() {
        let plain = flow("10.0.9.9", None, 17, (5_000, 0));
        let text = serde_json::to_string(&plain).expect("written");
        assert!(!text.contains("open"), "{text}");
        assert_eq!(serde_json::from_str::<Flow>(&text).expect("read"), plain);
        let range = Flow::to_range(prefix("10.0.0.0/8"));
        let text = serde_json::to_string(&range).expect("written");
        assert_eq!(serde_json::from_str::<Flow>(&text).expect("read"), range);
    }
}
