//! What other settings mean for links and their reservations.

use std::collections::BTreeMap;

use earmark_control::{ConfigLink, LinkEffect, LinkRow};
use earmark_core::Rate;
use earmark_linux::interface;

use crate::config::{Capacity, Config, InterfaceConfig};

/// Compares the links of the running settings with those after a reload, and with those that the files have.
pub(super) fn links(
    running: &Config,
    after_reload: &Config,
    files: &Config,
    rows: impl Iterator<Item = LinkRow>,
) -> Vec<ConfigLink> {
    let rows: BTreeMap<String, LinkRow> = rows.map(|row| (row.interface.clone(), row)).collect();
    let by_name = |config: &'_ Config| -> BTreeMap<String, InterfaceConfig> {
        config.interfaces.iter().map(|known| (known.name.clone(), known.clone())).collect()
    };
    let (running, files) = (by_name(running), by_name(files));
    let link = |after: &InterfaceConfig| {
        let row = rows.get(&after.name);
        let before = running.get(&after.name);
        let is_new = |capacity| before.map(|before| capacity_of(before, row)) != Some(capacity);
        let capacity = capacity_of(after, row);
        let held = row.map_or(Rate::ZERO, |row| row.held_bps);
        let exceeds = |limit: fn(&Capacity) -> Rate| {
            capacity.as_ref().is_some_and(|capacity| held > limit(capacity))
        };
        let effect = match before {
            None => LinkEffect::Joins,
            Some(_) if !files.contains_key(&after.name) => LinkEffect::LeavesAtRestart,
            Some(_) if !is_new(capacity) => return None,
            Some(_) if exceeds(|capacity| capacity.bandwidth) => LinkEffect::ExceedsBandwidth,
            Some(_) if exceeds(|capacity| capacity.reservable) => LinkEffect::ExceedsReservable,
            Some(_) => LinkEffect::Fits,
        };
        Some(ConfigLink {
            interface: after.name.clone(),
            effect,
            bandwidth_bps: capacity.map(|capacity| capacity.bandwidth),
            reservable_bps: capacity.map(|capacity| capacity.reservable),
            held_bps: held,
            claims: row.map_or(0, |row| row.claims + row.adopted),
        })
    };
    after_reload.interfaces.iter().filter_map(link).collect()
}

/// Returns the capacity of a link by its settings, otherwise by its driver, otherwise the one that it has now.
fn capacity_of(config: &InterfaceConfig, row: Option<&LinkRow>) -> Option<Capacity> {
    let speed = match config.bandwidth {
        Some(_) => None,
        None => interface::speed(&config.name).ok().flatten(),
    };
    config.capacity(speed.or(row.map(|row| row.bandwidth_bps)))
}
