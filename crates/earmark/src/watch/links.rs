//! The interfaces of the configuration: which of them there are, what they carry, and why one takes no part.
//!
//! An interface may come after the daemon, go, come back with another index, or be renamed: its settings stand under its
//! name and wait. One that flaps is taken over again after a pause that doubles each time, because taking over costs far
//! more than the flapping does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::{InterfaceId, Rate, Time};
use earmark_linux::{InterfaceState, interface};
use earmark_node::{LinkRow, LinkState};
use tracing::warn;

use crate::config::{Capacity, InterfaceConfig};

/// The pause between two takeovers of an interface that comes and goes: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);
/// Below this a packet of 64 KiB, which segmentation offload makes, holds the link for more than 5 ms.
const SLOW: Rate = Rate::from_mbps(100);

/// Why an interface takes no part although its settings say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// There is no interface of this name.
    Absent,
    /// The settings leave the bandwidth to the driver, and the driver tells no speed.
    NoSpeed,
    /// The interface came back too soon.
    Flapping,
    /// The queues or messages of the interface could not be taken over; the log says why.
    Failed,
}

/// One interface of the configuration.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) config: InterfaceConfig,
    /// The interface of this name, as the kernel has shown it last.
    pub(super) state: Option<InterfaceState>,
    /// What its traffic control and the node know it with.
    pub(super) capacity: Option<Capacity>,
    /// Whether the settings have changed since its traffic control was planned.
    pub(super) is_changed: bool,
    pub(super) obstacle: Option<Obstacle>,
    /// The interface is not taken over again before this.
    pub(super) not_before: Time,
    pause: Duration,
    /// Whether its user has been told of segmentation offload.
    is_advised: bool,
}

impl Link {
    fn new(config: InterfaceConfig) -> Link {
        Link {
            config,
            state: None,
            capacity: None,
            is_changed: false,
            obstacle: Some(Obstacle::Absent),
            not_before: Time::ZERO,
            pause: FIRST_PAUSE,
            is_advised: false,
        }
    }

    /// What the link carries now: by its settings, by what its driver tells, or as before.
    pub(super) fn measure(&self) -> Option<Capacity> {
        let speed = match self.config.bandwidth {
            Some(_) => None,
            None => interface::speed(&self.config.name).unwrap_or_else(|error| {
                warn!(interface = %self.config.name, %error, "cannot read the speed of the link");
                None
            }),
        };
        self.config.capacity(speed).or(self.capacity)
    }

    /// Takes note of why it takes no part; gives whether that is news.
    pub(super) fn meets(&mut self, obstacle: Obstacle) -> bool {
        self.obstacle.replace(obstacle) != Some(obstacle)
    }

    /// Takes note that the interface was taken over.
    pub(super) fn taken_over(&mut self, now: Time) {
        let is_steady = now.since(self.not_before) > self.pause;
        self.pause = if is_steady { FIRST_PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
        self.not_before = now + self.pause;
    }

    /// Tells the user, once, that large packets spoil the delay on this link.
    pub(super) fn advise(&mut self) {
        let name = &self.config.name;
        let is_slow = self.capacity.is_some_and(|capacity| capacity.bandwidth < SLOW);
        if !is_slow || self.is_advised || self.config.queues.plan().is_none() {
            return;
        }
        self.is_advised = true;
        if interface::has_segmentation_offload(name).unwrap_or(false) {
            warn!(
                interface = %name,
                "segmentation offload is on: a packet of up to 64 KiB holds this slow link; \
                 `ethtool -K {name} tso off gso off gro off` switches it off"
            );
        }
    }

    /// The interface as a listing shows it while it takes no part; `None` while it does.
    pub(super) fn unused_row(&self) -> Option<LinkRow> {
        let obstacle = self.obstacle?;
        let capacity = self.config.capacity(None).or(self.capacity);
        let state = self.state.as_ref();
        Some(LinkRow {
            interface: self.config.name.clone(),
            index: state.map_or(0, |state| state.id.0),
            up: state.is_some_and(|state| state.up),
            state: match obstacle {
                Obstacle::Absent => LinkState::Absent,
                Obstacle::NoSpeed => LinkState::NoSpeed,
                Obstacle::Flapping => LinkState::Flapping,
                Obstacle::Failed => LinkState::Failed,
            },
            addresses: state.map(|state| state.addresses.clone()).unwrap_or_default(),
            bandwidth_bps: capacity.map_or(Rate::ZERO, |capacity| capacity.bandwidth),
            reservable_bps: capacity.map_or(Rate::ZERO, |capacity| capacity.reservable),
            held_bps: Rate::ZERO,
            claims: 0,
            adopted: 0,
        })
    }
}

/// The interfaces of the configuration, by name. Ordered: whoever writes the configuration chooses the names.
#[derive(Debug, Default)]
pub(super) struct Links {
    by_name: BTreeMap<String, Link>,
    /// When to try again to take an interface over.
    due: BTreeSet<(Time, String)>,
}

impl Links {
    pub(super) fn new(interfaces: &[InterfaceConfig]) -> Links {
        let named = |config: &InterfaceConfig| (config.name.clone(), Link::new(config.clone()));
        Links { by_name: interfaces.iter().map(named).collect(), due: BTreeSet::new() }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Link> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Link> {
        self.by_name.get_mut(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.by_name.values()
    }

    /// Takes other settings over; gives whether they are new, or say something else than before.
    pub(super) fn set(&mut self, config: &InterfaceConfig) -> bool {
        match self.by_name.get_mut(&config.name) {
            Some(link) => {
                let is_changed = !link.config.says_the_same_as(config);
                link.is_changed |= is_changed;
                link.config = config.clone();
                is_changed
            }
            None => {
                self.by_name.insert(config.name.clone(), Link::new(config.clone()));
                true
            }
        }
    }

    /// The interface of a name has gone, or has another name now.
    pub(super) fn leave(&mut self, name: &str, id: InterfaceId) {
        if let Some(link) = self.by_name.get_mut(name)
            && link.state.as_ref().is_some_and(|state| state.id == id)
        {
            link.state = None;
            link.obstacle = Some(Obstacle::Absent);
            // The next one of this name may be another link, with another speed.
            link.capacity = None;
        }
    }

    /// Has [`Links::take_due`] give this name at `at`.
    pub(super) fn try_again(&mut self, name: &str, at: Time) {
        self.due.insert((at, name.to_owned()));
    }

    /// When [`Links::take_due`] has something.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|&(at, _)| at)
    }

    /// An interface to try again by now, if it still takes no part.
    pub(super) fn take_due(&mut self, now: Time) -> Option<String> {
        let first = self.due.first().filter(|(at, _)| *at <= now)?.clone();
        self.due.remove(&first);
        Some(first.1)
    }
}
