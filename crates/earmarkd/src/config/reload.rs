//! Reload of the configuration while the daemon runs: changes that are applied, and changes that need a restart.

use std::collections::{BTreeMap, BTreeSet};

use super::{Config, InterfaceConfig, NsisConfig, Protocols};

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
                None if interface.integrity.is_some() => {
                    waiting.push(format!("interface {}: integrity", interface.name));
                }
                None => added.push(interface.clone()),
            }
        }
        let names: BTreeSet<&str> = new.interfaces.iter().map(|new| new.name.as_str()).collect();
        for gone in &self.interfaces {
            if !names.contains(gone.name.as_str()) {
                waiting.push(format!("interface {}, which is not there any more", gone.name));
                interfaces.push(gone.clone());
            }
        }
        self.interfaces.extend(added.iter().cloned());
        interfaces.extend(added);
        let [started, nsis] = [&self.nsis.engine, &new.nsis.engine];
        let hold = |engine: &earmark_nsis::Config| engine.gist.associations.hold_time;
        for (key, differs) in [
            ("node.name", self.name != new.name),
            ("node.seed", self.seed != new.seed),
            ("control", self.control != new.control),
            ("rsvp.udp_only", self.udp_only != new.udp_only),
            ("rsvp.reduction", self.reduction != new.reduction),
            ("rsvp.hello", self.hello != new.hello),
            ("integrity", self.integrity != new.integrity),
            (
                "boomerang",
                self.boomerang != new.boomerang || self.boomerang_share != new.boomerang_share,
            ),
            ("nsis.tcp and nsis.tls", !self.nsis.streams.has_same_ports(&new.nsis.streams)),
            ("nsis.identity", started.gist.identity != nsis.gist.identity),
            ("nsis.hold", hold(started) != hold(nsis)),
            ("nsis.level", started.qos.level != nsis.qos.level),
            (
                "nsis.inner and nsis.aggregate",
                started.qos.inner != nsis.qos.inner
                    || started.qos.aggregates != nsis.qos.aggregates,
            ),
            ("yessir", self.yessir != new.yessir || self.retry != new.retry),
            ("protocol", self.others != new.others),
            ("mark", self.marks != new.marks),
            ("daemon.record", self.record != new.record),
            ("daemon.user", self.user != new.user),
            (
                "daemon.keep_reservations_on_exit",
                self.keep_reservations_on_exit != new.keep_reservations_on_exit,
            ),
        ] {
            if differs {
                waiting.push(key.to_owned());
            }
        }
        let config = Config {
            interfaces,
            timing: new.timing,
            limits: new.limits,
            policy: new.policy,
            proxies: new.proxies,
            diagnostics: new.diagnostics,
            nsis: NsisConfig {
                streams: new.nsis.streams.with_ports_of(&self.nsis.streams),
                engine: self.nsis.engine.renewed(new.nsis.engine),
            },
            reconcile: new.reconcile,
            adoption_time: new.adoption_time,
            ..self.clone()
        };
        Reloaded { config, waiting }
    }
}

impl InterfaceConfig {
    /// Applies the settings of `new` that may change, and adds the names of the others to `waiting`.
    fn reload(&self, new: &InterfaceConfig, waiting: &mut Vec<String>) -> InterfaceConfig {
        for (key, differs) in [
            ("classes", self.classes != new.classes),
            ("queues", self.queues != new.queues),
            ("admission", self.admission != new.admission),
            ("integrity", self.integrity != new.integrity),
            ("protocols (rsvp)", self.protocols.rsvp != new.protocols.rsvp),
            ("measure_rtp", self.measure_rtp != new.measure_rtp),
            ("faces_core and across", self.border != new.border),
        ] {
            if differs {
                waiting.push(format!("interface {}: {key}", self.name));
            }
        }
        InterfaceConfig {
            classes: self.classes,
            queues: self.queues,
            admission: self.admission,
            integrity: self.integrity,
            protocols: Protocols { rsvp: self.protocols.rsvp, ..new.protocols },
            measure_rtp: self.measure_rtp,
            border: self.border.clone(),
            ..new.clone()
        }
    }

    /// Whether both have equal settings, wherever they are in the file.
    pub(crate) fn says_the_same_as(&self, other: &InterfaceConfig) -> bool {
        *self == InterfaceConfig { place: self.place.clone(), ..other.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use earmark_core::Rate;

    use super::*;

    const STARTED: &str = "[node]\nname = \"r1\"\n\
        [[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\n\
        [[interface]]\nname = \"eth1\"\nbandwidth = \"10Mbit\"\n";

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("r1.toml")).expect("it can be read")
    }

    #[test]
    fn reload_applies_changes_and_names_the_others() {
        let mut started = config(STARTED);
        let text = STARTED.replace("\"r1\"", "\"r9\"").replacen(
            "\"10Mbit\"",
            "\"20Mbit\"\nqueues = \"none\"\nneighbors = [\"10.0.0.1/32\"]",
            1,
        );
        let text = format!(
            "{text}[rsvp]\nrefresh = \"5s\"\nmax_sessions = 7\nreduction.enabled = false\n\
             [policy]\ndefault = \"refuse\"\n[daemon]\nreconcile = \"9s\"\nuser = \"nobody\"\n\
             [nsis]\nrefresh = \"7s\"\nmax_states = 9\nlevel = 3\nhold = \"9s\"\n[[nsis.rule]]\nrefuse = true\n"
        );
        let Reloaded { config: renewed, waiting } = started.reload(config(&text));
        assert_eq!(
            waiting,
            [
                "interface eth0: queues",
                "node.name",
                "rsvp.reduction",
                "nsis.hold",
                "nsis.level",
                "daemon.user"
            ]
        );
        let new = config(&text);
        let [engine, wanted] = [&renewed, &new].map(|config| &config.nsis.engine);
        assert_eq!(engine.gist.limits, wanted.gist.limits);
        assert_eq!(
            (engine.qos.refresh, &engine.qos.policy),
            (wanted.qos.refresh, &wanted.qos.policy)
        );
        assert_eq!((engine.qos.level, wanted.qos.level), (0, 3));
        assert_eq!((renewed.timing, renewed.limits), (new.timing, new.limits));
        assert_eq!((renewed.policy, renewed.reconcile), (new.policy, new.reconcile));
        assert_eq!((renewed.name.as_str(), renewed.user), ("r1", None));
        assert_eq!(renewed.reduction, started.reduction);
        let [eth0, eth1] = &renewed.interfaces[..] else { panic!("{:?}", renewed.interfaces) };
        assert_eq!((eth0.bandwidth, eth0.queues), (Some(Rate::from_mbps(20)), Default::default()));
        assert_eq!(eth0.limits.neighbors.len(), 1);
        assert!(eth1.says_the_same_as(&started.interfaces[1]), "only its line is another");
        // The file is changed back to what it was.
        let Reloaded { config: renewed, waiting } = started.reload(config(STARTED));
        assert_eq!((renewed, waiting), (started, vec![]));
    }

    #[test]
    fn reload_adds_interfaces_and_removes_none() {
        let mut started = config(STARTED);
        let eth2 = "[[interface]]\nname = \"eth2\"\nbandwidth = \"1Mbit\"\n";
        let added = format!("{STARTED}{eth2}");
        let Reloaded { config: renewed, waiting } = started.reload(config(&added));
        assert_eq!((renewed.interfaces.len(), waiting), (3, vec![]));
        let Reloaded { config: renewed, waiting } = started.reload(config(STARTED));
        assert_eq!(renewed.interfaces.len(), 3);
        assert_eq!(waiting, ["interface eth2, which is not there any more"]);
    }
}
