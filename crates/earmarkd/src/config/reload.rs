//! Reload of the configuration while the daemon runs: changes that are applied, and changes that need a restart.

use std::collections::{BTreeMap, BTreeSet};

use super::{Config, InterfaceConfig};
use crate::protocols;

/// Result of a reload.
#[derive(Clone, Debug, PartialEq)]
pub struct Reloaded {
    /// The settings from now on: the new ones, except for the keys in `waiting`.
    pub config: Config,
    /// Keys that differ from those at start and keep their old values until the daemon restarts.
    pub waiting: Vec<String>,
}

impl Config {
    /// Applies the settings of `new` that may change while the daemon runs that was started with these settings. New interfaces
    /// take part from now on and are added to these settings too.
    pub fn reload(&mut self, new: Config) -> Reloaded {
        let mut waiting = Vec::new();
        let mut interfaces = Vec::new();
        let mut added = Vec::new();
        let known: BTreeMap<&str, &InterfaceConfig> =
            self.interfaces.iter().map(|known| (known.name.as_str(), known)).collect();
        for interface in &new.interfaces {
            match known.get(interface.name.as_str()) {
                Some(known) => interfaces.push(known.reload(interface, &mut waiting)),
                None => {
                    let integrity = (!interface.integrity.is_empty()).then_some("integrity");
                    let mut keys =
                        protocols::all().filter_map(|protocol| protocol.needs_restart(interface));
                    match integrity.or_else(|| keys.next()) {
                        Some(key) => waiting.push(format!("interface {}: {key}", interface.name)),
                        None => added.push(interface.clone()),
                    }
                }
            }
        }
        let names: BTreeSet<&str> = new.interfaces.iter().map(|new| new.name.as_str()).collect();
        for gone in &self.interfaces {
            if !names.contains(gone.name.as_str()) {
                waiting.push(format!("interface {}, which was removed", gone.name));
                interfaces.push(gone.clone());
            }
        }
        self.interfaces.extend(added.iter().cloned());
        interfaces.extend(added);
        let mut config = Config {
            interfaces,
            settings: new.settings,
            reconcile: new.reconcile,
            adoption_time: new.adoption_time,
            ..self.clone()
        };
        let note = |waiting: &mut Vec<String>, differing: &[(&str, bool)]| {
            let differing = differing.iter().filter(|(_, differs)| *differs);
            waiting.extend(differing.map(|(key, _)| (*key).to_owned()));
        };
        let general = [
            ("node.name", self.name != new.name),
            ("node.seed", self.seed != new.seed),
            ("control", self.control != new.control),
            ("metrics", self.metrics != new.metrics),
            ("web", self.web != new.web),
            ("history", self.history != new.history),
            ("integrity.keys", self.keys != new.keys),
        ];
        note(&mut waiting, &general);
        for protocol in protocols::all() {
            protocol.reload(self, &mut config, &mut waiting);
        }
        let keeps = self.keep_reservations_on_exit != new.keep_reservations_on_exit;
        let general = [
            ("protocol", self.others != new.others),
            ("mark", self.marks != new.marks),
            ("daemon.record", self.record != new.record),
            ("daemon.user", self.user != new.user),
            ("daemon.syscall_filter", self.syscall_filter != new.syscall_filter),
            ("daemon.keep_reservations_on_exit", keeps),
        ];
        note(&mut waiting, &general);
        Reloaded { config, waiting }
    }
}

impl InterfaceConfig {
    /// Applies the settings of `new` that may change, and adds the names of the others to `waiting`.
    fn reload(&self, new: &InterfaceConfig, waiting: &mut Vec<String>) -> InterfaceConfig {
        let mut config = InterfaceConfig {
            classes: self.classes,
            queues: self.queues,
            admission: self.admission,
            integrity: self.integrity.clone(),
            border: self.border.clone(),
            ..new.clone()
        };
        let mut keys = Vec::new();
        for (key, differs) in [
            ("classes", self.classes != new.classes),
            ("queues", self.queues != new.queues),
            ("admission", self.admission != new.admission),
            ("integrity", self.integrity != new.integrity),
        ] {
            keys.extend(differs.then_some(key));
        }
        for protocol in protocols::all() {
            keys.extend(protocol.reload_interface(self, &mut config));
        }
        keys.extend((self.border != new.border).then_some("faces_core, across and deaggregate"));
        waiting.extend(keys.iter().map(|key| format!("interface {}: {key}", self.name)));
        config
    }

    /// Whether both have equal settings, wherever they are in the file.
    pub(crate) fn says_the_same_as(&self, other: &InterfaceConfig) -> bool {
        *self == InterfaceConfig { place: self.place.clone(), ..other.clone() }
    }
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
