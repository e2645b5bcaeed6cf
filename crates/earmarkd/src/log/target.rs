//! Targets of the log: names of the parts of the daemon, for which an operator sets levels.

use std::collections::BTreeMap;

use earmark_control::{ALL_TARGETS, LogLevel};

/// A part of the daemon that writes lines, and where its code is.
struct Part {
    name: &'static str,
    about: &'static str,
    /// Beginnings of the paths of its modules.
    modules: &'static [&'static str],
}

/// Beginning of the targets that the code names explicitly: `earmark::ledger`.
const EXPLICIT: &str = "earmark::";

/// Parts beside the protocols. A module belongs to the part with the longest beginning of its path.
const PARTS: &[Part] = &[
    // First, because it has all other modules.
    Part { name: "daemon", about: "start, stop and whatever has no other target", modules: &[] },
    Part {
        name: "ledger",
        about: "reservations of all protocols: admitted, refused, preempted, ended",
        modules: &[],
    },
    Part {
        name: "traffic-control",
        about: "queues, classes and filters, and whether they enforce the reservations",
        modules: &["earmarkd::enforcement", "earmarkd::driver", "earmark_linux::traffic_control"],
    },
    Part {
        name: "packet-filter",
        about: "pinholes and translations in nftables",
        modules: &["earmarkd::system::packet_filter", "earmark_linux::nftables"],
    },
    Part {
        name: "interfaces",
        about: "interfaces that come, go and change",
        modules: &["earmarkd::watch", "earmark_linux::mirror"],
    },
    Part { name: "routes", about: "routes of flows", modules: &["earmark_linux::flow_routes"] },
    Part {
        name: "signalling",
        about: "sockets of messages",
        modules: &["earmarkd::system", "earmark_linux::signalling_socket", "earmark_linux::sys"],
    },
    Part {
        name: "connections",
        about: "connections with neighbors, TLS",
        modules: &["earmarkd::streams"],
    },
    Part {
        name: "configuration",
        about: "settings and keys",
        modules: &[
            "earmarkd::reload",
            "earmarkd::running_config",
            "earmarkd::config",
            "earmarkd::key_file",
        ],
    },
    Part {
        name: "control",
        about: "clients of the control socket",
        modules: &["earmarkd::control"],
    },
    Part { name: "audit", about: "who has changed what by the control socket", modules: &[] },
];

/// Place of [`PARTS`]' first part.
pub(super) const DAEMON: usize = 0;

/// All targets: the parts, and the protocols of this daemon.
#[derive(Debug)]
pub(super) struct Targets {
    protocols: Vec<&'static str>,
}

impl Targets {
    pub(super) fn new(protocols: impl IntoIterator<Item = &'static str>) -> Targets {
        Targets { protocols: protocols.into_iter().collect() }
    }

    pub(super) fn len(&self) -> usize {
        PARTS.len() + self.protocols.len()
    }

    /// Returns the name of a target.
    pub(super) fn name(&self, place: usize) -> &'static str {
        let part = PARTS.get(place).map(|part| part.name);
        part.or_else(|| self.protocols.get(place - PARTS.len()).copied()).unwrap_or_default()
    }

    /// Returns what the lines of a target are about.
    pub(super) fn about(&self, place: usize) -> &'static str {
        PARTS.get(place).map_or("messages and state of this protocol", |part| part.about)
    }

    /// Returns the place of a target by its name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        (0..self.len()).find(|place| self.name(*place) == name)
    }

    /// Returns the target of a module's lines, or the explicit one.
    pub(super) fn of_module(&self, path: &str) -> usize {
        if let Some(name) = path.strip_prefix(EXPLICIT) {
            return self.find(name).unwrap_or(DAEMON);
        }
        // Modules of a protocol are below one that has its name; the innermost name counts.
        if let Some((_, below)) = path.split_once("::protocols::")
            && let Some(place) = below.rsplit("::").find_map(|module| self.find(module))
        {
            return place;
        }
        let matches = PARTS.iter().enumerate().filter_map(|(place, part)| {
            let longest = part.modules.iter().filter(|module| path.starts_with(**module));
            Some((longest.map(|module| module.len()).max()?, place))
        });
        matches.max().map_or(DAEMON, |(_, place)| place)
    }

    /// Returns whether a list of levels concerns a target.
    pub(super) fn is_named(&self, place: usize, set: &BTreeMap<String, LogLevel>) -> bool {
        set.contains_key(ALL_TARGETS) || set.contains_key(self.name(place))
    }

    /// Returns the level of each target by a list of levels; `before` for those that the list does not name.
    ///
    /// # Errors
    /// A target does not exist.
    pub(super) fn levels(
        &self,
        set: &BTreeMap<String, LogLevel>,
        before: &[LogLevel],
    ) -> Result<Vec<LogLevel>, UnknownTarget> {
        if let Some(name) = set.keys().find(|n| *n != ALL_TARGETS && self.find(n).is_none()) {
            let known = (0..self.len()).map(|place| self.name(place)).collect::<Vec<_>>();
            return Err(UnknownTarget { name: name.clone(), known: known.join(", ") });
        }
        let all = set.get(ALL_TARGETS);
        let level = |(place, before)| *set.get(self.name(place)).or(all).unwrap_or(before);
        Ok(before.iter().enumerate().map(level).collect())
    }
}

/// A name that is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown target {name:?} of the log; the targets are {}, {known}", ALL_TARGETS)]
pub struct UnknownTarget {
    /// The name.
    pub name: String,
    /// Names of all targets.
    pub known: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_belongs_to_the_longest_beginning() {
        let targets = Targets::new(["alpha", "beta"]);
        for (path, name) in [
            ("earmarkd::daemon", "daemon"),
            ("earmarkd::system", "signalling"),
            ("earmarkd::system::packet_filter", "packet-filter"),
            ("earmarkd::watch::links", "interfaces"),
            ("earmarkd::protocols::alpha::offload", "alpha"),
            ("earmarkd::protocols::alpha::beta::policy", "beta"),
            ("earmark_linux::signalling_socket::protocols::alpha::udp", "alpha"),
            ("earmarkd::protocols::other", "daemon"),
            ("earmark::ledger", "ledger"),
            ("earmark::unknown", "daemon"),
            ("rustls::client", "daemon"),
        ] {
            assert_eq!(targets.name(targets.of_module(path)), name, "{path}");
        }
    }

    #[test]
    fn unknown_target_is_refused_with_the_known_ones() {
        let targets = Targets::new(["alpha"]);
        let before = vec![LogLevel::Info; targets.len()];
        let set = |name: &str| BTreeMap::from([(name.to_owned(), LogLevel::Debug)]);
        let error = targets.levels(&set("nothing"), &before).expect_err("unknown").to_string();
        for name in ["\"nothing\"", "all, daemon, ledger", "audit, alpha"] {
            assert!(error.contains(name), "{error}");
        }
        let levels = targets.levels(&set("alpha"), &before).expect("known");
        assert_eq!(levels.last(), Some(&LogLevel::Debug));
        assert!(levels.iter().rev().skip(1).all(|level| *level == LogLevel::Info));
        let levels = targets.levels(&set("all"), &before).expect("known");
        assert!(levels.iter().all(|level| *level == LogLevel::Debug));
    }
}
