//! Messages of a neighbour that arrive through another core interface than the data pass: the route of the neighbour to this
//! node is not the reverse of the route to the neighbour. They concern the interface whose address they are sent to.

use earmark_core::{Datagram, Input, InterfaceId, Rate};
use earmark_rsvp::{Config, DropReason};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, List, Message, MessageId, PathErr, RefreshIds,
    RefreshList, Resv, Srefresh,
};

use crate::common::*;
use crate::message_ids::*;
use crate::origins::{Access, Core, Roles, error_spec, path_err, set_roles};

/// Address of the router on eth1 and eth2.
const ON_ETH1: &str = "10.0.1.2";
const ON_ETH2: &str = "10.0.2.1";

/// A router with three links, whose neighbours on eth1 and eth2 reach it through eth3 if `detour`.
struct Detour {
    router: Bench,
    detour: bool,
}

impl Detour {
    fn new(roles: Roles, detour: bool) -> Detour {
        let distant_neighbors = ["eth1", "eth2", "eth3"].map(str::to_owned).into();
        let mut router = with_config(Config { distant_neighbors, ..Config::default() });
        router.add_interface(ETH3, "10.0.3.1");
        set_roles(&mut router, roles);
        Detour { router, detour }
    }

    /// Delivers a message of the neighbour on a link to an address of the router. The TTL shows that it has passed routers.
    fn from(&mut self, link: InterfaceId, to: &str, message: &Message<'_>) -> Vec<Outcome> {
        let payload = bytes(message);
        self.router.handle(Input::Datagram(Datagram {
            interface: if self.detour { ETH3 } else { link },
            source: ip(if link == ETH1 { UPSTREAM } else { DOWNSTREAM }),
            destination: ip(to),
            ttl: if self.detour { 250 } else { 255 },
            router_alert: false,
            encapsulated: false,
            payload: &payload,
        }))
    }

    fn resv(&mut self, id: MessageId) -> Vec<Outcome> {
        let flows = [flow(2)];
        let mut resv: Resv<'_> = resv(&flows);
        resv.hop.lih = self.router.engine.lih(ETH2);
        self.from(ETH2, ON_ETH2, &capable_message(Body::Resv(resv), Some(id)))
    }

    fn acknowledge(&mut self, link: InterfaceId, to: &str, id: MessageId) -> Vec<Outcome> {
        let acknowledgements = [acknowledgement(AcknowledgementKind::Ack, id)];
        let acknowledgements = List::Items(&acknowledgements);
        let ack = Message { acknowledgements, ..capable_message(Body::Ack, None) };
        self.from(link, to, &ack)
    }

    fn summary(&mut self, link: InterfaceId, to: &str, ids: &[u32]) -> Vec<Outcome> {
        let lists = [RefreshList { epoch: EPOCH, ids: RefreshIds::Messages(List::Items(ids)) }];
        let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
        self.from(link, to, &capable_message(body, None))
    }
}

/// Acknowledgements sent to an address, with the source address of their messages.
fn acknowledgements_to(outcomes: &[Outcome], to: &str) -> Vec<(std::net::IpAddr, Acknowledgement)> {
    let sent = sent(outcomes);
    let sent = sent.iter().filter(|(how, _)| how.destination == ip(to));
    sent.flat_map(|(how, message)| message.acknowledgements.iter().map(|ack| (how.source, ack)))
        .collect()
}

const ROLES: [(Roles, bool); 2] = [([Core; 3], true), ([Core; 3], false)];

/// RFC 2961 sections 4.5 and 5.4: acknowledgements end retransmission and begin summaries, the neighbour gets its own from the
/// address that it knows, and its summaries refresh the state.
#[test]
fn refresh_reduction_works_on_asymmetric_routes() {
    for (roles, detour) in ROLES {
        let mut it = Detour::new(roles, detour);
        receive_path_with_id(&mut it.router, path(), message_id(1));
        let outcomes = it.resv(message_id(100));
        assert_eq!(it.router.held(), Rate::from_mbps(2));
        let resv_id = sent(&outcomes)[0].1.message_id.expect("upstream takes part");
        let own = acknowledgement(AcknowledgementKind::Ack, message_id(100));
        let outcomes = it.router.pass(10 * MS);
        assert_eq!(acknowledgements_to(&outcomes, DOWNSTREAM), [(ip(ON_ETH2), own)], "{detour}");
        // The next hop was not known when the first Path was sent.
        let path = receive_path_with_id(&mut it.router, other_path(), message_id(2));
        let path_id = path_id(&path).expect("downstream takes part");
        it.acknowledge(ETH2, ON_ETH2, path_id);
        it.acknowledge(ETH1, ON_ETH1, resv_id);
        let outcomes = it.router.pass(29 * SECOND);
        let is_state =
            |message: &Message<'_>| matches!(message.body, Body::Path(_) | Body::Resv(_));
        assert!(!sent(&outcomes).iter().any(|(_, message)| is_state(message)), "{detour}");
        assert_eq!(it.router.engine.counters().foreign_acknowledgements, 0);
        let mut listed = Vec::new();
        for _ in 0..8 {
            let outcomes = it.summary(ETH2, ON_ETH2, &[100]);
            assert!(acknowledgements_to(&outcomes, DOWNSTREAM).is_empty());
            it.summary(ETH1, ON_ETH1, &[2]);
            let outcomes = it.router.pass(31 * SECOND);
            let answers = [UPSTREAM, DOWNSTREAM].map(|to| acknowledgements_to(&outcomes, to));
            assert_eq!(answers, [[], []], "no NACK, {detour}");
            listed.extend(summary_ids(&outcomes));
        }
        assert!(listed.contains(&path_id.id) && listed.contains(&resv_id.id), "{listed:?}");
        assert_eq!(it.router.engine.population(), (1, 1, 1), "refreshed by summaries alone");
    }
}

/// A neighbour may lose the state: its NACK brings the message again, whatever its way.
#[test]
fn nack_on_asymmetric_route_brings_the_message_again() {
    for (roles, detour) in ROLES {
        let mut it = Detour::new(roles, detour);
        receive_path_with_id(&mut it.router, path(), message_id(1));
        it.resv(message_id(100));
        let path = receive_path_with_id(&mut it.router, other_path(), message_id(2));
        let id = path_id(&path).expect("downstream takes part");
        it.acknowledge(ETH2, ON_ETH2, id);
        let acknowledgements = [acknowledgement(AcknowledgementKind::Nack, id)];
        let acknowledgements = List::Items(&acknowledgements);
        let nack = Message { acknowledgements, ..capable_message(Body::Ack, None) };
        it.from(ETH2, ON_ETH2, &nack);
        let outcomes = it.router.pass(10 * MS);
        let is_path = |message: &Message<'_>| matches!(message.body, Body::Path(_));
        let paths = sent(&outcomes).iter().filter(|(_, message)| is_path(message)).count();
        assert_eq!(paths, 1, "{detour}");
    }
}

/// RFC 2961 section 4.5: an error acknowledges the message, which is then refreshed and not retransmitted.
#[test]
fn error_on_asymmetric_route_acknowledges_the_path() {
    for (roles, detour) in ROLES {
        let mut it = Detour::new(roles, detour);
        receive_path_with_id(&mut it.router, path(), message_id(1));
        it.resv(message_id(100));
        it.router.pass(SECOND);
        let path = receive_path_with_id(&mut it.router, other_path(), message_id(2));
        assert!(path_id(&path).is_some(), "downstream takes part");
        let error = PathErr { error: error_spec(DOWNSTREAM), ..path_err() };
        it.from(ETH2, ON_ETH2, &capable_message(Body::PathErr(error), None));
        let outcomes = it.router.pass(10 * SECOND);
        let is_path = |message: &Message<'_>| matches!(message.body, Body::Path(_));
        assert!(!sent(&outcomes).iter().any(|(_, message)| is_path(message)), "{detour}");
    }
}

/// An acknowledgement or a summary through an access interface concerns nothing at another one.
#[test]
fn access_interface_concerns_no_other() {
    for roles in [[Core, Core, Access], [Access, Access, Access], [Access, Access, Core]] {
        let mut it = Detour::new(roles, false);
        receive_path_with_id(&mut it.router, path(), message_id(1));
        it.resv(message_id(100));
        it.router.pass(SECOND);
        let path = receive_path_with_id(&mut it.router, other_path(), message_id(2));
        let id = path_id(&path).expect("downstream takes part");
        it.detour = true;
        it.acknowledge(ETH2, ON_ETH2, id);
        let outcomes = it.router.pass(600 * MS);
        assert_eq!(path_id_of_retransmission(&outcomes), Some(id), "{roles:?}");
        for _ in 0..8 {
            it.summary(ETH2, ON_ETH2, &[100]);
            it.router.pass(31 * SECOND);
        }
        assert_eq!(it.router.engine.population().2, 0, "{roles:?}");
        let counters = it.router.engine.counters();
        assert_eq!(counters.dropped[DropReason::Limit as usize], 0);
    }
}

fn path_id_of_retransmission(outcomes: &[Outcome]) -> Option<MessageId> {
    sent(outcomes).iter().find_map(|(_, message)| match message.body {
        Body::Path(_) => message.message_id,
        _ => None,
    })
}
