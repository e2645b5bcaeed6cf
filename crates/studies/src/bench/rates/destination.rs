//! Destination of a rate measurement: answers messages that need an answer, and counts the others.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use earmark_core::{Effects, InterfaceId, Outgoing};
use earmark_linux::datagram_receiver::DatagramReceiver;
use earmark_wire::rsvp::{Body, Message};
use socket2::{Domain, Socket, Type};

use super::super::session::{NEIGHBOR_TTL, envelope};
use super::message_cache::MessageCache;
use super::message_writer::MessageWriter;
use super::nsis::{Responder, SetUpProgress};
use super::sender::{LONGEST, RECEIVE_BUFFER, SharedState, idle, send, signalling};
use crate::bench::router::{Protocol, Step};

/// Runs the destination until it is stopped.
pub(super) fn answer(
    writer: &MessageWriter,
    interface: InterfaceId,
    shared: &SharedState,
) -> Result<()> {
    match writer.protocol {
        Protocol::Rsvp => answer_paths(writer, interface, shared),
        // Rates are measured of protocols that reserve.
        Protocol::Nsis | Protocol::Natfw => answer_reserves(writer, interface, shared),
        // The kernel answers echoes.
        Protocol::Boomerang => wait(shared),
        Protocol::Yessir => count_reports(writer.to, shared),
    }
}

fn wait(shared: &SharedState) -> Result<()> {
    shared.is_listening.store(true, Ordering::Relaxed);
    while !shared.is_over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Answers each Path with a Resv, and counts PathTears.
fn answer_paths(
    writer: &MessageWriter,
    interface: InterfaceId,
    shared: &SharedState,
) -> Result<()> {
    let (here, mut cache) = (writer.to.into(), MessageCache::default());
    serve(writer, interface, shared, |octets, outbox| {
        let Ok(message) = Message::parse(octets) else { return SetUpProgress::Nothing };
        match &message.body {
            Body::Path(path) => {
                let Some(number) = writer.sessions.number(&path.session) else {
                    return SetUpProgress::Nothing;
                };
                // The router is the only previous hop, so a session has the same Resv each time.
                let (envelope, resv) = cache.obtain(number, Step::SetUp, |octets| {
                    writer.sessions.resv(number, here, path.hop.lih, false, octets);
                    let out = envelope(earmark_rsvp::PROTOCOL, here, path.hop.address);
                    Outgoing { ttl: NEIGHBOR_TTL, ..out }
                });
                outbox.send_copy(*envelope, resv);
                SetUpProgress::Nothing
            }
            Body::PathTear(_) => SetUpProgress::Last,
            _ => SetUpProgress::Nothing,
        }
    })
}

/// Answers each Query with the handshake, and each RESERVE that requests it with a RESPONSE; counts RESERVEs that
/// tear down.
fn answer_reserves(
    writer: &MessageWriter,
    interface: InterfaceId,
    shared: &SharedState,
) -> Result<()> {
    let mut responder = Responder::new(writer);
    serve(writer, interface, shared, |octets, outbox| responder.handle(octets, outbox))
}

/// Passes each signalling message to `handle`, and sends the answers.
fn serve(
    writer: &MessageWriter,
    interface: InterfaceId,
    shared: &SharedState,
    mut handle: impl FnMut(&[u8], &mut Effects<Infallible>) -> SetUpProgress,
) -> Result<()> {
    let mut socket = signalling(writer.protocol, interface)
        .context("the destination cannot open its sockets")?;
    shared.is_listening.store(true, Ordering::Relaxed);
    let mut outbox = Effects::new();
    while !shared.is_over.load(Ordering::Relaxed) {
        let (mut steps, mut torn) = (0, 0);
        let count =
            socket.receive(|message| match handle(message.datagram.payload, &mut outbox) {
                SetUpProgress::Nothing => {}
                SetUpProgress::Step => steps += 1,
                SetUpProgress::Last => torn += 1,
            })?;
        // A message without its answer counts as lost.
        send(&mut socket, &mut outbox);
        shared.steps.fetch_add(steps, Ordering::Relaxed);
        shared.arrived.fetch_add(torn, Ordering::Relaxed);
        if count == 0 {
            idle();
        }
    }
    Ok(())
}

/// Counts reports of any kind.
fn count_reports(here: Ipv4Addr, shared: &SharedState) -> Result<()> {
    let open = |port| -> io::Result<DatagramReceiver> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.bind(&SocketAddr::from((here, port)).into())?;
        DatagramReceiver::new(socket, LONGEST, RECEIVE_BUFFER)
    };
    let inboxes: io::Result<Vec<DatagramReceiver>> = MessageWriter::ports().map(open).collect();
    let mut inboxes = inboxes.context("the destination cannot open its sockets")?;
    shared.is_listening.store(true, Ordering::Relaxed);
    while !shared.is_over.load(Ordering::Relaxed) {
        let mut count = 0;
        for datagram_receiver in &mut inboxes {
            loop {
                match datagram_receiver.receive(|_| {})? {
                    0 => break,
                    some => count += some as u64,
                }
            }
        }
        shared.arrived.fetch_add(count, Ordering::Relaxed);
        if count == 0 {
            idle();
        }
    }
    Ok(())
}
