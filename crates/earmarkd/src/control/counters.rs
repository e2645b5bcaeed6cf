//! All counters of the daemon, for listings and metrics.

use std::collections::BTreeMap;

use serde_json::Value;

use super::hub::Hub;
use super::requests::value;
use crate::driver::{Driver, Kernel};

/// Returns all counters by part of the daemon; of a protocol by direction or another group, then by name.
pub(crate) fn counters<K: Kernel>(hub: &Hub, driver: &Driver<K>) -> BTreeMap<&'static str, Value> {
    let mut parts = by_protocol(driver.node().counters());
    let mut kernel = BTreeMap::<_, BTreeMap<_, u64>>::new();
    for (part, name, count) in driver.kernel_ref().counters() {
        kernel.entry(part).or_default().insert(name, count);
    }
    parts.extend(kernel.into_iter().map(|(part, counts)| (part, value(counts))));
    if let Some(Value::Object(socket)) = parts.get_mut("socket") {
        socket.insert("port_share".into(), value(shed(driver)));
    }
    parts.insert("driver", value(driver.counters()));
    parts.insert("control", value(hub.counters));
    parts.insert("log", value(hub.log.counters()));
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
    protocols.into_iter().map(|(protocol, groups)| (protocol, value(groups))).collect()
}
