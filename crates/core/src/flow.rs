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
