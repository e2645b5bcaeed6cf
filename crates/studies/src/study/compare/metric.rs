//! What is compared, from the outcomes alone.

use serde_json::Value;

use super::condition::Condition;
use super::rows::Row;

/// A metric under a condition.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Condition that it is of.
    pub condition: Condition,
    /// Name, with its unit.
    pub name: &'static str,
    /// Whether the least value is the best.
    pub less_is_better: bool,
    /// Number of decimals.
    pub decimals: usize,
    /// Value of a run; infinite if what is waited for never came. `None` if the run has none.
    pub value: fn(&Row) -> Option<f64>,
}

const fn less(
    condition: Condition,
    name: &'static str,
    decimals: usize,
    value: fn(&Row) -> Option<f64>,
) -> Metric {
    Metric { condition, name, less_is_better: true, decimals, value }
}

const fn more(
    condition: Condition,
    name: &'static str,
    decimals: usize,
    value: fn(&Row) -> Option<f64>,
) -> Metric {
    Metric { condition, name, less_is_better: false, decimals, value }
}

/// All metrics, in the order of the conditions.
pub const METRICS: [Metric; 22] = [
    less(Condition::Light, "packets a flow and minute, on all links", 1, packets),
    less(Condition::Light, "octets a flow and minute, on all links", 0, octets),
    less(Condition::Light, "entries of state a flow, in all routers", 1, state),
    less(Condition::Light, "busiest processor, %", 3, busiest),
    less(Condition::Light, "set-up time, median, ms", 1, set_up),
    less(Condition::Loss, "set-up time, median, ms", 1, set_up),
    less(Condition::Loss, "set-up time, upper quartile, ms", 1, set_up_quartile),
    more(Condition::Loss, "served, % of the time", 2, served),
    less(Condition::Loss, "packets a flow and minute, on all links", 1, packets),
    more(Condition::Overload, "completed, % of the flows", 1, completed),
    more(Condition::Overload, "served, % of the time", 1, served),
    less(Condition::Overload, "reserved in vain, % of the bandwidth", 2, in_vain),
    more(Condition::Overload, "fairness over path lengths, % (Jain)", 1, fairness),
    less(Condition::Overload, "packets a flow and minute, on all links", 1, packets),
    more(Condition::Failure, "recovered, % of the interruptions", 1, recovered),
    less(Condition::Failure, "recovery, median, s", 2, recovery),
    less(Condition::Failure, "recovery, upper quartile, s", 2, recovery_quartile),
    less(Condition::Failure, "reserved in vain, % of the bandwidth", 2, in_vain),
    more(Condition::Rush, "completed, % of the flows", 1, completed),
    less(Condition::Rush, "set-up time, median, ms", 1, set_up),
    less(Condition::Rush, "set-up time, upper quartile, ms", 1, set_up_quartile),
    less(Condition::Rush, "messages lost in receive buffers", 0, lost),
];

fn number(row: &Row, pointer: &str) -> Option<f64> {
    row.outcome.pointer(pointer)?.as_f64()
}

/// Returns whether the flows open paths through packet filters, and reserve nothing.
fn opens_paths(row: &Row) -> bool {
    row.outcome.get("paths").is_some()
}

/// Returns minutes times mean flows of the counted part of a run.
fn flow_minutes(row: &Row) -> Option<f64> {
    let condition = Condition::ALL.into_iter().find(|it| it.name() == row.key.condition)?;
    let [duration, discard] = condition.times();
    Some(f64::from(row.key.flows) * f64::from(duration - discard) / 60.0)
}

fn packets(row: &Row) -> Option<f64> {
    Some(number(row, "/signalling/packets")? / flow_minutes(row)?)
}

fn octets(row: &Row) -> Option<f64> {
    Some(number(row, "/signalling/octets")? / flow_minutes(row)?)
}

fn state(row: &Row) -> Option<f64> {
    let kinds = row.outcome.pointer("/state")?.as_object()?;
    let entries: f64 = kinds.values().filter_map(Value::as_f64).sum();
    Some(entries / f64::from(row.key.flows))
}

fn processors(row: &Row) -> impl Iterator<Item = &Value> {
    let all = row.outcome.pointer("/processors").and_then(Value::as_object);
    all.into_iter().flat_map(serde_json::Map::values)
}

/// Returns the share of the time in which the busiest processor works, in percent. Cost profiles have no times of packet filters.
fn busiest(row: &Row) -> Option<f64> {
    if opens_paths(row) {
        return None;
    }
    let busy = processors(row).filter_map(|used| used.get("busy")?.as_f64());
    busy.reduce(f64::max).map(|share| 100.0 * share)
}

fn lost(row: &Row) -> Option<f64> {
    processors(row).map(|used| used.get("lost").and_then(Value::as_f64)).sum()
}

/// Returns how many flows have asked, how many of them have got it, and the place of the quartiles of their waits: of
/// reservations, or of paths through packet filters.
fn requests(row: &Row) -> Option<(f64, f64, &'static str)> {
    let [asked, granted, waits] = match opens_paths(row) {
        true => ["/paths/asked", "/paths/granted", "/paths/waits"],
        false => ["/wanted", "/completed", "/waits"],
    };
    Some((number(row, asked)?, number(row, granted)?, waits))
}

/// Returns a quartile of the set-up time in milliseconds, from 1 to 3, of all flows: a flow that never gets it waits forever.
fn wait(row: &Row, quarter: u64) -> Option<f64> {
    let (wanted, completed, waits) = requests(row)?;
    // The outcome has quartiles of the completed flows alone.
    if completed < 0.99 * wanted {
        return Some(f64::INFINITY);
    }
    Some(1e3 * number(row, &format!("{waits}/{}", quarter - 1))?)
}

fn set_up(row: &Row) -> Option<f64> {
    wait(row, 2)
}

fn set_up_quartile(row: &Row) -> Option<f64> {
    wait(row, 3)
}

/// Returns the share of the time with a reservation in percent; none of what reserves nothing.
fn served(row: &Row) -> Option<f64> {
    if opens_paths(row) {
        return None;
    }
    Some(100.0 * number(row, "/served")?)
}

fn in_vain(row: &Row) -> Option<f64> {
    Some(100.0 * number(row, "/fragmented")?)
}

fn completed(row: &Row) -> Option<f64> {
    let (wanted, completed, _) = requests(row)?;
    (wanted > 0.0).then(|| 100.0 * completed / wanted)
}

/// Returns Jain's index of the completed share over the lengths of the paths, each weighted by its flows: 100 % if flows are refused alike
/// on short and long paths.
fn fairness(row: &Row) -> Option<f64> {
    let (mut all, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for group in row.outcome.pointer("/path_lengths")?.as_object()?.values() {
        let wanted = group.get("wanted")?.as_f64()?;
        let share = group.get("completed")?.as_f64()? / wanted.max(1.0);
        all += wanted;
        sum += wanted * share;
        squares += wanted * share * share;
    }
    (squares > 0.0).then(|| 100.0 * sum * sum / (all * squares))
}

fn recovered(row: &Row) -> Option<f64> {
    let interruptions = number(row, "/interruptions")?;
    (interruptions > 0.0).then(|| Some(100.0 * number(row, "/recoveries")? / interruptions))?
}

fn recovery(row: &Row) -> Option<f64> {
    number(row, "/recovery_times/1")
}

fn recovery_quartile(row: &Row) -> Option<f64> {
    number(row, "/recovery_times/2")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::case::Key;
    use super::*;

    fn row(condition: &str, outcome: Value) -> Row {
        let [network, protocol] = ["abilene", "rsvp"].map(str::to_owned);
        let key = Key { network, condition: condition.to_owned(), flows: 10, protocol };
        Row::of_value(key, outcome)
    }

    #[test]
    fn metrics_follow_from_the_outcome() {
        let light = row(
            "light",
            json!({
                "wanted": 10, "completed": 10, "waits": [0.01, 0.02, 0.5],
                "signalling": { "packets": 600, "octets": 60_000 },
                "state": { "rsvp_sessions": 30, "rsvp_senders": 20 },
                "processors": { "r1": { "busy": 0.25, "lost": 2 }, "r2": { "busy": 0.125, "lost": 1 } },
            }),
        );
        // 10 flows in 180 s.
        assert_eq!((packets(&light), octets(&light)), (Some(20.0), Some(2_000.0)));
        assert_eq!(
            (state(&light), busiest(&light), lost(&light)),
            (Some(5.0), Some(25.0), Some(3.0))
        );
        assert_eq!((set_up(&light), set_up_quartile(&light)), (Some(20.0), Some(500.0)));
    }

    #[test]
    fn paths_are_compared_by_their_requests() {
        let paths = row(
            "light",
            json!({
                "wanted": 0, "completed": 0, "served": 0.0, "waits": null,
                "paths": { "asked": 200, "granted": 199, "waits": [0.01, 0.03, 0.04] },
                "processors": { "r1": { "busy": 0.25, "lost": 0 } },
            }),
        );
        assert_eq!((completed(&paths), set_up(&paths)), (Some(99.5), Some(30.0)));
        assert_eq!((served(&paths), busiest(&paths)), (None, None));
    }

    /// Two lengths with equally many flows: shares of 1 and 0 have an index of one half, equal shares of one.
    #[test]
    fn fairness_is_jains_index() {
        let lengths = |long: u32| {
            row(
                "overload",
                json!({ "path_lengths": {
                "2": { "wanted": 8, "completed": 8 }, "4": { "wanted": 8, "completed": long } } }),
            )
        };
        assert_eq!([0, 8].map(|long| fairness(&lengths(long))), [Some(50.0), Some(100.0)]);
        assert_eq!(fairness(&row("overload", json!({ "path_lengths": {} }))), None);
    }

    #[test]
    fn what_never_came_is_infinite_and_what_was_not_interrupted_has_no_recovery() {
        let half = row("loss", json!({ "wanted": 10, "completed": 5, "waits": [0.1, 0.2, 0.3] }));
        assert_eq!((set_up(&half), completed(&half)), (Some(f64::INFINITY), Some(50.0)));
        let calm =
            row("failure", json!({ "interruptions": 0, "recoveries": 0, "recovery_times": null }));
        assert_eq!((recovered(&calm), recovery(&calm)), (None, None));
    }
}
