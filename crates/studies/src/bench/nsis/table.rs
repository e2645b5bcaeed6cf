//! Tables of the NSIS results for the terminal.

use super::super::table::{choose, or_dash, rounded, spaced, table};
use super::Times;
use super::ping::Pings;
use super::resident::Residents;
use super::set_up::{Associations, SetUps};

/// Consecutive set-ups: one row a measurement.
pub fn set_ups(results: &[SetUps]) -> String {
    let associations = |row: &SetUps| match row.associations {
        Associations::None => "",
        Associations::New => "new",
        Associations::Existing => "existing",
    };
    table(
        3,
        results,
        &[
            ("hops", &|row| row.hops.to_string()),
            ("by", &|row| row.transport.name().to_owned()),
            ("associations", &|row| associations(row).to_owned()),
            ("set-ups", &|row| spaced(row.times.count as u64)),
            ("p50\nms", &|row| format!("{:.3}", row.times.p50_ms)),
            ("p95\nms", &|row| format!("{:.3}", row.times.p95_ms)),
            ("max\nms", &|row| format!("{:.3}", row.times.max_ms)),
            ("rate\n1/s", &|row| or_dash(row.rate, rounded)),
            ("processor of r1\nus/set-up", &|row| {
                or_dash(row.processor_us, |us| format!("{us:.1}"))
            }),
            ("lost", &|row| spaced(row.losses.total())),
            ("repeated", &|row| spaced(row.losses.repeated)),
        ],
    )
}

/// Resident sessions: one row a daemon; figures of the whole path stand in the row of its first daemon.
pub fn residents(results: &[Residents]) -> String {
    let rows = results.iter().flat_map(|all| {
        let of_path = move |place| (place == 0).then_some(all);
        all.daemons.iter().enumerate().map(move |(place, one)| (all, one, of_path(place)))
    });
    let losses = |all: &Residents| {
        format!("{}, {}, {}", all.pings_lost, all.sessions_lost, all.losses.total())
    };
    let milliseconds = |path: Option<&Residents>, time: fn(&Times) -> f64| {
        path.map_or_else(String::new, |all| format!("{:.2}", time(&all.round_trips)))
    };
    table(
        2,
        rows,
        &[
            ("resident sessions", &|(all, ..)| format!("{} {}", spaced(all.sessions), all.name)),
            ("daemon", &|(_, one, _)| one.node.clone()),
            ("packets in\n1/s", &|(_, one, _)| rounded(one.packets_in)),
            ("packets out\n1/s", &|(_, one, _)| rounded(one.packets_out)),
            ("processor\n%", &|(_, one, _)| format!("{:.2}", one.processor * 100.0)),
            ("a packet\nus", &|(_, one, _)| format!("{:.2}", one.packet_us)),
            ("memory\noctets/session", &|(_, one, _)| format!("{:.0}", one.memory_octets)),
            ("ping p50\nms", &|(.., path)| milliseconds(*path, |times| times.p50_ms)),
            ("p95\nms", &|(.., path)| milliseconds(*path, |times| times.p95_ms)),
            ("max\nms", &|(.., path)| milliseconds(*path, |times| times.max_ms)),
            ("lost: pings,\nsessions,\nelse", &|(.., path)| path.map_or_else(String::new, losses)),
        ],
    )
}

/// Pings: one row a rate that was tried.
pub fn pings(result: &Pings) -> String {
    table(
        0,
        &result.steps,
        &[
            ("pings offered\n1/s", &|step| spaced(step.offered)),
            ("returned\n1/s", &|step| rounded(step.rate)),
            ("lost", &|step| spaced(step.lost)),
            ("sustained", &|step| choose(step.sustained, "yes", "no")),
            ("p50\nms", &|step| format!("{:.2}", step.round_trips.p50_ms)),
            ("p95\nms", &|step| format!("{:.2}", step.round_trips.p95_ms)),
            ("max\nms", &|step| format!("{:.2}", step.round_trips.max_ms)),
            ("processor of r1\n%", &|step| format!("{:.1}", step.processor * 100.0)),
            ("a message\nus", &|step| format!("{:.2}", step.message_us)),
            ("messages a second\nand core", &|step| rounded(step.per_core)),
        ],
    )
}
