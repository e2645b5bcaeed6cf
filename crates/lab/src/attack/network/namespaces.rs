//! Attacks in network namespaces: real daemons, real packets.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use earmark_control::Client;
use earmark_core::Rate;
use earmark_scenario::attack::Packet;
use earmark_scenario::topology::Topology;
use socket2::{Domain, Protocol, Socket, Type};

use super::{AttackNetwork, TOPOLOGY, distinct, is_reason};
use crate::attack::ATTACKER;
use crate::capture::Tap;
use crate::demo::{OnNamespaces, Plan, ROUTER, Stream};
use crate::testbed::{Options, Testbed};

/// Length of an Ethernet header, octets.
const ETHERNET: usize = 14;
/// Protocol number of raw sockets whose user writes the IP header.
const RAW: i32 = 255;

/// The network in namespaces with an attacker.
pub struct AttackedNamespaces {
    demo: OnNamespaces,
    /// Signalling that passes r1.
    tap: Tap,
    /// Socket of the attacker.
    socket: Socket,
    router: usize,
}

impl AttackedNamespaces {
    /// Builds the network, whose daemons run `program`. Waiting ends early once `interrupted` is set.
    ///
    /// # Errors
    /// Namespaces are unavailable, or a daemon does not start.
    pub fn new(
        program: PathBuf,
        plan: Plan,
        interrupted: Arc<AtomicBool>,
    ) -> Result<AttackedNamespaces> {
        let mut topology = Topology::parse(TOPOLOGY)?;
        topology.name = format!("earmark-attack-{}", std::process::id());
        let options = Options { bound: true, ..Options::new(program, plan.refresh) };
        let router = topology.node(ROUTER).context("the router is missing")?;
        let attacker = topology.node(ATTACKER).context("the attacker is missing")?;
        let testbed = Testbed::up(topology, options)?;
        let tap = Tap::open(testbed.namespace(router))?;
        let raw = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW)));
        let socket = testbed.namespace(attacker).run_in(raw)??;
        let demo = OnNamespaces::new(testbed, plan, interrupted)?;
        Ok(AttackedNamespaces { demo, tap, socket, router })
    }

    fn client(&self) -> Result<Client> {
        Ok(Client::connect(self.demo.testbed().control(self.router))?)
    }
}

impl AttackNetwork for AttackedNamespaces {
    type Network = OnNamespaces;

    fn demo(&mut self) -> &mut OnNamespaces {
        &mut self.demo
    }

    fn address_of(&self, node: &str) -> Result<IpAddr> {
        self.demo.address(self.demo.node(node)?)
    }

    fn observed(&mut self) -> Result<Vec<Packet>> {
        let frames = self.tap.frames()?;
        Ok(distinct(frames.iter().filter_map(|frame| Packet::parse(frame.get(ETHERNET..)?))))
    }

    fn send(&mut self, packet: &Packet) -> Result<()> {
        let Some(octets) = packet.octets() else { return Ok(()) };
        let to = SocketAddr::from((packet.destination, 0));
        // The kernel refuses some packets, such as those to a broadcast address; others are lost in a full queue.
        let _ = self.socket.send_to(&octets, &to.into());
        Ok(())
    }

    fn reasons(&mut self) -> Result<BTreeMap<String, u64>> {
        let counters = self.client()?.show_counters()?;
        let mut reasons = BTreeMap::new();
        for (part, groups) in counters.as_object().into_iter().flatten() {
            for (group, names) in groups.as_object().into_iter().flatten() {
                let names = names.as_object().filter(|_| is_reason(group));
                for (name, count) in names.into_iter().flatten() {
                    let count = count.as_u64().unwrap_or_default();
                    reasons.insert(format!("{part} {group} {name}"), count);
                }
            }
        }
        Ok(reasons)
    }

    fn reserved(&mut self, stream: Stream) -> Result<Option<Rate>> {
        let rows = self.client()?.show_reservations()?.rows;
        let row = rows.iter().find(|row| row.destination_port == stream.port());
        Ok(row.map(|row| Rate::from_bps(row.rate_bps)))
    }
}
