//! Messages from another link in the name of a neighbour (RFC 5082).

use earmark_core::{Datagram, Input, InterfaceId, Rate, Role};
use earmark_rsvp::{Config, DropReason, limits};
use earmark_wire::rsvp::{Body, FlowDescriptors, List};

use crate::common::*;
use crate::origins::*;
use crate::signing::*;

/// Delivers a message of the neighbour at an interface with this TTL, encapsulated in UDP or not.
fn deliver(
    bench: &mut Bench,
    interface: InterfaceId,
    ttl: u8,
    encapsulated: bool,
    body: Body<'_>,
) -> Vec<Outcome> {
    let source = if interface == ETH1 { UPSTREAM } else { DOWNSTREAM };
    deliver_from(bench, source, interface, ttl, encapsulated, body)
}

/// Delivers a message in the name of a neighbour to the router's own address.
fn deliver_from(
    bench: &mut Bench,
    source: &str,
    interface: InterfaceId,
    ttl: u8,
    encapsulated: bool,
    body: Body<'_>,
) -> Vec<Outcome> {
    let payload = octets(body, ttl);
    let destination = bench.interfaces.by_id(interface).expect("known").addresses[0];
    let datagram = Datagram {
        interface,
        source: ip(source),
        destination,
        ttl,
        router_alert: false,
        encapsulated,
        payload: &payload,
    };
    bench.handle(Input::Datagram(datagram))
}

/// Where the neighbours of a router are, and what it knows of them.
#[derive(Clone, Copy, Debug)]
struct Neighborhood {
    /// Role of all interfaces.
    role: Role,
    /// Whether the configuration of the interfaces names the neighbours.
    is_named: bool,
    /// Whether the neighbours have sent a message with TTL 255.
    is_near: bool,
}

impl Neighborhood {
    /// Returns all that there are.
    fn all() -> impl Iterator<Item = Neighborhood> {
        let of = |[is_named, is_near]: [bool; 2]| {
            [Core, Access].map(|role| Neighborhood { role, is_named, is_near })
        };
        [[false, false], [false, true], [true, false], [true, true]].into_iter().flat_map(of)
    }

    /// Returns whether messages that a router has forwarded may be those of the neighbours.
    fn may_be_elsewhere(self) -> bool {
        !self.is_near && (self.role == Access || self.is_named)
    }

    /// Returns a router with a reservation between such neighbours.
    fn reserved(self) -> Bench {
        let named = limits::Interface {
            neighbors: vec!["10.0.0.0/14".parse().expect("a range")],
            ..limits::Interface::default()
        };
        let names = ["eth1", "eth2", "eth3"].into_iter().filter(|_| self.is_named);
        let interfaces = names.map(|name| (name.to_owned(), named.clone())).collect();
        let limits = limits::Settings { interfaces, ..limits::Settings::default() };
        let mut bench = with_config(Config { limits, ..Config::default() });
        bench.add_interface(ETH3, "10.0.3.1");
        bench.add_route("10.0.2.0/24", ETH2, None);
        bench.add_route("10.0.1.0/24", ETH1, None);
        set_roles(&mut bench, [self.role; 3]);
        bench.receive(ETH1, Body::Path(path()));
        let flows = [flow(2)];
        let mut request = resv(&flows);
        request.hop.lih = bench.engine.lih(ETH2);
        let ttl = if self.may_be_elsewhere() { 64 } else { 255 };
        deliver(&mut bench, ETH2, ttl, false, Body::Resv(request));
        assert_eq!(bench.held(), Rate::from_mbps(2));
        if self.is_near {
            let error = resv_err(UPSTREAM, FlowDescriptors::FixedFilter(List::Items(&flows)));
            deliver(&mut bench, ETH1, 255, false, Body::ResvErr(error));
        }
        bench
    }
}

/// RFC 5082: a message with a TTL below 255 comes from another link, because a router has forwarded it. In the name of a
/// neighbour behind a core interface it has no effect, unless the interface names the neighbour. In the name of any
/// neighbour that has sent a message with TTL 255, it has none. The previous hop is behind eth1, the next hop behind eth2;
/// the message arrives there or through eth3.
#[test]
fn message_from_another_link_is_dropped_if_neighbor_is_on_this_one() {
    let (less, same) = ([flow(1)], [flow(2)]);
    let headers = [(255, false), (254, false), (64, false), (255, true)];
    let cases = Neighborhood::all().flat_map(|neighborhood| {
        let elsewhere = if neighborhood.role == Core { vec![false, true] } else { vec![false] };
        let with_header = move |elsewhere| headers.map(|header| (neighborhood, header, elsewhere));
        elsewhere.into_iter().flat_map(with_header)
    });
    for (neighborhood, (ttl, encapsulated), elsewhere) in cases {
        let [eth1, eth2] = if elsewhere { [ETH3; 2] } else { [ETH1, ETH2] };
        let is_believed = (ttl == 255 && !encapsulated) || neighborhood.may_be_elsewhere();
        let reasons = if is_believed { vec![] } else { vec![DropReason::FromFar] };
        let what = format!(
            "{neighborhood:?}, TTL {ttl}, encapsulated: {encapsulated}, elsewhere: {elsewhere}"
        );

        let mut bench = neighborhood.reserved();
        let mut request = resv(&less);
        request.hop.lih = bench.engine.lih(ETH2);
        let outcomes = deliver(&mut bench, eth2, ttl, encapsulated, Body::Resv(request));
        assert_eq!(dropped(&outcomes), reasons, "Resv, {what}");
        assert_eq!(bench.held(), Rate::from_mbps(if is_believed { 1 } else { 2 }), "{what}");

        let mut bench = neighborhood.reserved();
        let mut tear = resv_tear(&same);
        tear.hop.lih = bench.engine.lih(ETH2);
        let outcomes = deliver(&mut bench, eth2, ttl, encapsulated, Body::ResvTear(tear));
        assert_eq!(dropped(&outcomes), reasons, "ResvTear, {what}");

        let mut bench = neighborhood.reserved();
        let error = Body::PathErr(path_err());
        let outcomes = deliver_from(&mut bench, DOWNSTREAM, eth2, ttl, encapsulated, error);
        assert_eq!(dropped(&outcomes), reasons, "PathErr, {what}");

        let mut bench = neighborhood.reserved();
        let error = resv_err(UPSTREAM, FlowDescriptors::FixedFilter(List::Items(&same)));
        let error = Body::ResvErr(error);
        let outcomes = deliver_from(&mut bench, UPSTREAM, eth1, ttl, encapsulated, error);
        assert_eq!(dropped(&outcomes), reasons, "ResvErr, {what}");
    }
}
