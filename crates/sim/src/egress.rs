//! One direction of a link, as traffic control serves it: reserved classes, then signalling, then best effort.
//!
//! A model of the HTB classes of `earmark-linux`. A packet that matches several claims goes into the first of their
//! classes that has room for it, from the narrowest claim on, and otherwise into the class of the largest rate. A
//! reserved class is a queue behind a token bucket; its packets precede all others as long as the bucket holds their
//! length, and wait otherwise, so that a class never gets more than its rate. Classes that may send take turns. Buckets
//! count IP octets; the time on the link includes the framing.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::admission::{ClaimId, Demand, Protocol};
use earmark_core::{Flow, Installation, Rate, Time};

use crate::class::Class;
use crate::classifier::{Classifier, Place};
use crate::packet::{Body, Packet};

/// Octets of an Ethernet header, which an IP length does not include.
pub(crate) const FRAMING: u32 = 14;
/// Limit of the queue of a reserved class, packets.
const RESERVED_QUEUE: usize = 200;
/// Limit of the signalling queue, packets.
const SIGNALLING_QUEUE: usize = 1_000;

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Egress {
    bandwidth: Rate,
    best_effort_limit: usize,
    best_effort: VecDeque<Packet>,
    signalling: VecDeque<Packet>,
    /// Classes by number; a class outlives the daemon that created it.
    classes: BTreeMap<u32, Class>,
    /// Classes with packets waiting, in the order of their turns.
    waiting: VecDeque<u32>,
    next_class: u32,
    /// The classifier: the class of each flow.
    flows: Classifier,
    /// Flows of a dead daemon that were removed with a class that the new daemon had taken over.
    gone: Vec<Flow>,
    /// Classes by the claim IDs of the running daemon.
    claims: BTreeMap<ClaimId, u32>,
    /// Octets that all reserved classes have sent.
    reserved_octets: u64,
}

/// A reservation in traffic control.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserved {
    /// Flows of the reservation, in ascending order.
    pub flows: Vec<Flow>,
    /// Reserved rate and burst.
    pub demand: Demand,
}

/// Next action of an egress.
#[derive(Debug)]
pub(crate) enum Next {
    /// Transmits this packet, which occupies the link for this time.
    Transmit(Packet, Duration),
    /// No packet may be sent before this time.
    Wait(Time),
    /// No packet waits.
    Idle,
}

impl Egress {
    pub(crate) fn new(bandwidth: Rate, best_effort_limit: u32) -> Egress {
        Egress {
            bandwidth,
            best_effort_limit: best_effort_limit as usize,
            best_effort: VecDeque::new(),
            signalling: VecDeque::new(),
            classes: BTreeMap::new(),
            waiting: VecDeque::new(),
            next_class: 1,
            flows: Classifier::default(),
            gone: Vec::new(),
            claims: BTreeMap::new(),
            reserved_octets: 0,
        }
    }

    /// Returns the count of octets that all reserved classes have sent.
    pub(crate) fn reserved_octets(&self) -> u64 {
        self.reserved_octets
    }

    pub(crate) fn set_bandwidth(&mut self, bandwidth: Rate) {
        self.bandwidth = bandwidth;
    }

    pub(crate) fn bandwidth(&self) -> Rate {
        self.bandwidth
    }

    /// Appends a packet to its queue; `false` if the queue is full.
    pub(crate) fn enqueue(&mut self, now: Time, packet: Packet) -> bool {
        let number = self.classify(now, &packet);
        let (queue, limit) = match number.and_then(|number| self.classes.get_mut(&number)) {
            Some(class) => (&mut class.queue, RESERVED_QUEUE),
            None if packet.urgent => (&mut self.signalling, SIGNALLING_QUEUE),
            None => (&mut self.best_effort, self.best_effort_limit),
        };
        if queue.len() >= limit {
            return false;
        }
        if let Some(number) = number
            && queue.is_empty()
        {
            self.waiting.push_back(number);
        }
        queue.push_back(packet);
        true
    }

    /// Whether a packet waits.
    pub(crate) fn waits(&self) -> bool {
        !(self.waiting.is_empty() && self.signalling.is_empty() && self.best_effort.is_empty())
    }

    /// Returns the next packet, if one may be sent. The link must be free.
    pub(crate) fn next(&mut self, now: Time) -> Next {
        let mut earliest = Time::MAX;
        for turn in 0..self.waiting.len() {
            let number = self.waiting[turn];
            let Some(class) = self.classes.get_mut(&number) else {
                continue;
            };
            match class.take(now) {
                Ok(packet) => {
                    self.reserved_octets += u64::from(packet.length);
                    // Classes that were skipped have waited for tokens, and are the first of the next turn.
                    self.waiting.remove(turn);
                    if !class.queue.is_empty() {
                        self.waiting.push_back(number);
                    }
                    return self.transmit(packet);
                }
                Err(ready) => earliest = earliest.min(ready),
            }
        }
        match self.signalling.pop_front().or_else(|| self.best_effort.pop_front()) {
            Some(packet) => self.transmit(packet),
            None if earliest < Time::MAX => Next::Wait(earliest),
            None => Next::Idle,
        }
    }

    /// Installs or changes a reservation. A class that a dead daemon created for the flow is taken over with its state,
    /// if it was of the same protocol or is not larger than this reservation.
    pub(crate) fn install(
        &mut self,
        now: Time,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) {
        let Installation { claim, flow, demand, .. } = *installation;
        let number = match self.claims.get(&claim).copied() {
            Some(number) => number,
            None => match self.yielding(&flow, protocol, demand.rate) {
                Some(number) if !self.claims.values().any(|&claimed| claimed == number) => number,
                _ => {
                    self.next_class += 1;
                    self.next_class
                }
            },
        };
        self.claims.insert(claim, number);
        self.enter(flow, number, protocol, demand.rate);
        self.classes.entry(number).or_insert_with(|| Class::new(now, demand)).set(now, demand);
    }

    /// Returns the dead daemon's class that a claim on a flow takes over.
    fn yielding(&self, flow: &Flow, protocol: Option<Protocol>, rate: Rate) -> Option<u32> {
        let left = self.flows.get(flow).iter().find(|place| !place.named)?;
        let yields = match left.protocol {
            Some(left) => Some(left) == protocol,
            None => self.classes.get(&left.class).is_none_or(|class| class.demand.rate <= rate),
        };
        yields.then_some(left.class)
    }

    /// Enters a claim on a flow. A dead daemon's claim on it ends, if it yields.
    fn enter(&mut self, flow: Flow, class: u32, protocol: Option<Protocol>, rate: Rate) {
        if let Some(left) = self.yielding(&flow, protocol, rate).filter(|&left| left != class) {
            self.flows.remove(&flow, left);
        }
        self.flows.set(flow, Place { class, named: true, protocol });
    }

    /// Adds a flow to a reservation.
    pub(crate) fn add_flow(&mut self, claim: ClaimId, protocol: Option<Protocol>, flow: Flow) {
        if let Some(&class) = self.claims.get(&claim) {
            let rate = self.classes.get(&class).map_or(Rate::ZERO, |class| class.demand.rate);
            self.enter(flow, class, protocol, rate);
        }
    }

    /// Removes a flow from a reservation.
    pub(crate) fn remove_flow(&mut self, claim: ClaimId, flow: &Flow) {
        if let Some(&class) = self.claims.get(&claim) {
            self.flows.remove(flow, class);
        }
    }

    /// Removes a reservation and returns its class; `None` if there is none with this ID. Packets waiting in it move to
    /// best effort.
    pub(crate) fn remove(&mut self, claim: ClaimId) -> Option<u32> {
        let number = self.claims.remove(&claim)?;
        self.remove_class(number);
        Some(number)
    }

    /// Returns the class of the largest rate that the packets of a flow may use, and that rate.
    pub(crate) fn class_for(&self, flow: &Flow) -> Option<(u32, Rate)> {
        let classes = self.flows.look_up(flow, &better(&self.classes));
        let rated = classes.iter().filter_map(|n| Some((*n, self.classes.get(n)?.demand.rate)));
        rated.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// Returns all reservations, including those without a running daemon.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = Reserved> {
        self.classes.iter().map(|(&number, class)| {
            let flows = self.flows.iter().filter(|(_, place)| place.class == number);
            Reserved { flows: flows.map(|(flow, _)| *flow).collect(), demand: class.demand }
        })
    }

    /// Handles the death of the daemon: its claim IDs become invalid. Returns every remaining flow with the rate of its
    /// class; of flows that share a class only the first has the rate, since it exists only once.
    pub(crate) fn orphan(&mut self) -> Vec<(Flow, Rate, Option<Protocol>)> {
        self.claims.clear();
        self.gone.clear();
        let mut told = BTreeSet::new();
        let mut orphans = Vec::new();
        self.forget_standby();
        for (flow, place) in self.flows.iter_mut() {
            place.named = false;
            let class = self.classes.get(&place.class).filter(|_| told.insert(place.class));
            let rate = class.map_or(Rate::ZERO, |class| class.demand.rate);
            orphans.push((*flow, rate, place.protocol));
        }
        orphans
    }

    /// Removes all but the best of several claims on one flow: the next daemon finds only that one in the kernel.
    fn forget_standby(&mut self) {
        let is_better = better(&self.classes);
        let flows: BTreeSet<Flow> = self.flows.iter().map(|(flow, _)| *flow).collect();
        let kept: BTreeMap<Flow, Option<u32>> = flows
            .iter()
            .map(|flow| (*flow, self.flows.best(flow, &is_better).into_iter().flatten().next()))
            .collect();
        self.flows.extract(|flow, place| kept.get(flow) != Some(&Some(place.class)));
    }

    /// Removes the classes and flows that the running daemon has not claimed; returns the flows.
    pub(crate) fn reap(&mut self) -> Vec<Flow> {
        let unnamed = self.flows.extract(|_, place| !place.named);
        let mut orphans: Vec<Flow> = unnamed.into_iter().map(|(flow, _)| flow).collect();
        orphans.append(&mut self.gone);
        let claimed: BTreeSet<u32> = self.claims.values().copied().collect();
        let unclaimed = self.classes.keys().filter(|number| !claimed.contains(number));
        for number in unclaimed.copied().collect::<Vec<u32>>() {
            self.remove_class(number);
        }
        orphans
    }

    /// Removes a flow that the running daemon cannot keep, unless it has claimed it meanwhile, and its class with its
    /// last flow; returns whether it did. With a protocol, only flows of this protocol or of an unknown one.
    pub(crate) fn reject(&mut self, flow: &Flow, protocol: Option<Protocol>) -> bool {
        let left = self.flows.get(flow).iter().find(|place| !place.named).copied();
        let is_meant = |place: &Place| {
            protocol.is_none() || place.protocol.is_none_or(|p| Some(p) == protocol)
        };
        let Some(Place { class, .. }) = left.filter(is_meant) else {
            return false;
        };
        self.flows.remove(flow, class);
        let used =
            self.flows.has_members(class) || self.claims.values().any(|&claimed| claimed == class);
        if !used {
            self.remove_class(class);
        }
        true
    }

    fn remove_class(&mut self, number: u32) {
        for (flow, place) in self.flows.remove_class(number) {
            self.gone.extend((!place.named).then_some(flow));
        }
        self.waiting.retain(|&waiting| waiting != number);
        if let Some(class) = self.classes.remove(&number) {
            let room = self.best_effort_limit.saturating_sub(self.best_effort.len());
            self.best_effort.extend(class.queue.into_iter().take(room));
        }
    }

    /// Returns the class of a packet: the first with room, from the narrowest claim on, else that of the largest rate.
    fn classify(&mut self, now: Time, packet: &Packet) -> Option<u32> {
        let Body::Data { source_port, destination_port, stream, .. } = packet.body else {
            return None;
        };
        let flow = || Flow {
            destination: packet.destination,
            source: Some(packet.source),
            protocol: packet.protocol,
            destination_port,
            source_port,
            flow_label: 0,
            destination_open: 0,
            source_open: 0,
        };
        let classes = self.flows.classes_of(stream, flow, &better(&self.classes));
        if let [] | [_] = classes {
            return classes.first().copied();
        }
        let mut largest: Option<(Rate, u32)> = None;
        for number in classes {
            let Some(class) = self.classes.get_mut(number) else { continue };
            if class.has_room(now, packet.length) {
                return Some(*number);
            }
            if largest.is_none_or(|(rate, _)| class.demand.rate > rate) {
                largest = Some((class.demand.rate, *number));
            }
        }
        largest.map(|(_, number)| number)
    }

    fn transmit(&self, packet: Packet) -> Next {
        let bits = u64::from(packet.length + FRAMING) * 8;
        let nanos = bits.saturating_mul(1_000_000_000) / self.bandwidth.as_bps().max(1);
        Next::Transmit(packet, Duration::from_nanos(nanos))
    }
}

/// Returns a comparison of two classes: whether the first is the better claim, by rate, then by age.
fn better(classes: &BTreeMap<u32, Class>) -> impl Fn(u32, u32) -> bool {
    let rank = |number: u32| classes.get(&number).map(|class| class.demand.rate);
    move |one, other| (rank(one), other) > (rank(other), one)
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use earmark_core::InterfaceId;
    use earmark_core::admission::Service;

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
            ttl: 64,
            router_alert: false,
            urgent: false,
            length: 986,
            damaged: false,
            body: Body::Data {
                source_port: 1,
                destination_port: port,
                stream: port.into(),
                sequence,
            },
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
            destination_open: 0,
            source_open: 0,
        };
        let demand = Demand { service: Service::ControlledLoad, rate, burst: 0, max_packet: 0 };
        let claim = ClaimId { slot, generation: 0 };
        Installation { claim, interface: InterfaceId(1), flow, demand }
    }

    /// Runs an egress until `end` with both ports always backlogged; returns the packets sent by port 1 and by port 2.
    fn serve(egress: &mut Egress, from: Time, end: Time) -> [u64; 2] {
        let (mut now, mut sent) = (from, [0; 2]);
        while now < end {
            while egress.enqueue(now, packet(1, 0)) {}
            while egress.enqueue(now, packet(2, 0)) {}
            match egress.next(now) {
                Next::Transmit(Packet { body, .. }, occupied) => {
                    let Body::Data { destination_port, .. } = body else { unreachable!() };
                    sent[usize::from(destination_port) - 1] += 1;
                    now = now + occupied;
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
        assert_eq!(egress.classes.len(), 1);
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
        let reserved: Vec<_> = egress.reserved().collect();
        let flows = Vec::from([shared.flow, other]);
        assert_eq!(reserved, [Reserved { flows, demand: shared.demand }]);
        let orphans = egress.orphan();
        assert_eq!(
            orphans,
            [(shared.flow, Rate::from_bps(394_400), None), (other, Rate::ZERO, None)]
        );
        // The next daemon claims the second flow alone.
        egress.install(Time::from_secs(10), None, &Installation { flow: other, ..shared });
        assert_eq!(egress.reap(), [shared.flow]);
        egress.remove_flow(shared.claim, &other);
        assert_eq!(egress.reserved().map(|reserved| reserved.flows.len()).collect::<Vec<_>>(), [0]);
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
        let class_of =
            |egress: &Egress, flow: &Flow| egress.flows.get(flow).first().map(|p| p.class);
        for flow in [exact, narrow, wide] {
            assert!(class_of(&egress, &flow).is_some());
            assert_eq!(
                egress.classify(Time::ZERO, &packet(1, 0)),
                class_of(&egress, &flow),
                "{flow:?}"
            );
            let claim = *egress
                .claims
                .iter()
                .find(|(_, class)| Some(**class) == class_of(&egress, &flow))
                .expect("there")
                .0;
            assert!(egress.remove(claim).is_some());
        }
        assert_eq!(egress.classify(Time::ZERO, &packet(1, 0)), None);
        egress.install(
            Time::ZERO,
            None,
            &Installation { flow: range("10.0.0.4/30"), ..installation(9, 1, Rate::ZERO) },
        );
        assert_eq!(egress.classify(Time::ZERO, &packet(1, 0)), None, "it is in none");
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
}
