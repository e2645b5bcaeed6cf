//! Cases of crossings that have broken an invariant before the error was mended.

use earmark_scenario::crossing::EventKind::{self, *};
use earmark_scenario::crossing::Place::{self, *};
use earmark_scenario::topology::Family::{self, *};

/// An event: its kind and place, and its times in milliseconds.
pub(crate) type Brief = (EventKind, Place, u64, u64);

/// Seed, protocol, variant, family, and events with their times in milliseconds.
pub(crate) type Formerly = (u64, &'static str, &'static str, Family, &'static [Brief]);

/// Errors found earlier, one of each kind: a locking destination of a one-way reservation, a lock whose key had no room for more,
/// grants after a refusal or a loss that nobody was told of, reservations by receivers whose sender had lost them, was gone, or
/// had been told that there is none, a node off the path that became the next one again, and receivers that were told last that
/// their request is refused, their sender is gone, or nothing.
pub(crate) const FORMERLY_FAILING: &[Formerly] = &[
    (22, "boomerang", "lock", Ipv6, &[(Nothing, Source, 9271, 9591)]),
    (67, "boomerang", "lock", Ipv4, &[(Silence, Source, 8885, 10721)]),
    (
        81,
        "boomerang",
        "one pass",
        Ipv6,
        &[(Silence, Source, 1270, 6868), (Refusal, LastRouter, 5741, 9092)],
    ),
    (367, "boomerang", "lock", Ipv4, &[(Silence, FirstRouter, 5340, 10659)]),
    (
        1003859,
        "boomerang",
        "lock",
        Ipv4,
        &[(Change, Destination, 10643, 12675), (ShorterLifetime, FirstRouter, 8162, 8581)],
    ),
    (1723, "nsis", "datagrams, receiver-initiated", Ipv4, &[(Crash, FirstRouter, 11125, 13512)]),
    (2488, "nsis", "datagrams, receiver-initiated", Ipv6, &[(Silence, Source, 3280, 8811)]),
    (
        284,
        "nsis",
        "associations, receiver-initiated",
        Ipv4,
        &[(Refusal, Source, 10870, 13179), (Silence, FirstRouter, 6078, 9643)],
    ),
    (
        6569,
        "nsis",
        "associations, receiver-initiated",
        Ipv6,
        &[
            (CrashWithoutAdoption, FirstRouter, 6202, 6451),
            (CrashWithoutAdoption, Source, 4173, 4585),
        ],
    ),
    (
        29638,
        "nsis",
        "datagrams, receiver-initiated",
        Ipv6,
        &[(Crash, LastRouter, 3671, 11415), (Outage, FirstRouter, 707, 4705)],
    ),
    (
        662474,
        "nsis",
        "associations, receiver-initiated",
        Ipv4,
        &[(Silence, Source, 7898, 10099), (Silence, LastRouter, 1262, 7273)],
    ),
    (
        738074,
        "nsis",
        "associations, receiver-initiated",
        Ipv4,
        &[(Silence, Source, 2531, 8781), (Silence, Source, 6247, 13522)],
    ),
    (
        945674,
        "nsis",
        "associations, receiver-initiated",
        Ipv4,
        &[(Silence, Source, 6743, 10480), (Silence, LastRouter, 116, 7534)],
    ),
    (
        1051589,
        "nsis",
        "associations, receiver-initiated",
        Ipv6,
        &[(Silence, FirstRouter, 633, 6350), (Outage, Source, 9152, 16679)],
    ),
    (
        3048479,
        "nsis",
        "associations, receiver-initiated",
        Ipv6,
        &[(Corruption, FirstRouter, 4615, 12521), (Outage, FirstRouter, 4701, 4982)],
    ),
    (
        3077293,
        "nsis",
        "datagrams, receiver-initiated",
        Ipv4,
        &[(Outage, FirstRouter, 6573, 11750), (Silence, FirstRouter, 8690, 15449)],
    ),
    (
        643,
        "rsvp",
        "fixed filter, refresh reduction",
        Ipv4,
        &[(InterfaceRenumbered, Source, 5250, 5418)],
    ),
    (
        2984,
        "rsvp",
        "fixed filter, UDP",
        Ipv6,
        &[(Silence, LastRouter, 7119, 12737), (Corruption, FirstRouter, 7170, 13772)],
    ),
    (
        4007,
        "rsvp",
        "wildcard, refresh reduction, INTEGRITY",
        Ipv6,
        &[(NoRoom, LastRouter, 254, 3790)],
    ),
    (
        30042790,
        "rsvp",
        "fixed filter, INTEGRITY",
        Ipv6,
        &[(Reordering, FirstRouter, 1341, 5972), (Outage, Destination, 4834, 4866)],
    ),
    (
        30070394,
        "nsis",
        "associations",
        Ipv6,
        &[(Forbidden, Source, 2583, 8965), (Change, Source, 3031, 3088)],
    ),
];
