//! Filters of listings by the flow and the link of a row.

use alloc::string::{String, ToString};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{InterfaceId, Prefix};

/// Rows that a listing of sessions or reservations includes: those that have all of what is given. Engines evaluate it before
/// they build a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// Name of the protocol.
    pub protocol: Option<&'static str>,
    /// Destination of the data.
    pub to: Option<EndFilter>,
    /// Source of the data.
    pub from: Option<EndFilter>,
    /// Interface of the data.
    pub link: Option<InterfaceId>,
}

impl RowFilter {
    /// A filter that includes all rows.
    pub const ALL: RowFilter = RowFilter { protocol: None, to: None, from: None, link: None };

    /// Returns whether rows of a flow to this destination are included, as far as the destination decides.
    #[inline]
    pub fn admits_to(&self, address: IpAddr, port: u16) -> bool {
        self.to.is_none_or(|to| to.admits(address, port))
    }

    /// Returns whether rows of a flow from this source are included, as far as the source decides.
    #[inline]
    pub fn admits_from(&self, address: IpAddr, port: u16) -> bool {
        self.from.is_none_or(|from| from.admits(address, port))
    }
}

/// One end of a flow in a filter: an address, `10.0.0.1`; an address with a port, `10.0.0.1:5000`; or a range of addresses,
/// `10.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct EndFilter {
    /// Addresses.
    pub range: Prefix,
    /// Port; `None` for all.
    pub port: Option<u16>,
}

impl EndFilter {
    /// Returns whether this end of a flow is included.
    #[inline]
    pub fn admits(self, address: IpAddr, port: u16) -> bool {
        self.range.contains(address) && self.port.is_none_or(|wanted| wanted == port)
    }
}

/// Error: the text is not an end of a flow in a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one end of a flow looks like 10.0.0.1, 10.0.0.1:5000, [2001:db8::1]:5000 or 10.1.0.0/16")]
pub struct EndFilterError;

impl FromStr for EndFilter {
    type Err = EndFilterError;

    fn from_str(text: &str) -> Result<EndFilter, EndFilterError> {
        if let Ok(address) = text.parse() {
            return Ok(EndFilter { range: Prefix::host(address), port: None });
        }
        if let Ok(end) = text.parse::<SocketAddr>() {
            return Ok(EndFilter { range: Prefix::host(end.ip()), port: Some(end.port()) });
        }
        let range = text.parse().map_err(|_| EndFilterError)?;
        Ok(EndFilter { range, port: None })
    }
}

impl fmt::Display for EndFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EndFilter { range, port } = *self;
        match port {
            Some(port) => SocketAddr::new(range.address(), port).fmt(f),
            None if range == Prefix::host(range.address()) => range.address().fmt(f),
            None => range.fmt(f),
        }
    }
}

impl From<EndFilter> for String {
    fn from(end: EndFilter) -> String {
        end.to_string()
    }
}

impl TryFrom<String> for EndFilter {
    type Error = EndFilterError;

    fn try_from(text: String) -> Result<EndFilter, EndFilterError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> EndFilter {
        text.parse().expect("an end of a flow")
    }

    #[test]
    fn end_is_an_address_with_or_without_port_or_a_range() {
        for (text, address, port, admitted) in [
            ("10.0.0.1", "10.0.0.1", 5_000, true),
            ("10.0.0.1", "10.0.0.2", 5_000, false),
            ("10.0.0.1:5000", "10.0.0.1", 5_000, true),
            ("10.0.0.1:5000", "10.0.0.1", 5_001, false),
            ("10.0.0.1:0", "10.0.0.1", 5_001, false),
            ("10.1.0.0/16", "10.1.255.7", 1, true),
            ("10.1.0.0/16", "10.2.0.1", 1, false),
            ("0.0.0.0/0", "2001:db8::1", 1, false),
            ("[2001:db8::1]:80", "2001:db8::1", 80, true),
            ("2001:db8::/32", "2001:db8:7::1", 80, true),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(end(text).admits(address, port), admitted, "{text} {address} {port}");
            assert_eq!(end(&end(text).to_string()), end(text));
        }
    }

    #[test]
    fn malformed_end_is_rejected() {
        for text in ["", "10.0.0", "10.0.0.0/33", "10.0.0.1:", "10.0.0.1:70000", "::1:", "r1:80"] {
            assert_eq!(text.parse::<EndFilter>(), Err(EndFilterError), "{text}");
        }
    }

    #[test]
    fn filter_includes_flows_that_have_all_of_what_is_given() {
        let filter = RowFilter { to: Some(end("10.0.0.0/8")), ..RowFilter::ALL };
        assert!(filter.admits_to([10, 0, 0, 1].into(), 1));
        assert!(!filter.admits_to([11, 0, 0, 1].into(), 1));
        assert!(filter.admits_from([11, 0, 0, 1].into(), 1));
    }
}
