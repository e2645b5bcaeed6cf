//! Kinds of lines that an operator may search for or alert on, each with a level and a fixed MESSAGE_ID.
//!
//! The identifiers never change: programs search for them (`journalctl MESSAGE_ID=...`). A new kind gets a new random one
//! (`systemd-id128 new`).

use tracing::Level;

/// A kind of lines.
#[derive(Debug)]
pub struct Kind {
    /// Name: the field `kind` of a line.
    pub name: &'static str,
    /// MESSAGE_ID in the journal.
    pub id: u128,
    /// Level of its lines.
    pub level: Level,
    /// Whether other hosts or programs can cause as many lines as they like, so that their number is limited.
    pub is_limited: bool,
    /// What has happened, in words.
    pub about: &'static str,
}

/// Kinds about reservations, whatever their protocol.
pub(crate) const OF_RESERVATIONS: [&Kind; 6] = [
    &RESERVATION_ADMITTED,
    &RESERVATION_CHANGED,
    &RESERVATION_ENDED,
    &RESERVATION_REFUSED,
    &RESERVATION_PREEMPTED,
    &RESERVATION_NOT_ADOPTED,
];

/// Returns a kind by its name.
pub(super) fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

macro_rules! kinds {
    ($($constant:ident = $name:literal, $id:literal, $level:ident, $is_limited:literal, $about:literal;)*) => {
        $(
            #[doc = concat!("Kind `", $name, "`: ", $about, ".")]
            pub static $constant: Kind = Kind {
                name: $name,
                id: $id,
                level: Level::$level,
                is_limited: $is_limited,
                about: $about,
            };
        )*
        /// All kinds.
        pub static KINDS: &[&Kind] = &[$(&$constant),*];
    };
}

kinds! {
    STARTED = "started", 0x10869e3fe36d469786be64cb20006427, INFO, false,
        "the daemon serves";
    START_FAILED = "start_failed", 0x6c39574b2c6d46838db24c3ed06674c0, ERROR, false,
        "the daemon could not start";
    STOPPING = "stopping", 0xd63d3c2c296341c6b7d72ed1f31be0e7, INFO, false,
        "the daemon stops";
    CONFIGURATION_RELOADED = "configuration_reloaded", 0x2265005248634df18e1297fe56b26bb5, INFO, false,
        "settings and keys were read again";
    CONFIGURATION_REFUSED = "configuration_refused", 0xc18ae9e0707c4cd2a96f3fbf9fae7164, ERROR, false,
        "a file with settings, keys or certificates has a mistake; the old ones stay in force";
    CONFIGURATION_ROLLED_BACK = "configuration_rolled_back", 0x1400803e6a7e49ada2923859300285e1, WARN, false,
        "settings were not confirmed, and the earlier ones run";
    RESTART_NEEDED = "restart_needed", 0xcb42676dabc542a98dc0a3d060b24d8f, WARN, false,
        "a changed setting takes effect after a restart";
    RESERVATION_ADMITTED = "reservation_admitted", 0xa37c3b57752546b0b5b0d531eacb451d, DEBUG, false,
        "this node has made a reservation";
    RESERVATION_CHANGED = "reservation_changed", 0xd79aeeaf78d941e58be48e7b36f4df3e, DEBUG, false,
        "a reservation of this node has another rate";
    RESERVATION_ENDED = "reservation_ended", 0x5367057329a94f85a360476776f6ea78, DEBUG, false,
        "a reservation of this node has ended";
    RESERVATION_REFUSED = "reservation_refused", 0x0c724dbcf1c644cfa013f8891e6e3475, INFO, true,
        "this node has refused a reservation";
    RESERVATION_PREEMPTED = "reservation_preempted", 0x3838acb0c567479e9f9b7974bc2d2f32, INFO, true,
        "a reservation has ended in favor of a more important one";
    RESERVATION_NOT_ADOPTED = "reservation_not_adopted", 0x5891e1830b3b4ec9a1d6d6e2f5686d08, INFO, true,
        "a reservation of the daemon before could not be taken over";
    AGGREGATE_FAILING = "aggregate_failing", 0xc2fdb1481de84c6caf868cc6ea35dd07, WARN, true,
        "a reservation across a core cannot grow, or is no longer answered";
    TRAFFIC_CONTROL_REFUSED = "traffic_control_refused", 0xe43027a2fb9a4a7d998256538c7c15b3, WARN, true,
        "the kernel has refused a queue, a class or a filter";
    TRAFFIC_CONTROL_REPAIRED = "traffic_control_repaired", 0x5b28c9628fe34cefbfa939f34d13712d, WARN, true,
        "queues, classes or filters differed from the reservations and were repaired";
    RESERVATION_UNENFORCED = "reservation_unenforced", 0xbd45fe689ba7454184a7cf9fee65a2c7, WARN, true,
        "the kernel does not give a reservation its rate";
    RESERVATION_ENFORCED_AGAIN = "reservation_enforced_again", 0x24552a748ec94e1c9e2e687d81044051, INFO, true,
        "the kernel gives a reservation its rate again";
    QUEUES_TAKEN = "queues_taken", 0xe46a3866d12c419693c8d418c34ebf2e, WARN, false,
        "another program has replaced the queues of an interface";
    QUEUES_RESTORED = "queues_restored", 0x5228e949904640d4997153a60d66b46d, INFO, false,
        "the daemon has the queues of an interface again";
    PACKET_FILTER_REFUSED = "packet_filter_refused", 0xceb7a559f6d34df3ad7b56ba4e5fdde2, WARN, true,
        "the kernel has refused a rule of the packet filter";
    PACKET_FILTER_REPAIRED = "packet_filter_repaired", 0x6e10b41203f2470db4216c359db607c2, WARN, true,
        "the packet filter differed from the granted rules and was repaired";
    PINHOLE_INSTALLED = "pinhole_installed", 0xe6864b4a3f094c13a887982122a3b13e, DEBUG, false,
        "a rule for packets of a flow was installed in the packet filter";
    PINHOLE_REMOVED = "pinhole_removed", 0x1a033536d6174e26a82562e40a6aa51f, DEBUG, false,
        "a rule of the packet filter was removed";
    PINHOLE_REFUSED = "pinhole_refused", 0x646cba75a56a4e98a514145bca506982, INFO, true,
        "this node has refused to open or expose a path";
    INTERFACE_JOINED = "interface_joined", 0xa3f19c0870764c4a888f878569585744, INFO, false,
        "an interface takes part";
    INTERFACE_UP = "interface_up", 0x874d6ef503bd439f857ac1c8c41502da, INFO, false,
        "an interface is up";
    INTERFACE_DOWN = "interface_down", 0xd677a4aad7034b6e81b03fdc9951a4a4, INFO, false,
        "an interface is down or has no carrier";
    INTERFACE_ABSENT = "interface_absent", 0xcc6731f8900c4d52aca54a319d6eb75c, WARN, false,
        "a configured interface does not exist, was removed or renamed; the daemon waits for it";
    INTERFACE_FAILED = "interface_failed", 0x417e7176a60c4276a5a79e8d727dca88, ERROR, false,
        "the system refuses an operation on an interface, which takes no part";
    NEIGHBOR_LOST = "neighbor_lost", 0xb494d4923fc243a7ad55479d8945a74d, WARN, true,
        "a neighbor is silent, or has restarted without its state";
    NEIGHBOR_RESTARTING = "neighbor_restarting", 0x4a1f48a3b3a9414a9b54d5ce548e0cf9, INFO, true,
        "a neighbor restarts, and its state is kept";
    AUTHENTICATION_FAILED = "authentication_failed", 0x0b689163ecf44373ab8db85026c1c8a9, WARN, true,
        "a message was not signed with a valid key, or TLS did not authenticate a neighbor";
    KEY_EXPIRED = "key_expired", 0x0bc78db172354dc9a7c2f4d056511ae3, WARN, true,
        "an expired key is used because there is no other";
    LIMIT_REACHED = "limit_reached", 0x4fcc70798d65485fa6454eca279c071d, WARN, true,
        "a table is full, and a message or a request was refused";
    MESSAGE_DROPPED = "message_dropped", 0x8a8af45c09da4e24b75d4ed52df86a6a, TRACE, false,
        "a message was discarded";
    EVENT = "event", 0xf543111b767f4d24b1792a90de444c4f, DEBUG, false,
        "another event, as `earmark watch` shows it";
    RECORDS_LOST = "records_lost", 0xfe695a2388af4120b3c0b9e9f7a5bcab, WARN, false,
        "accounting records were lost, because the journal is full or cannot be written";
    HISTORY_FAILING = "history_failing", 0xec92d57201974c0f996afb0f9e8ea4ee, ERROR, false,
        "the database of accounting records cannot be written; the journal keeps the records";
    HISTORY_RESTORED = "history_restored", 0x40dd570262a6466e85ebd487cbc3ce0a, INFO, false,
        "accounting records are written to the database again";
    RECORDING_FAILED = "recording_failed", 0xf0b7d9b349b542a7810247a3257201ae, ERROR, false,
        "the recording of the daemon's inputs has ended";
    CONTROL_REQUEST = "control_request", 0xd79a084445c040bc8557775bec152023, INFO, false,
        "a user of the control socket has changed something, or was refused";
    LOG_LEVELS_CHANGED = "log_levels_changed", 0x2d115f96865f4305921e8f642d6d3ae9, INFO, false,
        "a user has changed the levels of the log";
    LINES_LOST = "lines_lost", 0x8e100401cc6a48e3aae2c7ff5550bf42, WARN, false,
        "lines of the log were lost because nobody read them, or the disk was full";
    LINES_SUPPRESSED = "lines_suppressed", 0xb227bd0c7f5043f4afa4e05a30446e2a, INFO, false,
        "more lines of one kind were left out";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAGE: &str = include_str!("../../../../docs/operation.md");

    #[test]
    fn kinds_have_names_and_identifiers_of_their_own() {
        let names: BTreeSet<_> = KINDS.iter().map(|kind| kind.name).collect();
        let ids: BTreeSet<_> = KINDS.iter().map(|kind| kind.id).collect();
        assert_eq!((names.len(), ids.len()), (KINDS.len(), KINDS.len()));
        for kind in KINDS {
            assert!(std::ptr::eq(find(kind.name).expect("a kind"), *kind));
            assert_eq!(kind.id >> 76 & 0xf, 4, "{}: a random identifier", kind.name);
        }
    }

    #[test]
    fn page_lists_every_kind() {
        for Kind { name, id, level, about, is_limited } in KINDS {
            let limited = if *is_limited { ", limited" } else { "" };
            let level = level.as_str().to_lowercase();
            let row = format!("| `{name}` | {level}{limited} | {about} | `{id:032x}` |");
            assert!(PAGE.contains(&row), "docs/operation.md lacks the row\n{row}");
        }
        let is_identifier = |cell: &str| cell.len() == 32 && u128::from_str_radix(cell, 16).is_ok();
        let cells = PAGE.lines().filter_map(|line| line.strip_suffix("` |")?.rsplit('`').next());
        assert_eq!(cells.filter(|cell| is_identifier(cell)).count(), KINDS.len());
    }
}
