//! Tables of the NSIS results for the terminal.

use super::super::table::{add, spaced, table};
use super::ping::Pings;
use super::resident::Residents;
use super::set_up::{Associations, SetUps};

/// Consecutive set-ups: one row a measurement.
pub fn set_ups(results: &[SetUps]) -> String {
    let mut table = table(&[
        "hops",
        "by",
        "associations",
        "set-ups",
        "p50\nms",
        "p95\nms",
        "max\nms",
        "rate\n1/s",
        "processor of r1\nus/set-up",
        "lost",
        "repeated",
    ]);
    for result in results {
        let associations = match result.associations {
            Associations::None => "",
            Associations::New => "new",
            Associations::Existing => "existing",
        };
        let cells = [
            result.hops.to_string(),
            result.transport.name().to_owned(),
            associations.to_owned(),
            spaced(result.times.count as u64),
            format!("{:.3}", result.times.p50_ms),
            format!("{:.3}", result.times.p95_ms),
            format!("{:.3}", result.times.max_ms),
            result.rate.map_or_else(|| "-".to_owned(), |rate| spaced(rate.round() as u64)),
            result.processor_us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}")),
            spaced(result.losses.total()),
            spaced(result.losses.repeated),
        ];
        add(&mut table, 3, cells);
    }
    table.to_string()
}

/// Resident sessions: one row a daemon.
pub fn residents(results: &[Residents]) -> String {
    let mut table = table(&[
        "resident sessions",
        "daemon",
        "packets in\n1/s",
        "packets out\n1/s",
        "processor\n%",
        "a packet\nus",
        "memory\noctets/session",
        "ping p50\nms",
        "p95\nms",
        "max\nms",
        "lost: pings,\nsessions,\nelse",
    ]);
    for result in results {
        for (place, daemon) in result.daemons.iter().enumerate() {
            let times = &result.round_trips;
            let all = [
                format!("{:.2}", times.p50_ms),
                format!("{:.2}", times.p95_ms),
                format!("{:.2}", times.max_ms),
                format!(
                    "{}, {}, {}",
                    result.pings_lost,
                    result.sessions_lost,
                    result.losses.total()
                ),
            ];
            // These figures are of the whole path.
            let [p50, p95, max, lost] =
                all.map(|text| if place == 0 { text } else { String::new() });
            let cells = [
                format!("{} {}", spaced(result.sessions.into()), result.name),
                daemon.node.clone(),
                spaced(daemon.packets_in.round() as u64),
                spaced(daemon.packets_out.round() as u64),
                format!("{:.2}", daemon.processor * 100.0),
                format!("{:.2}", daemon.packet_us),
                format!("{:.0}", daemon.memory_octets),
                p50,
                p95,
                max,
                lost,
            ];
            add(&mut table, 2, cells);
        }
    }
    table.to_string()
}

/// Pings: one row a rate that was tried.
pub fn pings(result: &Pings) -> String {
    let mut table = table(&[
        "pings offered\n1/s",
        "came back\n1/s",
        "lost",
        "sustained",
        "p50\nms",
        "p95\nms",
        "max\nms",
        "processor of r1\n%",
        "a message\nus",
        "messages a second\nand core",
    ]);
    for step in &result.steps {
        let cells = [
            spaced(step.offered.into()),
            spaced(step.rate.round() as u64),
            spaced(step.lost),
            if step.sustained { "yes" } else { "no" }.to_owned(),
            format!("{:.2}", step.round_trips.p50_ms),
            format!("{:.2}", step.round_trips.p95_ms),
            format!("{:.2}", step.round_trips.max_ms),
            format!("{:.1}", step.processor * 100.0),
            format!("{:.2}", step.message_us),
            spaced(step.per_core.round() as u64),
        ];
        add(&mut table, 0, cells);
    }
    table.to_string()
}
