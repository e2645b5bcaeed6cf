//! Which packets belong to a reservation, and which addresses to a route.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// The packets of one reservation, as a classifier can tell them apart. A port of 0 means: not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Flow {
    /// Where they go.
    pub destination: IpAddr,
    /// Where they come from; `None` for every sender (wildcard filter).
    pub source: Option<IpAddr>,
    /// IP protocol number.
    pub protocol: u8,
    /// Destination port.
    pub destination_port: u16,
    /// Source port.
    pub source_port: u16,
    /// IPv6 flow label, as filters have it that name no port; 0: not looked at.
    #[serde(default)]
    pub flow_label: u32,
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
    pub fn new(address: IpAddr, length: u8) -> Prefix {
        match address {
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
}
