//! What of a valid configuration cannot work on this host.

use std::net::UdpSocket;
use std::path::Path;

use earmark_core::Rate;
use earmark_linux::interface;
use serde::Serialize;

use crate::config::{Config, InterfaceConfig, WebAddress};
use crate::control::check_group;
use crate::user::User;

/// Bandwidth below which a unit is probably missing.
const SUSPICIOUS: Rate = Rate::from_bps(10_000);

/// Something that does not work on this host.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Obstacle {
    /// Key of the setting.
    pub(super) key: String,
    /// What does not work.
    pub(super) message: String,
    /// What to do.
    pub(super) hint: &'static str,
    /// Whether the daemon does not start.
    pub(super) prevents_start: bool,
}

impl Obstacle {
    fn new(key: &str, message: impl Into<String>, hint: &'static str) -> Obstacle {
        Obstacle { key: key.to_owned(), message: message.into(), hint, prevents_start: false }
    }

    fn of_start(self) -> Obstacle {
        Obstacle { prevents_start: true, ..self }
    }
}

/// Returns what does not work on this host.
pub(super) fn obstacles(config: &Config) -> Vec<Obstacle> {
    let mut found = Vec::new();
    if config.interfaces.is_empty() {
        let hint = "add an [[interface]] for each link that takes part";
        found.push(Obstacle::new("interface", "no interface takes part", hint));
    }
    found.extend(config.interfaces.iter().filter_map(of_interface));
    if let Some(name) = &config.user
        && !matches!(User::find(name), Ok(Some(_)))
    {
        let hint = "create it (useradd --system), or leave the key out";
        let missing = format!("/etc/passwd has no user {name:?}");
        found.push(Obstacle::new("daemon.user", missing, hint).of_start());
    }
    let groups =
        [("control.group", &config.control.group), ("control.readers", &config.control.readers)];
    for (key, group) in groups {
        if let Some(group) = group.as_deref().filter(|group| check_group(group).is_err()) {
            let hint = "create it (groupadd --system), or write its number";
            let missing = format!("/etc/group has no group {group:?}");
            found.push(Obstacle::new(key, missing, hint).of_start());
        }
    }
    if let Some(directory) = config.record.as_deref().and_then(Path::parent)
        && !directory.as_os_str().is_empty()
        && !directory.is_dir()
    {
        let missing = format!("there is no directory {}", directory.display());
        found.push(Obstacle::new("daemon.record", missing, "create it").of_start());
    }
    if let Some(history) = &config.history
        && let Some(directory) = history.database.parent()
        && !directory.as_os_str().is_empty()
        && !directory.is_dir()
    {
        let missing = format!("there is no directory {}", directory.display());
        let hint = "create it for the user of the daemon; records wait for it";
        found.push(Obstacle::new("history.database", missing, hint));
    }
    if let Some(metrics) = &config.metrics
        && let Err(error) = UdpSocket::bind((metrics.address.ip(), 0))
    {
        let missing = format!("cannot listen at {}: {error}", metrics.address.ip());
        let hint = "an address of this host, such as 127.0.0.1";
        found.push(Obstacle::new("metrics.address", missing, hint).of_start());
    }
    if let Some(web) = &config.web
        && let WebAddress::Tcp(address, _) = &web.address
        && let Err(error) = UdpSocket::bind((address.ip(), 0))
    {
        let missing = format!("cannot listen at {}: {error}", address.ip());
        let hint = "an address of this host, such as 127.0.0.1";
        found.push(Obstacle::new("web.listen", missing, hint).of_start());
    }
    found
}

fn of_interface(config: &InterfaceConfig) -> Option<Obstacle> {
    match interface::speed(&config.name) {
        Ok(speed) => of_speed(config, speed),
        Err(_) => {
            let message = format!("there is no interface {}", config.name);
            let hint = "`ip link` lists the interfaces; the daemon waits for one that comes later";
            Some(Obstacle::new("interface.name", message, hint))
        }
    }
}

/// Checks the bandwidth of an interface with this speed, if its driver reports one.
fn of_speed(config: &InterfaceConfig, speed: Option<Rate>) -> Option<Obstacle> {
    let name = &config.name;
    let Some(capacity) = config.capacity(speed) else {
        let message = format!("the driver of {name} reports no speed");
        let hint = "write its bandwidth; the interface takes no part without one";
        return Some(Obstacle::new("interface.bandwidth", message, hint));
    };
    let bandwidth = capacity.bandwidth;
    (bandwidth < SUSPICIOUS).then(|| {
        let message = format!("the bandwidth of {name} is {bandwidth}");
        Obstacle::new("interface.bandwidth", message, "a unit may be missing: 100Mbit")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: &str = "[[interface]]\nname = 'none9'\n";

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("earmark.toml")).expect("valid")
    }

    #[test]
    fn what_this_host_lacks_is_found() {
        // The daemon starts without a database.
        for (text, key) in [
            ("[daemon]\nuser = 'nobody9'\n", "daemon.user"),
            ("[control]\ngroup = 'none9'\n", "control.group"),
            ("[control]\nreaders = 'none9'\n", "control.readers"),
            ("[daemon]\nrecord = '/none9/a'\n", "daemon.record"),
            ("[history]\ndatabase = '/nowhere/at/all/h.db'\n", "history.database"),
            ("[metrics]\naddress = '192.0.2.1:9470'\n", "metrics.address"),
        ] {
            let found = obstacles(&config(&format!("{ABSENT}{text}")));
            let keys: Vec<_> =
                found.iter().map(|found| (&*found.key, found.prevents_start)).collect();
            assert_eq!(
                keys,
                [("interface.name", false), (key, key != "history.database")],
                "{text}"
            );
        }
        let fits = "[control]\ngroup = 'root'\nreaders = '0'\n[daemon]\nuser = 'root'\nrecord = '/tmp/a'\n\
                    [metrics]\naddress = '127.0.0.1:9470'\n";
        let found = obstacles(&config(fits));
        assert!(found.len() == 1 && found[0].key == "interface", "{found:?}");
    }

    #[test]
    fn bandwidth_is_known_and_has_a_unit() {
        let message = |bandwidth: &str, speed| {
            let config = config(&format!("{ABSENT}{bandwidth}"));
            of_speed(&config.interfaces[0], speed).map(|found| found.message)
        };
        assert_eq!(message("bandwidth = '10Mbit'", None), None);
        assert_eq!(message("", Some(Rate::from_mbps(100))), None);
        let unknown = "the driver of none9 reports no speed";
        assert_eq!(message("", None).as_deref(), Some(unknown));
        let low = message("bandwidth = '100'", Some(Rate::from_mbps(100)));
        assert_eq!(low.as_deref(), Some("the bandwidth of none9 is 100 bit/s"));
    }
}
