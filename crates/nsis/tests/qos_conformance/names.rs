//! Names in stories for the random values of a node, and for flows.

use earmark_testkit::conformance::words::{Fault, Words};
use std::collections::BTreeMap;
use std::net::IpAddr;

use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::{Direction, PathCoupled, SessionId};

use crate::nslp_story::Identifiers;

/// Limit of the numbers of stories; random values of a node are above it.
const OWN_NUMBERS: u32 = 1 << 16;

/// Random values, by their names in stories, in the order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// SESSION-IDs and MSG-IDs.
    pub(crate) long: Identifiers,
    riis: BTreeMap<String, u32>,
    /// The epoch of the node under test.
    epoch: Option<u32>,
}

impl Names {
    /// Returns the name of a SESSION-ID (`kind` s) or MSG-ID (m): its number in the story, or a new name.
    pub(crate) fn of_long(&mut self, kind: char, id: [u8; 16]) -> String {
        self.long.name_of(kind, id)
    }

    /// Returns the SESSION-ID or MSG-ID of a name.
    pub(crate) fn long(&self, text: &str) -> Result<[u8; 16], Fault> {
        self.long.find(text)
    }

    pub(crate) fn session(&self, text: &str) -> Result<SessionId, Fault> {
        self.long(text).map(SessionId)
    }

    pub(crate) fn of_rii(&mut self, rii: u32) -> String {
        if rii < OWN_NUMBERS {
            return rii.to_string();
        }
        if let Some((name, _)) = self.riis.iter().find(|(_, known)| **known == rii) {
            return name.clone();
        }
        let name = format!("r{}", self.riis.len() + 1);
        self.riis.insert(name.clone(), rii);
        name
    }

    pub(crate) fn rii(&self, text: &str) -> Result<u32, Fault> {
        let known = self.riis.get(text).copied().or_else(|| text.parse().ok());
        known.ok_or_else(|| format!("no RII `{text}` was seen"))
    }

    pub(crate) fn of_epoch(&mut self, epoch: u32) -> String {
        if epoch < OWN_NUMBERS {
            return epoch.to_string();
        }
        assert_eq!(*self.epoch.get_or_insert(epoch), epoch, "a node has one epoch");
        "own".into()
    }

    pub(crate) fn epoch(&self, text: &str) -> Result<u32, Fault> {
        let own = self.epoch.filter(|_| text == "own");
        own.or_else(|| text.parse().ok()).ok_or_else(|| format!("no epoch `{text}` was seen"))
    }
}

/// Returns the flow of all stories: UDP from 10.0.1.9 port 5000 to 10.0.9.9 port 6000.
pub(crate) fn flow() -> PathCoupled {
    udp_flow(([10, 0, 1, 9], 5_000), ([10, 0, 9, 9], 6_000))
}

/// Returns the flow in the reverse direction.
pub(crate) fn flow_back() -> PathCoupled {
    let there = flow();
    PathCoupled {
        source: there.destination,
        destination: there.source,
        source_port: there.destination_port,
        destination_port: there.source_port,
        ..there
    }
}

/// Returns the text of an MRI: `down`, `up`, with `back` for the reverse flow, or with addresses for others.
pub(crate) fn way_text(mri: &PathCoupled) -> String {
    let way = match mri.direction {
        Direction::Downstream => "down",
        Direction::Upstream => "up",
    };
    let along = |flow| *mri == PathCoupled { direction: mri.direction, ..flow };
    if along(flow()) {
        return way.into();
    }
    if along(flow_back()) {
        return format!("{way} back");
    }
    let address = |address: IpAddr, prefix: u8| format!("{address}/{prefix}");
    let from = address(mri.source, mri.source_prefix);
    let to = address(mri.destination, mri.destination_prefix);
    let mut text = format!("{way} from={from} to={to}");
    for (name, value) in [
        ("protocol", mri.protocol.map(u32::from)),
        ("ds", mri.ds_field.map(u32::from)),
        ("from-port", mri.source_port.map(u32::from)),
        ("to-port", mri.destination_port.map(u32::from)),
    ] {
        if let Some(value) = value {
            text += &format!(" {name}={value}");
        }
    }
    text
}

/// Returns the MRI of a text.
pub(crate) fn way(words: &mut Words<'_>) -> Result<PathCoupled, Fault> {
    let direction = match words.next("a direction")? {
        "down" => Direction::Downstream,
        "up" => Direction::Upstream,
        other => return Err(format!("`{other}`: say `down` or `up`")),
    };
    let mut mri = if words.flag("back") { flow_back() } else { flow() };
    mri.direction = direction;
    if let (Some(from), Some(to)) = (words.text("from"), words.text("to")) {
        (mri.source, mri.source_prefix) = address(from)?;
        (mri.destination, mri.destination_prefix) = address(to)?;
        mri.protocol = words.maybe("protocol")?;
        mri.ds_field = words.maybe("ds")?;
        mri.source_port = words.maybe("from-port")?;
        mri.destination_port = words.maybe("to-port")?;
    }
    Ok(mri)
}

fn address(text: &str) -> Result<(IpAddr, u8), Fault> {
    let (address, prefix) = text.split_once('/').ok_or("an address has a prefix")?;
    let address = address.parse().map_err(|error| format!("`{text}`: {error}"))?;
    let prefix = prefix.parse().map_err(|error| format!("`{text}`: {error}"))?;
    Ok((address, prefix))
}
