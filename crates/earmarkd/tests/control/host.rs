//! A host for tests of the control layer: node, hub and clients in one process, above a kernel that only records.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{
    FilterChange, FilterRule, FilteredPackets, Flow, Hop, Installation, Interface, InterfaceId,
    Outgoing, Prefix, Rate, Route, Time, Trust,
};
use earmark_node::{HostUpdate, Input, NodeConfig, TrafficRow};
use earmarkd::control::{ClientId, Hub};
use earmarkd::driver::{
    Arrival, Driver, FilterFailure, Kernel, SendFailure, TrafficControlFailure,
};
use earmarkd::record::Recorder;
use serde_json::Value;

/// A kernel that accepts every operation unless it is full, and records what was sent.
#[derive(Default)]
pub(crate) struct Paper {
    pub(crate) sent: VecDeque<(Outgoing, Vec<u8>)>,
    pub(crate) groups: Vec<IpAddr>,
    /// Whether IPv6 can be signalled.
    pub(crate) ipv6: bool,
    /// Whether traffic control refuses new reservations.
    pub(crate) full: bool,
    /// Rules of the packet filter.
    pub(crate) filter: BTreeMap<FilteredPackets, FilterRule>,
    /// Adopted reservations that were removed.
    pub(crate) dropped: Vec<(InterfaceId, Flow)>,
}

impl Kernel for Paper {
    fn receive(&mut self, _each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize> {
        Ok(0)
    }
    fn send<'a>(
        &mut self,
        messages: &mut dyn Iterator<Item = (&'a Outgoing, &'a [u8])>,
        _failed: &mut dyn FnMut(&Outgoing, SendFailure),
    ) {
        self.sent.extend(messages.map(|(how, octets)| (*how, octets.to_vec())));
    }
    fn install(
        &mut self,
        _now: Time,
        _protocol: Option<Protocol>,
        _installation: &Installation,
    ) -> Result<(), TrafficControlFailure> {
        match self.full {
            true => Err(TrafficControlFailure { errno: 28, text: "no space left".into() }),
            false => Ok(()),
        }
    }
    fn add_flow(&mut self, _claim: ClaimId, _flow: Flow) -> Result<(), TrafficControlFailure> {
        Ok(())
    }
    fn remove_flow(&mut self, _claim: ClaimId, _flow: Flow) -> Result<(), TrafficControlFailure> {
        Ok(())
    }
    fn drop_adopted(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
        _protocol: Option<Protocol>,
    ) -> Result<(), TrafficControlFailure> {
        self.dropped.push((interface, flow));
        Ok(())
    }
    fn remove(&mut self, _claim: ClaimId) -> Result<(), TrafficControlFailure> {
        Ok(())
    }
    fn filter(&mut self, changes: &[FilterChange]) -> Vec<(FilteredPackets, FilterFailure)> {
        for change in changes {
            match change {
                FilterChange::Install(rule, _) => _ = self.filter.insert(rule.packets, *rule),
                FilterChange::Remove(packets) => _ = self.filter.remove(packets),
            }
        }
        Vec::new()
    }
    fn traffic(&mut self, _claim: ClaimId) -> Option<TrafficRow> {
        None
    }
    fn join(&mut self, group: IpAddr) {
        self.groups.push(group);
    }
    fn leave(&mut self, group: IpAddr) {
        let at = self.groups.iter().position(|joined| *joined == group).expect("joined before");
        self.groups.remove(at);
    }
    fn can_signal(&self, destination: IpAddr) -> bool {
        destination.is_ipv4() || self.ipv6
    }
    fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        vec![("paper", "sheets", self.sent.len() as u64)]
    }
}

/// A host with one interface, eth0 10.0.1.1/24, and a default route through it.
pub(crate) struct Host {
    pub(crate) hub: Hub,
    pub(crate) driver: Driver<Paper>,
    pub(crate) interface: Interface,
    pub(crate) now: Time,
}

impl Host {
    pub(crate) fn new() -> Host {
        Host::recorded(None)
    }

    pub(crate) fn recorded(file: Option<&Path>) -> Host {
        Host::with(NodeConfig { name: "h1".into(), seed: 1, ..NodeConfig::default() }, file)
    }

    pub(crate) fn with(config: NodeConfig, file: Option<&Path>) -> Host {
        let recorder = file.map(|file| Recorder::create(file, &config).unwrap());
        let mut driver = Driver::new(config, Paper::default(), recorder);
        let address = "10.0.1.1".parse().unwrap();
        let id = InterfaceId(2);
        let interface = interface(id, "eth0", address);
        driver.handle(Time::ZERO, Input::Host(HostUpdate::Interface(interface.clone())));
        let gateway = Some("10.0.1.254".parse().unwrap());
        let route = Route {
            prefix: Prefix::new("0.0.0.0".parse().unwrap(), 0),
            metric: 0,
            hop: Hop { interface: id, gateway, source: Some(address) },
        };
        driver.handle(Time::ZERO, Input::Host(HostUpdate::Route(route)));
        Host { hub: Hub::new("h1"), driver, interface, now: Time::from_secs(1) }
    }

    /// A node with interfaces by name and address, each of a /24 with a route, and a default route to a gateway.
    pub(crate) fn on_links(
        config: NodeConfig,
        links: &[(&str, [u8; 4])],
        gateway: Option<[u8; 4]>,
    ) -> Host {
        let mut host = Host {
            hub: Hub::new(config.name.clone()),
            driver: Driver::new(config, Paper::default(), None),
            interface: interface(InterfaceId(2), links[0].0, links[0].1.into()),
            now: Time::from_secs(1),
        };
        let mut update = |update| host.driver.handle(Time::ZERO, Input::Host(update));
        for (id, (name, address)) in (2..).map(InterfaceId).zip(links) {
            let address = IpAddr::from(*address);
            update(HostUpdate::Interface(interface(id, name, address)));
            let hop = Hop { interface: id, gateway: None, source: Some(address) };
            update(HostUpdate::Route(Route { prefix: Prefix::new(address, 24), metric: 0, hop }));
        }
        if let Some(gateway) = gateway {
            let (interface, source) = (InterfaceId(2), Some(links[0].1.into()));
            let hop = Hop { interface, gateway: Some(gateway.into()), source };
            let prefix = Prefix::new([0, 0, 0, 0].into(), 0);
            update(HostUpdate::Route(Route { prefix, metric: 0, hop }));
        }
        host
    }

    /// A host with IPv6, 2001:db8::1/64, in addition.
    pub(crate) fn of_both_families() -> Host {
        let mut host = Host::new();
        host.driver.kernel().ipv6 = true;
        let address: IpAddr = "2001:db8::1".parse().unwrap();
        let mut interface = host.interface.clone();
        interface.addresses.push(address);
        let hop = Hop { interface: interface.id, gateway: None, source: Some(address) };
        let prefix = "2001:db8::/64".parse().unwrap();
        let route = HostUpdate::Route(Route { prefix, metric: 0, hop });
        for update in [HostUpdate::Interface(interface), route] {
            host.driver.handle(Time::ZERO, Input::Host(update));
        }
        host
    }

    pub(crate) fn connect(&mut self) -> Peer {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let id = self.hub.connect(ours, self.now).expect("room for one more");
        Peer { id, stream: theirs, read: Vec::new() }
    }

    pub(crate) fn is_connected(&self, peer: &Peer) -> bool {
        self.hub.interests().any(|(id, ..)| id == peer.id)
    }

    /// Lets the hub read everything that `peer` has written, as the event loop would.
    pub(crate) fn serve(&mut self, peer: &Peer) {
        for _ in 0..64 {
            self.hub.readable(peer.id, self.now, &mut self.driver);
            while self.hub.has_listings() {
                self.hub.continue_listings(self.now, &mut self.driver);
            }
        }
        self.hub.publish(self.now, &mut self.driver);
    }

    /// Sends one line and returns the line of the answer.
    pub(crate) fn ask(&mut self, peer: &mut Peer, line: &str) -> Value {
        peer.say(line.as_bytes());
        peer.say(b"\n");
        self.serve(peer);
        let answers: Vec<Value> =
            peer.lines().into_iter().filter(|answer| answer.get("event").is_none()).collect();
        let [answer] = answers.as_slice() else { panic!("{line}: {answers:?}") };
        answer.clone()
    }
}

/// A link of 10 Mbit/s.
fn interface(id: InterfaceId, name: &str, address: IpAddr) -> Interface {
    Interface {
        id,
        name: name.into(),
        addresses: vec![address],
        mtu: 1_500,
        up: true,
        bandwidth: Rate::from_mbps(10),
        reservable: Rate::from_mbps(7),
        largest: None,
        overhead: 0,
        latency_us: 0,
        trust: Trust::CORE,
    }
}

pub(crate) struct Peer {
    pub(crate) id: ClientId,
    pub(crate) stream: UnixStream,
    pub(crate) read: Vec<u8>,
}

impl Peer {
    pub(crate) fn say(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).unwrap();
    }

    /// Returns all complete lines that have arrived.
    pub(crate) fn lines(&mut self) -> Vec<Value> {
        // WouldBlock or the end of the stream follows the available data.
        let _ = self.stream.read_to_end(&mut self.read);
        let end = self.read.iter().rposition(|&octet| octet == b'\n').map_or(0, |end| end + 1);
        let whole: Vec<u8> = self.read.drain(..end).collect();
        let lines = whole.split(|&octet| octet == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).expect("every line is JSON")).collect()
    }
}
