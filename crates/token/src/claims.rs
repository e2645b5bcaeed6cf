//! Claims of a token: the name, and what it is good for.

use alloc::string::String;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

use earmark_core::{Prefix, Rate};

use crate::{MAX_LABEL, MAX_NAME};

/// Claims of a token. Conditions that are missing match every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Name of the issuer, by which routers find its key.
    pub issuer: String,
    /// Name of the user.
    pub name: String,
    /// Start of validity, seconds since 1970.
    pub not_before: u64,
    /// End of validity, seconds since 1970.
    pub expires: u64,
    /// Largest rate of one reservation.
    pub rate: Rate,
    /// Destination of the flow.
    pub destination: Option<Destination>,
    /// Addresses of the senders.
    pub sources: Option<Prefix>,
    /// Access interface where the request enters the network.
    pub port: Option<AccessPort>,
}

/// Destination of a flow: `10.0.2.2:5001/udp`, `10.0.2.0/24`, `[2001:db8::2]:5001/udp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Addresses.
    pub range: Prefix,
    /// Port; every port if missing.
    pub port: Option<u16>,
    /// IP protocol; every protocol if missing.
    pub protocol: Option<u8>,
}

/// Interface of a router: `r1/eth1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPort {
    /// Name of the router, as in its settings.
    pub router: String,
    /// Name of the interface.
    pub interface: String,
}

/// Error: no token can have these claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// A name is empty, too long, or has other characters than printable ASCII.
    #[error("a {0} is 1 to {1} printable ASCII letters")]
    Name(&'static str, usize),
    /// The end of validity is not after its start.
    #[error("a token must end after its start")]
    Lifetime,
}

impl Claims {
    /// Checks names and lifetime.
    ///
    /// # Errors
    /// A name cannot be encoded, or the lifetime is empty.
    pub fn check(&self) -> Result<(), ClaimsError> {
        let port = self.port.as_ref();
        let labels =
            [("user name", &self.name, MAX_NAME), ("name of an issuer", &self.issuer, MAX_LABEL)];
        let router = port.map(|port| ("name of a router", &port.router, MAX_LABEL));
        let interface = port.map(|port| ("name of an interface", &port.interface, MAX_LABEL));
        for (what, text, most) in labels.into_iter().chain(router).chain(interface) {
            let printable = text.bytes().all(|octet| octet == b' ' || octet.is_ascii_graphic());
            if text.is_empty() || text.len() > most || !printable {
                return Err(ClaimsError::Name(what, most));
            }
        }
        if self.expires <= self.not_before || i64::try_from(self.expires).is_err() {
            return Err(ClaimsError::Lifetime);
        }
        Ok(())
    }
}

impl Destination {
    /// Returns whether packets to these addresses and this port belong to the destination.
    pub fn contains(&self, addresses: Prefix, protocol: u8, port: u16) -> bool {
        self.range.covers(addresses)
            && self.port.is_none_or(|own| own == port)
            && self.protocol.is_none_or(|own| own == protocol)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Destination { range, port, protocol } = self;
        match port {
            Some(port) if *range == Prefix::host(range.address()) => {
                SocketAddr::new(range.address(), *port).fmt(f)?;
            }
            Some(port) => write!(f, "{range}:{port}")?,
            None => range.fmt(f)?,
        }
        match protocol {
            Some(17) => f.write_str("/udp"),
            Some(6) => f.write_str("/tcp"),
            Some(number) => write!(f, "/{number}"),
            None => Ok(()),
        }
    }
}

/// Error: the text is not a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a destination looks like 10.0.2.2:5001/udp, [2001:db8::2]:5001/udp or 10.0.2.0/24")]
pub struct DestinationError;

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Destination, DestinationError> {
        // The longest beginning that is an address, with or without length and port, leaves the protocol.
        let whole = place(text).map(|(range, port)| Destination { range, port, protocol: None });
        whole
            .or_else(|| {
                let (place_text, protocol) = text.rsplit_once('/')?;
                let (range, port) = place(place_text)?;
                let protocol = match protocol {
                    "udp" => 17,
                    "tcp" => 6,
                    // A number behind an address alone is the length of a range.
                    _ if place_text.parse::<IpAddr>().is_ok() => return None,
                    number => number.parse().ok()?,
                };
                Some(Destination { range, port, protocol: Some(protocol) })
            })
            .ok_or(DestinationError)
    }
}

/// Reads addresses and a port.
fn place(text: &str) -> Option<(Prefix, Option<u16>)> {
    if let Ok(endpoint) = text.parse::<SocketAddr>() {
        return Some((Prefix::host(endpoint.ip()), Some(endpoint.port())));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((Prefix::host(address), None));
    }
    if let Ok(range) = text.parse::<Prefix>() {
        return Some((range, None));
    }
    let (range, port) = text.rsplit_once(':')?;
    Some((range.parse().ok()?, Some(port.parse().ok()?)))
}

impl fmt::Display for AccessPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.router, self.interface)
    }
}

impl FromStr for AccessPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<AccessPort, &'static str> {
        let parts = text
            .split_once('/')
            .filter(|(router, interface)| !router.is_empty() && !interface.is_empty());
        let (router, interface) = parts.ok_or("an access interface looks like r1/eth1")?;
        Ok(AccessPort { router: router.into(), interface: interface.into() })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn destinations_are_parsed_and_shown() {
        for (text, shown, inside, outside) in [
            ("10.0.2.2:5001/udp", None, ("10.0.2.2", 17, 5_001), ("10.0.2.2", 6, 5_001)),
            ("10.0.2.2:5001", None, ("10.0.2.2", 6, 5_001), ("10.0.2.2", 6, 5_002)),
            ("10.0.2.0/24", None, ("10.0.2.9", 47, 0), ("10.0.3.9", 47, 0)),
            ("10.0.2.0/24/tcp", None, ("10.0.2.9", 6, 80), ("10.0.2.9", 17, 80)),
            ("10.0.2.0/24:80/tcp", None, ("10.0.2.9", 6, 80), ("10.0.2.9", 6, 81)),
            ("10.0.2.2/32/47", None, ("10.0.2.2", 47, 0), ("10.0.2.2", 17, 0)),
            ("10.0.2.2", Some("10.0.2.2/32"), ("10.0.2.2", 1, 1), ("10.0.2.3", 1, 1)),
            ("10.0.2.2/udp", Some("10.0.2.2/32/udp"), ("10.0.2.2", 17, 1), ("10.0.2.2", 6, 1)),
            ("[2001:db8::2]:5/udp", None, ("2001:db8::2", 17, 5), ("2001:db8::3", 17, 5)),
            ("2001:db8::/32", None, ("2001:db8::2", 17, 5), ("2001:db9::3", 17, 5)),
        ] {
            let destination: Destination = text.parse().expect(text);
            assert_eq!(destination.to_string(), shown.unwrap_or(text));
            assert_eq!(destination.to_string().parse(), Ok(destination), "{text}");
            let contains = |(address, protocol, port): (&str, u8, u16)| {
                let address = Prefix::host(address.parse().expect("an address"));
                destination.contains(address, protocol, port)
            };
            assert!(contains(inside) && !contains(outside), "{text}");
        }
        for text in ["", "x", "10.0.2.2:x", "10.0.2.2:1/", "10.0.2.0/33", "10.0.2.2:1/sctp", "/udp"]
        {
            assert_eq!(text.parse::<Destination>(), Err(DestinationError), "{text:?}");
        }
    }

    #[test]
    fn access_interfaces_are_parsed_and_shown() {
        let port: AccessPort = "r1/eth1".parse().expect("a port");
        assert_eq!((port.router.as_str(), port.interface.as_str()), ("r1", "eth1"));
        assert_eq!(port.to_string(), "r1/eth1");
        for text in ["r1", "/eth1", "r1/", ""] {
            assert!(text.parse::<AccessPort>().is_err(), "{text:?}");
        }
    }
}
