//! Cost profile of this machine: processor time of a daemon for the messages of each protocol, for the simulator.
//!
//! ```text
//!   s --- r1 --- d        r1 is a daemon with a processor of its own; s and d are threads of this program
//! ```
//!
//! Sessions are set up as fast as they are answered, and then released. The daemon's processor time for each of both is
//! divided among the messages that it receives meanwhile. Half of the sessions are resident on average.

use anyhow::{Context, Result, ensure};
use earmark_scenario::processing::{Direction, Does, TurnCost};

use super::Supervision;
use super::rates::line::{self, Line, Processors};
use super::rates::sender::Sender;
use super::router::Protocol;
use earmark_lab::statistics::Median;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Protocols.
    pub protocols: Vec<Protocol>,
    /// Numbers of sessions, ascending.
    pub sessions: Vec<u32>,
    /// Number of measurements with each number.
    pub repetitions: u32,
}

/// Times with one number of sessions, microseconds of the daemon for each message.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    set_up: f64,
    release: f64,
}

/// Measures the times of all protocols; returns the entries of a profile.
///
/// # Errors
/// The network cannot be built, a process of it ends, or sessions are lost.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Vec<TurnCost>> {
    let mut turns = Vec::new();
    for protocol in &plan.protocols {
        let times = measure_protocol(*protocol, plan, supervision)
            .with_context(|| format!("costs of {}", protocol.name()))?;
        turns.extend(entries(*protocol, &plan.sessions, &times));
    }
    Ok(turns)
}

fn measure_protocol(
    protocol: Protocol,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<Vec<Times>> {
    supervision.watcher.begin("the network starts", 1);
    let line = Line::up(protocol, line::NEVER)?;
    let processors = Processors::available().first().copied().unwrap_or(Processors::One);
    line.pin(processors)?;
    line.with_ends(processors, |sender| {
        // The first sessions include initialization.
        measure_sessions(&line, sender, protocol, 1_000, supervision)?;
        let of = |count: &u32| {
            let each = (0..plan.repetitions.max(1))
                .map(|_| measure_sessions(&line, sender, protocol, *count, supervision))
                .collect::<Result<Vec<Times>>>()?;
            let median = |of: fn(&Times) -> f64| {
                Median::of(each.iter().map(of)).map_or(f64::NAN, |median| median.median)
            };
            Ok(Times { set_up: median(|it| it.set_up), release: median(|it| it.release) })
        };
        plan.sessions.iter().map(of).collect()
    })
}

/// Sets sessions up, and releases them.
fn measure_sessions(
    line: &Line,
    sender: &mut Sender<'_>,
    protocol: Protocol,
    count: u32,
    supervision: &Supervision<'_>,
) -> Result<Times> {
    supervision.check_interrupted()?;
    supervision.watcher.begin(&format!("{}: {count} sessions", protocol.name()), 1);
    let before = line.sample()?;
    let lost = sender.set_up(count, supervision)?;
    let between = line.sample()?;
    ensure!(lost == 0, "{lost} of {count} set-ups were lost; other work on this machine disturbs");
    sender.release(count, supervision)?;
    let after = line.sample()?;
    let each = |from: &super::process::Sample, to: &super::process::Sample, messages: u32| {
        let spent = to.processor.saturating_sub(from.processor).as_secs_f64() * 1e6;
        spent / f64::from(count) / f64::from(messages)
    };
    let [set_up, release] = messages(protocol);
    Ok(Times { set_up: each(&before, &between, set_up), release: each(&between, &after, release) })
}

/// Returns the numbers of messages that a router receives for a set-up and for a release.
fn messages(protocol: Protocol) -> [u32; 2] {
    let release = match protocol {
        // A loop, out and back.
        Protocol::Boomerang => 2,
        Protocol::Rsvp | Protocol::Yessir | Protocol::Nsis | Protocol::Natfw => 1,
    };
    [protocol.messages_of_a_pair() - release, release]
}

/// Returns the entries of a protocol: messages that remove a reservation take the time of a release, and all others that
/// of a set-up.
fn entries(protocol: Protocol, sessions: &[u32], times: &[Times]) -> [TurnCost; 2] {
    let entry = |does, of: fn(&Times) -> f64| TurnCost {
        protocol: protocol.name_in_settings().to_owned(),
        message: None,
        direction: Direction::Received,
        does,
        // On average half of the sessions are there.
        sessions: sessions.iter().map(|count| count / 2).collect(),
        microseconds: times.iter().map(|it| (of(it) * 100.0).round() / 100.0).collect(),
    };
    [entry(None, |it| it.set_up), entry(Some(Does::Removes), |it| it.release)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_messages_of_a_pair_have_a_time() {
        for protocol in Protocol::RESERVING {
            let [set_up, release] = messages(protocol);
            assert_eq!(set_up + release, protocol.messages_of_a_pair());
            let times =
                [Times { set_up: 2.0, release: 1.004 }, Times { set_up: 3.0, release: 1.0 }];
            let [all, removals] = entries(protocol, &[1_000, 9_000], &times);
            assert_eq!((all.sessions, all.microseconds), (vec![500, 4_500], vec![2.0, 3.0]));
            assert_eq!(
                (removals.does, removals.microseconds),
                (Some(Does::Removes), vec![1.0, 1.0])
            );
        }
    }
}
