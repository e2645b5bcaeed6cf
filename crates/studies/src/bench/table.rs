//! Tables of the results for the terminal.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::bytes::Comparison;
use super::forwarding::promise::Promise;
use super::forwarding::{Forwarding, Traffic};
use super::life::{Life, Phase};
use super::listing::Listings;
use super::messages::instructions::WITHOUT_VALGRIND;
use super::messages::offload::OffloadCost;
use super::messages::{MessageCost, SessionCost};
use super::observed::instructions::Instructions;
use super::observed::{Daemon, Observation, Observers};
use super::published::Published;
use super::resident::Residents;
use super::set_up::SetUps;
use earmark_lab::statistics::Median;

/// Resident sessions: one row a daemon.
pub fn residents(results: &[Residents]) -> String {
    let rows =
        results.iter().flat_map(|result| result.daemons.iter().map(move |one| (result, one)));
    table(
        2,
        rows,
        &[
            ("resident sessions", &|(all, _)| format!("{} {}", spaced(all.sessions), all.name)),
            ("daemon", &|(_, one)| one.node.clone()),
            ("R\ns", &|(all, _)| all.refresh_s.to_string()),
            ("messages in\n1/s", &|(_, one)| rounded(one.packets_in)),
            ("octets in\n1/s", &|(_, one)| rounded(one.octets_in)),
            ("messages out\n1/s", &|(_, one)| rounded(one.packets_out)),
            ("octets out\n1/s", &|(_, one)| rounded(one.octets_out)),
            ("processor\n%", &|(_, one)| format!("{:.2}", one.processor * 100.0)),
            ("relayed refresh\nus", &|(_, one)| or_dash(one.relay_us, |us| format!("{us:.2}"))),
            ("memory\noctets/session", &|(_, one)| format!("{:.0}", one.memory_octets)),
        ],
    )
}

/// Set-ups: one row a measurement.
pub fn set_ups(results: &[SetUps]) -> String {
    table(
        0,
        results,
        &[
            ("sessions", &|row| spaced(row.sessions)),
            ("offered", &|row| row.offer.describe()),
            ("installed", &|row| spaced(row.installed)),
            ("time\ns", &|row| format!("{:.2}", row.seconds)),
            ("rate\n1/s", &|row| rounded(row.rate)),
            ("p50\nms", &|row| format!("{:.2}", row.latency_p50_ms)),
            ("p99\nms", &|row| format!("{:.2}", row.latency_p99_ms)),
            ("messages\nlost", &|row| spaced(row.lost_messages)),
            ("sessions\nrecovered", &|row| spaced(row.recovered)),
            ("r2 processor\nus/session", &|row| format!("{:.1}", row.processor_us)),
            ("r2 memory\noctets/session", &|row| format!("{:.0}", row.memory_octets)),
        ],
    )
}

/// Messages: one row a kind and a number of sessions.
pub fn messages(results: &[MessageCost]) -> String {
    table(
        2,
        results,
        &[
            ("protocol", &|row| row.protocol.name().to_owned()),
            ("message", &|row| row.message.to_owned()),
            ("sessions", &|row| spaced(row.sessions)),
            ("instructions", &|row| or_empty(row.instructions, spaced)),
            ("goal", &|row| or_empty(row.goal_instructions, spaced)),
            ("median\nns", &|row| format!("{:.0}", row.nanoseconds.median)),
            ("least\nns", &|row| format!("{:.0}", row.nanoseconds.least)),
            ("most\nns", &|row| format!("{:.0}", row.nanoseconds.most)),
        ],
    )
}

/// Octets of a session: one row a protocol and a number of sessions.
pub fn sessions(results: &[SessionCost]) -> String {
    table(
        2,
        results,
        &[
            ("protocol", &|row| row.protocol.name().to_owned()),
            ("goal is for", &|row| choose(row.goal.with_claims, "with claims", "without claims")),
            ("sessions", &|row| spaced(row.sessions)),
            ("octets of a session\nwith claims", &|row| format!("{:.0}", row.octets)),
            ("of its claims", &|row| format!("{:.0}", row.octets_of_claims)),
            ("without claims", &|row| format!("{:.0}", row.octets - row.octets_of_claims)),
            ("goal", &|row| spaced(row.goal.octets)),
        ],
    )
}

/// Forwarding costs: one row a router and its traffic.
pub fn forwarding(results: &[Forwarding]) -> String {
    table(
        2,
        results,
        &[
            ("queues", &|row| row.queues.to_owned()),
            ("packets", &|row| choose(row.traffic == Traffic::Reserved, "reserved", "best effort")),
            ("reserved\nflows", &|row| spaced(row.flows)),
            ("processor\nns/packet", &|row| format!("{:.0}", row.nanoseconds)),
            ("rate\n1000/s", &|row| format!("{:.0}", row.rate.scaled(1e-3))),
            ("added\nns", &|row| or_empty(row.added, |added| format!("{added:.0}"))),
            ("kept\n%", &|row| or_empty(row.kept, |kept| format!("{:.1}", kept.scaled(100.0)))),
            ("goal\n%", &|row| or_empty(row.goal, |goal| format!("{:.0}", goal * 100.0))),
            ("", &|row| or_empty(row.met, |met| choose(met, "met", "missed"))),
            ("classifier\nns", &|row| or_empty(row.program_ns, |ns| format!("{ns:.0}"))),
        ],
    )
}

/// Delay and loss of a flow: one row a router, without and with a flood.
pub fn promises(results: &[Promise]) -> String {
    table(
        2,
        results,
        &[
            ("queues", &|row| row.queues.to_owned()),
            ("flood", &|row| choose(row.flood, "yes", "no")),
            ("packets\nof the flow", &|row| spaced(row.packets)),
            ("lost", &|row| spaced(row.lost)),
            ("in the queue\np50 ms", &|row| format!("{:.3}", row.queue_p50_ms)),
            ("p99 ms", &|row| format!("{:.3}", row.queue_p99_ms)),
            ("in the device\np50 ms", &|row| format!("{:.3}", row.ring_p50_ms)),
            ("p99 ms", &|row| format!("{:.3}", row.ring_p99_ms)),
            ("promise", &|row| or_empty(row.kept, |kept| choose(kept, "held", "broken"))),
        ],
    )
}

/// The kernel's part of Boomerang: one row a number of sessions.
pub fn offload(results: &[OffloadCost]) -> String {
    table(
        0,
        results,
        &[
            ("in the kernel\nsessions", &|row| spaced(row.sessions)),
            ("refresh\nns", &|row| spaced(row.refresh)),
            ("goal\nns", &|row| spaced(row.goal)),
            ("in turn, one by one\nns", &|row| spaced(row.refresh_in_turn)),
            ("set-up, one by one\nns", &|row| spaced(row.set_up)),
            ("release, one by one\nns", &|row| spaced(row.release)),
            ("other ping\nns", &|row| spaced(row.other_ping)),
            ("TCP\nns", &|row| spaced(row.tcp)),
        ],
    )
}

/// Octets of messages: one row a message and version of IP.
pub fn bytes(of: &str, comparisons: &[Comparison]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
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
        let numbers = [ip, transport, above, comparison.octets].map(spaced);
        let printed = comparison.printed.map_or_else(|| "-".to_owned(), spaced);
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
    let megabytes = |octets: Option<usize>| or_empty(octets, |n| format!("{:.1}", n as f64 / 1e6));
    let octets_each = |phase: &Phase| {
        let heap = phase.heap_after.zip(life.heap_before).filter(|_| phase.sessions > 0);
        let each = heap.map(|(after, before)| (after - before) as f64 / phase.sessions as f64);
        or_empty(each, |octets| format!("{octets:.0}"))
    };
    table(
        1,
        &life.phases,
        &[
            ("phase", &|row| format!("{} {}", life.protocol.name(), row.name)),
            ("time\ns", &|row| format!("{:.2}", row.seconds)),
            ("rate\n1/s", &|row| rounded(row.rate)),
            ("sessions\nafter", &|row| spaced(row.sessions as u64)),
            ("claims\nafter", &|row| spaced(row.claims)),
            ("heap peak\nMB", &|row| megabytes(row.heap_peak)),
            ("heap after\nMB", &|row| megabytes(row.heap_after)),
            ("octets/session\nafter", &|row| octets_each(row)),
            ("resident after\nMB", &|row| {
                or_empty(row.resident, |n| format!("{:.1}", n as f64 / 1e6))
            }),
        ],
    )
}

/// Listings of many sessions.
pub fn listings(listings: &Listings) -> String {
    let milliseconds = |span: f64| format!("{span:.2}");
    table(
        1,
        &listings.runs,
        &[
            ("listing", &|row| format!("{} {}", listings.protocol.name(), row.name)),
            ("rows", &|row| spaced(row.rows as u64)),
            ("first rows\nms", &|row| milliseconds(row.first_ms)),
            ("all\ns", &|row| format!("{:.2}", row.total_s)),
            ("slices", &|row| spaced(row.slices as u64)),
            ("median slice\nms", &|row| milliseconds(row.median_slice_ms)),
            ("99.9 % slice\nms", &|row| milliseconds(row.late_slice_ms)),
            ("longest slice\nms", &|row| milliseconds(row.longest_slice_ms)),
        ],
    )
}

/// A daemon that is not observed, and one that is.
pub fn observation(observation: &Observation) -> String {
    let three = |times: [f64; 3]| times.map(|time| format!("{time:.2}")).join(" / ");
    let turns = |row: &Daemon| row.observers.as_ref().map(|seen| seen.turn_s.map(|it| it * 1e3));
    let seen = |row: &Daemon, count: &dyn Fn(&Observers) -> u64| {
        row.observers.as_ref().map_or_else(String::new, |seen| spaced(count(seen)))
    };
    table(
        1,
        &observation.daemons,
        &[
            ("daemon", &|row| match row.observers {
                Some(_) => "observed".to_owned(),
                None => "not observed".to_owned(),
            }),
            ("octets\na session", &|row| format!("{:.0}", row.memory_octets)),
            ("event loop\nus a refresh", &|row| {
                Median::of(row.refresh_us.iter().copied()).map_or_else(String::new, |it| {
                    format!("{:.2} ({:.2} to {:.2})", it.median, it.low, it.high)
                })
            }),
            ("answer, ms\n50 / 99 / 100 %", &|row| three(row.answer_ms)),
            ("turn, at most, ms\n50 / 99 / 99.9 %", &|row| {
                turns(row).map_or_else(String::new, three)
            }),
            ("collections", &|row| seen(row, &|it| it.collections)),
            ("rows", &|row| seen(row, &|it| it.listed)),
            ("events", &|row| seen(row, &|it| it.events)),
        ],
    )
}

/// Instructions of refreshes in a daemon that is not observed, and in one that is.
pub fn instructions(counted: Option<&Instructions>) -> String {
    let Some(counted) = counted else { return WITHOUT_VALGRIND.to_owned() };
    format!(
        "instructions of the same {} refreshes, without the kernel: {} not observed, {} observed, {:+.2} %",
        counted.alone.len(),
        spaced(counted.alone.iter().sum::<u64>()),
        spaced(counted.observed.iter().sum::<u64>()),
        (counted.ratio() - 1.0) * 100.0
    )
}

/// Published figures of other engines.
pub fn published(figures: &[Published]) -> String {
    table(
        3,
        figures,
        &[
            ("for comparison, from other machines", &|row| row.engine.to_owned()),
            ("what", &|row| row.what.to_owned()),
            ("figure", &|row| row.figure.to_owned()),
        ],
    )
}

/// A column of a table: its header, and the cell of a row.
pub(super) type Column<'c, R> = (&'c str, &'c dyn Fn(&R) -> String);

/// Returns a table; its first `words` columns are text, the others numbers.
pub(super) fn table<R>(
    words: usize,
    rows: impl IntoIterator<Item = R>,
    columns: &[Column<'_, R>],
) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(columns.iter().map(|(header, _)| header));
    for row in rows {
        let cells = columns.iter().map(|(_, cell)| Cell::new(cell(&row))).enumerate();
        table.add_row(cells.map(|(column, cell)| match column < words {
            true => cell,
            false => cell.set_alignment(CellAlignment::Right),
        }));
    }
    table.to_string()
}

/// Returns one of two words.
pub(super) fn choose(is: bool, yes: &str, no: &str) -> String {
    if is { yes } else { no }.to_owned()
}

/// Returns a value as text; nothing without a value.
fn or_empty<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map(text).unwrap_or_default()
}

/// Returns a value as text; a dash without a value.
pub(super) fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

/// Returns a rounded number with a space between groups of three digits.
pub(super) fn rounded(number: f64) -> String {
    spaced(number.round() as u64)
}

/// Returns a number with a space between groups of three digits.
pub(super) fn spaced(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
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
            [0_u64, 12, 999, 1_000, 1_234_567].map(spaced),
            ["0", "12", "999", "1 000", "1 234 567"]
        );
    }
}
