//! The published studies of signalling overhead, measured again on this machine with the engines and the daemon of
//! this project, in one report that compares both.
//!
//! Each part is a module, and produces a [`Section`]: text, tables, figures, and values under the keys of the
//! published ones. Completed parts are stored ([`store`]), so that an interrupted report continues where it ended.
//!
//! - [`messages`](mod@messages): cost of messages for a router, step by step and from interface to interface
//!   (Budapest).
//! - [`loads`](mod@loads): the same with background traffic, or with many messages (Budapest).
//! - [`architecture`]: demands of reservations on a processor and its caches (the paper of Delft).
//! - [`forwarding_latency`]: one router with a daemon between two hosts, for parts that need one.
//! - [`retry`](mod@retry): retries of refused reservations (the papers of Pan and Schulzrinne); the full study is a
//!   command of its own.
//! - [`sessions`](mod@sessions): cost of each resident session for messages, look-ups and timers (Budapest paper,
//!   section 6.3), compared with the structures of earlier implementations ([`baselines`](mod@baselines)).
//! - [`yessir`](mod@yessir): a new flow of YESSIR, step by step (Tables 2 and 3 of Pan and Schulzrinne).
//! - [`gist`](mod@gist): octets, processor, memory and time of GIST (the paper of Fu and others).
//! - [`repeated`](mod@rounds): repeated measurements whose spread equals that between reports.
//! - [`scale`](mod@scale): the largest bursts and rates of one router, protocol by protocol.
//! - [`environment`]: the machine, and its noise.
//! - [`verdicts`]: the papers' claims, decided by the results.
//! - [`section`], [`published`], [`results`], [`samples`], [`page`]: results of a part, and their presentation.

mod architecture;
mod baselines;
mod checkpoint_trace;
pub mod environment;
pub mod forwarding_latency;
mod gist;
mod loads;
mod messages;
pub mod page;
pub mod published;
mod repeated;
pub mod results;
mod retry;
pub mod samples;
mod scale;
pub mod section;
mod sessions;
mod steps;
pub mod store;
pub mod verdicts;
mod yessir;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::Supervision;
use crate::provenance::{Provenance, Settings};
use earmark_lab::testbed;
use environment::{Environment, Noise};
use repeated::{PartProgress, RepeatedMeasurement};
use section::{Estimate, Section};
use store::Store;

/// Parameters of a part.
#[derive(Clone, Debug)]
pub struct PartOptions {
    /// Whether all parts together are to take no more than five minutes.
    pub quick: bool,
    /// Reason why network namespaces are unavailable here, if so: a part then leaves out what needs them, and says
    /// so.
    pub obstacle: Option<String>,
}

/// A part of the report.
pub struct Part {
    /// Name of the part, for `--only` and for files.
    pub name: &'static str,
    /// Title of the section.
    pub title: &'static str,
    /// Prefixes of the keys of the part's published figures.
    pub keys: &'static [&'static str],
    measure: Measure,
}

/// Way to measure a part.
#[derive(Clone, Copy)]
enum Measure {
    /// The whole part at once.
    Whole(fn(&PartOptions, &Supervision<'_>) -> Result<Section>),
    /// Rounds between the other parts.
    RepeatedMeasurement(fn(&PartOptions) -> Box<dyn RepeatedMeasurement>),
}

/// All parts, in the order of the page.
pub const PARTS: &[Part] = &[
    Part {
        name: "messages",
        title: "What a message costs a router",
        keys: &[
            "budapest.table1_isi_rsvp",
            "budapest.table2_boomerang",
            "budapest.table3_rsvp_path_steps",
            "budapest.table4_rsvp_resv_steps",
            "budapest.table5_boomerang_steps",
            "budapest.table6_rsvp_path_tear_steps",
            "budapest.table7_rsvp_resv_tear_steps",
            "budapest.table8_boomerang_tear_steps",
            "pan.table3_yessir.kernel_io",
        ],
        measure: Measure::Whole(messages::measure),
    },
    Part {
        name: "loads",
        title: "Messages under load",
        // The published results are drawings without numbers.
        keys: &[],
        measure: Measure::Whole(loads::measure),
    },
    Part {
        name: "sessions",
        title: "Resident sessions",
        keys: &["budapest.table9_session_load"],
        measure: Measure::Whole(sessions::measure),
    },
    Part {
        name: "yessir",
        title: "A reservation in one pass: YESSIR",
        keys: &["pan.table2_flow_build", "pan.table3_yessir"],
        measure: Measure::RepeatedMeasurement(yessir::rounds),
    },
    Part {
        name: "architecture",
        title: "What reservations ask of a processor",
        keys: &["delft"],
        measure: Measure::Whole(architecture::measure),
    },
    Part { name: "gist", title: "GIST", keys: &["gist"], measure: Measure::Whole(gist::measure) },
    Part {
        name: "scale",
        title: "How much signalling a router takes",
        keys: &[],
        measure: Measure::Whole(scale::measure),
    },
    Part {
        name: "retry",
        title: "Retrying refused reservations",
        keys: &["pan.regular_load", "pan.high_load"],
        measure: Measure::Whole(retry::measure),
    },
];

/// Parameters of a report.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether to measure less of everything.
    pub quick: bool,
    /// Parts to measure; empty for all.
    pub only: Vec<String>,
    /// Whether completed parts are measured again.
    pub fresh: bool,
    /// `results.json` of an earlier report to compare with.
    pub against: Option<PathBuf>,
    /// Directory of the report.
    pub out: PathBuf,
}

/// Result of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The page.
    pub page: PathBuf,
    /// Parts that failed, each with its error.
    pub broken: Vec<(&'static str, String)>,
}

/// Measures the missing parts, and writes the report.
///
/// # Errors
/// The measurement was interrupted, or a file cannot be written; parts completed before are stored.
pub fn report(plan: &Plan, supervision: &Supervision<'_>) -> Result<Outcome> {
    let against = plan.against.as_deref().map(read_results).transpose()?;
    let mut environment = Environment::of_this_machine();
    environment.before = Some(Noise::measure());
    let order = PartOptions { quick: plan.quick, obstacle: testbed::obstacle() };
    let store = Store::open(&plan.out, plan.quick, order.obstacle.is_none(), &environment)?;
    let mut known = Vec::new();
    for part in PARTS {
        let is_asked_for = plan.only.is_empty() || plan.only.iter().any(|name| name == part.name);
        let again = is_asked_for && plan.fresh;
        let done = if again { None } else { store.load(part.name)? };
        let unasked = (!is_asked_for).then(|| unmeasured(part, "it was not selected"));
        known.push((part, done.or(unasked)));
    }
    let mut measured = measure(&known, &order, &store, supervision)?.into_iter();
    let (mut sections, mut broken) = (Vec::new(), Vec::new());
    for (part, section) in known {
        let section = match section {
            Some(section) => section,
            None => measured.next().context("a part was not measured")?.unwrap_or_else(|error| {
                let why = format!("{error:#}");
                let section = unmeasured(part, &format!("it failed: {why}"));
                broken.push((part.name, why));
                section
            }),
        };
        sections.push((part, section));
    }
    environment.after = Some(Noise::measure());
    let page = write(plan, &order, &environment, &sections, against.as_deref())?;
    Ok(Outcome { page, broken })
}

/// Measures the parts without a section, and stores them; returns them in their order, or their errors.
fn measure(
    parts: &[(&Part, Option<Section>)],
    order: &PartOptions,
    store: &Store,
    supervision: &Supervision<'_>,
) -> Result<Vec<Result<Section>>> {
    let missing = || parts.iter().filter(|(_, section)| section.is_none()).map(|(part, _)| *part);
    let mut spread: Vec<Option<PartProgress>> = missing()
        .map(|part| match part.measure {
            Measure::Whole(_) => None,
            Measure::RepeatedMeasurement(begin) => Some(PartProgress::new(part.name, begin(order))),
        })
        .collect();
    let stops = spread.iter().filter(|rounds| rounds.is_none()).count() + 1;
    let keep = |part: &Part, measured: Result<Section>| -> Result<Result<Section>> {
        supervision.check_interrupted()?;
        if let Ok(section) = &measured {
            store.save(part.name, section)?;
        }
        Ok(measured)
    };
    let mut at_once = Vec::new();
    for part in missing() {
        let Measure::Whole(measure) = part.measure else { continue };
        for rounds in spread.iter_mut().flatten() {
            rounds.stop(at_once.len(), stops, supervision);
        }
        supervision.check_interrupted()?;
        at_once.push(keep(part, measure(order, supervision))?);
    }
    let mut at_once = at_once.into_iter();
    let mut all = Vec::new();
    for (part, rounds) in missing().zip(spread) {
        all.push(match rounds {
            None => at_once.next().context("a part was not measured")?,
            Some(mut rounds) => {
                rounds.stop(stops - 1, stops, supervision);
                keep(part, rounds.section())?
            }
        });
    }
    Ok(all)
}

/// Returns the section of a part that was not measured.
fn unmeasured(part: &Part, reason: &str) -> Section {
    let mut section = Section::default();
    for key in part.keys {
        section.leave_out(*key, reason);
    }
    // Values without a published counterpart begin with the name of their part.
    section.leave_out(part.name, reason);
    section
}

fn read_results(file: &Path) -> Result<Vec<(String, Estimate)>> {
    let cannot = || format!("cannot read {}", file.display());
    let text = fs::read_to_string(file).with_context(cannot)?;
    let all: Value = serde_json::from_str(&text).with_context(cannot)?;
    Ok(results::values(&all))
}

fn write(
    plan: &Plan,
    order: &PartOptions,
    environment: &Environment,
    sections: &[(&Part, Section)],
    against: Option<&[(String, Estimate)]>,
) -> Result<PathBuf> {
    let provenance = provenance(plan);
    let measured: Vec<&Section> = sections.iter().map(|(_, section)| section).collect();
    let verdicts = verdicts::verdicts(measured.iter().copied());
    let all = results::results(&measured, environment, &provenance, &verdicts);
    let mut here = environment.section();
    if let Some(earlier) = against {
        here.text(Agreement::of(earlier, &results::values(&all)).to_string());
    }
    let mut first = vec![
        "What five papers measured of reservation protocols between 2000 and 2009, measured again on this machine, with the engines and \
         the daemon of Earmark. Behind each value stands the interval that holds the true one in 95 of 100 cases; published values \
         come from the machines of their time, and cycles (microseconds by MHz) are the one comparison that crosses machines."
            .to_owned(),
    ];
    if plan.quick {
        first.push(
            "This is the quick report: fewer repetitions, and fewer points in each figure."
                .to_owned(),
        );
    }
    if let Some(obstacle) = &order.obstacle {
        first.push(format!(
            "What needs network namespaces was left out: {obstacle}. As root the same command measures it."
        ));
    }
    let warning = environment.is_noisy().then_some(
        "This machine was too noisy while it measured for small differences to mean anything: see the last section.",
    );
    let mut titled: Vec<page::Titled<'_>> =
        sections.iter().map(|(part, section)| (part.name, part.title, section)).collect();
    titled.push(("environment", "The machine", &here));
    let opening = verdicts::opening(&verdicts, &measured);
    let title = "The overhead of reservation protocols";
    let text = page::page(title, &first, warning, &opening, &titled);
    let put = |name: &str, text: &str| -> Result<PathBuf> {
        let file = plan.out.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    };
    for (_, _, section) in &titled {
        for table in section.tables() {
            put(&format!("{}.csv", table.name), &page::csv(table)?)?;
        }
    }
    put("verdicts.csv", &verdicts::csv(&verdicts)?)?;
    let raw = plan.out.join("raw");
    fs::create_dir_all(&raw).with_context(|| format!("cannot make {}", raw.display()))?;
    for (name, _, section) in &titled {
        if let Some(text) = samples::csv(section)? {
            put(&format!("raw/{name}.csv"), &text)?;
        }
    }
    put("results.json", &serde_json::to_string_pretty(&all)?)?;
    put("index.html", &text)
}

/// Returns where the results of this process come from.
fn provenance(plan: &Plan) -> Provenance {
    let seeds = [
        ("retry", [1, retry::seeds(plan.quick)]),
        ("architecture", architecture::seeds(plan.quick)),
    ];
    let is_selected = |name: &str| plan.only.is_empty() || plan.only.iter().any(|one| one == name);
    let seeds = seeds.into_iter().filter(|(part, _)| is_selected(part));
    let seeds = seeds.map(|(part, seeds)| (part.to_owned(), seeds)).collect();
    let settings = Settings::Report { quick: plan.quick, only: plan.only.clone() };
    Provenance::of_this_process(settings, seeds)
}

/// Agreement of results with earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// Number of values that both have.
    pub all: usize,
    /// Keys of the values whose median is outside of the earlier interval, with the earlier value and the current one.
    pub outside: Vec<(String, Estimate, Estimate)>,
}

impl Agreement {
    /// Compares values with earlier ones, by key.
    pub fn of(earlier: &[(String, Estimate)], now: &[(String, Estimate)]) -> Agreement {
        let (mut all, mut outside) = (0, Vec::new());
        for (key, now) in now {
            let Some((_, before)) = earlier.iter().find(|(other, _)| other == key) else {
                continue;
            };
            all += 1;
            if !(before.low..=before.high).contains(&now.median) {
                outside.push((key.clone(), before.clone(), now.clone()));
            }
        }
        Agreement { all, outside }
    }

    /// Returns the share of values within the earlier intervals, percent.
    pub fn percent(&self) -> f64 {
        100.0 * (self.all - self.outside.len()) as f64 / (self.all as f64).max(1.0)
    }

    /// Returns whether results of the same program on the same machine agree: nine of ten values are within.
    pub fn is_good(&self) -> bool {
        self.all > 0 && self.percent() >= 90.0
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, percent) = (self.all, self.percent());
        let within = all - self.outside.len();
        write!(
            f,
            "Of {all} values {within} ({percent:.0} %) lie within the intervals of the earlier results."
        )?;
        if !self.is_good() {
            f.write_str(
                " That is less than 90 %: this machine is too noisy, or something has changed.",
            )?;
        }
        if !self.outside.is_empty() {
            let keys: Vec<&str> = self.outside.iter().map(|(key, ..)| key.as_str()).collect();
            write!(f, " Outside: {}.", keys.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_names_are_unique_and_keys_are_published() {
        for (place, part) in PARTS.iter().enumerate() {
            assert!(PARTS[..place].iter().all(|other| other.name != part.name));
            for key in part.keys {
                let mut keys = published::measurements().map(|(key, _)| key);
                assert!(keys.any(|found| published::is_under(found, key)), "{key}");
            }
        }
    }

    /// A malformed or foreign file is rejected with its name, or has nothing to compare with.
    #[test]
    fn malformed_earlier_report_is_refused() {
        let file =
            std::env::temp_dir().join(format!("earmark-earlier-{}.json", std::process::id()));
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            read_results(&file).map_err(|error| format!("{error:#}"))
        };
        for malformed in ["", "{\"pan\":", "\u{0}\u{1}"] {
            let error = read(malformed).unwrap_err();
            assert!(error.contains("cannot read") && error.contains("earmark-earlier-"), "{error}");
        }
        for other in ["[]", "7", r#"{"a":{"value":"x","interval":[],"repetitions":-1}}"#] {
            assert_eq!(read(other).unwrap(), []);
        }
        fs::remove_file(&file).unwrap();
        assert!(read_results(&file).is_err(), "it is not there");
    }

    #[test]
    fn reports_are_compared() {
        let value = |median: f64| Estimate::between(median - 1.0, median, median + 1.0, 9);
        let of = |values: &[(&str, f64)]| -> Vec<(String, Estimate)> {
            values.iter().map(|(key, median)| ((*key).to_owned(), value(*median))).collect()
        };
        let earlier = of(&[("a", 1.0), ("b", 2.0), ("gone", 3.0)]);
        let same = Agreement::of(&earlier, &of(&[("a", 1.5), ("b", 1.5)]));
        let text = "Of 2 values 2 (100 %) lie within the intervals of the earlier results.";
        assert!(same.is_good() && same.to_string() == text, "{same}");
        let other = Agreement::of(&earlier, &of(&[("a", 1.5), ("b", 9.0), ("new", 1.0)]));
        let text = other.to_string();
        assert!(text.contains("Of 2 values 1 (50 %)") && text.contains("Outside: b."), "{text}");
        assert!(!other.is_good() && !Agreement::of(&earlier, &[]).is_good());
    }
}
