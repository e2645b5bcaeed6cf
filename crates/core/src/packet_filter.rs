//! Rules of the packet filter of a node: pinholes of a firewall, and bindings of an address translator.
//!
//! An engine asks for rules by [`FilterChange`]; the driver installs them. A rule is found by its packets alone, so that
//! there is at most one for the same packets, and it ends by itself unless it is installed again: a node that stops
//! leaves no pinhole open for longer than its session lasts.

use core::fmt;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Flow, FlowError, Time};

/// Packets of one rule, with the addresses and ports that they have before any translation. Replies belong to the packets
/// that they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FilteredPackets {
    /// Addresses, protocol and ports. Sources are one address or any.
    pub flow: Flow,
    /// ICMP type, in flows of ICMP or ICMPv6; `None` for every type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u8>,
}

/// What a packet filter does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FilterAction {
    /// Forward them.
    Allow,
    /// Drop them.
    Deny,
}

/// An address and a port; port 0 leaves the port as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.port) {
            (address, 0) => address.fmt(f),
            (IpAddr::V4(address), port) => write!(f, "{address}:{port}"),
            (IpAddr::V6(address), port) => write!(f, "[{address}]:{port}"),
        }
    }
}

/// A rule of the packet filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilterRule {
    /// The packets.
    pub packets: FilteredPackets,
    /// What happens to them.
    pub action: FilterAction,
    /// Source that the packets get, if it is translated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Endpoint>,
    /// Destination that the packets get, if it is translated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Endpoint>,
}

impl FilterRule {
    /// Returns whether the rule translates addresses.
    pub const fn translates(&self) -> bool {
        self.source.is_some() || self.destination.is_some()
    }

    /// Checks whether a packet filter can keep the rule.
    ///
    /// # Errors
    /// The packets cannot be matched, or the translation contradicts them.
    pub fn check(&self) -> Result<(), FilterRuleError> {
        let FilteredPackets { flow, icmp_type } = self.packets;
        flow.check()?;
        let is_icmp = match flow.destination {
            IpAddr::V4(_) => flow.protocol == 1,
            IpAddr::V6(_) => flow.protocol == 58,
        };
        let translated = self.source.into_iter().chain(self.destination);
        if flow.source_open != 0 || flow.destination_open != 0 {
            Err(FilterRuleError::Range)
        } else if flow.dscp != 0 || flow.flow_label != 0 {
            Err(FilterRuleError::Unsupported)
        } else if icmp_type.is_some() && !is_icmp {
            Err(FilterRuleError::IcmpType)
        } else if self.translates() && self.action == FilterAction::Deny {
            Err(FilterRuleError::DeniedTranslation)
        } else if translated.clone().any(|to| to.address.is_ipv4() != flow.destination.is_ipv4()) {
            Err(FilterRuleError::Family)
        } else if self.source.is_some() && flow.source.is_none() {
            Err(FilterRuleError::AnySource)
        } else if self.source.is_some_and(|to| to.port != 0) && flow.source_port == 0
            || self.destination.is_some_and(|to| to.port != 0) && flow.destination_port == 0
        {
            Err(FilterRuleError::AnyPort)
        } else {
            Ok(())
        }
    }
}

/// Reason why a packet filter cannot keep a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterRuleError {
    /// No classifier can match the packets.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// Addresses are ranges.
    #[error("its addresses are ranges")]
    Range,
    /// A DSCP or a flow label.
    #[error("it names a DSCP or a flow label")]
    Unsupported,
    /// An ICMP type without ICMP.
    #[error("it names an ICMP type, but its protocol is not ICMP")]
    IcmpType,
    /// Packets that are dropped are not translated.
    #[error("it drops packets and translates their addresses")]
    DeniedTranslation,
    /// An address is translated to one of the other family.
    #[error("it translates an address to one of another family")]
    Family,
    /// Many sources are translated to one.
    #[error("it translates every source to one")]
    AnySource,
    /// Many ports are translated to one.
    #[error("it translates every port to one")]
    AnyPort,
}

/// A change of the packet filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterChange {
    /// Installs a rule until a time, or replaces the rule and the end of the same packets.
    Install(FilterRule, Time),
    /// Removes the rule of these packets, and the connections that it has let pass.
    Remove(FilteredPackets),
}

/// An event of the packet filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterEvent {
    /// The packet filter has refused a rule; nothing is installed for these packets.
    Refused {
        /// The packets.
        packets: FilteredPackets,
        /// System error number.
        errno: u16,
    },
    /// The packet filter has a rule of an earlier run of this node until a time, unless it is installed again.
    Adopted(FilterRule, Time),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prefix;

    fn rule(protocol: u8) -> FilterRule {
        let flow = Flow {
            source: Some([10, 0, 0, 1].into()),
            protocol,
            ..Flow::to_range(Prefix::host([203, 0, 113, 1].into()))
        };
        let packets = FilteredPackets { flow, icmp_type: None };
        FilterRule { packets, action: FilterAction::Allow, source: None, destination: None }
    }

    #[test]
    fn contradictory_rules_are_refused() {
        use FilterRuleError as E;
        let to = |port| Some(Endpoint { address: [192, 0, 2, 1].into(), port });
        let ipv6 = Some(Endpoint { address: [0; 16].into(), port: 0 });
        let with = |change: &dyn Fn(&mut FilterRule)| {
            let mut rule = rule(17);
            change(&mut rule);
            rule.check()
        };
        assert_eq!(rule(17).check(), Ok(()));
        assert_eq!(rule(0).check(), Ok(()), "packets of every protocol");
        assert_eq!(with(&|r| r.packets.flow.protocol = 1), Ok(()));
        for (expected, actual) in [
            (Err(E::IcmpType), with(&|r| r.packets.icmp_type = Some(8))),
            (
                Err(E::Flow(FlowError::NoPorts)),
                with(&|r| {
                    r.packets.flow.protocol = 1;
                    r.packets.flow.source_port = 7;
                }),
            ),
            (
                Err(E::Range),
                with(&|r| {
                    r.packets.flow.source = Some([10, 0, 0, 0].into());
                    r.packets.flow.source_open = 8;
                }),
            ),
            (Err(E::Family), with(&|r| r.source = ipv6)),
            (Err(E::AnyPort), with(&|r| r.source = to(9))),
            (Err(E::AnyPort), with(&|r| r.destination = to(9))),
            (Ok(()), with(&|r| r.source = to(0))),
            (
                Ok(()),
                with(&|r| {
                    r.packets.flow.destination_port = 5;
                    r.destination = to(9);
                }),
            ),
            (
                Err(E::AnySource),
                with(&|r| {
                    r.packets.flow.source = None;
                    r.source = to(0);
                }),
            ),
            (
                Err(E::DeniedTranslation),
                with(&|r| {
                    r.action = FilterAction::Deny;
                    r.source = to(0);
                }),
            ),
        ] {
            assert_eq!(actual, expected);
        }
        let mut echo = rule(1);
        echo.packets.icmp_type = Some(8);
        assert_eq!(echo.check(), Ok(()));
        echo.packets.flow.flow_label = 0;
        echo.packets.flow.protocol = 58;
        assert_eq!(echo.check(), Err(E::IcmpType), "ICMPv6 in IPv4");
    }

    #[test]
    fn endpoints_are_written_as_users_write_them() {
        extern crate std;
        use std::string::ToString;
        let text = |address: IpAddr, port| Endpoint { address, port }.to_string();
        assert_eq!(text([192, 0, 2, 1].into(), 0), "192.0.2.1");
        assert_eq!(text([192, 0, 2, 1].into(), 80), "192.0.2.1:80");
        assert_eq!(text([0; 16].into(), 80), "[::]:80");
    }
}
