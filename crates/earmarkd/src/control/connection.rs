//! A client's connection to the control socket, with bounded input and output.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use earmark_control::LONGEST_LINE;
use earmark_core::Time;
use earmark_linux::PeerCredentials;

use super::listing::PendingListing;
use super::roles::Role;

/// Octets that may be queued for a client before the daemon stops reading its requests.
pub(super) const BACKLOG: usize = 256 * 1024;

/// Octets sent at a time.
const MOST_SENT: usize = 1024 * 1024;

/// Octets read at a time.
const CHUNK: usize = 16 * 1024;

/// A connection with its input that is not parsed yet and its output that is not sent yet.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    inbound: Vec<u8>,
    /// Whether the line being read is too long, so that the rest of it is skipped.
    skipping: bool,
    outbound: Vec<u8>,
    /// Octets of `outbound` that were sent.
    sent: usize,
    /// Whether the client has closed its side.
    ended: bool,
    /// Time at which the connection is closed even if output is left.
    pub(super) closing: Option<Time>,
    /// Whether the client receives every event.
    pub(super) watching: bool,
    /// Process of the client.
    pub(super) peer: PeerCredentials,
    /// What the client may do.
    pub(super) role: Role,
    /// Whether the web page has opened the connection.
    pub(super) is_page: bool,
    /// Listing that is not answered yet. The requests after it wait.
    pub(super) listing: Option<PendingListing>,
    /// Time of the latest request, or of the latest output that the client has read.
    pub(super) active_at: Time,
}

/// Content of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Octets without the line terminator.
    Text(Vec<u8>),
    /// A line longer than [`LONGEST_LINE`], which is skipped.
    TooLong,
}

impl Connection {
    pub(super) fn new(
        stream: UnixStream,
        peer: PeerCredentials,
        role: Role,
        now: Time,
    ) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            inbound: Vec::new(),
            skipping: false,
            outbound: Vec::new(),
            sent: 0,
            ended: false,
            closing: None,
            watching: false,
            peer,
            role,
            is_page: false,
            listing: None,
            active_at: now,
        })
    }

    /// Reads one chunk from the socket.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(0) => self.ended = true,
            Ok(length) => self.inbound.extend_from_slice(&chunk[..length]),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the next complete line; `None` if there is none, or while too much output is queued or a listing is pending.
    pub(super) fn next_line(&mut self) -> Option<Line> {
        if self.is_backlogged() || self.closing.is_some() || self.listing.is_some() {
            return None;
        }
        loop {
            let Some(end) = self.inbound.iter().position(|&octet| octet == b'\n') else {
                if self.skipping {
                    self.inbound.clear();
                } else if self.inbound.len() > LONGEST_LINE {
                    self.inbound.clear();
                    self.skipping = true;
                    return Some(Line::TooLong);
                } else if self.ended && !self.inbound.is_empty() {
                    // The last line may lack its terminator.
                    return Some(Line::Text(std::mem::take(&mut self.inbound)));
                }
                return None;
            };
            let mut line: Vec<u8> = self.inbound.drain(..=end).collect();
            line.pop();
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.len() > LONGEST_LINE {
                return Some(Line::TooLong);
            }
            return Some(Line::Text(line));
        }
    }

    /// Queues one line.
    pub(super) fn say(&mut self, line: &str) {
        self.outbound.extend_from_slice(line.as_bytes());
        self.outbound.push(b'\n');
    }

    /// Queues one line, without a copy if nothing else is queued.
    pub(super) fn say_long(&mut self, mut line: Vec<u8>) {
        line.push(b'\n');
        match self.waiting() {
            0 => (self.outbound, self.sent) = (line, 0),
            _ => self.outbound.extend_from_slice(&line),
        }
    }

    /// Sends as much as the socket accepts, at most [`MOST_SENT`] octets.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let end = self.outbound.len().min(self.sent.saturating_add(MOST_SENT));
        while self.sent < end {
            match self.stream.write(&self.outbound[self.sent..end]) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Sent octets are removed only when enough have accumulated to be worth moving the rest.
                    if self.sent > BACKLOG.max(self.waiting()) {
                        self.outbound.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        if self.sent < self.outbound.len() {
            return Ok(());
        }
        // The memory of a large answer is not kept.
        self.outbound = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// Octets queued for sending.
    pub(super) fn waiting(&self) -> usize {
        self.outbound.len() - self.sent
    }

    /// Discards the queued output, except for the rest of a line that is partly sent.
    pub(super) fn forget_waiting(&mut self) {
        let rest = &self.outbound[self.sent..];
        let begun = self.sent > 0 && self.outbound[self.sent - 1] != b'\n';
        let keep = if begun {
            rest.iter().position(|&octet| octet == b'\n').map_or(rest.len(), |end| end + 1)
        } else {
            0
        };
        self.outbound.truncate(self.sent + keep);
    }

    /// Whether the connection is finished and can be removed.
    pub(super) fn is_done(&self, now: Time) -> bool {
        let idle = self.waiting() == 0;
        (self.ended && idle && self.inbound.is_empty() && self.listing.is_none())
            || self.closing.is_some_and(|deadline| idle || deadline <= now)
    }

    /// Time at which the connection is idle for too long; `None` if it watches or is being closed.
    pub(super) fn idle_deadline(&self, timeout: Duration) -> Option<Time> {
        (!self.watching && self.closing.is_none()).then(|| self.active_at + timeout)
    }

    /// Whether requests are to be read now.
    pub(super) fn wants_to_read(&self) -> bool {
        !self.ended && !self.is_backlogged() && self.closing.is_none() && self.listing.is_none()
    }

    /// Whether a listing is pending, and there is room for its answer.
    pub(super) fn can_list(&self) -> bool {
        self.listing.is_some() && !self.is_backlogged() && self.closing.is_none()
    }

    fn is_backlogged(&self) -> bool {
        self.waiting() > BACKLOG
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
