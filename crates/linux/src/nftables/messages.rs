//! Messages of nf_tables: the table, its chains, rules, sets and elements.
//!
//! Every message begins with `struct nfgenmsg`. Numbers are in network byte order. (Linux:
//! `include/uapi/linux/netfilter/nf_tables.h`.)

use std::collections::BTreeSet;

use super::expression::Expression;
use super::ruleset::{self, Chain, GUARDED};
use super::set::{Element, Purpose, SetId};
use crate::netlink::Message;

/// Name of the table.
pub(super) const TABLE: &str = "earmark";
/// Comment by which the table is recognized, before the number of its layout.
pub(super) const MARK: &str = "Earmark packet filter, layout ";
/// Layout of chains, sets and keys. Raise it when an element of the layout before would mean something else.
pub(super) const LAYOUT: u32 = 1;

/// `NFNL_SUBSYS_NFTABLES`.
pub(super) const SUBSYSTEM: u8 = 10;
/// Octets of `struct nfgenmsg`.
pub(super) const HEADER: usize = 4;

pub(super) const NEW_TABLE: u16 = 0;
const GET_TABLE: u16 = 1;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const GET_CHAIN: u16 = 4;
const NEW_RULE: u16 = 6;
const GET_RULE: u16 = 7;
const DELETE_RULE: u16 = 8;
const NEW_SET: u16 = 9;
const GET_SET: u16 = 10;
const NEW_ELEMENT: u16 = 12;
const GET_ELEMENT: u16 = 13;
const DELETE_ELEMENT: u16 = 14;
const GET_GENERATION: u16 = 16;
/// Deletions that succeed if there is nothing to delete (Linux 6.3).
const DESTROY_SET: u16 = 29;
const DESTROY_ELEMENT: u16 = 30;

const CREATE: u16 = libc::NLM_F_CREATE as u16;

/// Flags of sets (`NFT_SET_...`).
const SET_MAP: u32 = 0x8;
const SET_TIMEOUT: u32 = 0x10;
/// nft's number for the type of interface names.
const INTERFACE_NAME: u32 = 41;
/// Octets of an interface name in a key (`IFNAMSIZ`).
pub(super) const NAME_LENGTH: usize = 16;

fn message(kind: u16, flags: u16) -> Message {
    let family = libc::NFPROTO_INET as u8;
    Message::new(u16::from(SUBSYSTEM) << 8 | kind, flags).fixed(&[family, 0, 0, 0])
}

/// Makes the table, with the mark of this layout.
pub(super) fn new_table() -> Message {
    let mark = format!("{MARK}{LAYOUT}\0");
    let mut comment = vec![0, mark.len() as u8];
    comment.extend(mark.as_bytes());
    message(NEW_TABLE, CREATE).text(1, TABLE).attribute(6, &comment)
}

pub(super) fn delete_table() -> Message {
    message(DELETE_TABLE, 0).text(1, TABLE)
}

pub(super) fn get_table() -> Message {
    message(GET_TABLE, 0).text(1, TABLE)
}

pub(super) fn get_generation() -> Message {
    message(GET_GENERATION, 0)
}

/// Makes every chain that the sets need, or keeps it, and replaces its rules.
pub(super) fn chains_and_rules(sets: &BTreeSet<SetId>) -> Vec<Message> {
    let mut messages = Vec::new();
    for chain in ruleset::chains(sets) {
        let (kind, hook, priority) = chain.hook();
        let accept = 1;
        messages.push(
            message(NEW_CHAIN, CREATE)
                .text(1, TABLE)
                .text(3, chain.name())
                .nested(4, |m| m.be32(1, hook).be32(2, priority as u32))
                .be32(5, accept)
                .text(7, kind),
        );
        messages.push(message(DELETE_RULE, 0).text(1, TABLE).text(2, chain.name()));
        messages.extend(ruleset::rules(chain, sets).iter().map(|rule| new_rule(chain, rule)));
    }
    messages
}

fn new_rule(chain: Chain, rule: &[Expression]) -> Message {
    message(NEW_RULE, CREATE | libc::NLM_F_APPEND as u16)
        .text(1, TABLE)
        .text(2, chain.name())
        .nested(4, |list| rule.iter().fold(list, |list, expression| expression.encode(list)))
}

/// Makes a set, or keeps it. `number`: unique in the batch.
pub(super) fn new_set(set: SetId, number: u32) -> Message {
    let is_map = set.purpose.side().is_some();
    let flags = SET_TIMEOUT | if is_map { SET_MAP } else { 0 };
    let mut m = message(NEW_SET, CREATE)
        .text(1, TABLE)
        .text(2, &set.to_string())
        .be32(3, flags)
        .be32(4, set.shape.data_type())
        .be32(5, set.shape.key_length() as u32)
        .be32(10, number);
    if is_map {
        m = m.be32(6, set.data_type()).be32(7, set.data_length() as u32);
    }
    // Every element of a set of pinholes counts its packets.
    match set.purpose {
        Purpose::Allow | Purpose::Deny => m.nested(17, |m| m.text(1, "counter").nested(2, |m| m)),
        _ => m,
    }
}

/// Makes the set of guarded interfaces, or keeps it, and replaces its elements.
pub(super) fn guarded_interfaces(names: &BTreeSet<String>, number: u32) -> Vec<Message> {
    // nft shows names by the order of octets that is stored with the set.
    const HOST_ORDER: u8 = 1;
    let order = [&[0, 4][..], &u32::from(HOST_ORDER).to_ne_bytes()].concat();
    let set = message(NEW_SET, CREATE)
        .text(1, TABLE)
        .text(2, GUARDED)
        .be32(3, 0)
        .be32(4, INTERFACE_NAME)
        .be32(5, NAME_LENGTH as u32)
        .be32(10, number)
        .attribute(13, &order);
    let of_set = |kind, flags| message(kind, flags).text(1, TABLE).text(2, GUARDED);
    let mut messages = vec![set, of_set(DELETE_ELEMENT, 0)];
    messages.extend(names.iter().map(|name| {
        let mut key = name.clone().into_bytes();
        key.resize(NAME_LENGTH, 0);
        of_set(NEW_ELEMENT, CREATE).nested(3, |m| m.nested(1, |m| with_key(m, &key)))
    }));
    messages
}

fn with_key(m: Message, key: &[u8]) -> Message {
    m.nested(1, |m| m.attribute(1, key))
}

fn element_message(
    kind: u16,
    flags: u16,
    set: &str,
    content: impl FnOnce(Message) -> Message,
) -> Message {
    message(kind, flags).text(1, TABLE).text(2, set).nested(3, |m| m.nested(1, content))
}

/// Adds an element that lives for so many milliseconds; one that is there gets this lifetime (Linux 6.12). Its end is
/// stated, too: the kernel leaves an element as it is whose lifetime stays the same.
pub(super) fn new_element(element: &Element, lifetime_ms: u64) -> Message {
    element_message(NEW_ELEMENT, CREATE, &element.set.to_string(), |m| {
        let m = with_key(m, &element.key);
        let m = match element.data.as_slice() {
            [] => m,
            data => m.nested(2, |m| m.attribute(1, data)),
        };
        m.be64(4, lifetime_ms).be64(5, lifetime_ms)
    })
}

/// Removes an element, if it is there.
pub(super) fn destroy_element(element: &Element) -> Message {
    let set = element.set.to_string();
    element_message(DESTROY_ELEMENT, 0, &set, |m| with_key(m, &element.key))
}

pub(super) fn get_element(set: &str, key: &[u8]) -> Message {
    element_message(GET_ELEMENT, 0, set, |m| with_key(m, key))
}

/// Requests a dump of the elements of a set.
pub(super) fn get_elements(set: &str) -> Message {
    message(GET_ELEMENT, 0).text(1, TABLE).text(2, set)
}

/// Requests a dump of the sets.
pub(super) fn get_sets() -> Message {
    message(GET_SET, 0).text(1, TABLE)
}

/// Requests a dump of the chains of all tables of the family.
pub(super) fn get_chains() -> Message {
    message(GET_CHAIN, 0)
}

/// Requests a dump of the rules.
pub(super) fn get_rules() -> Message {
    message(GET_RULE, 0).text(1, TABLE)
}

/// A set that shows what the kernel supports, with one element that is added twice.
pub(super) mod probe {
    use super::*;

    pub(in crate::nftables) const SET: &str = "probe";
    pub(in crate::nftables) const KEY: [u8; 4] = [10, 0, 0, 1];
    /// Lifetimes of the element, milliseconds.
    pub(in crate::nftables) const LIFETIMES: [u64; 2] = [60_000, 120_000];

    /// Makes the set with its element.
    pub(in crate::nftables) fn make() -> Vec<Message> {
        let address = 7;
        let set = message(NEW_SET, CREATE)
            .text(1, TABLE)
            .text(2, SET)
            .be32(3, SET_TIMEOUT)
            .be32(4, address)
            .be32(5, 4)
            .be32(10, u32::MAX)
            .nested(17, |m| m.text(1, "counter").nested(2, |m| m));
        let element = |lifetime| {
            element_message(NEW_ELEMENT, CREATE, SET, |m| with_key(m, &KEY).be64(4, lifetime))
        };
        vec![destroy(), set, element(LIFETIMES[0]), element(LIFETIMES[1])]
    }

    pub(in crate::nftables) fn destroy() -> Message {
        message(DESTROY_SET, 0).text(1, TABLE).text(2, SET)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::KeyShape;
    use super::*;
    use crate::netlink::Messages;

    #[test]
    fn mark_of_the_table_is_a_comment() {
        let octets = new_table().finish(1);
        let message = Messages::new(&octets).next().expect("one").expect("well-formed");
        let attributes: Vec<_> =
            message.attributes(HEADER).collect::<Result<_, _>>().expect("well-formed");
        assert_eq!(attributes[0].text(), "earmark");
        assert_eq!(attributes[1].value, b"\0\x20Earmark packet filter, layout 1\0");
    }

    #[test]
    fn element_has_key_data_lifetime_and_end() {
        let shape = KeyShape::all().last().map(|s| KeyShape { ipv6: false, ..s }).expect("a shape");
        let set = SetId { purpose: Purpose::DestinationAddress, shape };
        let element = Element { set, key: vec![1, 2, 3, 4], data: vec![5, 6, 7, 8] };
        let octets = new_element(&element, 0x0102).finish(1);
        let expected: &[u8] = &[
            12, 0, 1, 0, b'e', b'a', b'r', b'm', b'a', b'r', b'k', 0, 0x13, 0, 2, 0, b'd', b'n',
            b'a', b't', b'_', b'i', b'p', b'4', b'_', b'd', b'a', b'd', b'd', b'r', 0, 0, 0x38, 0,
            3, 0, 0x34, 0, 1, 0, 0x0c, 0, 1, 0, 8, 0, 1, 0, 1, 2, 3, 4, 0x0c, 0, 2, 0, 8, 0, 1, 0,
            5, 6, 7, 8, 0x0c, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0x0c, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1,
            2,
        ];
        assert!(cfg!(target_endian = "big") || octets.ends_with(expected), "{octets:?}");
    }
}
