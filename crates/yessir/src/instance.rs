//! One instance of YESSIR: its state, and what every handler needs.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream as RandomStream};
use earmark_core::{Context, Datagram, Effects, InterfaceId, Time};
use earmark_token::Tokens;
use earmark_wire::udp;

use crate::api::{Event, Stream};
use crate::auth::Authentication;
use crate::config::Config;
use crate::counters::{Counters, DropReason};
use crate::limits::Sources;
use crate::roles::Roles;
use crate::state::Index;
use crate::store::{Store, VacantEntry};

/// IP protocol number of received and sent messages: UDP.
pub const PROTOCOL: u8 = udp::PROTOCOL;

/// YESSIR on one node.
#[derive(Debug)]
pub struct Yessir {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) sources: Sources,
    pub(crate) roles: Roles,
    pub(crate) counters: Counters,
    /// Keys, and the sequence numbers of signed reports.
    pub(crate) auth: Authentication,
    /// Tokens that prove the names of users, and the streams that depend on them.
    pub(crate) tokens: Tokens<Index>,
    /// Counter of changes of routes and interfaces: while it is unchanged, stored routes are valid.
    pub(crate) routes_version: u32,
    /// Spreads reports over 0.7 to 1.3 intervals.
    pub(crate) jitter: RandomStream,
    /// Source of SSRCs for applications that give none.
    pub(crate) ssrcs: RandomStream,
    /// Buffer to compose a report in.
    pub(crate) scratch: Vec<u8>,
}

/// Context of one input: time, host view, and effects.
pub(crate) struct HandlerContext<'t, 'c, E> {
    pub(crate) now: Time,
    pub(crate) context: &'t mut Context<'c>,
    pub(crate) out: &'t mut Effects<E>,
}

/// A received message, or one of this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    /// Incoming interface; `None` for a message of this host.
    pub(crate) incoming: Option<InterfaceId>,
    /// The datagram as received, or as it leaves this host.
    pub(crate) datagram: &'a Datagram<'a>,
    pub(crate) packet: udp::Packet<'a>,
    pub(crate) checksum: udp::Checksum,
    /// Results of an earlier lookup.
    pub(crate) hint: &'a Hint,
}

/// Results of the refresh check, reused by the full processing.
#[derive(Debug, Default)]
pub(crate) struct Hint {
    /// Fingerprint of the message; 0 if it has none.
    pub(crate) fingerprint: u64,
    /// Stream of the message.
    pub(crate) stream: Option<Stream>,
    /// Result of the lookup of the stream.
    pub(crate) found: Option<Result<Index, VacantEntry>>,
}

impl<'a> Received<'a> {
    /// Creates the context of a received message.
    #[inline]
    pub(crate) fn of(
        datagram: &'a Datagram<'a>,
        packet: udp::Packet<'a>,
        hint: &'a Hint,
    ) -> Received<'a> {
        let checksum = packet.verify(datagram.source, datagram.destination);
        Received { incoming: Some(datagram.interface), datagram, packet, checksum, hint }
    }
}

impl Received<'_> {
    /// Returns the stream of the message, by its ports.
    pub(crate) fn stream(&self, multiplexed: bool) -> Result<Stream, DropReason> {
        stream_of(self.datagram.source, self.datagram.destination, &self.packet, multiplexed)
    }
}

/// Returns the stream of a report, by the ports of the report (RFC 3550 section 11).
///
/// # Errors
/// [`DropReason::Ports`] if the destination port cannot be that of reports.
#[inline]
pub(crate) fn stream_of(
    source: IpAddr,
    destination: IpAddr,
    packet: &udp::Packet<'_>,
    multiplexed: bool,
) -> Result<Stream, DropReason> {
    let udp::Packet { source_port, destination_port, .. } = *packet;
    if multiplexed {
        return match destination_port {
            0 => Err(DropReason::Ports),
            _ => Ok(Stream { source, destination, source_port, destination_port }),
        };
    }
    if destination_port % 2 == 0 || destination_port == 1 {
        return Err(DropReason::Ports);
    }
    // A sender whose reports leave from an even port may send its data from any port.
    let source_port = if source_port % 2 == 1 { source_port - 1 } else { 0 };
    Ok(Stream { source, destination, source_port, destination_port: destination_port - 1 })
}

impl Yessir {
    /// Creates an engine without state. Draws from the streams `yessir/hash`, `yessir/jitter` and `yessir/ssrc`.
    pub fn new(mut config: Config, random: &RandomStreams) -> Yessir {
        let mut keys = random.stream("yessir/hash");
        let mut hash = || KeyedHash::draw(&mut keys);
        let tokens = config.tokens.clone();
        Yessir {
            auth: Authentication::new(&mut config.auth),
            config,
            store: Store::new(hash()),
            sources: Sources::new(hash()),
            roles: Roles::default(),
            counters: Counters::default(),
            tokens: Tokens::new(tokens),
            routes_version: 1,
            jitter: random.stream("yessir/jitter"),
            ssrcs: random.stream("yessir/ssrc"),
            scratch: Vec::new(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts an ignored message and reports it.
    #[cold]
    pub(crate) fn ignore<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        reason: DropReason,
    ) {
        *self.counters.ignored.entry(reason).or_default() += 1;
        let (interface, source) = (datagram.interface, datagram.source);
        cx.out.notify(Event::Ignored { reason, interface, source });
    }
}
