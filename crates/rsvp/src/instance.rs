//! One instance of RSVP: its state, and what every rule needs in order to act.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{Context, Datagram, Effects, InterfaceId, Interfaces, Outgoing, Time};
use earmark_wire::rsvp::{Body, FilterSpec};

use crate::api::Event;
use crate::applications::Applications;
use crate::config::Config;
use crate::counters::{Counters, DropReason};
use crate::diagnostics::Diagnostics;
use crate::integrity::Integrity;
use crate::limits::Throttle;
use crate::policy::Policy;
use crate::proxy::SenderProxy;
use crate::refresh_reduction::message_id_key::MessageIdKey;
use crate::refresh_reduction::{OutgoingMessage, RefreshReduction};
use crate::repair::Repairs;
use crate::state::Index;
use crate::store::Store;

/// RSVP's IP protocol number.
pub const PROTOCOL: u8 = 46;

/// TTL of messages from one neighbour to the next; routers in between that do not speak RSVP may take some of it.
pub(crate) const NEIGHBOR_TTL: u8 = 64;

/// Effects past which no further flow of a message is treated, so that a message that repeats one flow a thousand times
/// does not bring about a thousand answers. Flows that are refreshed have no effect and so do not count: what is left
/// over has its turn when the message is refreshed.
pub(crate) const EFFECTS_PER_MESSAGE: usize = 1_024;

/// RSVP on one node.
#[derive(Debug)]
pub struct Rsvp {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) applications: Applications,
    pub(crate) refresh_reduction: RefreshReduction,
    pub(crate) counters: Counters,
    /// What follows from changed routes.
    pub(crate) repairs: Repairs,
    /// The senders that are announced for others, by place; `None` where one was until the settings changed.
    pub(crate) announced: Vec<Option<SenderProxy>>,
    /// Interfaces behind which somebody speaks through UDP (RFC 2205 appendix C).
    pub(crate) encapsulating: BTreeSet<InterfaceId>,
    /// Spreads refreshes over [0.5 R, 1.5 R].
    pub(crate) jitter: Stream,
    /// Room to compose an ADSPEC in.
    pub(crate) scratch: Vec<u8>,
    /// Senders that the request being treated names, kept for its room.
    pub(crate) named: Vec<FilterSpec>,
    /// What makes the logical interface handles of this engine's life differ from those of its last one.
    pub(crate) lih_offset: u32,
    /// Questions about sessions that are under way.
    pub(crate) diagnostics: Diagnostics,
    /// What neighbours have used of what they may ask for.
    pub(crate) throttle: Throttle,
    /// Signs and verifies messages; `None` where nothing is configured.
    pub(crate) integrity: Option<Box<Integrity>>,
    /// Judges requests; `None` where nothing is configured.
    pub(crate) policy: Option<Box<Policy>>,
}

/// The surroundings of one input: when it is, what may be looked at, where consequences go.
pub(crate) struct HandlerContext<'t, 'c, E> {
    pub(crate) now: Time,
    pub(crate) context: &'t mut Context<'c>,
    pub(crate) out: &'t mut Effects<E>,
    /// MESSAGE_ID of the message that is treated, if it has one and there is one.
    pub(crate) name: MessageIdKey,
    /// The peer who made it, by what name, where it is to be acknowledged.
    pub(crate) owed: Option<(Index, MessageIdKey)>,
}

impl Rsvp {
    /// An engine without state. It draws from the streams `rsvp/jitter`, `rsvp/hash`, `rsvp/lih`,
    /// `rsvp/diagnostics` and `rsvp/cookie`.
    pub fn new(config: Config, random: &RandomStreams) -> Rsvp {
        Rsvp {
            integrity: Integrity::new(&config.integrity, random).map(Box::new),
            diagnostics: Diagnostics::new(random),
            policy: Policy::new(&config.policy).map(Box::new),
            throttle: Throttle::default(),
            refresh_reduction: RefreshReduction::new(&config, random),
            announced: config.proxies.senders.iter().copied().map(Some).collect(),
            config,
            store: Store::new(&mut random.stream("rsvp/hash")),
            applications: Applications::default(),
            counters: Counters::default(),
            repairs: Repairs::default(),
            encapsulating: BTreeSet::new(),
            jitter: random.stream("rsvp/jitter"),
            scratch: Vec::new(),
            named: Vec::new(),
            lih_offset: random.stream("rsvp/lih").next_u64() as u32,
        }
    }

    /// The logical interface handle (LIH) that names `interface` in this engine's hop objects.
    ///
    /// Handles differ from one life of a node to the next. A neighbour downstream sees a changed previous hop in the
    /// first Path after a restart, and by RFC 2209 answers at once with its Resv, instead of when its refresh is due:
    /// that is how reservations come back within one refresh period.
    #[inline]
    pub fn lih(&self, interface: InterfaceId) -> u32 {
        interface.0.wrapping_add(self.lih_offset)
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Brings messages to one neighbour together into Bundles (RFC 2961 section 3): a last step over the effects of one
    /// input or of several, in their order. Left out, each message leaves by itself.
    pub fn bundle<E>(&mut self, interfaces: &Interfaces, out: &mut Effects<E>) {
        let bundled = self.refresh_reduction.bundle(interfaces, out);
        self.counters.bundle(bundled);
    }

    /// Passes a message on as a router would that does not speak RSVP.
    pub(crate) fn relay<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        self.relay_to(cx, datagram, datagram.destination);
    }

    /// Likewise, but to another node than the one that it is addressed to.
    pub(crate) fn relay_to<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        destination: IpAddr,
    ) {
        if cx.context.interfaces.is_local(destination) {
            return self.drop(cx, datagram, DropReason::UnknownInterface);
        }
        if datagram.ttl <= 1 {
            return self.drop(cx, datagram, DropReason::TtlExpired);
        }
        self.counters.relayed += 1;
        if let Some(integrity) = &mut self.integrity {
            // It speaks for another node.
            integrity.leave_as_it_is(cx.out.len());
        }
        let how = Outgoing {
            protocol: PROTOCOL,
            interface: None,
            source: datagram.source,
            destination,
            ttl: datagram.ttl - 1,
            router_alert: datagram.router_alert,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        };
        cx.out.send(how, datagram.payload.len()).copy_from_slice(datagram.payload);
    }

    /// Sends a message that no state stands behind, which would be lost for good if it were lost.
    pub(crate) fn send_once<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        outgoing_message: OutgoingMessage,
        body: &Body<'_>,
    ) {
        let timers = &mut self.store.timers;
        self.refresh_reduction.send_reliably(
            timers,
            &mut self.counters,
            cx,
            outgoing_message,
            body,
        );
    }

    /// Throws a Path or Resv away whose state was not taken up, and so does not acknowledge it, unless a later one was.
    #[cold]
    pub(crate) fn turn_away<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        reason: DropReason,
    ) {
        if reason != DropReason::Overtaken {
            self.withhold_acknowledgement(cx);
        }
        self.drop(cx, datagram, reason);
    }

    /// Throws a message away and says so.
    pub(crate) fn drop<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        reason: DropReason,
    ) {
        self.counters.drop(reason);
        cx.out.notify(Event::Dropped {
            reason,
            interface: datagram.interface,
            source: datagram.source,
        });
    }
}
