//! Cost profile of this machine: processor time of a daemon for the messages of each protocol, for the simulator.
//!
//! ```text
//!   s --- r1 --- d        r1 is a daemon with a processor of its own; s and d are threads of this program
//! ```
//!
//! Sessions are set up as fast as they are answered, refreshed once, and then released. The daemon's processor time for each of these is
//! divided among the messages that it receives meanwhile. Half of the sessions are resident on average, and all of them during the
//! refreshes. Daemons that send refreshes by themselves do so once more for a while in which they receive none.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use earmark_scenario::processing::{Direction, Does, TurnCost};

use super::Supervision;
use super::process::Sample;
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
    refresh: f64,
    release: f64,
}

/// Refresh period of daemons whose own refreshes are measured.
const PERIOD: Duration = Duration::from_secs(10);
/// Number of sessions for that.
const REFRESHED: u32 = 5_000;

/// Measures the times of all protocols; returns the entries of a profile.
///
/// # Errors
/// The network cannot be built, a process of it ends, or sessions are lost.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Vec<TurnCost>> {
    let mut turns = Vec::new();
    for protocol in &plan.protocols {
        let costs = || format!("costs of {}", protocol.name());
        let times = measure_protocol(*protocol, plan, supervision).with_context(costs)?;
        turns.extend(entries(*protocol, &plan.sessions, &times));
        if refreshes_by_itself(*protocol) {
            turns.push(measure_own_refreshes(*protocol, plan, supervision).with_context(costs)?);
        }
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
            Ok(Times {
                set_up: median(|it| it.set_up),
                refresh: median(|it| it.refresh),
                release: median(|it| it.release),
            })
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
    let set_up = line.sample()?;
    ensure!(lost == 0, "{lost} of {count} set-ups were lost; other work on this machine disturbs");
    sender.refresh_once(count, supervision)?;
    let refreshed = line.sample()?;
    let received = refreshed.incoming.since(set_up.incoming).packets;
    ensure!(received >= u64::from(count), "{received} of {count} refreshes have arrived");
    sender.release(count, supervision)?;
    let released = line.sample()?;
    let each = |from: &Sample, to: &Sample, messages: f64| {
        to.processor.saturating_sub(from.processor).as_secs_f64() * 1e6 / messages
    };
    let [by_set_up, by_release] = messages(protocol).map(|it| f64::from(count) * f64::from(it));
    Ok(Times {
        set_up: each(&before, &set_up, by_set_up),
        refresh: each(&set_up, &refreshed, received as f64),
        release: each(&refreshed, &released, by_release),
    })
}

/// Returns whether daemons refresh sessions of others by timers of their own.
fn refreshes_by_itself(protocol: Protocol) -> bool {
    match protocol {
        Protocol::Rsvp | Protocol::Nsis | Protocol::Natfw => true,
        Protocol::Boomerang | Protocol::Yessir => false,
    }
}

/// Measures the refreshes that a daemon sends by itself; answers to them are part of the time.
fn measure_own_refreshes(
    protocol: Protocol,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<TurnCost> {
    let line = Line::up(protocol, PERIOD)?;
    let processors = Processors::available().first().copied().unwrap_or(Processors::One);
    line.pin(processors)?;
    line.with_ends(processors, |sender| {
        let mut each = Vec::new();
        for _ in 0..plan.repetitions.max(1) {
            let lost = sender.set_up(REFRESHED, supervision)?;
            ensure!(lost == 0, "{lost} of {REFRESHED} set-ups were lost; other work disturbs");
            supervision.watcher.begin(&format!("{}: own refreshes", protocol.name()), 1);
            let before = line.sample()?;
            sender.listen(PERIOD * 2, supervision)?;
            let after = line.sample()?;
            let sent = after.outgoing.since(before.outgoing).packets;
            ensure!(sent >= u64::from(REFRESHED), "it has sent {sent} refreshes");
            let spent = after.processor.saturating_sub(before.processor);
            each.push(spent.as_secs_f64() * 1e6 / sent as f64);
            sender.release(REFRESHED, supervision)?;
        }
        let median = Median::of(each).context("there are repetitions")?.median;
        Ok(TurnCost {
            protocol: protocol.name_in_settings().to_owned(),
            message: None,
            direction: Direction::Sent,
            does: None,
            sessions: vec![REFRESHED],
            microseconds: vec![rounded(median)],
        })
    })
}

fn rounded(microseconds: f64) -> f64 {
    (microseconds * 100.0).round() / 100.0
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

/// Returns the entries of a protocol. Messages that remove a reservation take the time of a release; others that change nothing
/// or are passed on, that of a refresh; all else, that of a set-up. A message of Boomerang that installs nothing comes back to the
/// router on its way: what it takes less than the mean of the set-up, the other one takes more.
fn entries(protocol: Protocol, sessions: &[u32], times: &[Times]) -> Vec<TurnCost> {
    let entry =
        |does, message: Option<&str>, residents: u32, of: &dyn Fn(&Times) -> f64| TurnCost {
            protocol: protocol.name_in_settings().to_owned(),
            message: message.map(str::to_owned),
            direction: Direction::Received,
            does,
            sessions: sessions.iter().map(|count| count / residents).collect(),
            microseconds: times.iter().map(|it| rounded(of(it))).collect(),
        };
    // On average half of the sessions are there while they come and go.
    let mut all = vec![
        entry(None, None, 2, &|it| it.set_up),
        entry(Some(Does::Removes), None, 2, &|it| it.release),
        entry(Some(Does::Nothing), None, 1, &|it| it.refresh),
    ];
    match protocol {
        // Its refreshes are not passed on, and what is passed on belongs to a set-up.
        Protocol::Rsvp => {}
        Protocol::Yessir => all.push(entry(Some(Does::Sends), None, 1, &|it| it.refresh)),
        Protocol::Boomerang => {
            all.push(entry(Some(Does::Sends), None, 1, &|it| it.refresh));
            let install = |it: &Times| (2.0 * it.set_up - it.refresh).max(it.set_up);
            all.push(entry(Some(Does::Installs), None, 2, &install));
        }
        // Query, Response and Confirm come in set-ups alone.
        Protocol::Nsis | Protocol::Natfw => {
            all.push(entry(Some(Does::Sends), Some("Data"), 1, &|it| it.refresh));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_messages_of_a_pair_have_a_time() {
        for protocol in Protocol::RESERVING {
            let [set_up, release] = messages(protocol);
            assert_eq!(set_up + release, protocol.messages_of_a_pair());
            let times = |set_up, refresh, release| Times { set_up, refresh, release };
            let all = [times(2.0, 0.5, 1.004), times(3.0, 0.75, 1.0)];
            let entries = entries(protocol, &[1_000, 9_000], &all);
            let of = |does| entries.iter().find(|it| it.does == does).expect("an entry");
            let set_ups = of(None);
            assert_eq!(set_ups.sessions, [500, 4_500]);
            assert_eq!(set_ups.microseconds, [2.0, 3.0]);
            assert_eq!(of(Some(Does::Removes)).microseconds, [1.0, 1.0]);
            let refreshes = of(Some(Does::Nothing));
            assert_eq!(refreshes.sessions, [1_000, 9_000]);
            assert_eq!(refreshes.microseconds, [0.5, 0.75]);
            if protocol == Protocol::Boomerang {
                // Out and back are the set-up together.
                let [installs, sends] = [Does::Installs, Does::Sends].map(|does| of(Some(does)));
                assert_eq!(installs.microseconds[0] + sends.microseconds[0], 4.0);
            }
        }
    }
}
