//! Netlink: building requests, parsing answers, and queries to the kernel.
//!
//! No crate writes all of the messages that a daemon needs, with every length checked and every refusal explained (see
//! `docs/decisions/0023-netlink-encoders.md`). [`Message`] builds, [`Messages`] and [`Attributes`] parse,
//! [`Connection`] sends a request and waits for the acknowledgement, [`Subscription`] receives announcements.

mod batch;
mod message;
mod socket;

pub use message::{Attribute, Attributes, HEADER, Message, Messages, Received};
pub use socket::{Announcements, Answers, Connection, Subscription};

/// Why a netlink request failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused the request.
    #[error("cannot {doing}: {source}{}", in_brackets(explanation.as_deref()))]
    Refused {
        /// The operation.
        doing: &'static str,
        /// The kernel's error number as an error.
        source: std::io::Error,
        /// The kernel's extended acknowledgement, if any.
        explanation: Option<String>,
    },
    /// The socket failed.
    #[error("netlink: cannot {doing}: {source}")]
    Socket {
        /// The operation.
        doing: &'static str,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// The kernel's answer is malformed.
    #[error("malformed netlink message: {field} at offset {offset}")]
    Malformed {
        /// The malformed field.
        field: &'static str,
        /// Offset in octets from the start of the message.
        offset: usize,
    },
}

impl NetlinkError {
    /// Returns the kernel's error number, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            NetlinkError::Refused { source, .. } | NetlinkError::Socket { source, .. } => {
                source.raw_os_error()
            }
            NetlinkError::Malformed { .. } => None,
        }
    }

    /// Whether the kernel refused with this error number.
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
