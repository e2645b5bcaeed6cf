//! Part of the kernel: a message arrives at one UDP socket of the loopback interface, and leaves by another.
//!
//! ```text
//!   source ---> inbound  (router)  outbound ---> sink
//! ```
//!
//! The time begins when the message waits in the inbound socket, and ends when the outbound one has sent it: on this
//! interface sending includes the kernel's work until the message waits in the sink, so that one full way through the
//! kernel counts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use earmark_wire::udp;

use super::clock::{Clock, Tally};
use crate::bench::router::Arrival;

/// Timeout of a message.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Buffer size, octets: larger than every message here.
const LONGEST: usize = 2_048;

/// The four sockets.
pub(super) struct Sockets {
    source: UdpSocket,
    inbound: UdpSocket,
    outbound: UdpSocket,
    sink: UdpSocket,
    to_inbound: SocketAddr,
    to_sink: SocketAddr,
}

impl Sockets {
    /// Opens the sockets.
    ///
    /// # Errors
    /// The loopback interface is missing, or there are no free ports.
    pub(super) fn open() -> Result<Sockets> {
        let open = || -> Result<UdpSocket> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
                .context("cannot open a UDP socket on 127.0.0.1; is the loopback interface up?")?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            Ok(socket)
        };
        let (source, inbound, outbound, sink) = (open()?, open()?, open()?, open()?);
        let (to_inbound, to_sink) = (inbound.local_addr()?, sink.local_addr()?);
        Ok(Sockets { source, inbound, outbound, sink, to_inbound, to_sink })
    }

    /// Times each of these messages on its way: received, handled, and forwarded. `treat` gets the message and a
    /// function that sends UDP packets, and sends one.
    ///
    /// # Errors
    /// A message was lost, or none was sent.
    pub(super) fn pass(
        &self,
        clock: &Clock,
        into: &mut Tally,
        messages: &[Arrival],
        mut treat: impl FnMut(&Arrival, Send<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut room = [0; LONGEST];
        let lost = "a message was lost on the loopback interface";
        for message in messages {
            let payload = &message.octets()[udp::HEADER..];
            self.source.send_to(payload, self.to_inbound)?;
            let mut done = Ok(());
            let mut send = |packet: &[u8]| {
                let payload = packet.get(udp::HEADER..).unwrap_or_default();
                self.outbound.send_to(payload, self.to_sink).map(|_| ())
            };
            into.add(clock.time(|| {
                done = self.inbound.recv(&mut room).context(lost).and_then(|length| {
                    ensure!(length == payload.len(), lost);
                    treat(message, &mut send)
                });
            }));
            done?;
            self.sink.recv(&mut room).context(lost)?;
        }
        Ok(())
    }
}

/// Function that sends a UDP packet; the header is separate.
pub(super) type Send<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::router::{Protocol, Router};

    #[test]
    fn messages_go_through_and_are_timed() {
        let (sockets, clock) = (Sockets::open().unwrap(), Clock::calibrated());
        let router = Router::new(Protocol::Yessir);
        let set_up = &Protocol::Yessir.messages()[0];
        let messages: Vec<Arrival> = (0..3).map(|n| set_up.of(&router, n, 0)).collect();
        let (mut sent, mut tally) = (0, Tally::default());
        let treat = |message: &Arrival, send: Send<'_>| {
            sent += message.octets().len();
            Ok(send(message.octets())?)
        };
        sockets.pass(&clock, &mut tally, &messages, treat).unwrap();
        tally.end_round();
        let mean = tally.mean().unwrap();
        assert!(mean.median > 0.0 && mean.repetitions == 3 && sent > 0);
    }
}
