//! Times of turns by a cost profile.

use std::sync::Arc;
use std::time::Duration;

use earmark_core::{Effect, Effects};
use earmark_node::{Event, Node};
use earmark_sim::{Cause, CostModel, Turn};

use super::profile::{CostProfile, Direction, Does};
use crate::protocols::{Protocols, ScenarioProtocol};

/// IP protocol number of TCP.
const TCP: u8 = 6;
/// Largest share of a processor that the upkeep of sessions takes.
const LARGEST_UPKEEP: f64 = 0.99;

/// Times of a profile, for one node.
#[derive(Debug)]
pub(super) struct ProfileCosts {
    profile: Arc<CostProfile>,
    protocols: Protocols,
    speed: f64,
}

impl ProfileCosts {
    pub(super) fn new(profile: Arc<CostProfile>, protocols: Protocols, speed: f64) -> ProfileCosts {
        ProfileCosts { profile, protocols, speed }
    }

    /// Returns the time of one message, microseconds; 0 if no protocol knows it.
    fn message(
        &self,
        (ip_protocol, payload): (u8, &[u8]),
        direction: Direction,
        does: Option<Does>,
        node: &Node,
    ) -> f64 {
        let known = |protocol: &&'static dyn ScenarioProtocol| {
            Some((*protocol, protocol.message_name(ip_protocol, payload)?))
        };
        let Some((protocol, name)) = self.protocols.all().iter().find_map(known) else {
            return 0.0;
        };
        let key = (protocol.name(), name);
        self.profile.microseconds(key, direction, does, protocol.session_count(node))
    }

    /// Returns the time of the messages that a turn sends, microseconds.
    fn sent(&self, effects: &Effects<Event>, node: &Node) -> f64 {
        let sent = effects.iter().filter_map(|effect| match effect {
            Effect::Send(how, range) => Some((how.protocol, effects.octets(range))),
            Effect::Write(_, range) => Some((TCP, effects.octets(range))),
            _ => None,
        });
        sent.map(|message| self.message(message, Direction::Sent, None, node)).sum()
    }

    /// Returns the share of the processor that the upkeep of all sessions takes.
    fn upkeep(&self, node: &Node) -> f64 {
        if self.profile.upkeep.is_empty() {
            return 0.0;
        }
        let of = |protocol: &&'static dyn ScenarioProtocol| {
            self.profile.upkeep_share(protocol.name(), protocol.session_count(node))
        };
        self.protocols.all().iter().map(of).sum::<f64>().min(LARGEST_UPKEEP)
    }
}

impl CostModel for ProfileCosts {
    fn cost(&mut self, turn: &Turn<'_>) -> Duration {
        let Turn { cause, effects, node, .. } = *turn;
        let received =
            |message| self.message(message, Direction::Received, Some(does(effects)), node);
        let microseconds = match cause {
            Cause::Message { ip_protocol, payload } => received((ip_protocol, payload)),
            Cause::Octets(octets) => received((TCP, octets)),
            Cause::Connection => 0.0,
            Cause::Timer | Cause::Command => self.sent(effects, node),
        };
        let slower = self.speed * (1.0 - self.upkeep(node));
        Duration::from_nanos((microseconds * 1e3 / slower) as u64) // saturates
    }
}

/// Returns what the effects of a message are.
fn does(effects: &Effects<Event>) -> Does {
    let mut does = Does::Nothing;
    for effect in effects.iter() {
        match effect {
            Effect::Install(_) | Effect::AddFlow(..) => return Does::Installs,
            Effect::Remove(..) | Effect::RemoveFlow(..) => does = Does::Removes,
            Effect::Send(..) | Effect::Write(..) if does == Does::Nothing => does = Does::Sends,
            _ => {}
        }
    }
    does
}
