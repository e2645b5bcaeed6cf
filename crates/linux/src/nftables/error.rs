//! Errors of the packet filter.

use earmark_core::FilterRuleError;

use super::messages::{LAYOUT, TABLE};
use crate::netlink::NetlinkError;

/// Why a request to the packet filter failed. [`PacketFilterError::errno`] gives the number for a protocol's error message.
#[derive(Debug, thiserror::Error)]
pub enum PacketFilterError {
    /// The kernel lacks nf_tables, or a part of it.
    #[error(
        "this kernel has no usable packet filter: Earmark needs nf_tables (family inet) with ct and \
         nat, Linux 6.3 or later ({0})"
    )]
    Unsupported(NetlinkError),
    /// The process may not change the packet filter.
    #[error("no permission to change the packet filter; it needs CAP_NET_ADMIN")]
    NotPermitted,
    /// Another program has a table of our name.
    #[error(
        "the table inet {TABLE} was not made by Earmark and is left alone; rename it, or remove it \
         by `nft delete table inet {TABLE}`"
    )]
    ForeignTable,
    /// A newer version of this program has left rules that this one cannot read.
    #[error(
        "the table inet {TABLE} is that of a newer version of Earmark (layout {layout}, this version \
         knows {LAYOUT})"
    )]
    NewerLayout {
        /// Layout of the table.
        layout: u32,
    },
    /// No interface can have this name.
    #[error("invalid name {name:?} of an interface: 1 to 15 octets")]
    InterfaceName {
        /// The name.
        name: String,
    },
    /// The limit of rules is reached.
    #[error("the packet filter is full: limit of {limit} rules reached")]
    Full {
        /// The limit.
        limit: u32,
    },
    /// The kernel has no room for another rule.
    #[error("the kernel has no room for another rule of the packet filter: {0}")]
    NoRoom(NetlinkError),
    /// The rule contradicts itself.
    #[error("invalid rule: {0}")]
    Rule(#[from] FilterRuleError),
    /// AH is an extension header in IPv6, behind which connection tracking looks.
    #[error("the packet filter cannot tell the packets of AH in IPv6")]
    AuthenticationHeader,
    /// Connection tracking has one connection for all SPIs between two hosts.
    #[error("addresses of packets with one SPI cannot be translated; leave the SPI out")]
    TranslatedSpi,
    /// The kernel refused a batch of changes as a whole.
    #[error("{text}")]
    Batch {
        /// The error number.
        errno: u16,
        /// The error in words.
        text: String,
    },
    /// The kernel refused.
    #[error(transparent)]
    Netlink(NetlinkError),
}

impl PacketFilterError {
    /// Returns the error number: Linux's own if the kernel refused, else the nearest one.
    pub fn errno(&self) -> u16 {
        let number = match self {
            PacketFilterError::Unsupported(_)
            | PacketFilterError::AuthenticationHeader
            | PacketFilterError::TranslatedSpi => libc::EOPNOTSUPP,
            PacketFilterError::NotPermitted => libc::EPERM,
            PacketFilterError::ForeignTable | PacketFilterError::NewerLayout { .. } => libc::EBUSY,
            PacketFilterError::InterfaceName { .. } | PacketFilterError::Rule(_) => libc::EINVAL,
            PacketFilterError::Full { .. } | PacketFilterError::NoRoom(_) => libc::ENOSPC,
            PacketFilterError::Batch { errno, .. } => i32::from(*errno),
            PacketFilterError::Netlink(error) => error.errno().unwrap_or(libc::EBADMSG),
        };
        u16::try_from(number).unwrap_or(libc::EIO as u16)
    }
}

impl From<NetlinkError> for PacketFilterError {
    fn from(error: NetlinkError) -> PacketFilterError {
        match error.errno() {
            Some(libc::EPERM) => PacketFilterError::NotPermitted,
            Some(libc::EPROTONOSUPPORT) => PacketFilterError::Unsupported(error),
            Some(libc::ENFILE | libc::ENOSPC | libc::ENOMEM) => PacketFilterError::NoRoom(error),
            _ => PacketFilterError::Netlink(error),
        }
    }
}
