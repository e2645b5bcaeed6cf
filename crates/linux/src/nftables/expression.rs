//! Expressions of nf_tables rules, as attributes of netlink messages.
//!
//! An expression loads from a packet into registers, compares or changes registers, or acts. Registers have four octets;
//! longer values take several. A rule ends at the first comparison that fails, and where a packet lacks what an
//! expression loads. (Linux: `include/uapi/linux/netfilter/nf_tables.h`.)

use crate::netlink::Message;

/// Verdicts (`NF_DROP`, `NF_ACCEPT`).
pub(super) const DROP: u32 = 0;
pub(super) const ACCEPT: u32 = 1;

/// Directions of a connection (`IP_CT_DIR_ORIGINAL`, `IP_CT_DIR_REPLY`).
pub(super) const ORIGINAL: u8 = 0;
pub(super) const REPLY: u8 = 1;

/// The first register, `NFT_REG32_00`.
pub(super) const FIRST_REGISTER: u32 = 8;

/// A value that connection tracking knows of a packet (`NFT_CT_...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    State,
    Direction,
    Protocol,
    /// Source address of the first packet; the flag tells IPv6.
    Source(bool),
    Destination(bool),
    SourcePort,
    DestinationPort,
}

/// A value that the kernel knows of a packet (`NFT_META_...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    IncomingName,
    OutgoingName,
    Family,
    Protocol,
}

/// A header of a packet (`NFT_PAYLOAD_...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Network,
    Transport,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    LoadConnection {
        key: Connection,
        to: u32,
    },
    LoadMeta {
        key: Meta,
        to: u32,
    },
    LoadHeader {
        header: Header,
        offset: u32,
        length: u32,
        to: u32,
    },
    /// Keeps the bits of a register that a mask has.
    Mask {
        register: u32,
        mask: Vec<u8>,
    },
    /// Converts four octets from the order of the network.
    ToHostOrder {
        register: u32,
    },
    /// Continues if a register has this value, or any other.
    Compare {
        register: u32,
        equal: bool,
        value: Vec<u8>,
    },
    /// Continues if a set has the key in the registers from this one; the data of a map goes into the first register.
    Lookup {
        set: String,
        key: u32,
        is_map: bool,
    },
    /// Translates an address to that in the first register, and a port to that after it.
    Translate {
        source: bool,
        ipv6: bool,
        port: bool,
    },
    Verdict(u32),
}

impl Expression {
    /// Appends the expression to a list of expressions.
    pub(super) fn encode(&self, list: Message) -> Message {
        match self {
            Expression::LoadConnection { key, to } => named(list, "ct", |m| {
                let (key, of_original) = match key {
                    Connection::State => (0, false),
                    Connection::Direction => (1, false),
                    Connection::Protocol => (10, false),
                    Connection::SourcePort => (11, true),
                    Connection::DestinationPort => (12, true),
                    Connection::Source(false) => (19, true),
                    Connection::Destination(false) => (20, true),
                    Connection::Source(true) => (21, true),
                    Connection::Destination(true) => (22, true),
                };
                let m = m.be32(1, *to).be32(2, key);
                if of_original { m.u8(3, ORIGINAL) } else { m }
            }),
            Expression::LoadMeta { key, to } => named(list, "meta", |m| {
                let key = match key {
                    Meta::IncomingName => 6,
                    Meta::OutgoingName => 7,
                    Meta::Family => 15,
                    Meta::Protocol => 16,
                };
                m.be32(1, *to).be32(2, key)
            }),
            Expression::LoadHeader { header, offset, length, to } => named(list, "payload", |m| {
                let base = match header {
                    Header::Network => 1,
                    Header::Transport => 2,
                };
                m.be32(1, *to).be32(2, base).be32(3, *offset).be32(4, *length)
            }),
            Expression::Mask { register, mask } => named(list, "bitwise", |m| {
                m.be32(1, *register)
                    .be32(2, *register)
                    .be32(3, mask.len() as u32)
                    .nested(4, |m| m.attribute(1, mask))
                    .nested(5, |m| m.attribute(1, &vec![0; mask.len()]))
            }),
            Expression::ToHostOrder { register } => named(list, "byteorder", |m| {
                let ntoh = 0;
                m.be32(1, *register).be32(2, *register).be32(3, ntoh).be32(4, 4).be32(5, 4)
            }),
            Expression::Compare { register, equal, value } => named(list, "cmp", |m| {
                let operation = u32::from(!equal);
                m.be32(1, *register).be32(2, operation).nested(3, |m| m.attribute(1, value))
            }),
            Expression::Lookup { set, key, is_map } => named(list, "lookup", |m| {
                let m = m.text(1, set).be32(2, *key);
                if *is_map { m.be32(3, FIRST_REGISTER) } else { m }
            }),
            Expression::Translate { source, ipv6, port } => named(list, "nat", |m| {
                let family = if *ipv6 { libc::NFPROTO_IPV6 } else { libc::NFPROTO_IPV4 };
                let m =
                    m.be32(1, u32::from(!source)).be32(2, family as u32).be32(3, FIRST_REGISTER);
                let port_register = FIRST_REGISTER + if *ipv6 { 4 } else { 1 };
                if *port { m.be32(5, port_register) } else { m }
            }),
            Expression::Verdict(verdict) => named(list, "immediate", |m| {
                let register = 0; // NFT_REG_VERDICT
                m.be32(1, register).nested(2, |m| m.nested(2, |m| m.be32(1, *verdict)))
            }),
        }
    }
}

/// Appends an expression of a kind (`struct nft_expr_ops`) with its attributes.
pub(super) fn named(
    list: Message,
    name: &str,
    attributes: impl FnOnce(Message) -> Message,
) -> Message {
    list.nested(1, |m| m.text(1, name).nested(2, attributes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets that nft 1.0.6 sends for `ct original ip saddr 10.0.0.1 drop` (`nft --debug=mnl`), but for the order of two
    /// attributes, the other number of the same register, and the flag of nested attributes, which nf_tables does not need.
    #[test]
    #[cfg(target_endian = "little")]
    fn expressions_have_the_layout_of_nft() {
        let expressions = [
            Expression::LoadConnection { key: Connection::Source(false), to: FIRST_REGISTER },
            Expression::Compare { register: FIRST_REGISTER, equal: true, value: vec![10, 0, 0, 1] },
            Expression::Verdict(DROP),
        ];
        let message = expressions.iter().fold(Message::new(0, 0), |m, e| e.encode(m));
        let octets = message.finish(0);
        let expected: &[u8] = &[
            0x28, 0, 1, 0, // an expression
            0x07, 0, 1, 0, b'c', b't', 0, 0, // its name
            0x1c, 0, 2, 0, // its attributes
            8, 0, 1, 0, 0, 0, 0, 8, // register
            8, 0, 2, 0, 0, 0, 0, 19, // source address, IPv4
            5, 0, 3, 0, 0, 0, 0, 0, // original direction
            0x2c, 0, 1, 0, 0x08, 0, 1, 0, b'c', b'm', b'p', 0, 0x20, 0, 2, 0, //
            8, 0, 1, 0, 0, 0, 0, 8, 8, 0, 2, 0, 0, 0, 0, 0, // register, equality
            0x0c, 0, 3, 0, 8, 0, 1, 0, 10, 0, 0, 1, // value
            0x30, 0, 1, 0, 0x0e, 0, 1, 0, b'i', b'm', b'm', b'e', b'd', b'i', b'a', b't', b'e', 0,
            0, 0, 0x1c, 0, 2, 0, 8, 0, 1, 0, 0, 0, 0, 0, // register of verdicts
            0x10, 0, 2, 0, 0x0c, 0, 2, 0, 8, 0, 1, 0, 0, 0, 0, 0,
        ];
        let actual = &octets[16..];
        assert_eq!(actual, expected);
    }
}
