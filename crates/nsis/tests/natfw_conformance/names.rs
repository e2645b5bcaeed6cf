//! Names in stories for the random values of a node, and the text of addresses, flows and routing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use earmark_testkit::conformance::words::{Fault, Words};
use earmark_wire::gist::{Direction, LooseEnd, Mri, PathCoupled, SessionId};
use earmark_wire::natfw_nslp::Nonce;

use crate::nslp_story::Identifiers;

/// IP protocols, by name.
const PROTOCOLS: [(&str, u8); 5] =
    [("icmp", 1), ("tcp", 6), ("udp", UDP), ("esp", 50), ("icmpv6", 58)];

/// Protocol of flows for which the story names none.
pub(crate) const UDP: u8 = 17;

/// Random values, by their names in stories, in the order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) sessions: Identifiers,
    /// First sequence numbers of the sessions that the node asks for.
    first: BTreeMap<[u8; 16], u32>,
    /// Nonces of the sessions that the node asks for.
    nonces: BTreeMap<u32, String>,
}

impl Names {
    /// Returns the name of a session.
    pub(crate) fn of_session(&mut self, session: SessionId) -> String {
        let name = self.sessions.name_of('s', session.0);
        if name.starts_with('s') {
            self.nonces.insert(Nonce::of_session(session).0, name.clone());
        }
        name
    }

    /// Returns a sequence number: that of the story, or counted from the first one of a session of the node.
    pub(crate) fn of_msn(&mut self, session: SessionId, msn: u32) -> String {
        if self.sessions.name_of('s', session.0).parse::<u16>().is_ok() {
            return msn.to_string();
        }
        let first = *self.first.entry(session.0).or_insert(msn);
        match msn.wrapping_sub(first) {
            0 => "first".into(),
            later => format!("first+{later}"),
        }
    }

    /// Returns the sequence number of a text.
    pub(crate) fn msn(&self, session: SessionId, text: &str) -> Result<u32, Fault> {
        let Some(later) = text.strip_prefix("first") else {
            return text.parse().map_err(|error| format!("`{text}`: {error}"));
        };
        let first = self.first.get(&session.0).ok_or("the node has sent no such request")?;
        let later = later.strip_prefix('+').unwrap_or("0").parse();
        Ok(first.wrapping_add(later.map_err(|error| format!("`{text}`: {error}"))?))
    }

    /// Returns a nonce: its number in the story, or the session of the node whose identifier it is.
    pub(crate) fn of_nonce(&self, nonce: u32) -> String {
        self.nonces.get(&nonce).map_or_else(|| nonce.to_string(), Clone::clone)
    }

    /// Returns the nonce of a text.
    pub(crate) fn nonce(&self, text: &str) -> Result<u32, Fault> {
        let known = self.nonces.iter().find(|(_, name)| *name == text).map(|(nonce, _)| *nonce);
        known.or_else(|| text.parse().ok()).ok_or_else(|| format!("no session `{text}` was seen"))
    }
}

/// Addresses with their prefix and port, as a line has them: `10.0.1.9`, `10.0.1.0/24`, `10.0.1.9:5000`,
/// `[2001:db8::9]:5000`. Port 0 is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
    pub(crate) port: Option<u16>,
}

impl Addresses {
    /// Takes `name=...`.
    pub(crate) fn read(words: &mut Words<'_>, name: &str) -> Result<Addresses, Fault> {
        Addresses::parse(words.text(name).ok_or_else(|| format!("{name}=... is missing"))?)
    }

    /// Parses the text of addresses.
    pub(crate) fn parse(text: &str) -> Result<Addresses, Fault> {
        let fault = |error: &dyn std::fmt::Display| format!("`{text}`: {error}");
        let (range, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (range, port) = rest.split_once("]:").ok_or_else(|| fault(&"no port"))?;
                (range, Some(port))
            }
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(range, port)| (range, Some(port))),
        };
        let (address, prefix) = range
            .split_once('/')
            .map_or((range, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|error| fault(&error))?;
        let prefix = prefix.map(str::parse).transpose().map_err(|error| fault(&error))?;
        let port = port.map(str::parse).transpose().map_err(|error| fault(&error))?;
        Ok(Addresses { address, prefix: prefix.unwrap_or(bits(address)), port })
    }

    /// Returns the text of addresses.
    pub(crate) fn text(self) -> String {
        let Addresses { address, prefix, port } = self;
        let range = match prefix == bits(address) {
            true => address.to_string(),
            false => format!("{address}/{prefix}"),
        };
        match port {
            None => range,
            Some(port) if address.is_ipv4() => format!("{range}:{port}"),
            Some(port) => format!("[{range}]:{port}"),
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the name of an IP protocol, or its number.
pub(crate) fn protocol_text(protocol: u8) -> String {
    let known = PROTOCOLS.iter().find(|(_, number)| *number == protocol);
    known.map_or_else(|| protocol.to_string(), |(name, _)| (*name).into())
}

/// Returns the IP protocol of a name or a number.
pub(crate) fn protocol(text: &str) -> Result<u8, Fault> {
    let known = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    known.or_else(|| text.parse().ok()).ok_or_else(|| format!("`{text}` is no IP protocol"))
}

/// Returns the text of an MRI: `down from=10.0.1.9:5000 to=198.51.100.9:6000`, with `loose-end` in front for this method.
pub(crate) fn routing_text(mri: &Mri) -> String {
    let way = match mri.direction() {
        Direction::Downstream => "down",
        Direction::Upstream => "up",
    };
    let mri = match mri {
        Mri::LooseEnd(LooseEnd { source, destination, .. }) => {
            return format!("loose-end {way} from={source} to={destination}");
        }
        Mri::PathCoupled(mri) => mri,
    };
    let PathCoupled { source_prefix: prefix, source_port: port, .. } = *mri;
    let from = Addresses { address: mri.source, prefix, port }.text();
    let PathCoupled { destination_prefix: prefix, destination_port: port, .. } = *mri;
    let to = Addresses { address: mri.destination, prefix, port }.text();
    let protocol = match mri.protocol {
        Some(UDP) => String::new(),
        Some(protocol) => format!(" protocol={}", protocol_text(protocol)),
        None => " protocol=any".into(),
    };
    let spi = mri.spi.map(|spi| format!(" spi={spi}")).unwrap_or_default();
    format!("{way} from={from} to={to}{protocol}{spi}")
}

/// Takes the routing of a message.
pub(crate) fn routing(words: &mut Words<'_>) -> Result<Mri, Fault> {
    let is_loose = words.flag_first("loose-end");
    let direction = match words.next("a direction")? {
        "down" => Direction::Downstream,
        "up" => Direction::Upstream,
        other => return Err(format!("`{other}`: say `down` or `up`")),
    };
    let (from, to) = (Addresses::read(words, "from")?, Addresses::read(words, "to")?);
    if is_loose {
        let (source, destination) = (from.address, to.address);
        return Ok(Mri::LooseEnd(LooseEnd { source, destination, direction }));
    }
    Ok(Mri::PathCoupled(PathCoupled {
        source: from.address,
        destination: to.address,
        source_prefix: from.prefix,
        destination_prefix: to.prefix,
        protocol: match words.text("protocol") {
            None => Some(UDP),
            Some("any") => None,
            Some(name) => Some(protocol(name)?),
        },
        ds_field: None,
        flow_label: None,
        spi: words.maybe("spi")?,
        source_port: from.port,
        destination_port: to.port,
        direction,
    }))
}
