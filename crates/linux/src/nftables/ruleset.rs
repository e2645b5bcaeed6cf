//! Chains and rules of the table: fixed by the sets that exist and never by the elements in them.
//!
//! | chain | hook | rules |
//! |---|---|---|
//! | `prerouting` | prerouting, `dstnat` | one for each map of destinations |
//! | `forward` | forward, `filter` + 1 | one or more for each set of denied packets, then for each of allowed packets, then those of guarded interfaces |
//! | `postrouting` | postrouting, `srcnat` | one for each map of sources |
//!
//! Keys are those of the first packet of the connection (`ct original`), so that replies, ICMP errors and translated packets
//! belong to the pinhole of the packets that they answer. Connection tracking reassembles fragments.

use std::collections::BTreeSet;

use super::expression::{
    ACCEPT, Connection, DROP, Expression, FIRST_REGISTER, Header, Meta, ORIGINAL, REPLY,
};
use super::set::{Purpose, SetId, Side};
use super::shape::{Field, KeyKind, KeyShape};

/// Name of the set of guarded interfaces.
pub(super) const GUARDED: &str = "guarded";

/// Bits of `ct state` (`NF_CT_STATE_...`).
const INVALID: u32 = 1;
const RELATED: u32 = 1 << 2;
const UNTRACKED: u32 = 1 << 6;

/// A base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Chain {
    Prerouting,
    Forward,
    Postrouting,
}

impl Chain {
    pub(super) const ALL: [Chain; 3] = [Chain::Prerouting, Chain::Forward, Chain::Postrouting];

    pub(super) fn name(self) -> &'static str {
        match self {
            Chain::Prerouting => "prerouting",
            Chain::Forward => "forward",
            Chain::Postrouting => "postrouting",
        }
    }

    /// Returns the type of the chain, its hook (`NF_INET_...`) and its priority.
    pub(super) fn hook(self) -> (&'static str, u32, i32) {
        match self {
            Chain::Prerouting => ("nat", 0, -100),
            Chain::Forward => ("filter", 2, 1),
            Chain::Postrouting => ("nat", 4, 100),
        }
    }

    fn of(set: SetId) -> Chain {
        match set.purpose.side() {
            None => Chain::Forward,
            Some(Side::Destination) => Chain::Prerouting,
            Some(Side::Source) => Chain::Postrouting,
        }
    }
}

/// Returns the chains that a table with these sets has. Chains that translate are absent while there is nothing to
/// translate, because each costs time for every packet.
pub(super) fn chains(sets: &BTreeSet<SetId>) -> impl Iterator<Item = Chain> {
    Chain::ALL
        .into_iter()
        .filter(|&chain| chain == Chain::Forward || sets.iter().any(|&set| Chain::of(set) == chain))
}

/// Returns the rules of a chain, in order.
pub(super) fn rules(chain: Chain, sets: &BTreeSet<SetId>) -> Vec<Vec<Expression>> {
    let of_chain = sets.iter().filter(|&&set| Chain::of(set) == chain);
    let mut rules: Vec<Vec<Expression>> = of_chain.flat_map(|&set| rules_of_set(set)).collect();
    if chain == Chain::Forward {
        rules.extend(rules_of_guarded_interfaces());
    }
    rules
}

/// Where the fields of a key stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeySource {
    /// In the first packet of the connection.
    Original,
    /// In the packet itself.
    Packet,
    /// In the packet that an ICMP error quotes.
    Quoted,
}

fn rules_of_set(set: SetId) -> Vec<Vec<Expression>> {
    let shape = set.shape;
    let translates = set.purpose.side().is_some();
    let rule = |conditions: Vec<Expression>, key: Vec<Expression>| {
        [conditions, key, outcome(set).to_vec()].concat()
    };
    match shape.fields().last() {
        // Connection tracking knows no SPI, and an SPI is of one direction: packets of the other, and errors about them,
        // belong to a rule of their own.
        Some(Field::Spi) => {
            let protocols = shape.protocols_with_spi().into_iter();
            let rules = protocols.flat_map(|(protocol, offset)| {
                let key = |from| load_key(shape, from, offset);
                let load =
                    Expression::LoadConnection { key: Connection::Protocol, to: FIRST_REGISTER };
                let of_protocol = [load, equals(vec![protocol])];
                let in_direction = |direction| {
                    direction_is(direction).into_iter().chain(of_protocol.clone()).collect()
                };
                let mut related = state_has(RELATED);
                related.extend(of_protocol.clone());
                [
                    rule(in_direction(ORIGINAL), key(KeySource::Original)),
                    rule(in_direction(REPLY), key(KeySource::Packet)),
                    rule(related, key(KeySource::Quoted)),
                ]
            });
            rules.collect()
        }
        // Connection tracking has the type of the request alone: errors, and replies that have a rule of their own, are
        // known by their header.
        Some(Field::IcmpType) if !translates => {
            let key = |from| load_key(shape, from, 0);
            vec![rule(vec![], key(KeySource::Original)), rule(vec![], key(KeySource::Packet))]
        }
        _ => vec![rule(vec![], load_key(shape, KeySource::Original, 0))],
    }
}

/// Loads a key into the registers from the first one. `spi_offset`: that of the SPI in its header.
fn load_key(shape: KeyShape, from: KeySource, spi_offset: u32) -> Vec<Expression> {
    let is_meta =
        |key, value: u8| [Expression::LoadMeta { key, to: FIRST_REGISTER }, equals(vec![value])];
    let connection = |key, to| Expression::LoadConnection { key, to };
    let header = |header, offset, length, to| Expression::LoadHeader { header, offset, length, to };
    let family = if shape.ipv6 { libc::NFPROTO_IPV6 } else { libc::NFPROTO_IPV4 };
    // Offsets in the IP header, and its length (a quoted packet with options or extension headers is not recognized).
    let (source, destination, protocol, length, ip) =
        if shape.ipv6 { (8, 24, 6, 16, 40) } else { (12, 16, 9, 4, 20) };
    /// Octets of ICMP before the quoted packet.
    const QUOTED_AT: u32 = 8;
    let mut expressions = Vec::new();
    let has_type = shape.kind == KeyKind::IcmpType;
    if from != KeySource::Original {
        expressions.extend(is_meta(Meta::Family, family as u8));
    }
    // In a header of another protocol other values lie where the type is.
    if from == KeySource::Quoted || from == KeySource::Packet && has_type {
        expressions.extend(is_meta(Meta::Protocol, shape.icmp()));
    }
    let in_ip = |offset, length, to| match from {
        KeySource::Quoted => header(Header::Transport, QUOTED_AT + offset, length, to),
        _ => header(Header::Network, offset, length, to),
    };
    let is_original = from == KeySource::Original;
    let mut to = FIRST_REGISTER;
    for field in shape.fields() {
        match field {
            Field::SourceAddress if is_original => {
                expressions.push(connection(Connection::Source(shape.ipv6), to));
            }
            Field::SourceAddress => expressions.push(in_ip(source, length, to)),
            Field::DestinationAddress if is_original => {
                expressions.push(connection(Connection::Destination(shape.ipv6), to));
            }
            Field::DestinationAddress => expressions.push(in_ip(destination, length, to)),
            Field::Protocol if is_original => {
                expressions.push(connection(Connection::Protocol, to));
            }
            Field::Protocol if from == KeySource::Quoted => {
                expressions.push(in_ip(protocol, 1, to));
            }
            Field::Protocol => expressions.push(Expression::LoadMeta { key: Meta::Protocol, to }),
            Field::SourcePort => expressions.push(connection(Connection::SourcePort, to)),
            Field::DestinationPort => expressions.push(connection(Connection::DestinationPort, to)),
            Field::Spi => {
                let quoted = if from == KeySource::Quoted { QUOTED_AT + ip } else { 0 };
                expressions.push(header(Header::Transport, quoted + spi_offset, 4, to));
                expressions.push(Expression::ToHostOrder { register: to });
            }
            // Type and code stand where other protocols have the destination port.
            Field::IcmpType if is_original => {
                expressions.push(connection(Connection::DestinationPort, to));
                expressions.push(Expression::Mask { register: to, mask: vec![0xff, 0] });
            }
            Field::IcmpType => expressions.push(header(Header::Transport, 0, 1, to)),
        }
        to += shape.width(field) as u32 / 4;
    }
    expressions
}

/// Looks a key up, and does what the set is for.
fn outcome(set: SetId) -> [Expression; 2] {
    let is_map = set.purpose.side().is_some();
    let lookup = Expression::Lookup { set: set.to_string(), key: FIRST_REGISTER, is_map };
    let then = match (set.purpose, set.purpose.side()) {
        (_, Some(side)) => Expression::Translate {
            source: side == Side::Source,
            ipv6: set.shape.ipv6,
            port: set.purpose.has_port(),
        },
        (Purpose::Deny, None) => Expression::Verdict(DROP),
        (_, None) => Expression::Verdict(ACCEPT),
    };
    [lookup, then]
}

/// Returns the rules for packets without an element: nobody behind a guarded interface begins a connection, and no reply
/// returns there.
fn rules_of_guarded_interfaces() -> [Vec<Expression>; 3] {
    let through = |key| {
        let set = GUARDED.to_owned();
        vec![
            Expression::LoadMeta { key, to: FIRST_REGISTER },
            Expression::Lookup { set, key: FIRST_REGISTER, is_map: false },
        ]
    };
    let without_connection = state_has(INVALID | UNTRACKED);
    [
        [through(Meta::IncomingName), without_connection].concat(),
        [through(Meta::IncomingName), direction_is(ORIGINAL)].concat(),
        [through(Meta::OutgoingName), direction_is(REPLY)].concat(),
    ]
    .map(|mut rule| {
        rule.push(Expression::Verdict(DROP));
        rule
    })
}

fn direction_is(direction: u8) -> Vec<Expression> {
    let load = Expression::LoadConnection { key: Connection::Direction, to: FIRST_REGISTER };
    vec![load, equals(vec![direction])]
}

fn state_has(bits: u32) -> Vec<Expression> {
    vec![
        Expression::LoadConnection { key: Connection::State, to: FIRST_REGISTER },
        Expression::Mask { register: FIRST_REGISTER, mask: bits.to_ne_bytes().to_vec() },
        Expression::Compare { register: FIRST_REGISTER, equal: false, value: vec![0; 4] },
    ]
}

fn equals(value: Vec<u8>) -> Expression {
    Expression::Compare { register: FIRST_REGISTER, equal: true, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_that_translate_exist_only_with_maps() {
        let shape = KeyShape { kind: KeyKind::Protocol, any_source: false, ipv6: false };
        let set = |purpose| SetId { purpose, shape };
        let chains = |sets: &[SetId]| chains(&sets.iter().copied().collect()).collect::<Vec<_>>();
        assert_eq!(chains(&[]), [Chain::Forward]);
        assert_eq!(chains(&[set(Purpose::Allow)]), [Chain::Forward]);
        assert_eq!(
            chains(&[set(Purpose::Allow), set(Purpose::SourceAddress)]),
            [Chain::Forward, Chain::Postrouting]
        );
        assert_eq!(
            chains(&[set(Purpose::DestinationEndpoint)]),
            [Chain::Prerouting, Chain::Forward]
        );
    }

    #[test]
    fn denied_packets_are_looked_up_before_allowed_ones() {
        let sets: BTreeSet<SetId> = SetId::all().collect();
        let rules = rules(Chain::Forward, &sets);
        let names: Vec<&str> = rules
            .iter()
            .filter_map(|rule| {
                rule.iter().find_map(|expression| match expression {
                    Expression::Lookup { set, .. } => Some(set.as_str()),
                    _ => None,
                })
            })
            .collect();
        assert_eq!(names.len(), rules.len(), "every rule looks something up");
        let first_allowed = names.iter().position(|name| name.starts_with("allow"));
        let last_denied = names.iter().rposition(|name| name.starts_with("deny"));
        assert!(last_denied < first_allowed);
        assert!(names.ends_with(&[GUARDED, GUARDED, GUARDED]));
    }

    /// Sixteen registers hold every key.
    #[test]
    fn keys_fit_into_the_registers() {
        for set in SetId::all() {
            assert!(set.shape.key_length() <= 64, "{set}");
        }
    }
}
