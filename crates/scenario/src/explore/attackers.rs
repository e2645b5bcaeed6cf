//! Attackers: hosts on access interfaces that send forged, replayed, changed and truncated messages of all protocols.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::Trust;
use earmark_core::random::Stream;
use earmark_node::NodeConfig;
use earmark_sim::distributions::happens;
use earmark_sim::{Network, NodeId};

use super::random_network;
use crate::attack::{self, Attack, Packet, Power};
use crate::protocols::Protocols;
use crate::sampling::{below, between, one_of};
use crate::topology::{Node, Role, Topology};

/// Time between two volleys of an attacker.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of attackers.
const ATTACKERS: usize = 3;
/// Maximum number of packets of a volley.
const VOLLEY: usize = 8;
/// Number of volleys from one list of attacks, until attacks are made of what was seen since.
const VOLLEYS: usize = 5;
/// Number of messages from which attacks are made.
const SEEN: usize = 24;
/// Limit of the state behind an access interface, in every engine that has such a limit.
pub(super) const ACCESS_STATE: u32 = 64;

/// Hosts of attackers, and what they can do.
pub(super) struct Attackers {
    attackers: Vec<Attacker>,
    random: Stream,
    /// Number of packets sent.
    pub(super) packets: u64,
}

struct Attacker {
    node: NodeId,
    address: IpAddr,
    power: Power,
    /// Router whose signalling the attacker sees.
    watches: NodeId,
    seen: Vec<Packet>,
    attacks: Vec<Attack>,
    volleys: usize,
}

/// Adds hosts of attackers to a network. Returns their number.
pub(super) fn join(topology: &mut Topology, random: &mut Stream) -> usize {
    let is_router = |place: &usize| topology.nodes[*place].role == Role::Router;
    let routers: Vec<usize> = (0..topology.nodes.len()).filter(is_router).collect();
    let number = between(random, 1, ATTACKERS);
    for index in 0..number {
        let name = format!("a{index}");
        topology.nodes.push(Node { name, role: Role::Host, area: None, place: None });
        let host = topology.nodes.len() - 1;
        random_network::join_host(topology, one_of(random, &routers), host, random);
    }
    number
}

/// Limits the state that can be created from behind an access interface.
pub(super) fn limit_state(protocols: &Protocols, settings: &mut NodeConfig) {
    for protocol in protocols.all() {
        protocol.limit_access(ACCESS_STATE, settings);
    }
}

impl Attackers {
    /// Creates the attackers on the last `number` nodes of a topology. Links between routers become core links, and the
    /// router's end of every other link an access interface.
    pub(super) fn new(
        topology: &Topology,
        nodes: &[NodeId],
        number: usize,
        network: &mut Network,
        mut random: Stream,
    ) -> Attackers {
        for (index, node) in topology.nodes.iter().enumerate() {
            for (end, link) in topology.interfaces(index) {
                let is_access = node.role == Role::Router && !topology.is_between_routers(link);
                let trust = if is_access { Trust::ACCESS } else { Trust::CORE };
                let known = network.node(nodes[index]);
                let known = known.and_then(|node| node.interfaces().by_name(&end.interface));
                if let Some(id) = known.map(|interface| interface.id) {
                    network.set_trust(nodes[index], id, trust);
                }
            }
        }
        let first = topology.nodes.len() - number;
        let routers: Vec<usize> =
            (0..first).filter(|place| topology.nodes[*place].role == Role::Router).collect();
        let attackers = (first..topology.nodes.len()).map(|place| {
            let watches = nodes[one_of(&mut random, &routers)];
            network.capture(watches);
            Attacker {
                node: nodes[place],
                address: topology.address(place).unwrap_or(Ipv4Addr::UNSPECIFIED).into(),
                power: one_of(&mut random, &[Power::OwnAddress, Power::AnyAddress]),
                watches,
                seen: Vec::new(),
                attacks: Vec::new(),
                volleys: 0,
            }
        });
        Attackers { attackers: attackers.collect(), random, packets: 0 }
    }

    /// Creates the attackers of a network without any.
    pub(super) fn none(random: Stream) -> Attackers {
        Attackers { attackers: Vec::new(), random, packets: 0 }
    }

    /// Returns the number of attackers.
    pub(super) fn count(&self) -> usize {
        self.attackers.len()
    }

    /// Returns how many packets the attackers send at most within a time.
    pub(super) fn most_packets_in(&self, time: Duration) -> usize {
        self.count() * VOLLEY * time.div_duration_f64(INTERVAL).ceil() as usize
    }

    /// Sends a volley of each attacker.
    pub(super) fn act(&mut self, protocols: &Protocols, network: &mut Network) {
        for attacker in &mut self.attackers {
            attacker.observe(network);
            if attacker.volleys == 0 {
                attacker.draw_attacks(protocols, &mut self.random);
                attacker.volleys = VOLLEYS;
            }
            attacker.volleys -= 1;
            let Some(attack) = pick(&attacker.attacks, &mut self.random) else { continue };
            for _ in 0..between(&mut self.random, 1, VOLLEY) {
                let Some(packet) = pick(&attack.packets, &mut self.random) else { break };
                network.send_datagram(attacker.node, &packet.outgoing(), &packet.payload);
                self.packets += 1;
            }
        }
    }
}

impl Attacker {
    /// Records the newest messages that have passed the router.
    fn observe(&mut self, network: &mut Network) {
        let captured = network.take_captured(self.watches);
        let newest = captured.iter().rev().take(SEEN);
        let newest: Vec<Packet> =
            newest.filter_map(|packet| Packet::parse(&packet.octets)).collect();
        self.seen.extend(newest.into_iter().rev());
        self.seen.drain(..self.seen.len().saturating_sub(SEEN));
    }

    /// Makes attacks of the messages seen: those of any message, or forged ones of one protocol.
    fn draw_attacks(&mut self, protocols: &Protocols, random: &mut Stream) {
        if self.seen.is_empty() {
            return;
        }
        let mut attacks = match happens(random, 0.5) {
            true => attack::common(&self.seen, self.address, random.next_u64()),
            false => one_of(random, protocols.all()).forgeries(&self.seen, self.address),
        };
        attacks
            .retain(|attack| attack.power == Power::OwnAddress || self.power == Power::AnyAddress);
        self.attacks = attacks;
    }
}

fn pick<'a, T>(of: &'a [T], random: &mut Stream) -> Option<&'a T> {
    of.get(below(random, of.len()))
}
