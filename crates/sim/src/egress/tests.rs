//! Reservations at an egress, and their service by strict priority.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use earmark_core::admission::{ClaimId, Demand, Protocol, Service};
use earmark_core::{Installation, InterfaceId};

use super::*;
use crate::packet::UDP;

const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// A packet of 986 octets: 1 000 on the link, 8 ms at 1 Mbit/s.
fn packet(port: u16, sequence: u64) -> Packet {
    Packet {
        source: SENDER,
        destination: RECEIVER,
        protocol: UDP,
        dscp: 0,
        ttl: 64,
        router_alert: false,
        from_daemon: false,
        length: 986,
        damaged: false,
        body: Body::Data { source_port: 1, destination_port: port, stream: port.into(), sequence },
    }
}

fn installation(slot: u32, port: u16, rate: Rate) -> Installation {
    let flow = Flow {
        destination: RECEIVER,
        source: Some(SENDER),
        protocol: UDP,
        destination_port: port,
        source_port: 1,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let demand =
        Demand { service: Service::ControlledLoad, rate, burst: 0, max_packet: 0, min_packet: 0 };
    let claim = ClaimId { slot, generation: 0 };
    Installation { claim, interface: InterfaceId(1), flow, demand }
}

/// Changes of the reservations, as a daemon makes them.
impl Egress {
    fn install(&mut self, now: Time, protocol: Option<Protocol>, installation: &Installation) {
        self.change(now, |reservations| reservations.install(protocol, installation));
    }

    fn add_flow(&mut self, claim: ClaimId, protocol: Option<Protocol>, flow: Flow) {
        self.change(Time::ZERO, |reservations| reservations.add_flow(claim, protocol, flow));
    }

    fn remove_flow(&mut self, claim: ClaimId, flow: &Flow) {
        self.change(Time::ZERO, |reservations| reservations.remove_flow(claim, flow));
    }

    fn remove(&mut self, claim: ClaimId) -> Option<u32> {
        self.change(Time::ZERO, |reservations| reservations.remove(claim))
    }

    fn orphan(&mut self) -> Vec<(Flow, Rate, Option<Protocol>)> {
        self.change(Time::ZERO, Reservations::orphan)
    }

    fn reap(&mut self) -> Vec<Flow> {
        self.change(Time::ZERO, Reservations::reap)
    }
}

/// Runs an egress until `end` with both ports always backlogged; returns the packets sent by port 1 and by port 2.
fn serve(egress: &mut Egress, from: Time, end: Time) -> [u64; 2] {
    let (mut now, mut sent) = (from, [0; 2]);
    while now < end {
        while egress.enqueue(now, packet(1, 0)) {}
        while egress.enqueue(now, packet(2, 0)) {}
        match egress.next(now) {
            Next::Transmit(packet) => {
                let Body::Data { destination_port, .. } = packet.body else { unreachable!() };
                sent[usize::from(destination_port) - 1] += 1;
                now = now + egress.transmission_time(&packet);
            }
            Next::Wait(until) => now = until,
            Next::Idle => unreachable!("both are backlogged"),
        }
    }
    sent
}

#[test]
fn a_reserved_class_gets_its_rate_and_no_more() {
    let mut egress = Egress::new(Rate::from_mbps(1), 10);
    egress.install(Time::ZERO, None, &installation(0, 1, Rate::from_bps(788_800)));
    // 788.8 kbit/s are 100 packets of 986 octets a second; the bucket starts with two or three. 125 fit the link.
    let [reserved, best_effort] = serve(&mut egress, Time::ZERO, Time::from_secs(10));
    assert!((1_000..=1_004).contains(&reserved), "{reserved}");
    assert!((246..=250).contains(&best_effort), "{best_effort}");
    assert!(egress.remove(ClaimId { slot: 0, generation: 0 }).is_some());
    assert!(egress.remove(ClaimId { slot: 0, generation: 0 }).is_none());
}

#[test]
fn changed_reservation_takes_effect_in_place() {
    let mut egress = Egress::new(Rate::from_mbps(1), 10);
    egress.install(Time::ZERO, None, &installation(0, 1, Rate::from_bps(78_880)));
    let [before, _] = serve(&mut egress, Time::ZERO, Time::from_secs(10));
    egress.install(Time::from_secs(10), None, &installation(0, 1, Rate::from_bps(394_400)));
    let [after, _] = serve(&mut egress, Time::from_secs(10), Time::from_secs(20));
    assert!((100..=104).contains(&before), "{before}");
    assert!((499..=504).contains(&after), "{after}");
}

/// A class outlives its daemon; a new one takes it over by its flow, or it is reaped.
#[test]
fn orphans_are_adopted_or_reaped() {
    let mut egress = Egress::new(Rate::from_mbps(1), 10);
    let (first, second) = (Rate::from_bps(100_000), Rate::from_bps(200_000));
    egress.install(Time::ZERO, None, &installation(0, 1, first));
    egress.install(Time::ZERO, None, &installation(1, 2, second));
    let adopted = egress.orphan();
    assert_eq!(adopted.iter().map(|(_, rate, _)| *rate).collect::<Vec<_>>(), [first, second]);
    // The new daemon numbers its claims from the start, and claims the second flow only.
    egress.install(Time::from_secs(1), None, &installation(0, 2, second));
    assert_eq!(egress.reap(), [installation(0, 1, first).flow]);
    assert_eq!(egress.reap(), []);
    assert_eq!(egress.reservations.classes().count(), 1);
}

/// Flows that share a class share its rate, which counts once, and are removed one by one.
#[test]
fn flows_share_a_class() {
    let mut egress = Egress::new(Rate::from_mbps(1), 10);
    let shared = installation(0, 1, Rate::from_bps(394_400));
    let other = installation(0, 2, Rate::ZERO).flow;
    egress.install(Time::ZERO, None, &shared);
    egress.add_flow(shared.claim, None, other);
    let [first, second] = serve(&mut egress, Time::ZERO, Time::from_secs(10));
    assert!((500..=504).contains(&(first + second)), "{first} {second}");
    let reserved: Vec<_> = egress.reservations().reserved().collect();
    let flows = Vec::from([shared.flow, other]);
    assert_eq!(reserved, [Reserved { flows, demand: shared.demand }]);
    let orphans = egress.orphan();
    assert_eq!(orphans, [(shared.flow, Rate::from_bps(394_400), None), (other, Rate::ZERO, None)]);
    // The next daemon claims the second flow alone.
    egress.install(Time::from_secs(10), None, &Installation { flow: other, ..shared });
    assert_eq!(egress.reap(), [shared.flow]);
    egress.remove_flow(shared.claim, &other);
    assert_eq!(
        egress.reservations().reserved().map(|reserved| reserved.flows.len()).collect::<Vec<_>>(),
        [0]
    );
}

/// Flows that are removed with an adopted class are reported as well, so that no one waits for them.
#[test]
fn flows_of_removed_adopted_class_are_reported() {
    let mut egress = Egress::new(Rate::from_mbps(1), 10);
    let shared = installation(0, 1, Rate::from_bps(100_000));
    let other = installation(0, 2, Rate::ZERO).flow;
    egress.install(Time::ZERO, None, &shared);
    egress.add_flow(shared.claim, None, other);
    egress.orphan();
    egress.install(Time::from_secs(1), None, &Installation { flow: other, ..shared });
    assert!(egress.remove(shared.claim).is_some());
    assert_eq!(egress.reap(), [shared.flow]);
    assert_eq!(egress.reap(), []);
}

/// A wildcard filter matches every source, but a filter with a source takes precedence.
#[test]
fn wildcard_matches_after_all_other_filters() {
    let mut egress = Egress::new(Rate::from_mbps(1), 10);
    let wildcard = Installation {
        flow: Flow { source: None, source_port: 0, ..installation(0, 1, Rate::ZERO).flow },
        ..installation(0, 1, Rate::from_bps(100_000))
    };
    egress.install(Time::ZERO, None, &wildcard);
    let class_of = |egress: &mut Egress, port| egress.classify(Time::ZERO, &packet(port, 0));
    let wild = class_of(&mut egress, 1);
    assert!(wild.is_some() && class_of(&mut egress, 2).is_none());
    egress.install(Time::ZERO, None, &installation(1, 1, Rate::from_bps(100_000)));
    assert_ne!(class_of(&mut egress, 1), wild);
}

/// Among the ranges that contain a packet the narrowest applies, after every flow that names its addresses.
#[test]
fn ranges_match_after_flows_narrowest_first() {
    let mut egress = Egress::new(Rate::from_mbps(1), 10);
    let range = |text: &str| Flow::to_range(text.parse().expect("a prefix"));
    let (wide, narrow) = (range("10.0.0.0/8"), range("10.0.0.0/30"));
    let exact = installation(0, 1, Rate::ZERO).flow;
    for (slot, flow) in [wide, narrow, exact].into_iter().enumerate() {
        let installation = installation(slot as u32, 1, Rate::from_bps(100_000));
        egress.install(Time::ZERO, None, &Installation { flow, ..installation });
    }
    // Classes are numbered from 1 in the order of their installation.
    for slot in [2, 1, 0] {
        assert_eq!(egress.classify(Time::ZERO, &packet(1, 0)), Some(slot + 1));
        assert!(egress.remove(ClaimId { slot, generation: 0 }).is_some());
    }
    assert_eq!(egress.classify(Time::ZERO, &packet(1, 0)), None);
    egress.install(
        Time::ZERO,
        None,
        &Installation { flow: range("10.0.0.4/30"), ..installation(9, 1, Rate::ZERO) },
    );
    assert_eq!(egress.classify(Time::ZERO, &packet(1, 0)), None, "it is in none");
}

/// A range with a DSCP matches after those of addresses, and packets of one stream may change their DSCP.
#[test]
fn packets_with_a_dscp_match_its_range() {
    let mut egress = Egress::new(Rate::from_mbps(1), 10);
    let marked = Packet { dscp: 46, ..packet(1, 0) };
    let everything = Flow::of_dscp(false, 0);
    for (slot, flow) in [everything, Flow::of_dscp(false, 46)].into_iter().enumerate() {
        let installation = installation(slot as u32, 1, Rate::from_bps(100_000));
        egress.install(Time::ZERO, None, &Installation { flow, ..installation });
    }
    for _ in 0..2 {
        assert_eq!(egress.classify(Time::ZERO, &packet(1, 0)), Some(1));
        assert_eq!(egress.classify(Time::ZERO, &marked), Some(2));
    }
    assert_eq!(egress.classify(Time::ZERO, &Packet { dscp: 45, ..marked }), Some(1));
}

#[test]
fn packet_for_full_queue_is_refused() {
    let mut egress = Egress::new(Rate::from_mbps(1), 2);
    assert!(egress.enqueue(Time::ZERO, packet(1, 0)));
    assert!(egress.enqueue(Time::ZERO, packet(1, 1)));
    assert!(!egress.enqueue(Time::ZERO, packet(1, 2)));
    assert!(matches!(egress.next(Time::ZERO), Next::Transmit(..)));
    assert!(egress.enqueue(Time::ZERO, packet(1, 3)));
}
