//! What the kernel has of the table: answers of nf_tables, decoded.

use std::collections::BTreeSet;

use super::messages::{self, HEADER, LAYOUT, MARK, TABLE};
use super::ruleset::GUARDED;
use super::set::{Element, SetId};
use crate::netlink::{Attribute, Attributes, Connection, NetlinkError};

/// A table of our name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Absent,
    /// Ours, with the number of its layout.
    Ours(u32),
    Foreign,
}

/// An element with its remaining time, milliseconds, and counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) element: Element,
    /// `None`: without end.
    pub(super) remaining_ms: Option<u64>,
    pub(super) counters: FilterStatistics,
}

/// Packets of a rule since its installation, of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterStatistics {
    /// Number of packets.
    pub packets: u64,
    /// Number of their IP octets.
    pub octets: u64,
}

/// Returns the table of our name.
pub(super) fn table(netlink: &mut Connection) -> Result<Table, NetlinkError> {
    let answers = match netlink.ask("read the table", messages::get_table()) {
        Err(error) if error.is(libc::ENOENT) => return Ok(Table::Absent),
        answers => answers?,
    };
    let Some(message) = answers.iter().next() else { return Ok(Table::Absent) };
    let comment = find(message?.attributes(HEADER), 6)?.and_then(|data| comment(data.value));
    let layout = comment.as_deref().and_then(|text| text.strip_prefix(MARK)?.parse().ok());
    Ok(layout.map_or(Table::Foreign, Table::Ours))
}

/// Returns the comment in the user data of a table: entries of type, length and value, of which type 0 is the comment.
fn comment(mut data: &[u8]) -> Option<String> {
    while let Some((&[kind, length], rest)) = data.split_first_chunk() {
        let (value, after) = rest.split_at_checked(length.into())?;
        if kind == 0 {
            return Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned());
        }
        data = after;
    }
    None
}

/// Whether a layout is that of this program.
pub(super) fn is_current(layout: u32) -> bool {
    layout == LAYOUT
}

/// Returns the generation of the rules of the namespace: it changes with every change by anybody.
pub(super) fn generation(netlink: &mut Connection) -> Result<u32, NetlinkError> {
    let answers = netlink.ask("read the generation of the rules", messages::get_generation())?;
    for message in &answers {
        if let Some(generation) = find(message?.attributes(HEADER), 1)? {
            return generation.be32("generation");
        }
    }
    Err(NetlinkError::Malformed { field: "generation", offset: crate::netlink::HEADER })
}

/// Returns our sets that are there. Sets that others have added to the table are left out.
pub(super) fn sets(netlink: &mut Connection) -> Result<BTreeSet<SetId>, NetlinkError> {
    let mut sets = BTreeSet::new();
    for message in &netlink.dump("list the sets", messages::get_sets())? {
        let attributes = message?.attributes(HEADER);
        if find(attributes.clone(), 1)?.is_some_and(|table| table.text() == TABLE)
            && let Some(name) = find(attributes, 2)?
        {
            sets.extend(SetId::named(&name.text()));
        }
    }
    Ok(sets)
}

/// Returns the elements of a set.
pub(super) fn elements(netlink: &mut Connection, set: SetId) -> Result<Vec<Found>, NetlinkError> {
    let mut found = Vec::new();
    for attributes in raw_elements(netlink, &set.to_string())?.octets() {
        found.extend(decode(set, Attributes::new(attributes))?);
    }
    Ok(found)
}

/// Returns an element of a set; `None` if it is not there.
pub(super) fn element(
    netlink: &mut Connection,
    element: &Element,
) -> Result<Option<Found>, NetlinkError> {
    let request = messages::get_element(&element.set.to_string(), &element.key);
    let answers = match netlink.ask("read a rule", request) {
        Err(error) if error.is(libc::ENOENT) => return Ok(None),
        answers => answers?,
    };
    let raw = RawElements::of(&answers)?;
    raw.octets().next().map_or(Ok(None), |octets| decode(element.set, Attributes::new(octets)))
}

/// Returns the names of the guarded interfaces.
pub(super) fn guarded(netlink: &mut Connection) -> Result<BTreeSet<String>, NetlinkError> {
    let mut names = BTreeSet::new();
    for octets in raw_elements(netlink, GUARDED)?.octets() {
        if let Some(key) = value(Attributes::new(octets), 1)? {
            names.insert(key.text());
        }
    }
    Ok(names)
}

/// Returns the chains and rules in the kernel's octets, for comparison with later ones. They have no counters.
pub(super) fn chains_and_rules(netlink: &mut Connection) -> Result<Vec<u8>, NetlinkError> {
    let mut octets = Vec::new();
    for request in [messages::get_chains(), messages::get_rules()] {
        for message in &netlink.dump("list the rules", request)? {
            let message = message?;
            let table = find(message.attributes(HEADER), 1)?;
            if table.is_some_and(|table| table.text() == TABLE) {
                // The header has the generation of the rules, which every change of others raises.
                octets.extend(message.payload.get(HEADER..).unwrap_or_default());
            }
        }
    }
    Ok(octets)
}

/// Returns the lifetime of the element of the probe, milliseconds.
pub(super) fn probe_lifetime(netlink: &mut Connection) -> Result<Option<u64>, NetlinkError> {
    let request = messages::get_element(messages::probe::SET, &messages::probe::KEY);
    let answers = netlink.ask("read a rule", request)?;
    let raw = RawElements::of(&answers)?;
    let Some(octets) = raw.octets().next() else { return Ok(None) };
    find(Attributes::new(octets), 4)?.map(|lifetime| lifetime.be64("lifetime")).transpose()
}

/// The attributes of elements, each as its octets.
struct RawElements(Vec<Vec<u8>>);

impl RawElements {
    fn of(answers: &crate::netlink::Answers) -> Result<RawElements, NetlinkError> {
        let mut raw = Vec::new();
        for message in answers {
            if let Some(list) = find(message?.attributes(HEADER), 3)? {
                for element in list.nested() {
                    raw.push(element?.value.to_vec());
                }
            }
        }
        Ok(RawElements(raw))
    }

    fn octets(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

fn raw_elements(netlink: &mut Connection, set: &str) -> Result<RawElements, NetlinkError> {
    RawElements::of(&netlink.dump("list the rules", messages::get_elements(set))?)
}

/// Decodes an element; `None` without a key, as that of every other key.
fn decode(set: SetId, attributes: Attributes<'_>) -> Result<Option<Found>, NetlinkError> {
    let Some(key) = value(attributes.clone(), 1)? else { return Ok(None) };
    let data = value(attributes.clone(), 2)?.map(|data| data.value.to_vec()).unwrap_or_default();
    let remaining = find(attributes.clone(), 5)?;
    let remaining_ms = remaining.map(|left| left.be64("remaining time")).transpose()?;
    let mut counters = FilterStatistics::default();
    if let Some(expression) = find(attributes, 7)?
        && let Some(data) = find(expression.nested(), 2)?
    {
        let count = |kind| -> Result<u64, NetlinkError> {
            find(data.nested(), kind)?.map_or(Ok(0), |count| count.be64("counter"))
        };
        counters = FilterStatistics { octets: count(1)?, packets: count(2)? };
    }
    let element = Element { set, key: key.value.to_vec(), data };
    Ok(Some(Found { element, remaining_ms, counters }))
}

/// Returns the value (`NFTA_DATA_VALUE`) in an attribute.
fn value(attributes: Attributes<'_>, kind: u16) -> Result<Option<Attribute<'_>>, NetlinkError> {
    find(attributes, kind)?.map_or(Ok(None), |data| find(data.nested(), 1))
}

pub(super) fn find(
    attributes: Attributes<'_>,
    kind: u16,
) -> Result<Option<Attribute<'_>>, NetlinkError> {
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == kind {
            return Ok(Some(attribute));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_of_a_table_is_found_among_other_entries() {
        assert_eq!(comment(b"\x01\x02xy\0\x04abc\0"), Some("abc".to_owned()));
        assert_eq!(comment(b"\x01\x02xy"), None);
        assert_eq!(comment(b"\0\x09ab"), None, "cut");
        assert_eq!(comment(b""), None);
    }
}
