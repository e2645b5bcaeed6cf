//! Values of the NATFW NSLP objects, except NATFW_INFO and NATFW_DTINFO (RFC 5973 section 4.2).

use core::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::error::ErrorKind;
use crate::nsis::SessionId;
use crate::serialize::{Sequence, Text};

/// NATFW_EXTERNAL_IP: the public IPv4 address at an edge NAT (RFC 5973 section 4.2.2). The RFC defines no form for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExternalAddress {
    /// Public address.
    pub address: Ipv4Addr,
    /// Port; 0 if only an address is reserved.
    pub port: u16,
}

/// NATFW_EXTERNAL_BINDING: the external IPv4 addresses at the NATs of a path (RFC 5973 section 4.2.3). The RFC defines no form
/// for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalBinding<'a> {
    /// Port, the only one in the object, however many addresses it has; 0 if only addresses are reserved.
    pub port: u16,
    /// Addresses as on the wire; see [`addresses`](ExternalBinding::addresses). Empty in a request to NATs to add theirs.
    pub wire: &'a [[u8; 4]],
}

impl<'a> ExternalBinding<'a> {
    /// Iterates over the addresses.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = Ipv4Addr> + Clone + 'a {
        self.wire.iter().map(|octets| Ipv4Addr::from(*octets))
    }

    /// Parses the value of either object with addresses.
    pub(super) fn parse(value: &'a [u8]) -> Result<ExternalBinding<'a>, ErrorKind> {
        let Some((&[p0, p1, version, _], rest)) = value.split_first_chunk() else {
            return Err(ErrorKind::ValueLength);
        };
        // Addresses of another version have another length, which is not the fault.
        if version >> 4 != IP_VERSION {
            return Err(ErrorKind::IpVersion);
        }
        let (wire, []) = rest.as_chunks() else { return Err(ErrorKind::ValueLength) };
        Ok(ExternalBinding { port: u16::from_be_bytes([p0, p1]), wire })
    }

    /// Returns the first word of the value.
    pub(super) const fn head(port: u16) -> [u8; 4] {
        let [p0, p1] = port.to_be_bytes();
        [p0, p1, IP_VERSION << 4, 0]
    }
}

/// IP version of the addresses in objects.
const IP_VERSION: u8 = 4;

impl ExternalAddress {
    pub(super) fn parse(value: &[u8]) -> Result<ExternalAddress, ErrorKind> {
        match ExternalBinding::parse(value)? {
            ExternalBinding { port, wire: [address] } => {
                Ok(ExternalAddress { address: Ipv4Addr::from(*address), port })
            }
            _ => Err(ErrorKind::ValueLength),
        }
    }

    pub(super) const fn octets(self) -> [u8; 8] {
        let ([p0, p1, version, _], [a, b, c, d]) =
            (ExternalBinding::head(self.port), self.address.octets());
        [p0, p1, version, 0, a, b, c, d]
    }
}

/// Action of a policy rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RuleAction {
    /// 0x0001: data and signalling pass.
    Allow,
    /// 0x0002: data and signalling are blocked.
    Deny,
}

impl RuleAction {
    /// Returns the number in NATFW_EFI.
    pub const fn code(self) -> u16 {
        match self {
            RuleAction::Allow => 1,
            RuleAction::Deny => 2,
        }
    }

    /// Returns the name in the standard.
    pub const fn name(self) -> &'static str {
        match self {
            RuleAction::Allow => "allow",
            RuleAction::Deny => "deny",
        }
    }
}

/// NATFW_EFI, the extended flow information: the part of a policy rule that the MRI does not have (RFC 5973 section 4.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct ExtendedFlow {
    /// Action of the rule.
    pub action: RuleAction,
    /// Whether the rule also applies to the port after that of the flow: sub_ports is 1.
    pub next_port: bool,
}

impl ExtendedFlow {
    pub(super) fn parse(value: &[u8]) -> Result<ExtendedFlow, ErrorKind> {
        let &[a0, a1, s0, s1] = <&[u8; 4]>::try_from(value).map_err(|_| ErrorKind::ValueLength)?;
        let action = match u16::from_be_bytes([a0, a1]) {
            1 => RuleAction::Allow,
            2 => RuleAction::Deny,
            _ => return Err(ErrorKind::RuleAction),
        };
        let next_port = match u16::from_be_bytes([s0, s1]) {
            0 => false,
            1 => true,
            _ => return Err(ErrorKind::SubPorts),
        };
        Ok(ExtendedFlow { action, next_port })
    }

    pub(super) fn octets(self) -> [u8; 4] {
        let [a0, a1] = self.action.code().to_be_bytes();
        [a0, a1, 0, u8::from(self.next_port)]
    }
}

/// NATFW_NONCE: the correlation of a CREATE of an edge with the EXTERNAL that triggered it (RFC 5973 sections 3.7.6.1, 4.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(pub u32);

impl Nonce {
    /// Returns the nonce of an EXTERNAL in proxy mode: the first word of its session identifier, which is random.
    pub const fn of_session(session: SessionId) -> Nonce {
        let [a, b, c, d, ..] = session.0;
        Nonce(u32::from_be_bytes([a, b, c, d]))
    }
}

/// Parses the value of NATFW_ICMP_TYPES; returns the types without padding (RFC 5973 section 4.2.9).
pub(super) fn parse_icmp_types(value: &[u8]) -> Result<&[u8], ErrorKind> {
    let (&count, rest) = value.split_first().ok_or(ErrorKind::ValueLength)?;
    if icmp_types_len(count.into()) != value.len() {
        return Err(ErrorKind::ValueLength);
    }
    rest.get(..usize::from(count)).ok_or(ErrorKind::ValueLength)
}

/// Length of the value of NATFW_ICMP_TYPES, padding included; octets.
pub(super) const fn icmp_types_len(types: usize) -> usize {
    (1 + types).next_multiple_of(4)
}

serialize_as!(ExternalBinding<'_>, |it| map! {
    "port": it.port,
    "addresses": Sequence(it.addresses().map(Text)),
});

serialize_as!(ExtendedFlow, |it| map! {
    "action": it.action.name(),
    "sub_ports": u8::from(it.next_port),
});
