//! Configured interfaces: their presence, their capacity, and why one takes no part.
//!
//! An interface may appear after the daemon's start, disappear, return with another index, or be renamed: its settings are
//! kept by its name. A flapping interface is taken over again after a pause that doubles each time, because a takeover costs
//! far more than the flapping.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::listing::{LinkRow, LinkState};
use earmark_core::{InterfaceId, Rate, Role, Time};
use earmark_linux::{InterfaceState, interface};
use tracing::warn;

use crate::config::{Capacity, InterfaceConfig};

/// Pauses between takeovers of a flapping interface: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);
/// Rate below which a packet of 64 KiB, as segmentation offload makes, occupies the link for more than 5 ms.
const SLOW: Rate = Rate::from_mbps(100);

/// Why an interface takes no part although it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// No interface of this name exists.
    Absent,
    /// No bandwidth is configured, and the driver reports no speed.
    NoSpeed,
    /// The interface came back too soon.
    Flapping,
    /// Taking over queues or messages of the interface failed; the log contains the error.
    Failed,
}

/// A configured interface.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) config: InterfaceConfig,
    /// Latest state of the interface of this name in the kernel.
    pub(super) state: Option<InterfaceState>,
    /// Capacity that traffic control and the node use.
    pub(super) capacity: Option<Capacity>,
    /// Whether the settings have changed since traffic control was planned.
    pub(super) is_changed: bool,
    pub(super) obstacle: Option<Obstacle>,
    /// Earliest time of the next takeover.
    pub(super) not_before: Time,
    pause: Duration,
    /// Whether the advice about segmentation offload was logged.
    is_advised: bool,
    /// Whether the advice about sources was logged, if there was any to give.
    is_advised_about_sources: bool,
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
            is_advised_about_sources: false,
        }
    }

    /// Returns the current capacity of the link: configured, from its driver, or the previous one.
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

    /// Sets the reason why the interface takes no part. Returns whether the reason is new.
    pub(super) fn meets(&mut self, obstacle: Obstacle) -> bool {
        self.obstacle.replace(obstacle) != Some(obstacle)
    }

    /// Records a takeover of the interface.
    pub(super) fn taken_over(&mut self, now: Time) {
        let is_steady = now.since(self.not_before) > self.pause;
        self.pause = if is_steady { FIRST_PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
        self.not_before = now + self.pause;
    }

    /// Logs once what the kernel's settings leave open: sources that are not checked on an access interface, and large packets
    /// that impair the delay.
    pub(super) fn advise(&mut self) {
        self.advise_about_sources();
        self.advise_about_large_packets();
    }

    fn advise_about_sources(&mut self) {
        let name = &self.config.name;
        if self.config.trust.role == Role::Core || self.is_advised_about_sources {
            return;
        }
        self.is_advised_about_sources = true;
        // Not readable: no such setting, or the interface has just gone.
        if !interface::checks_sources(name).unwrap_or(true) {
            warn!(
                interface = %name,
                "hosts behind this access interface can send IPv4 data with the addresses of others, and use up \
                 their reservations; `sysctl net.ipv4.conf.{name}.rp_filter=1` prevents it where routes are \
                 symmetric"
            );
        }
    }

    fn advise_about_large_packets(&mut self) {
        let name = &self.config.name;
        let is_slow = self.capacity.is_some_and(|capacity| capacity.bandwidth < SLOW);
        if !is_slow || self.is_advised || self.config.queues.plan().is_none() {
            return;
        }
        self.is_advised = true;
        if interface::has_segmentation_offload(name).unwrap_or(false) {
            warn!(
                interface = %name,
                "segmentation offload is on: one packet of up to 64 KiB can occupy this slow \
                 link; `ethtool -K {name} tso off gso off gro off` disables it"
            );
        }
    }

    /// Row of the interface in listings while it takes no part; `None` while it does.
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
            admission: None,
            sent_octets: None,
        })
    }
}

/// Configured interfaces by name. The map is ordered because the author of the configuration chooses the names.
#[derive(Debug, Default)]
pub(super) struct Links {
    by_name: BTreeMap<String, Link>,
    /// Times of further attempts to take an interface over.
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

    /// Applies settings. Returns whether they are new or have changed.
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

    /// Returns the names that are not among these.
    pub(super) fn names_beside(&self, names: &BTreeSet<&str>) -> Vec<String> {
        self.by_name.keys().filter(|name| !names.contains(name.as_str())).cloned().collect()
    }

    /// Forgets an interface that the settings no longer name.
    pub(super) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Handles an interface that has gone or was renamed.
    pub(super) fn leave(&mut self, name: &str, id: InterfaceId) {
        if let Some(link) = self.by_name.get_mut(name)
            && link.state.as_ref().is_some_and(|state| state.id == id)
        {
            link.state = None;
            link.obstacle = Some(Obstacle::Absent);
            // The next interface of this name may be another link with another speed.
            link.capacity = None;
        }
    }

    /// Schedules another attempt for [`Links::take_due`] at `at`.
    pub(super) fn try_again(&mut self, name: &str, at: Time) {
        self.due.insert((at, name.to_owned()));
    }

    /// Time by which [`Links::take_due`] must be called.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Returns an interface whose next attempt is due.
    pub(super) fn take_due(&mut self, now: Time) -> Option<String> {
        let first = self.due.first().filter(|(at, _)| *at <= now)?.clone();
        self.due.remove(&first);
        Some(first.1)
    }
}
