//! Receiving: the messages in the sockets and in the ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::alerted::{AlertedSockets, Verdict};
use super::intercept::Read;
use super::raw::{self, RawSockets};
use super::ready::Source;
use super::udp::UdpSockets;
use super::{BATCH, Incoming, RSVP, SignallingSocket, checksum};
use crate::sys::socket::Received;

/// Outcome of one packet.
enum Outcome {
    HandedOut,
    Malformed,
    PassedOn,
    Ignored,
}

impl SignallingSocket {
    /// Receives one batch of messages from each readable socket, and passes each well-formed one to `each`. Returns the
    /// number of packets received, 0 if none was waiting; call again until then, or while there may be more
    /// ([`SignallingSocket::has_more`]). A release by the kernel ends a batch, because it must be handled before the
    /// messages after it.
    pub fn receive(&mut self, mut each: impl FnMut(Incoming<'_>)) -> io::Result<usize> {
        // The ring may hold copies that wake nobody; checking costs two loads.
        let Read { mut count, is_returned } = self.receive_intercepted(&mut each);
        if is_returned {
            return Ok(count);
        }
        self.ready.look()?;
        for source in self.ready.sources() {
            let taken = self.receive_from(source, &mut each)?;
            // The socket returned less than a batch: nothing waits there. New packets are reported again.
            if taken < BATCH {
                self.ready.forget(source);
            }
            count += taken;
        }
        Ok(count)
    }

    /// Whether the last [`SignallingSocket::receive`] has left messages, as far as it saw. The set that the sockets are
    /// in reports later ones.
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty() || self.has_copies()
    }

    /// Whether copies of messages that the kernel has handled wait here.
    pub fn has_copies(&self) -> bool {
        self.interceptor.as_ref().is_ok_and(|interceptor| !interceptor.is_empty())
    }

    /// Returns the descriptor that becomes readable when a source has messages, if it is open.
    pub(super) fn descriptor(&self, source: Source) -> Option<BorrowedFd<'_>> {
        match source {
            Source::Intercepted => self.interceptor.as_ref().ok().map(AsFd::as_fd),
            _ => socket_of(source, self.raw.as_ref(), self.udp.as_ref(), &self.alerted)
                .map(AsFd::as_fd),
        }
    }

    fn receive_intercepted(&mut self, each: &mut impl FnMut(Incoming<'_>)) -> Read {
        let Ok(interceptor) = &mut self.interceptor else {
            return Read { count: 0, is_returned: false };
        };
        let counters = &mut self.counters;
        interceptor.read(BATCH, |message| match message {
            Some(message) => {
                counters.received += 1;
                each(message);
            }
            None => counters.malformed += 1,
        })
    }

    fn receive_from(
        &mut self,
        source: Source,
        each: &mut impl FnMut(Incoming<'_>),
    ) -> io::Result<usize> {
        let SignallingSocket { raw, udp, alerted, batch, .. } = self;
        let Some(socket) = socket_of(source, raw.as_ref(), udp.as_ref(), alerted) else {
            return Ok(0);
        };
        let count = batch.receive(socket.as_fd())?;
        let mut counters = self.counters;
        for (octets, about) in self.batch.packets() {
            match self.take(source, octets, about, each) {
                Outcome::HandedOut => counters.received += 1,
                Outcome::Malformed => counters.malformed += 1,
                Outcome::PassedOn => counters.passed_on += 1,
                Outcome::Ignored => {}
            }
        }
        self.counters = counters;
        Ok(count)
    }

    fn take(
        &self,
        source: Source,
        octets: &[u8],
        about: &Received,
        each: &mut impl FnMut(Incoming<'_>),
    ) -> Outcome {
        let found = || about.interface.and_then(|on| raw::packet(octets, on));
        let datagram = match source {
            Source::Raw4 => found().map(|(_, datagram)| datagram),
            Source::Raw6 => raw::bare_datagram6(octets, about),
            Source::Udp(_) => self.udp.as_ref().and_then(|udp| udp.datagram(octets, about)),
            Source::Transit6 => match found() {
                Some((protocol, datagram)) if i32::from(protocol) == RSVP => Some(datagram),
                _ => return self.pass_on(octets),
            },
            Source::Alerted(number) => {
                let Some((kind, _)) = self.alerted.sockets.get(number) else {
                    return Outcome::Ignored;
                };
                match self.alerted.judge(*kind, octets, about) {
                    Verdict::Message(mut message) => {
                        let mut spare = Vec::new();
                        if message.protocol == raw::UDP {
                            checksum::finish(&mut message.datagram, &mut spare);
                        }
                        each(message);
                    }
                    Verdict::PassOn => return self.pass_on(octets),
                    Verdict::Ignore => return Outcome::Ignored,
                }
                return Outcome::HandedOut;
            }
            Source::Intercepted => return Outcome::Ignored,
        };
        match datagram {
            Some(datagram) => {
                each(Incoming { protocol: RSVP as u8, is_copy: false, settled: None, datagram });
                Outcome::HandedOut
            }
            None => Outcome::Malformed,
        }
    }

    fn pass_on(&self, octets: &[u8]) -> Outcome {
        match self.raw.as_ref().is_some_and(|raw| raw.pass_on(octets)) {
            true => Outcome::PassedOn,
            false => Outcome::Ignored,
        }
    }
}

fn socket_of<'a>(
    source: Source,
    raw: Option<&'a RawSockets>,
    udp: Option<&'a UdpSockets>,
    alerted: &'a AlertedSockets,
) -> Option<&'a OwnedFd> {
    match source {
        Source::Raw4 => raw.map(|raw| &raw.receiver4),
        Source::Raw6 => Some(&raw?.six.as_ref()?.receiver),
        Source::Transit6 => Some(&raw?.six.as_ref()?.transit),
        Source::Intercepted => None,
        Source::Udp(port) => udp?.ports.get(port).map(|port| &port.socket),
        Source::Alerted(number) => alerted.sockets.get(number).map(|(_, socket)| socket),
    }
}
