//! The last of several announced states of an interface.

use std::collections::BTreeMap;

use earmark_linux::Update;

/// Keeps only the last state of each interface, at the place of its first one, so that a flapping interface is reported once.
/// An interface that goes and comes back is a new one.
pub(super) fn latest(updates: Vec<Update>) -> Vec<Update> {
    let mut places = BTreeMap::new();
    let mut latest: Vec<Update> = Vec::with_capacity(updates.len());
    for update in updates {
        match &update {
            Update::Interface(state) => match places.get(&state.id) {
                Some(&at) => {
                    latest[at] = update;
                    continue;
                }
                None => _ = places.insert(state.id, latest.len()),
            },
            Update::InterfaceGone(id) => _ = places.remove(id),
            _ => {}
        }
        latest.push(update);
    }
    latest
}

#[cfg(test)]
mod tests {
    use earmark_core::InterfaceId;
    use earmark_linux::InterfaceState;

    use super::*;

    fn state(id: u32, up: bool) -> Update {
        let (id, name) = (InterfaceId(id), format!("eth{id}"));
        Update::Interface(InterfaceState { id, name, addresses: Vec::new(), mtu: 1_500, up })
    }

    #[test]
    fn flapping_interface_is_reported_once() {
        let flapping = (0..99).flat_map(|n| [state(1, n % 2 == 0), state(2, true)]);
        let gone = Update::InterfaceGone(InterfaceId(1));
        let all = flapping.chain([gone.clone(), state(1, false), state(1, true)]);
        let expected = vec![state(1, true), state(2, true), gone, state(1, true)];
        assert_eq!(latest(all.collect()), expected);
        let routes = vec![state(1, true), Update::Resynced, state(1, false)];
        assert_eq!(latest(routes), [state(1, false), Update::Resynced]);
    }
}
