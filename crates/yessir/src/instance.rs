//! One instance of YESSIR: its state, and what every rule needs in order to act.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream as Dice};
use earmark_core::{Context, Datagram, Effects, InterfaceId, Time};
use earmark_wire::udp;

use crate::api::{Event, Stream};
use crate::config::Config;
use crate::counters::{Counters, DropReason};
use crate::limits::Sources;
use crate::roles::Roles;
use crate::state::Index;
use crate::store::{Place, Store};

/// IP protocol number of what this engine takes and sends: UDP.
pub const PROTOCOL: u8 = udp::PROTOCOL;

/// YESSIR on one node.
#[derive(Debug)]
pub struct Yessir {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) sources: Sources,
    pub(crate) roles: Roles,
    pub(crate) counters: Counters,
    /// Counts the changes of routes and interfaces: as long as it stays, ways stay as they were found.
    pub(crate) routes_version: u32,
    /// Spreads reports over 0.7 to 1.3 intervals.
    pub(crate) jitter: Dice,
    /// SSRCs of those who do not bring one.
    pub(crate) ssrcs: Dice,
    /// Room to compose a report in.
    pub(crate) scratch: Vec<u8>,
}

/// The surroundings of one input: when it is, what may be looked at, where consequences go.
pub(crate) struct HandlerContext<'t, 'c, E> {
    pub(crate) now: Time,
    pub(crate) context: &'t mut Context<'c>,
    pub(crate) out: &'t mut Effects<E>,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing<'a> {
    /// Where it came in; `None` for one of this host.
    pub(crate) incoming: Option<InterfaceId>,
    /// As it came, or as it shall leave this host.
    pub(crate) datagram: &'a Datagram<'a>,
    pub(crate) packet: udp::Packet<'a>,
    pub(crate) checksum: udp::Checksum,
    /// What is known of it already.
    pub(crate) hint: &'a Hint,
}

/// What was found out about a message on the way to something else.
#[derive(Debug, Default)]
pub(crate) struct Hint {
    /// What it says, as a number; 0 where its octets do not tell.
    pub(crate) said: u64,
    /// The stream that it is about.
    pub(crate) stream: Option<Stream>,
    /// What a look-up for its stream has found.
    pub(crate) found: Option<Result<Index, Place>>,
}

impl<'a> Passing<'a> {
    /// One that came in.
    #[inline]
    pub(crate) fn of(
        datagram: &'a Datagram<'a>,
        packet: udp::Packet<'a>,
        hint: &'a Hint,
    ) -> Passing<'a> {
        let checksum = packet.verify(datagram.source, datagram.destination);
        Passing { incoming: Some(datagram.interface), datagram, packet, checksum, hint }
    }
}

impl Passing<'_> {
    /// The stream that it is about, by its ports.
    pub(crate) fn stream(&self, multiplexed: bool) -> Result<Stream, DropReason> {
        stream_of(self.datagram.source, self.datagram.destination, &self.packet, multiplexed)
    }
}

/// The stream that a report is about, by the ports of the report (RFC 3550 section 11).
///
/// # Errors
/// Its destination port cannot be that of reports.
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
    // Who sends reports from a port that is not odd sends the data from some port or other.
    let source_port = if source_port % 2 == 1 { source_port - 1 } else { 0 };
    Ok(Stream { source, destination, source_port, destination_port: destination_port - 1 })
}

impl Yessir {
    /// An engine without state. It draws from the streams `yessir/hash`, `yessir/jitter` and `yessir/ssrc`.
    pub fn new(config: Config, random: &RandomStreams) -> Yessir {
        let mut keys = random.stream("yessir/hash");
        let mut hash = || KeyedHash::draw(&mut keys);
        Yessir {
            config,
            store: Store::new(hash()),
            sources: Sources::new(hash()),
            roles: Roles::default(),
            counters: Counters::default(),
            routes_version: 1,
            jitter: random.stream("yessir/jitter"),
            ssrcs: random.stream("yessir/ssrc"),
            scratch: Vec::new(),
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts a message that is not acted on, and tells.
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
