//! Attacks in the simulator.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result};
use earmark_core::{Rate, Trust};
use earmark_node::QueueView;
use earmark_scenario::attack::Packet;
use earmark_scenario::topology::Topology;

use super::{AttackNetwork, TOPOLOGY, distinct, is_reason};
use crate::attack::ATTACKER;
use crate::demo::{DemoNetwork, OnSimulator, Plan, ROUTER, Stream};

/// The simulated network with an attacker.
pub struct AttackedSimulator(OnSimulator);

impl AttackedSimulator {
    /// Creates the network; the same seed gives the same run.
    ///
    /// # Errors
    /// The topology is malformed.
    pub fn new(plan: Plan, seed: u64) -> Result<AttackedSimulator> {
        let topology = Topology::parse(TOPOLOGY)?;
        let mut network = OnSimulator::new(topology.clone(), plan, seed);
        for (index, node) in topology.nodes.iter().enumerate() {
            for (end, link) in topology.interfaces(index) {
                let trust =
                    if topology.is_between_routers(link) { Trust::CORE } else { Trust::ACCESS };
                network.set_trust(&node.name, &end.interface, trust)?;
            }
        }
        network.tap(ROUTER)?;
        Ok(AttackedSimulator(network))
    }
}

impl AttackNetwork for AttackedSimulator {
    type Network = OnSimulator;

    fn demo(&mut self) -> &mut OnSimulator {
        &mut self.0
    }

    fn address_of(&self, node: &str) -> Result<IpAddr> {
        Ok(self.0.node(node)?.1)
    }

    fn observed(&mut self) -> Result<Vec<Packet>> {
        let captured = self.0.take_captured(ROUTER)?;
        Ok(distinct(captured.iter().filter_map(|packet| Packet::parse(&packet.octets))))
    }

    fn send(&mut self, packet: &Packet) -> Result<()> {
        let (attacker, _) = self.0.node(ATTACKER)?;
        self.0.network_mut().send_datagram(attacker, &packet.outgoing(), &packet.payload);
        Ok(())
    }

    fn reasons(&mut self) -> Result<BTreeMap<String, u64>> {
        let (router, _) = self.0.node(ROUTER)?;
        let node = self.0.network().node(router).context("r1 has no daemon")?;
        let mut reasons = BTreeMap::new();
        for (part, group, name, count) in node.counters().filter(|counter| is_reason(counter.1)) {
            *reasons.entry(format!("{part} {group} {name}")).or_default() += count;
        }
        Ok(reasons)
    }

    fn reserved(&mut self, stream: Stream) -> Result<Option<Rate>> {
        let (router, _) = self.0.node(ROUTER)?;
        let now = self.0.now();
        let node = self.0.network().node(router).context("r1 has no daemon")?;
        let mut rows = node.reservation_rows(now, |_| QueueView::default());
        let row = rows.find(|row| row.destination_port == stream.port());
        Ok(row.map(|row| Rate::from_bps(row.rate_bps)))
    }
}
