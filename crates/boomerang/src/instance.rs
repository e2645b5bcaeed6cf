//! One instance of Boomerang: its state, and what every handler needs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::throttle::Throttle;
use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_token::{HeldToken, Tokens};
use earmark_wire::icmp::PseudoHeader;

use crate::aggregates::Aggregates;
use crate::api::Event;
use crate::config::Config;
use crate::context::HandlerContext;
use crate::counters::{Counters, DropReason};
use crate::credential::Credentials;
use crate::loops::Loops;
use crate::state::Index;
use crate::store::Store;

/// Boomerang on one node.
#[derive(Debug)]
pub struct Boomerang {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) loops: Loops,
    pub(crate) aggregates: Aggregates,
    pub(crate) counters: Counters,
    /// Users that may reserve, and the keys of this host.
    pub(crate) credentials: Credentials,
    /// Tokens that prove the names of users, and the sessions that depend on them.
    pub(crate) tokens: Tokens<Index>,
    /// Token of the request that is being admitted, for the session that it makes.
    pub(crate) pending_token: Option<Box<HeldToken>>,
    /// Rate limit of changes per initiating node.
    pub(crate) throttle: Throttle,
    /// Counter of changes of routes or interfaces. A session that was checked against the routes since the last
    /// change needs no further check, so that a refresh needs no route lookup.
    pub(crate) epoch: u32,
    /// Spreads refreshes over [0.5, 1.5] intervals.
    pub(crate) jitter: Stream,
    /// Source of private primes.
    pub(crate) primes: Stream,
    /// Buffer to compose a message in.
    pub(crate) scratch: Vec<u8>,
}

impl Boomerang {
    /// Creates an engine without state. Draws from the streams `boomerang/hash`, `boomerang/jitter`,
    /// `boomerang/names`, `boomerang/nonces` and `boomerang/primes`.
    pub fn new(mut config: Config, random: &RandomStreams) -> Boomerang {
        let hash = KeyedHash::draw(&mut random.stream("boomerang/hash"));
        Boomerang {
            credentials: Credentials::new(&mut config.credentials),
            tokens: Tokens::new(config.tokens.clone()),
            pending_token: None,
            aggregates: Aggregates::new(&config.aggregates),
            throttle: Throttle::default(),
            config,
            store: Store::new(hash),
            loops: Loops::new(random.stream("boomerang/names"), random.stream("boomerang/nonces")),
            counters: Counters::default(),
            epoch: 0,
            jitter: random.stream("boomerang/jitter"),
            primes: random.stream("boomerang/primes"),
            scratch: Vec::new(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Forwards a message like a router without Boomerang.
    pub(crate) fn relay<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        let Some(how) = self.transit_outgoing(cx, datagram, None) else { return };
        // From an access interface these messages count as requests.
        let hop = cx.context.routes.lookup(datagram.destination);
        let way = hop.map(|hop| (datagram.interface, hop.interface));
        if way.is_some_and(|way| !cx.context.may_forward_request(cx.now, way, 1)) {
            return self.drop(cx, datagram, DropReason::Limit);
        }
        self.counters.relayed += 1;
        cx.out.send_copy(how, datagram.payload);
    }

    /// Returns how a message in transit leaves; `None` if its TTL expired.
    #[inline]
    pub(crate) fn transit_outgoing<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        interface: Option<InterfaceId>,
    ) -> Option<Outgoing> {
        if datagram.ttl <= 1 {
            self.drop(cx, datagram, DropReason::TtlExpired);
            return None;
        }
        Some(Outgoing {
            interface,
            ttl: datagram.ttl - 1,
            router_alert: datagram.router_alert,
            ..outgoing(datagram.source, datagram.destination)
        })
    }

    /// Drops a message and reports it.
    #[cold]
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

/// TTL of the messages that this host sends itself.
pub(crate) const TTL: u8 = 64;

/// Returns how this host's own messages leave: with router alert, as the drafts recommend.
#[inline]
pub(crate) fn outgoing(source: IpAddr, destination: IpAddr) -> Outgoing {
    let protocol = PseudoHeader::of(source, destination)
        .map_or(earmark_wire::icmp::PROTOCOL_V4, |ends| ends.protocol());
    Outgoing { router_alert: true, ..Outgoing::new(protocol, source, destination, TTL) }
}
