//! Cases beyond the papers, in part planned there: other thresholds and loads, lifetimes, queueing disciplines, end
//! users with rollback or with priorities, other protocols, larger networks.

use anyhow::{Context, Result};
use earmark_scenario::Outcome;
use serde::Serialize;

use super::case::{END_TO_END, Load, MIXED, PARKING_LOT, PRIORITIES};
use super::{Job, play_jobs};
use earmark_lab::statistics::Median;

/// Thresholds, as values of scenarios.
const THRESHOLDS: [&str; 12] =
    ["0", "1", "2", "3", "5", "8", "10", "15", "20", "30", "50", "\"infinite\""];
/// Number of flows that fit on a link of the study.
const ROOM: u32 = 50;

/// A set of points: one axis, and one line for each series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// Name for files.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// Label of the axis.
    pub axis: &'static str,
    /// All points.
    pub points: Vec<Point>,
}

/// Results of one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Position on the axis.
    pub x: String,
    /// Name of the line.
    pub series: String,
    /// Number of seeds.
    pub seeds: u64,
    /// Share of the flows' requested reservation time in which reservations were complete.
    pub served: Median,
    /// Share of flows that got a complete reservation before they ended.
    pub completed: Median,
    /// Share of the reserved bandwidth that belonged to incomplete reservations.
    pub fragmented: Median,
    /// Median of the time until completion, over the flows that completed, seconds.
    pub wait_s: Median,
    /// Retries in the network.
    pub retries: Median,
}

/// A setting to run.
struct Setting {
    x: String,
    series: String,
    text: &'static str,
    set: Vec<(&'static str, String)>,
    seeds: u64,
}

/// Runs all sweeps, one after the other.
pub(super) fn play_all(seeds: u64, quick: bool) -> Result<Vec<Sweep>> {
    let mut sweeps = vec![
        ("sensitivity", "What the papers leave open", "setting", sensitivity(seeds, quick)),
        ("threshold", "Threshold and load", "T", threshold_and_load(seeds, quick)),
        ("lifetime", "Lifetime of reservations", "mean lifetime", lifetimes(seeds, quick)),
        (
            "discipline",
            "Whose turn it is, of flows that are not alike",
            "discipline",
            disciplines(seeds, quick),
        ),
        ("end-users", "What end users can do", "rolls back after", end_users(seeds)),
        ("protocols", "Other protocols", "protocol", protocols(seeds)),
    ];
    sweeps.push(("networks", "Larger networks", "T", networks(seeds, quick)));
    sweeps
        .into_iter()
        .map(|(name, title, axis, settings)| {
            Ok(Sweep { name, title, axis, points: play_settings(name, &settings)? })
        })
        .collect()
}

fn play_settings(name: &str, settings: &[Setting]) -> Result<Vec<Point>> {
    let mut jobs = Vec::new();
    for setting in settings {
        let set: Vec<_> = setting.set.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let more = Job::each(setting.text, &set, setting.seeds);
        jobs.extend(more.with_context(|| format!("{} {}", setting.series, setting.x))?);
    }
    let mut outcomes = play_jobs(name, &jobs)?.into_iter();
    let points = settings.iter().map(|setting| {
        let runs: Vec<_> = outcomes.by_ref().take(setting.seeds as usize).collect();
        point(setting, &runs)
    });
    points.collect::<Option<_>>().context("a point has no seeds")
}

fn point(setting: &Setting, runs: &[Outcome]) -> Option<Point> {
    let of = |value: &dyn Fn(&Outcome) -> f64| Median::of(runs.iter().map(value));
    Some(Point {
        x: setting.x.clone(),
        series: setting.series.clone(),
        seeds: setting.seeds,
        served: of(&|run| run.served)?,
        completed: of(&|run| run.completed as f64 / (run.wanted as f64).max(1.0))?,
        fragmented: of(&|run| run.fragmented)?,
        wait_s: of(&|run| run.waits.map_or(f64::INFINITY, |[_, median, _]| median))?,
        retries: of(&|run| run.retries as f64)?,
    })
}

/// Formats a threshold.
fn shown(threshold: &str) -> String {
    if threshold == "\"infinite\"" { "∞".to_owned() } else { threshold.to_owned() }
}

/// Returns a setting of the study's network without data.
fn setting(
    x: impl Into<String>,
    series: impl Into<String>,
    seeds: u64,
    set: &[(&'static str, &str)],
) -> Setting {
    let mut set: Vec<_> = set.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    set.push(("data", "none".to_owned()));
    Setting { x: x.into(), series: series.into(), text: Load::High.scenario(), set, seeds }
}

fn threshold_and_load(seeds: u64, quick: bool) -> Vec<Setting> {
    let loads: &[u32] = if quick { &[100, 240, 400] } else { &[100, 125, 150, 200, 240, 300, 400] };
    let thresholds: Vec<&str> = match quick {
        true => vec!["0", "1", "3", "10", "\"infinite\""],
        false => THRESHOLDS.to_vec(),
    };
    let mut settings = Vec::new();
    for load in loads {
        let flows = (ROOM * load / 100).to_string();
        for threshold in &thresholds {
            let set = [("retry.threshold", *threshold), ("flows.reserved.count", flows.as_str())];
            settings.push(setting(shown(threshold), format!("{load} %"), seeds, &set));
        }
    }
    settings
}

/// High load, with one choice at a time made otherwise of those that the papers leave to their reader.
fn sensitivity(seeds: u64, quick: bool) -> Vec<Setting> {
    let networks = [END_TO_END, PARKING_LOT].map(|name| format!("\"{name}\""));
    let choices: [(&str, &[(&'static str, &str)]); 8] = [
        ("as chosen", &[]),
        ("all pairs from n1 to n5", &[("topology", &networks[0])]),
        ("parking lot", &[("topology", &networks[1])]),
        ("lifetimes of 37 s", &[("flows.reserved.lifetime", "\"exponential 37s\"")]),
        ("constant lifetimes", &[("flows.reserved.lifetime", "\"constant 150s\"")]),
        ("Pareto's lifetimes", &[("flows.reserved.lifetime", "\"pareto 150s 1.5\"")]),
        ("flows are replaced", &[("flows.reserved.arrivals", "\"replaced\"")]),
        ("the published loop, literally", &[("retry.counting", "\"entries\"")]),
    ];
    let cases: &[(&str, &str, &str)] = &[
        ("RSVP", "rsvp", "0"),
        ("refresh only", "yessir", "0"),
        ("T = 1", "yessir", "1"),
        ("T = 10", "yessir", "10"),
        ("T = ∞", "yessir", "\"infinite\""),
    ];
    let mut settings = Vec::new();
    for (x, choice) in choices.into_iter().take(if quick { 3 } else { choices.len() }) {
        for (series, protocol, threshold) in cases {
            let mut set = vec![("protocol", *protocol), ("retry.threshold", *threshold)];
            set.extend_from_slice(choice);
            settings.push(setting(x, *series, seeds, &set));
        }
    }
    settings
}

/// Lifetimes: a run is four lifetimes long, and the first of them does not count.
fn lifetimes(seeds: u64, quick: bool) -> Vec<Setting> {
    let means: &[u32] = if quick { &[30, 150, 600] } else { &[30, 60, 150, 300, 600, 1_800] };
    let mut settings = Vec::new();
    for (series, protocol, threshold) in [
        ("RSVP", "rsvp", "0"),
        ("refresh only", "yessir", "0"),
        ("T = 1", "yessir", "1"),
        ("T = 10", "yessir", "10"),
        ("T = ∞", "yessir", "\"infinite\""),
    ] {
        for mean in means {
            let lifetime = format!("\"exponential {mean}s\"");
            let (duration, discard) = (mean * 4, (*mean).max(50));
            let (duration, discard) = (format!("{}s", duration.max(600)), format!("{discard}s"));
            let set = [
                ("protocol", protocol),
                ("retry.threshold", threshold),
                ("flows.reserved.lifetime", lifetime.as_str()),
                ("duration", duration.as_str()),
                ("discard", discard.as_str()),
            ];
            settings.push(setting(format!("{mean} s"), series, seeds, &set));
        }
    }
    settings
}

fn disciplines(seeds: u64, quick: bool) -> Vec<Setting> {
    let thresholds: &[&str] =
        if quick { &["3", "\"infinite\""] } else { &["1", "3", "10", "\"infinite\""] };
    let mut settings = Vec::new();
    for threshold in thresholds {
        for (x, discipline) in [
            ("head of line", "head_of_line"),
            ("first fit", "first_fit"),
            ("smallest first", "smallest_first"),
            ("newest first", "newest_first"),
        ] {
            let set = [("retry.threshold", *threshold), ("retry.discipline", discipline)];
            let series = format!("T = {}", shown(threshold));
            settings.push(Setting { text: MIXED, ..setting(x, series, seeds, &set) });
        }
    }
    settings
}

/// End users: those with an incomplete reservation release it after a time, and request again at random 20 to 40 s
/// later.
fn end_users(seeds: u64) -> Vec<Setting> {
    let mut settings = Vec::new();
    for (series, protocol, threshold) in [
        ("RSVP", "rsvp", "0"),
        ("refresh only", "yessir", "0"),
        ("T = 1", "yessir", "1"),
        ("T = ∞", "yessir", "\"infinite\""),
    ] {
        let kind = [("protocol", protocol), ("retry.threshold", threshold)];
        settings.push(setting("never", series, seeds, &kind));
        for after in [1, 5, 20, 60] {
            let rollback = format!("{{ after = \"{after}s\", again = \"uniform 20s 40s\" }}");
            let set = [kind[0], kind[1], ("rollback", rollback.as_str())];
            settings.push(setting(format!("{after} s"), series, seeds, &set));
        }
    }
    let important = setting("priorities", "RSVP", seeds, &[]);
    settings.push(Setting { text: PRIORITIES, ..important });
    settings
}

/// Protocols: Boomerang and QoS NSLP keep no state of a refused reservation, so that the initiator has to request it
/// again.
fn protocols(seeds: u64) -> Vec<Setting> {
    let again = "{ after = \"2s\", again = \"uniform 19s 37s\" }";
    let mut settings = Vec::new();
    for load in [85_u32, 120] {
        let flows = load.to_string();
        let series = format!("{load} flows");
        for (x, protocol, threshold, rollback) in [
            ("RSVP", "rsvp", "0", None),
            ("YESSIR, T = 0", "yessir", "0", None),
            ("YESSIR, T = 1", "yessir", "1", None),
            ("YESSIR, T = ∞", "yessir", "\"infinite\"", None),
            ("Boomerang", "boomerang", "0", Some(again)),
            ("QoS NSLP", "nsis", "0", Some(again)),
        ] {
            let mut set = vec![
                ("protocol", protocol),
                ("retry.threshold", threshold),
                ("flows.reserved.count", flows.as_str()),
            ];
            set.extend(rollback.map(|rollback| ("rollback", rollback)));
            settings.push(setting(x, series.clone(), seeds, &set));
        }
    }
    settings
}

/// Networks: flows between any two hosts, a number of them for each router.
fn networks(seeds: u64, quick: bool) -> Vec<Setting> {
    let made = "bandwidth = \"10Mbit\", reservable = \"50%\"";
    let waxman = |routers: u32| {
        format!(
            "{{ waxman = {{ routers = {routers}, seed = 1 }}, hosts = {}, {made} }}",
            2 * routers
        )
    };
    let abilene = format!("{{ file = \"abilene.graphml\", hosts = 22, {made} }}");
    let mut kinds = vec![("Abilene".to_owned(), abilene, 11, 1_100, seeds)];
    // Fewer flows fill the network if paths are longer.
    let sizes = [(50, 3_000), (200, 8_000), (1_000, 20_000)];
    for (routers, flows) in sizes.into_iter().take(if quick { 1 } else { 3 }) {
        // Large networks have so many flows that a few seeds suffice; six is the least number with an interval.
        let seeds = (seeds * 25 / u64::from(routers)).clamp(seeds.min(6), seeds);
        kinds.push((format!("Waxman, {routers}"), waxman(routers), routers, flows, seeds));
    }
    let mut settings = Vec::new();
    for (series, topology, routers, flows, seeds) in kinds {
        let flows: u32 = flows;
        let (series, flows) = (format!("{series}, {flows} flows"), flows.to_string());
        let few = quick || routers > 200;
        let seeds = if quick { seeds.min(3) } else { seeds };
        for threshold in ["0", "1", "3", "10", "\"infinite\""] {
            if few && ["3", "10"].contains(&threshold) {
                continue;
            }
            let set = [
                ("topology", topology.as_str()),
                ("retry.threshold", threshold),
                ("flows.best effort.between", "\"random\""),
                ("flows.reserved.between", "\"random\""),
                ("flows.test.between", "\"random\""),
                ("flows.reserved.count", flows.as_str()),
            ];
            settings.push(setting(shown(threshold), series.clone(), seeds, &set));
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every point is a scenario that fits its network, and no two of a sweep are the same.
    #[test]
    fn points_can_be_played() {
        for quick in [true, false] {
            let sweeps = [
                sensitivity(1, quick),
                threshold_and_load(1, quick),
                lifetimes(1, quick),
                disciplines(1, quick),
                end_users(1),
                protocols(1),
                networks(1, true),
            ];
            for settings in sweeps {
                let mut places = Vec::new();
                for Setting { x, series, text, set, seeds } in &settings {
                    let set: Vec<_> =
                        set.iter().map(|(key, value)| (*key, value.as_str())).collect();
                    let jobs = Job::each(text, &set, *seeds);
                    let jobs = jobs.unwrap_or_else(|why| panic!("{series} {x}: {why:#}"));
                    assert_eq!(jobs[0].scenario.check(&jobs[0].topology), Ok(()), "{series} {x}");
                    places.push((x, series));
                }
                let all = places.len();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), all);
            }
        }
    }
}
