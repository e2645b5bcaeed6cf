//! Netlink by hand: building requests, walking answers, and asking the kernel.
//!
//! No crate writes traffic-control classes, and a daemon that lives on netlink wants every length checked and every
//! refusal explained; the format is small enough to own. [`Message`] builds, [`Messages`] and [`Attributes`] walk,
//! [`Connection`] asks and waits for the acknowledgement, [`Subscription`] listens.

mod message;
mod socket;

pub use message::{Attribute, Attributes, HEADER, Message, Messages, Received};
pub use socket::{Answers, Connection, Heard, Subscription};

/// Why a netlink request failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused the request.
    #[error("cannot {doing}: {source}{}", in_brackets(explanation.as_deref()))]
    Refused {
        /// What was asked.
        doing: &'static str,
        /// Its error number as an error.
        source: std::io::Error,
        /// Its extended acknowledgement, where it gave one.
        explanation: Option<String>,
    },
    /// The socket failed.
    #[error("netlink: cannot {doing}: {source}")]
    Socket {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The kernel's answer cannot be read.
    #[error("netlink: {field} at offset {offset} is cut short or has a wrong length")]
    Malformed {
        /// Which field.
        field: &'static str,
        /// Octets from the start of the message.
        offset: usize,
    },
}

impl NetlinkError {
    /// The kernel's error number, where it gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            NetlinkError::Refused { source, .. } | NetlinkError::Socket { source, .. } => {
                source.raw_os_error()
            }
            NetlinkError::Malformed { .. } => None,
        }
    }

    /// Whether the kernel refused with this number.
    pub(crate) fn is(&self, errno: i32) -> bool {
        matches!(self, NetlinkError::Refused { .. }) && self.errno() == Some(errno)
    }
}

/// A negative acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    errno: i32,
    explanation: Option<String>,
}

impl Refusal {
    fn of(self, doing: &'static str) -> NetlinkError {
        let source = std::io::Error::from_raw_os_error(self.errno);
        NetlinkError::Refused { doing, source, explanation: self.explanation }
    }
}

fn in_brackets(text: Option<&str>) -> String {
    text.map(|t| format!(" ({t})")).unwrap_or_default()
}
