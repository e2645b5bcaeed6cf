//! RSVP engine of one node: its state, and the context of its handlers.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{Datagram, Effects, InterfaceId, Interfaces, Outgoing};
use earmark_token::Tokens;
use earmark_wire::rsvp::{Body, FilterSpec};

use crate::api::Event;
use crate::config::Config;
use crate::context::HandlerContext;
use crate::counters::{Counters, DropReason};
use crate::host::proxy::SenderProxy;
use crate::host::reload::TimingChange;
use crate::neighbors::graceful_restart::GracefulRestart;
use crate::neighbors::integrity::Integrity;
use crate::neighbors::limits::Throttles;
use crate::neighbors::refresh_reduction::{OutgoingMessage, RefreshReduction};
use crate::rules::behavior_aggregate::BehaviorAggregates;
use crate::rules::diagnostics::Diagnostics;
use crate::rules::increase::RefusedIncreases;
use crate::rules::notify::Notifications;
use crate::rules::policy::Policy;
use crate::rules::repair::Repairs;
use crate::state::Index;
use crate::state::applications::Applications;
use crate::state::store::Store;

/// IP protocol number of RSVP.
pub const PROTOCOL: u8 = 46;

/// TTL of messages between neighbours: the largest one, which no message from another link can have on arrival (RFC
/// 5082). Routers without RSVP in between may decrement it.
pub(crate) const NEIGHBOR_TTL: u8 = 255;

/// Limit of nodes that forward an error, in the Send_TTL of the error.
pub(crate) const ERROR_HOPS: u8 = 64;

/// Limit of effects for one message; further flows in it are skipped, so that a message that repeats one flow a
/// thousand times does not cause a thousand errors. Refreshed flows have no effects and do not count; skipped flows are
/// handled when the message is refreshed.
pub(crate) const EFFECTS_PER_MESSAGE: usize = 1_024;

/// RSVP engine of one node.
#[derive(Debug)]
pub struct Rsvp {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) applications: Applications,
    pub(crate) refresh_reduction: RefreshReduction,
    pub(crate) counters: Counters,
    /// Pending work after route changes.
    pub(crate) repairs: Repairs,
    /// Sender proxies by index; `None` where one was removed by new settings.
    pub(crate) sender_proxies: Vec<Option<SenderProxy>>,
    /// Interfaces with UDP-encapsulated neighbours (RFC 2205 appendix C).
    pub(crate) encapsulating: BTreeSet<InterfaceId>,
    /// Random refresh intervals in [0.5 R, 1.5 R].
    pub(crate) jitter: Stream,
    /// Buffer for composing objects.
    pub(crate) scratch: Vec<u8>,
    /// Buffer for the senders that the current request names.
    pub(crate) sender_buffer: Vec<FilterSpec>,
    /// Random offset of logical interface handles, so that they differ from those of the previous run.
    pub(crate) lih_offset: u32,
    /// Traces in progress and the rate limit of diagnostics.
    pub(crate) diagnostics: Diagnostics,
    /// Rate limits of neighbours.
    pub(crate) throttles: Throttles,
    /// Signs and verifies messages; `None` if not configured.
    pub(crate) integrity: Option<Box<Integrity>>,
    /// Tokens that prove the names of users, and the requests that depend on them.
    pub(crate) tokens: Tokens<Index>,
    /// Increases that were refused, and are tried again.
    pub(crate) refused_increases: RefusedIncreases,
    /// Timing to which refresh periods rise, if they do.
    pub(crate) timing_change: Option<Box<TimingChange>>,
    /// Senders and outgoing interfaces behind which a receiver proxy has discovered RSVP; senders of which no proxy would
    /// match are not among them.
    pub(crate) discovered: BTreeSet<(Index, InterfaceId)>,
    /// Notifications of the current input, and those remembered.
    pub(crate) notifications: Notifications,
    /// Claims of aggregate reservations.
    pub(crate) behavior_aggregates: BehaviorAggregates,
    /// Neighbours that restart, and the recovery of this node.
    pub(crate) graceful_restart: GracefulRestart,
    /// Policy control; `None` if not configured.
    pub(crate) policy: Option<Box<Policy>>,
}

impl Rsvp {
    /// Creates an engine without state. Random numbers come from the streams `rsvp/jitter`, `rsvp/hash`, `rsvp/lih`,
    /// `rsvp/diagnostics`, `rsvp/cookie` and `rsvp/limits`.
    pub fn new(config: Config, random: &RandomStreams) -> Rsvp {
        Rsvp {
            integrity: Integrity::new(&config.integrity, random).map(Box::new),
            diagnostics: Diagnostics::new(random),
            policy: Policy::new(&config.policy, !config.tokens.issuers.is_empty()).map(Box::new),
            tokens: Tokens::new(config.tokens.clone()),
            throttles: Throttles::new(KeyedHash::draw(&mut random.stream("rsvp/limits"))),
            refresh_reduction: RefreshReduction::new(&config, random),
            sender_proxies: config.proxies.senders.iter().copied().map(Some).collect(),
            config,
            store: Store::new(&mut random.stream("rsvp/hash")),
            applications: Applications::default(),
            counters: Counters::default(),
            repairs: Repairs::default(),
            encapsulating: BTreeSet::new(),
            jitter: random.stream("rsvp/jitter"),
            scratch: Vec::new(),
            sender_buffer: Vec::new(),
            timing_change: None,
            discovered: BTreeSet::new(),
            notifications: Notifications::default(),
            behavior_aggregates: BehaviorAggregates::default(),
            graceful_restart: GracefulRestart::default(),
            refused_increases: RefusedIncreases::default(),
            lih_offset: random.stream("rsvp/lih").next_u64() as u32,
        }
    }

    /// Returns the logical interface handle (LIH) of `interface` in this engine's hop objects.
    ///
    /// Handles differ from one run of a node to the next. A neighbour downstream thus sees a changed previous hop in
    /// the first Path after a restart, and by RFC 2209 answers at once with its Resv instead of at the next refresh.
    /// Reservations are therefore restored within one refresh period.
    #[inline]
    pub fn lih(&self, interface: InterfaceId) -> u32 {
        interface.0.wrapping_add(self.lih_offset)
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bundles messages to the same neighbour (RFC 2961 section 3): a last step over the effects of one input or of
    /// several, in order. Without it each message is sent alone.
    pub fn bundle<E>(&mut self, interfaces: &Interfaces, out: &mut Effects<E>) {
        let bundled = self.refresh_reduction.bundle(interfaces, out);
        self.counters.bundle(bundled);
    }

    /// Forwards a message as a router without RSVP would.
    pub(crate) fn relay<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        self.relay_to(cx, datagram, datagram.destination);
    }

    /// Forwards a message between other nodes, which no router but these would have seen without router alert. From an
    /// access interface it counts as a request does: no message of an honest neighbour is among these.
    #[cold]
    pub(crate) fn relay_foreign<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        let arrival = datagram.interface;
        if cx.context.interfaces.takes_part(arrival)
            && let Some(hop) = cx.context.routes.lookup(datagram.destination)
            && !cx.context.may_forward_request(cx.now, (arrival, hop.interface), 1)
        {
            return self.drop(cx, datagram, DropReason::Limit);
        }
        self.relay(cx, datagram);
    }

    /// Forwards a message to another node than its destination.
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
            // The message is another node's, so it is not signed here.
            integrity.skip_signing(cx.out.len());
        }
        let how = Outgoing { destination, ..datagram.forwarded(PROTOCOL) };
        cx.out.send(how, datagram.payload.len()).copy_from_slice(datagram.payload);
    }

    /// Sends a message that no refresh repeats, reliably if the receiver supports it.
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

    /// Drops a Path or Resv whose state was not accepted. The message is not acknowledged, unless a later one was.
    #[cold]
    pub(crate) fn drop_unacknowledged<E: From<Event>>(
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

    /// Drops a message, with a counter and an event.
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
