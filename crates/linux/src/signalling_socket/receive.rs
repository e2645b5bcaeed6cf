//! Receiving: the messages in the sockets and in the ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::interceptor::Read;
use super::packet_filter::UDP;
use super::protocols::UdpSockets;
use super::raw_receivers::{RawReceivers, Treatment};
use super::ready_set::Source;
use super::socket_options::BATCH;
use super::{Incoming, SignallingSocket, checksum};
use crate::sys::socket::Received;

/// Outcome of one packet.
enum Outcome {
    Delivered,
    Malformed,
    Forwarded,
    Ignored,
}

impl SignallingSocket {
    /// Receives one batch of messages from each readable socket, and passes each well-formed one to `each`. Returns the
    /// number of packets received, 0 if none was waiting; call again until then, or while there may be more
    /// ([`SignallingSocket::has_more`]). A release by the kernel ends a batch, because it must be handled before the
    /// messages after it.
    pub fn receive(&mut self, mut each: impl FnMut(Incoming<'_>)) -> io::Result<usize> {
        // The ring may hold copies for which the daemon was not woken; checking costs two loads.
        let Read { mut count, has_release } = self.receive_intercepted(&mut each);
        if has_release {
            return Ok(count);
        }
        self.ready.poll()?;
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
            _ => socket_of(source, self.udp.as_ref(), &self.receivers).map(AsFd::as_fd),
        }
    }

    fn receive_intercepted(&mut self, each: &mut impl FnMut(Incoming<'_>)) -> Read {
        let Ok(interceptor) = &mut self.interceptor else {
            return Read { count: 0, has_release: false };
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
        let SignallingSocket { udp, receivers, batch, .. } = self;
        let Some(socket) = socket_of(source, udp.as_ref(), receivers) else {
            return Ok(0);
        };
        let count = batch.receive(socket.as_fd())?;
        let mut counters = self.counters;
        for (octets, about) in self.batch.packets() {
            match self.take(source, octets, about, each) {
                Outcome::Delivered => counters.received += 1,
                Outcome::Malformed => counters.malformed += 1,
                Outcome::Forwarded => counters.forwarded += 1,
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
        match source {
            Source::Udp(_) => match self.udp.as_ref().and_then(|udp| udp.message(octets, about)) {
                Some(message) => {
                    each(message);
                    Outcome::Delivered
                }
                None => Outcome::Malformed,
            },
            Source::Raw(number) => match self.receivers.classify(number, octets, about) {
                Treatment::Message(mut message) => {
                    let mut buffer = Vec::new();
                    if message.protocol == UDP {
                        checksum::complete(&mut message.datagram, &mut buffer);
                    }
                    each(message);
                    Outcome::Delivered
                }
                Treatment::Forward => {
                    match self.raw.as_ref().is_some_and(|raw| raw.forward(octets)) {
                        true => Outcome::Forwarded,
                        false => Outcome::Ignored,
                    }
                }
                Treatment::Ignore => Outcome::Ignored,
                Treatment::Malformed => Outcome::Malformed,
            },
            Source::Intercepted => Outcome::Ignored,
        }
    }
}

fn socket_of<'a>(
    source: Source,
    udp: Option<&'a UdpSockets>,
    receivers: &'a RawReceivers,
) -> Option<&'a OwnedFd> {
    match source {
        Source::Intercepted => None,
        Source::Udp(port) => udp?.ports.get(port).map(|port| &port.socket),
        Source::Raw(number) => receivers.get(number),
    }
}
