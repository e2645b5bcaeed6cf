//! Tables of the results for the terminal.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::bytes::Comparison;
use super::forwarding::promise::Promise;
use super::forwarding::{Forwarding, Traffic};
use super::life::Life;
use super::messages::offload::OffloadCost;
use super::messages::{MessageCost, SessionCost};
use super::published::Published;
use super::resident::Residents;
use super::set_up::SetUps;

/// Resident sessions: one row a daemon.
pub fn residents(results: &[Residents]) -> String {
    let mut table = table(&[
        "resident sessions",
        "daemon",
        "R\ns",
        "messages in\n1/s",
        "octets in\n1/s",
        "messages out\n1/s",
        "octets out\n1/s",
        "processor\n%",
        "relayed refresh\nus",
        "memory\noctets/session",
    ]);
    for result in results {
        for daemon in &result.daemons {
            let relay = daemon.relay_us.map_or_else(|| "-".to_owned(), |us| format!("{us:.2}"));
            let cells = [
                format!("{} {}", spaced(result.sessions.into()), result.name),
                daemon.node.clone(),
                format!("{}", result.refresh_s),
                spaced(daemon.packets_in.round() as u64),
                spaced(daemon.octets_in.round() as u64),
                spaced(daemon.packets_out.round() as u64),
                spaced(daemon.octets_out.round() as u64),
                format!("{:.2}", daemon.processor * 100.0),
                relay,
                format!("{:.0}", daemon.memory_octets),
            ];
            add(&mut table, 2, cells);
        }
    }
    table.to_string()
}

/// Set-ups: one row a measurement.
pub fn set_ups(results: &[SetUps]) -> String {
    let mut table = table(&[
        "sessions",
        "offered",
        "installed",
        "time\ns",
        "rate\n1/s",
        "p50\nms",
        "p99\nms",
        "messages\nlost",
        "sessions\nrecovered",
        "r2 processor\nus/session",
        "r2 memory\noctets/session",
    ]);
    for result in results {
        let cells = [
            spaced(result.sessions.into()),
            result.offer.describe(),
            spaced(result.installed.into()),
            format!("{:.2}", result.seconds),
            spaced(result.rate.round() as u64),
            format!("{:.2}", result.latency_p50_ms),
            format!("{:.2}", result.latency_p99_ms),
            spaced(result.lost_messages),
            spaced(result.recovered.into()),
            format!("{:.1}", result.processor_us),
            format!("{:.0}", result.memory_octets),
        ];
        add(&mut table, 0, cells);
    }
    table.to_string()
}

/// Messages: one row a kind and a number of sessions.
pub fn messages(results: &[MessageCost]) -> String {
    let mut table = table(&[
        "protocol",
        "message",
        "sessions",
        "instructions",
        "goal",
        "median\nns",
        "least\nns",
        "most\nns",
    ]);
    for result in results {
        let time = &result.nanoseconds;
        let cells = [
            result.protocol.name().to_owned(),
            result.message.to_owned(),
            spaced(result.sessions.into()),
            result.instructions.map(spaced).unwrap_or_default(),
            result.goal_instructions.map(|goal| spaced(goal.into())).unwrap_or_default(),
            format!("{:.0}", time.median),
            format!("{:.0}", time.least),
            format!("{:.0}", time.most),
        ];
        add(&mut table, 2, cells);
    }
    table.to_string()
}

/// Octets of a session: one row a protocol and a number of sessions.
pub fn sessions(results: &[SessionCost]) -> String {
    let mut table = table(&[
        "protocol",
        "goal is for",
        "sessions",
        "octets of a session\nwith claims",
        "of its claims",
        "without claims",
        "goal",
    ]);
    for result in results {
        let cells = [
            result.protocol.name().to_owned(),
            if result.goal.with_claims { "with claims" } else { "without claims" }.to_owned(),
            spaced(result.sessions.into()),
            format!("{:.0}", result.octets),
            format!("{:.0}", result.octets_of_claims),
            format!("{:.0}", result.octets - result.octets_of_claims),
            spaced(result.goal.octets.into()),
        ];
        add(&mut table, 2, cells);
    }
    table.to_string()
}

/// Forwarding costs: one row a router and its traffic.
pub fn forwarding(results: &[Forwarding]) -> String {
    let mut table = table(&[
        "queues",
        "packets",
        "reserved\nflows",
        "processor\nns/packet",
        "rate\n1000/s",
        "added\nns",
        "kept\n%",
        "goal\n%",
        "",
        "classifier\nns",
    ]);
    let percent = |value: f64| format!("{:.0}", value * 100.0);
    for result in results {
        let traffic = match result.traffic {
            Traffic::Reserved => "reserved",
            Traffic::BestEffort => "best effort",
        };
        let cells = [
            result.queues.to_owned(),
            traffic.to_owned(),
            spaced(result.flows.into()),
            format!("{:.0}", result.nanoseconds),
            format!("{:.0}", result.rate.scaled(1e-3)),
            result.added.map(|added| format!("{added:.0}")).unwrap_or_default(),
            result.kept.map(|kept| format!("{:.1}", kept.scaled(100.0))).unwrap_or_default(),
            result.goal.map(percent).unwrap_or_default(),
            result.met.map(met).unwrap_or_default(),
            result.program_ns.map(|ns| format!("{ns:.0}")).unwrap_or_default(),
        ];
        add(&mut table, 2, cells);
    }
    table.to_string()
}

/// Delay and loss of a flow: one row a router, without and with a flood.
pub fn promises(results: &[Promise]) -> String {
    let mut table = table(&[
        "queues",
        "flood",
        "packets\nof the flow",
        "lost",
        "in the queue\np50 ms",
        "p99 ms",
        "in the device\np50 ms",
        "p99 ms",
        "promise",
    ]);
    for result in results {
        let cells = [
            result.queues.to_owned(),
            if result.flood { "yes" } else { "no" }.to_owned(),
            spaced(result.packets),
            spaced(result.lost),
            format!("{:.3}", result.queue_p50_ms),
            format!("{:.3}", result.queue_p99_ms),
            format!("{:.3}", result.ring_p50_ms),
            format!("{:.3}", result.ring_p99_ms),
            result
                .kept
                .map(|kept| if kept { "held" } else { "broken" }.to_owned())
                .unwrap_or_default(),
        ];
        add(&mut table, 2, cells);
    }
    table.to_string()
}

fn met(is: bool) -> String {
    if is { "met" } else { "missed" }.to_owned()
}

/// The kernel's part of Boomerang: one row a number of sessions.
pub fn offload(results: &[OffloadCost]) -> String {
    let mut table = table(&[
        "in the kernel\nsessions",
        "refresh\nns",
        "goal\nns",
        "in turn, one by one\nns",
        "set-up, one by one\nns",
        "release, one by one\nns",
        "other ping\nns",
        "TCP\nns",
    ]);
    for cost in results {
        let cells = [
            u64::from(cost.sessions),
            cost.refresh,
            cost.goal.into(),
            cost.refresh_in_turn,
            cost.set_up,
            cost.release,
            cost.other_ping,
            cost.tcp,
        ];
        add(&mut table, 0, cells.map(spaced));
    }
    table.to_string()
}

/// Octets of messages: one row a message and version of IP.
pub fn bytes(of: &str, comparisons: &[Comparison]) -> String {
    let mut table = table(&[
        of,
        "IP\nversion",
        "IP",
        "UDP, TCP,\nmagic",
        "above",
        "octets",
        "paper",
        "more",
        "because",
    ]);
    // Reasons are sentences, which need wrapping.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(150);
    for comparison in comparisons {
        let [ip, transport, above] = comparison.layers();
        let because: Vec<String> = comparison
            .reasons
            .iter()
            .map(|reason| format!("{:+}: {}", reason.octets, reason.why))
            .collect();
        let numbers = [ip, transport, above, comparison.octets].map(|n| spaced(n.into()));
        let printed = comparison.printed.map_or_else(|| "-".to_owned(), |n| spaced(n.into()));
        let more = match comparison.difference {
            None => "-".to_owned(),
            Some(0) => "0".to_owned(),
            Some(more) => format!("{more:+}"),
        };
        let mut row = vec![Cell::new(&comparison.what), Cell::new(comparison.version.name())];
        let right = |text| Cell::new(text).set_alignment(CellAlignment::Right);
        row.extend(numbers.into_iter().chain([printed, more]).map(right));
        row.push(Cell::new(because.join("\n")));
        table.add_row(row);
    }
    table.to_string()
}

/// Life cycle of sessions: one row a phase.
pub fn life(life: &Life) -> String {
    let mut table = table(&[
        "phase",
        "time\ns",
        "rate\n1/s",
        "sessions\nafter",
        "claims\nafter",
        "heap peak\nMB",
        "heap after\nMB",
        "octets/session\nafter",
        "resident after\nMB",
    ]);
    let megabytes = |octets: Option<usize>| {
        octets.map_or_else(String::new, |n| format!("{:.1}", n as f64 / 1e6))
    };
    for phase in &life.phases {
        let heap = phase.heap_after.zip(life.heap_before).filter(|_| phase.sessions > 0);
        let each = heap.map(|(after, before)| (after - before) as f64 / phase.sessions as f64);
        let cells = [
            format!("{} {}", life.protocol.name(), phase.name),
            format!("{:.2}", phase.seconds),
            spaced(phase.rate.round() as u64),
            spaced(phase.sessions as u64),
            spaced(phase.claims.into()),
            megabytes(phase.heap_peak),
            megabytes(phase.heap_after),
            each.map_or_else(String::new, |octets| format!("{octets:.0}")),
            phase.resident.map_or_else(String::new, |n| format!("{:.1}", n as f64 / 1e6)),
        ];
        add(&mut table, 1, cells);
    }
    table.to_string()
}

/// Published figures of other engines.
pub fn published(figures: &[Published]) -> String {
    let mut table = table(&["for comparison, from other machines", "what", "figure"]);
    for Published { engine, what, figure } in figures {
        add(&mut table, 3, [engine, what, figure].map(|text| (*text).to_owned()));
    }
    table.to_string()
}

pub(super) fn table(headers: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(headers.iter().copied());
    table
}

/// Adds a row; the first `words` columns are text, the others numbers.
pub(super) fn add<const N: usize>(table: &mut Table, words: usize, cells: [String; N]) {
    let cells = cells.into_iter().map(Cell::new).enumerate();
    table.add_row(cells.map(|(column, cell)| match column < words {
        true => cell,
        false => cell.set_alignment(CellAlignment::Right),
    }));
}

/// Returns a number with a space between groups of three digits.
pub(super) fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(
            [0, 12, 999, 1_000, 1_234_567].map(spaced),
            ["0", "12", "999", "1 000", "1 234 567"]
        );
    }
}
