//! Attacks in the simulator.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use earmark_core::{Hop, Prefix, Rate, Route, Trust};
use earmark_node::{Node, NodeConfig, QueueView};
use earmark_scenario::attack::Packet;
use earmark_scenario::topology::Topology;
use earmark_scenario::{CommonSettings, Protocols};

use super::{AttackNetwork, Place, ROUTERS, Reserved, Setup, TOPOLOGY, distinct, is_reason};
use crate::demo::protocol::Target;
use crate::demo::{DemoNetwork, OnSimulator, Plan, ROUTER, Stream};

/// The simulated network with attackers.
pub struct AttackedSimulator {
    demo: OnSimulator,
    setup: Setup,
}

impl AttackedSimulator {
    /// Creates the network; the same seed gives the same run.
    ///
    /// # Errors
    /// The topology is malformed.
    pub fn new(setup: Setup, plan: Plan, seed: u64) -> Result<AttackedSimulator> {
        let topology = Topology::parse(TOPOLOGY)?;
        let (mut settings, protocols) = (NodeConfig::default(), Protocols::default());
        let common = CommonSettings {
            refresh: plan.refresh,
            refresh_reduction: true,
            has_priorities: false,
            opens_paths: false,
        };
        for protocol in protocols.all() {
            protocol.configure(&common, &mut settings);
        }
        let plan = super::plan_of(setup, plan);
        let mut demo = OnSimulator::with(topology.clone(), plan, seed, &settings);
        for (index, node) in topology.nodes.iter().enumerate() {
            for (end, link) in topology.interfaces(index) {
                let trust =
                    if topology.is_between_routers(link) { Trust::CORE } else { Trust::ACCESS };
                demo.set_trust(&node.name, &end.interface, trust)?;
            }
        }
        if setup.target == Target::Group {
            add_default_route(&mut demo, "h1", setup)?;
        }
        demo.tap(ROUTER)?;
        Ok(AttackedSimulator { demo, setup })
    }

    /// Returns the daemon of a router.
    fn daemon(&self, router: &str) -> Result<&Node> {
        let (node, _) = self.demo.node(router)?;
        self.demo.network().node(node).with_context(|| format!("{router} has no daemon"))
    }
}

/// Adds the route that a host needs to send to groups.
fn add_default_route(demo: &mut OnSimulator, host: &'static str, setup: Setup) -> Result<()> {
    let (id, _) = demo.node(host)?;
    let [_, router] = super::addresses(demo.topology(), setup, Place::Beside(host))?;
    let node = demo.network().node(id).context("the host has no daemon")?;
    let interface = node.interfaces().by_name("eth0").context("the host has no link")?.id;
    let hop = Hop { interface, gateway: Some(router), source: None };
    let prefix = Prefix::everything(router.is_ipv6());
    demo.network_mut().add_route(id, Route { prefix, metric: 0, hop });
    Ok(())
}

impl AttackNetwork for AttackedSimulator {
    type Network = OnSimulator;

    fn demo(&mut self) -> &mut OnSimulator {
        &mut self.demo
    }

    fn setup(&self) -> Setup {
        self.setup
    }

    fn observed(&mut self) -> Result<Vec<Packet>> {
        let captured = self.demo.take_captured(ROUTER)?;
        Ok(distinct(captured.iter().filter_map(|packet| Packet::parse(&packet.octets))))
    }

    fn send(&mut self, place: Place, packet: &Packet) -> Result<()> {
        let (attacker, _) = self.demo.node(place.node())?;
        self.demo.network_mut().send_datagram(attacker, &packet.outgoing(), &packet.payload);
        Ok(())
    }

    fn reload(&mut self) -> Result<()> {
        bail!("daemons in the simulator have no configuration to read")
    }

    fn reasons(&mut self) -> Result<BTreeMap<String, u64>> {
        let mut reasons = BTreeMap::new();
        for router in ROUTERS {
            let counters = self.daemon(router)?.counters();
            for (part, group, name, count) in counters.filter(|counter| is_reason(counter.1)) {
                *reasons.entry(format!("{part} {group} {name}")).or_default() += count;
            }
        }
        Ok(reasons)
    }

    fn reserved(&mut self, stream: Stream) -> Result<Reserved> {
        let now = self.demo.now();
        let mut reserved = Reserved::default();
        for (router, reserved) in ROUTERS.into_iter().zip(&mut reserved) {
            let mut rows = self.daemon(router)?.reservation_rows(now, |_| QueueView::default());
            let row = rows.find(|row| row.destination_port == stream.port());
            *reserved = row.map(|row| Rate::from_bps(row.rate_bps));
        }
        Ok(reserved)
    }
}
