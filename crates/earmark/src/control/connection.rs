//! One client of the control socket: lines in, lines out, both bounded.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use earmark_core::Time;

use super::protocol::LONGEST_LINE;

/// Octets that may wait for a client before the daemon stops reading its requests.
pub(super) const BACKLOG: usize = 256 * 1024;

/// Octets read at a time.
const CHUNK: usize = 16 * 1024;

/// A connection, with what was read and not yet understood, and what was said and not yet sent.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    inbound: Vec<u8>,
    /// The line being read is too long: skip to its end.
    skipping: bool,
    outbound: Vec<u8>,
    /// Octets of `outbound` that are sent.
    sent: usize,
    /// The client has said all it has to say.
    ended: bool,
    /// When the connection ends, sent or not.
    pub(super) closing: Option<Time>,
    /// Whether it gets every event.
    pub(super) watching: bool,
}

/// What stood in one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Octets, without the line's end.
    Text(Vec<u8>),
    /// It was longer than [`LONGEST_LINE`] and is skipped.
    TooLong,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> io::Result<Connection> {
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
        })
    }

    /// Reads one chunk.
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

    /// The next whole line. `None` while there is none, and while the client has not taken what it was answered.
    pub(super) fn next_line(&mut self) -> Option<Line> {
        if self.is_backlogged() || self.closing.is_some() {
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
                    // The last line of all may lack its end.
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

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outbound.len() {
            match self.stream.write(&self.outbound[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // What is sent goes when it is worth moving the rest.
                    if self.sent > BACKLOG {
                        self.outbound.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.outbound.clear();
        self.sent = 0;
        Ok(())
    }

    /// Octets that wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.outbound.len() - self.sent
    }

    /// Forgets what waits to be sent, up to the end of the line that is half gone.
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

    /// Whether nothing more will come of it.
    pub(super) fn is_done(&self, now: Time) -> bool {
        let idle = self.waiting() == 0;
        (self.ended && idle && self.inbound.is_empty())
            || self.closing.is_some_and(|deadline| idle || deadline <= now)
    }

    /// Whether requests should be read now.
    pub(super) fn wants_to_read(&self) -> bool {
        !self.ended && !self.is_backlogged() && self.closing.is_none()
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
