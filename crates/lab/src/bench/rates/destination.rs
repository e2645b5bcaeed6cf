//! The destination of a measurement of rates: answers what is to be answered, and counts what is not.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use earmark_core::{Effects, Outgoing};
use earmark_linux::SignallingSocket;
use earmark_wire::rsvp::{Body, Message};
use rustix::event::{PollFd, PollFlags, poll};
use socket2::{Domain, Socket, Type};

use super::super::session::TTL;
use super::ends::{LONGEST, NAP, RECEIVE_BUFFER, Shared, nap, send};
use super::speaker::{Protocol, Speaker};

/// The destination: answers until it is told to end.
pub(super) fn answer(speaker: &Speaker, shared: &Shared) -> Result<()> {
    match speaker.protocol {
        Protocol::Rsvp => answer_paths(speaker, shared),
        // The kernel answers echoes.
        Protocol::Boomerang => wait(shared),
        Protocol::Yessir => count_reports(speaker.to, shared),
    }
}

fn wait(shared: &Shared) -> Result<()> {
    shared.is_listening.store(true, Ordering::Relaxed);
    while !shared.is_over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A Resv for each Path; PathTears are counted.
fn answer_paths(speaker: &Speaker, shared: &Shared) -> Result<()> {
    let mut socket = SignallingSocket::open().context("the destination cannot open its sockets")?;
    shared.is_listening.store(true, Ordering::Relaxed);
    let (mut outbox, mut room) = (Effects::new(), Vec::new());
    let here = speaker.to.into();
    while !shared.is_over.load(Ordering::Relaxed) {
        let mut torn = 0;
        let count = socket.receive(|message| {
            let Ok(message) = Message::parse(message.datagram.payload) else { return };
            match &message.body {
                Body::Path(path) => {
                    let Some(number) = speaker.sessions.number(&path.session) else { return };
                    speaker.sessions.resv(number, here, path.hop.lih, false, &mut room);
                    let out = Outgoing {
                        protocol: earmark_rsvp::PROTOCOL,
                        interface: None,
                        source: here,
                        destination: path.hop.address,
                        ttl: TTL,
                        router_alert: false,
                        encapsulated: false,
                        neighbor: None,
                    };
                    outbox.send(out, room.len()).copy_from_slice(&room);
                }
                Body::PathTear(_) => torn += 1,
                _ => {}
            }
        })?;
        // What cannot be sent is a Path without an answer, and so counts as lost.
        send(&mut socket, &mut outbox);
        shared.arrived.fetch_add(torn, Ordering::Relaxed);
        if count == 0 {
            nap(&socket)?;
        }
    }
    Ok(())
}

/// Reports are counted, whatever they are.
fn count_reports(here: Ipv4Addr, shared: &Shared) -> Result<()> {
    let open = |port| -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        socket.set_nonblocking(true)?;
        socket.bind(&std::net::SocketAddr::from((here, port)).into())?;
        Ok(socket.into())
    };
    let sockets: io::Result<Vec<UdpSocket>> = Speaker::ports().map(open).collect();
    let sockets = sockets.context("the destination cannot open its sockets")?;
    shared.is_listening.store(true, Ordering::Relaxed);
    let mut room = [0; LONGEST];
    while !shared.is_over.load(Ordering::Relaxed) {
        let mut count = 0;
        for socket in &sockets {
            while socket.recv(&mut room).is_ok() {
                count += 1;
            }
        }
        shared.arrived.fetch_add(count, Ordering::Relaxed);
        if count == 0 {
            let mut waiting: Vec<PollFd<'_>> =
                sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
            match poll(&mut waiting, Some(&NAP)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
