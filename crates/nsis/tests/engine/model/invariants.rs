//! Comparisons of the network with the model: at any time, when nothing has changed for some seconds, after quiet time,
//! and in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::{Engine, Rate};
use earmark_nsis::nslp::PeerHandle;
use earmark_wire::gist::{Direction, SessionId};

use super::play::Play;
use crate::common::ladder::{NODES, RECEIVER, SENDER, interface_on, link_between};

/// Time after which a change has reached the whole path: three retransmissions after 2, 4 and 8 s, because datagrams from
/// a node that was not the peer before are not accepted at once.
const SETTLED: Duration = Duration::from_secs(20);

/// What stands at a node: interface number, if packets are forwarded, and rate in Mbit/s, by session.
type Standing = BTreeMap<SessionId, Option<(u32, u32)>>;

fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn mbps(rate: Rate) -> u32 {
    (rate.as_bps() / 1_000_000) as u32
}

impl Play<'_> {
    /// Returns the nodes of the present path of the flows.
    fn path(&self) -> Vec<usize> {
        let mut path = vec![SENDER];
        while let Some(&last) = path.last().filter(|&&last| last != RECEIVER) {
            path.push(self.next[last]);
        }
        path
    }

    /// Returns what a node has reserved.
    fn reserved_at(&self, node: usize) -> Standing {
        let (engine, ledger) = (self.network.engine(node), &self.network.nodes[node].ledger);
        let sessions = engine.qos().sessions().map(|view| {
            let claim = view.claim.and_then(|claim| {
                Some((ledger.link_of(claim)?.0, mbps(ledger.demand(claim)?.rate)))
            });
            (view.session, claim)
        });
        sessions.collect()
    }

    /// Checks what holds at any time: ledgers are within capacity and equal the sum of the sessions.
    pub(crate) fn check_always(&mut self) -> Result<(), String> {
        for node in 0..NODES {
            if self.network.nodes[node].engine.is_some() {
                self.check_ledger(node).map_err(|what| format!("n{node}: {what}"))?;
            }
        }
        Ok(())
    }

    fn check_ledger(&self, node: usize) -> Result<(), String> {
        let mut sums: BTreeMap<u32, u32> = BTreeMap::new();
        let mut claims = BTreeSet::new();
        for view in self.network.engine(node).qos().sessions() {
            let Some(claim) = view.claim else { continue };
            require(claims.insert(claim), || format!("{claim:?} is in two sessions"))?;
        }
        let standing = self.reserved_at(node);
        require(standing.len() == self.network.engine(node).qos().session_count(), || {
            "a session is there twice".to_owned()
        })?;
        for (interface, rate) in standing.into_values().flatten() {
            *sums.entry(interface).or_default() += rate;
        }
        for (link, status) in self.network.nodes[node].ledger.links() {
            require(status.held <= status.reservable, || format!("{link:?} is overcommitted"))?;
            let sum = sums.get(&link.0).copied().unwrap_or_default();
            require(mbps(status.held) == sum, || {
                format!("the ledger of {link:?} has {}, the sessions {sum}", mbps(status.held))
            })?;
        }
        Ok(())
    }

    /// Checks that held sessions stand on the present path, if nothing has changed for some time and nothing has disturbed.
    pub(crate) fn check_settled(&self) -> Result<(), String> {
        let now = self.network.now;
        let is_settled = now >= self.changed_at + SETTLED && now > self.model.excused_until;
        if !is_settled || self.has_later() {
            return Ok(());
        }
        let Ok(mut standing) = self.model.standing() else { return Ok(()) };
        if now <= self.model.rerouted_until {
            // A branch that is kept has a path of its own, which may join the new one.
            for slot in self.model.slots.iter().filter(|slot| slot.keeps_old_branch) {
                standing.retain(|&id, _| slot.id != Some(id));
            }
        }
        for node in self.path() {
            let found = self.reserved_at(node);
            for (id, expected) in self.allowed_at(node, &standing, &found) {
                require(found.get(&id) == Some(&expected), || {
                    format!(
                        "{SETTLED:?} after the change, n{node} has {found:?}, not {id:?} {expected:?}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Returns what must stand at a node.
    fn expected_at(&self, node: usize, standing: &BTreeMap<SessionId, (u32, bool)>) -> Standing {
        let path = self.path();
        let Some(place) = path.iter().position(|&on_path| on_path == node) else {
            return Standing::new();
        };
        let interface =
            path.get(place + 1).map(|&next| interface_on(node, link_between(node, next)));
        let claim = |mbps: u32| interface.map(|interface| (interface, mbps));
        standing.iter().map(|(&id, &(mbps, _))| (id, claim(mbps))).collect()
    }

    /// Returns what must stand at a node, with the rates found where the model leaves a choice.
    fn allowed_at(
        &self,
        node: usize,
        standing: &BTreeMap<SessionId, (u32, bool)>,
        found: &Standing,
    ) -> Standing {
        let mut expected = self.expected_at(node, standing);
        for (id, claim) in &mut expected {
            let (Some(claim), Some(Some(found))) = (claim, found.get(id)) else { continue };
            if self.model.may_have(*id, found.1) {
                claim.1 = found.1;
            }
        }
        expected
    }

    /// Checks that the network has what the model expects, and nothing else.
    pub(crate) fn check_standing(&self) -> Result<(), String> {
        let standing = self.model.standing()?;
        let path = self.path();
        for node in 0..NODES {
            let found = self.reserved_at(node);
            let expected = self.allowed_at(node, &standing, &found);
            require(found == expected, || {
                format!("n{node} has {found:?}, not {expected:?}; slots: {:?}", self.model.slots)
            })?;
            self.check_routing_states(node, &expected)
                .map_err(|what| format!("n{node} on {path:?}: {what}"))?;
            self.check_associations(node).map_err(|what| format!("n{node}: {what}"))?;
        }
        for (id, (_, by_receiver)) in standing {
            for hop in path.windows(2) {
                self.check_peers((hop[0], hop[1]), id, by_receiver)?;
            }
        }
        Ok(())
    }

    fn check_routing_states(&self, node: usize, expected: &Standing) -> Result<(), String> {
        for (_, state) in self.network.engine(node).gist().routing_states(0) {
            require(expected.contains_key(&state.session), || {
                format!("routing state without a session: {state:?}")
            })?;
            require(state.waiting == 0, || format!("messages wait: {state:?}"))?;
        }
        Ok(())
    }

    /// Checks that each association has a user at one of its ends (RFC 5971 section 4.4.5).
    fn check_associations(&self, node: usize) -> Result<(), String> {
        for one in self.network.engine(node).gist().associations() {
            let other = self.network.connections.get(&(node, one.connection));
            let is_used = other.is_some_and(|&(other, connection)| {
                let mut all = self.network.engine(other).gist().associations();
                all.any(|other| other.connection == connection && other.uses > 0)
            });
            require(one.uses > 0 || is_used, || format!("association without user: {one:?}"))?;
        }
        Ok(())
    }

    /// Checks that the neighbors on a hop are peers of each other, in QoS NSLP and in GIST.
    fn check_peers(
        &self,
        (left, right): (usize, usize),
        id: SessionId,
        by_receiver: bool,
    ) -> Result<(), String> {
        for (node, other, direction) in
            [(left, right, Direction::Downstream), (right, left, Direction::Upstream)]
        {
            let engine = self.network.engine(node);
            let view = engine.qos().session(id).ok_or("no session")?;
            let is_on = (direction == Direction::Downstream) != by_receiver;
            let handle = if is_on { view.on } else { view.back };
            let peer = handle.and_then(|handle| self.node_of(node, handle));
            require(peer == Some(other), || {
                format!("{id:?} at n{node} has the peer {peer:?} {direction:?}, not n{other}")
            })?;
            let states = engine.gist().routing_states(0);
            let mut states = states.filter(|(_, state)| state.session == id);
            let state = states.find(|(_, state)| state.mri.direction() == direction);
            let peer = state.and_then(|(_, state)| state.peer);
            let found = peer.and_then(|peer| self.node_with(peer.address));
            require(found == Some(other), || {
                format!(
                    "{id:?} at n{node}: routing state {direction:?} has {found:?}, not n{other}"
                )
            })?;
        }
        Ok(())
    }

    fn node_of(&self, node: usize, handle: PeerHandle) -> Option<usize> {
        self.node_with(self.network.engine(node).gist().peer(handle)?.address)
    }

    fn node_with(&self, address: std::net::IpAddr) -> Option<usize> {
        self.network.nodes.iter().position(|node| node.interfaces.is_local(address))
    }

    /// Checks that no state is left.
    pub(crate) fn check_empty(&self) -> Result<(), String> {
        let standing = self.model.standing()?;
        require(standing.is_empty(), || format!("{:?}", self.model.slots))?;
        self.check_standing()?;
        for node in 0..NODES {
            let engine = self.network.engine(node);
            let gist = engine.gist();
            let left =
                (gist.routing_state_count(), gist.associations().count(), gist.peers().len());
            require(left == (0, 0, 0), || {
                format!("n{node} has {left:?} routing states, associations and peers")
            })?;
            let due = engine.next_deadline();
            require(due.is_none(), || format!("n{node} has a timer: {due:?}"))?;
        }
        Ok(())
    }
}
