//! All counters of the daemon, for listings and metrics.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::driver::{Driver, Kernel};
use crate::log::LogCounters;

/// Counters of the hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ControlCounters {
    /// Clients that connected.
    pub clients: u64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Lines that were answered with an error.
    pub errors: u64,
    /// Clients that were refused: no place, or no right to use the socket.
    pub refused_clients: u64,
    /// Idle clients that were disconnected.
    pub idle_clients: u64,
    /// Watchers that were disconnected because they read too slowly.
    pub dropped_watchers: u64,
}

/// Returns all counters by part of the daemon; of a protocol by direction or another group, then by name.
pub(crate) fn counters<K: Kernel>(
    driver: &Driver<K>,
    control: ControlCounters,
    log: LogCounters,
) -> BTreeMap<&'static str, Value> {
    let mut parts = by_protocol(driver.node().counters());
    let mut kernel = BTreeMap::<_, BTreeMap<_, u64>>::new();
    for (part, name, count) in driver.kernel_ref().counters() {
        kernel.entry(part).or_default().insert(name, count);
    }
    parts.extend(kernel.into_iter().map(|(part, counts)| (part, json!(counts))));
    if let Some(Value::Object(socket)) = parts.get_mut("socket") {
        socket.insert("port_share".into(), json!(shed(driver)));
    }
    parts.insert("driver", json!(driver.counters()));
    if let Some(accounts) = driver.accounts() {
        parts.insert("history", json!(accounts.counters()));
    }
    parts.insert("control", json!(control));
    parts.insert("log", json!(log));
    parts
}

/// Returns the number of messages that were dropped because too many of their port waited, by the name of the port.
fn shed<K: Kernel>(driver: &Driver<K>) -> BTreeMap<String, u64> {
    let shed = driver.kernel_ref().shed();
    shed.into_iter().map(|(id, count)| (driver.node().interface_name(id), count)).collect()
}

fn by_protocol(
    counters: impl Iterator<Item = (&'static str, &'static str, &'static str, u64)>,
) -> BTreeMap<&'static str, Value> {
    let mut protocols = BTreeMap::<_, BTreeMap<_, BTreeMap<_, u64>>>::new();
    for (protocol, group, name, count) in counters {
        protocols.entry(protocol).or_default().entry(group).or_default().insert(name, count);
    }
    protocols.into_iter().map(|(protocol, groups)| (protocol, json!(groups))).collect()
}
