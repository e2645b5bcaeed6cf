//! Ping NSLP over GIST: visited nodes, distances, and messages.

use std::time::Duration;

use earmark_core::Time;
use earmark_nsis::nslp::SendFailure;
use earmark_nsis::ping::{Application, Command, Event, Request, Visit};
use earmark_nsis::{Command as NodeCommand, Config, Event as NodeEvent};
use earmark_wire::gist::MessageType;

use crate::common::{DELAY, Network, Place, address};

const APP: Application = Application(3);

fn ping(network: &mut Network, request: Request) {
    let command = Command::Ping { application: APP, request };
    network.command(0, NodeCommand::Ping(command));
}

/// Returns the events of the first node, with their times.
fn events_of(network: &Network) -> Vec<(Time, Event)> {
    let of_ping = |(at, event): &(Time, NodeEvent)| match event {
        NodeEvent::Ping(event) => Some((*at, event.clone())),
        _ => None,
    };
    network.nodes[0].events.iter().filter_map(of_ping).collect()
}

fn pongs(network: &Network) -> Vec<(Duration, Vec<Visit>)> {
    let pong = |(_, event): (Time, Event)| match event {
        Event::Pong { round_trip, visits, .. } => Some((round_trip, visits)),
        _ => None,
    };
    events_of(network).into_iter().filter_map(pong).collect()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The first message discovers the path, with a handshake at each hop; the second one follows it. A distance excludes
/// the handshakes that the message waited for beyond that node.
#[test]
fn all_nodes_of_a_path_are_listed_with_their_distances() {
    for end in ["10.0.2.2", "fd00:2::2"] {
        let mut network = Network::aware(4);
        let end = address(end);
        ping(&mut network, Request { count: Some(2), ..Request::new(end) });
        network.run(Duration::from_secs(3));
        let [(first, _), (second, visits)] = &pongs(&network)[..] else {
            panic!("{:?}", events_of(&network))
        };
        assert!(*first > *second, "a Query goes ahead at each hop: {first:?}");
        assert_eq!(*second, 6 * DELAY);
        let distances: Vec<_> = visits.iter().filter_map(|visit| visit.round_trip).collect();
        assert_eq!(distances, [ms(0), ms(2), ms(4), ms(6)]);
        assert_eq!(visits[3].address, end);
        assert!(matches!(events_of(&network).last(), Some((_, Event::Finished { .. }))));
        assert_eq!(network.engine(0).gist().routing_state_count(), 0, "nobody needs it any more");
    }
}

/// Routers without NSIS are invisible, and only add delay.
#[test]
fn nodes_without_gist_are_invisible() {
    let aware = || Place::Aware(Config::default());
    let mut network = Network::line(&[aware(), Place::Plain, aware(), Place::Plain, aware()]);
    let end = address("10.0.3.2");
    ping(&mut network, Request { count: Some(2), ..Request::new(end) });
    network.run(Duration::from_secs(3));
    let (_, visits) = pongs(&network).pop().expect("an answer");
    let seen: Vec<_> = visits.iter().map(|visit| (visit.address, visit.round_trip)).collect();
    let far = |text, millis| (address(text), Some(ms(millis)));
    assert_eq!(seen, [far("10.0.0.1", 0), far("10.0.1.2", 4), far("10.0.3.2", 8)]);
}

/// A destination without GIST: the last node before it waits once for a next one in vain, and then remembers it.
#[test]
fn last_node_returns_messages() {
    let aware = || Place::Aware(Config::default());
    let mut network = Network::line(&[aware(), aware(), aware(), Place::Plain]);
    let end = address("10.0.2.2");
    let request = Request { count: Some(4), interval: Duration::from_secs(3), ..Request::new(end) };
    ping(&mut network, request);
    network.run(Duration::from_secs(20));
    let pongs = pongs(&network);
    assert_eq!(pongs.len(), 4, "{:?}", events_of(&network));
    for (_, visits) in &pongs {
        assert_eq!(visits.len(), 3);
        assert_eq!(visits[2].address, address("10.0.1.2"));
    }
    assert_eq!(network.engine(2).ping().counters().turned_round, 4);
}

#[test]
fn path_without_nodes_is_reported_to_the_initiator() {
    let places = [Place::Aware(Config::default()), Place::Plain, Place::Plain];
    let mut network = Network::line(&places);
    ping(&mut network, Request::new(address("10.0.1.2")));
    network.run(Duration::from_secs(10));
    let [(_, Event::Lost { failure: Some(failure), .. }), (_, Event::Finished { .. })] =
        &events_of(&network)[..]
    else {
        panic!("{:?}", events_of(&network))
    };
    assert!(matches!(failure, SendFailure::NoNextNode | SendFailure::TimedOut), "{failure:?}");
}

/// Lost messages of the discovery are retransmitted, a lost message in a datagram is not.
#[test]
fn lost_message_is_one_answer_less() {
    let mut network = Network::aware(3);
    let mut data = 0;
    network.loss = Some(Box::new(move |seen, _| {
        data += u32::from(seen.message_type() == Some(MessageType::Data));
        seen.message_type() == Some(MessageType::Data) && data == 6
    }));
    ping(&mut network, Request { count: Some(5), ..Request::new(address("10.0.1.2")) });
    network.run(Duration::from_secs(15));
    let lost = |(_, event): &(Time, Event)| matches!(event, Event::Lost { failure: None, .. });
    assert_eq!(events_of(&network).iter().filter(|calls| lost(calls)).count(), 1);
    assert_eq!(pongs(&network).len(), 4);
    assert_eq!(network.engine(0).ping().counters().lost, 1);
}

/// The reservable rate of a node comes from its ledger, for the outgoing link in either direction.
#[test]
fn links_report_their_reservable_rate() {
    use earmark_core::admission::LinkCapacity;
    use earmark_core::{InterfaceId, Rate};
    let mut network = Network::aware(3);
    for (node, link, rate) in [(0, 1, 10), (1, 1, 20), (1, 2, 30), (2, 1, 40)] {
        let (bandwidth, mtu) = (Rate::from_mbps(rate), 1_500);
        let capacity = LinkCapacity { bandwidth, reservable: bandwidth, mtu };
        network.nodes[node].ledger.set_link(InterfaceId(link), capacity);
    }
    ping(&mut network, Request { bandwidth: true, ..Request::new(address("10.0.1.2")) });
    network.run(Duration::from_secs(3));
    let (_, visits) = pongs(&network).pop().expect("an answer");
    let left: Vec<_> = visits.iter().map(|visit| (visit.forward, visit.reverse)).collect();
    let mbps = |rate| Some(Rate::from_mbps(rate));
    assert_eq!(left, [(mbps(10), None), (mbps(30), mbps(20)), (None, None)]);
}
