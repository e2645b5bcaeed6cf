//! Cost profile of this machine: processor time of a daemon for the messages of each protocol, for the simulator.
//!
//! ```text
//!   s --- r1 --- d        r1 is a daemon with a processor of its own; s and d are threads of this program
//! ```
//!
//! Sessions are set up as fast as they are answered, refreshed once, and then released. The daemon's processor time for each of these is
//! divided among the messages that it receives meanwhile. Half of the sessions are resident on average, and all of them during the
//! refreshes. A burst is cheap, because the daemon receives many messages with each wake-up: set-ups and releases are scaled to what they
//! take at a constant rate that needs three quarters of the processor. Daemons that send refreshes by themselves do so once more for a
//! while in which they receive none.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use earmark_scenario::processing::{Direction, Does, TurnCost};

use super::Supervision;
use super::process::Sample;
use super::rates::line::{self, Line, Processors};
use super::rates::load::Load;
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
/// Numbers of sessions for that, ascending.
const REFRESHED: [u32; 2] = [5_000, 50_000];
/// Rate of set-ups and releases that any daemon bears, a second.
const FIRST_RATE: f64 = 8_000.0;
/// Share of the processor at which set-ups and releases are measured at a constant rate.
const PACED_LOAD: f64 = 0.75;
/// Duration of a constant rate.
const PACED_FOR: Duration = Duration::from_secs(1);

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
        let times = plan.sessions.iter().map(of).collect::<Result<Vec<Times>>>()?;
        let paced = (0..plan.repetitions.max(1))
            .map(|_| measure_paced(&line, sender, protocol, supervision))
            .collect::<Result<Vec<f64>>>()?;
        let paced = Median::of(paced).context("there are repetitions")?.median;
        Ok(scaled(protocol, times, paced))
    })
}

/// Measures a set-up with its release at a constant rate; returns the time of both, microseconds.
fn measure_paced(
    line: &Line,
    sender: &mut Sender<'_>,
    protocol: Protocol,
    supervision: &Supervision<'_>,
) -> Result<f64> {
    supervision.watcher.begin(&format!("{}: a constant rate", protocol.name()), 1);
    let (mut rate, mut each) = (FIRST_RATE, 0.0);
    for _ in 0..3 {
        let before = line.sample()?;
        let result =
            sender.offer(Load::Rate { rate: rate as u32, window: PACED_FOR }, supervision)?;
        let after = line.sample()?;
        ensure!(
            result.is_whole(),
            "{rate:.0} set-ups a second did not go through; other work on this machine disturbs"
        );
        let spent = after.processor.saturating_sub(before.processor).as_secs_f64() * 1e6;
        each = spent / (f64::from(rate as u32) * PACED_FOR.as_secs_f64());
        rate = PACED_LOAD * 1e6 / each;
    }
    Ok(each)
}

/// Scales set-ups and releases so that both together take a time with the smallest number of sessions.
fn scaled(protocol: Protocol, times: Vec<Times>, paced: f64) -> Vec<Times> {
    let [set_ups, releases] = messages(protocol).map(f64::from);
    let burst = times.first().map_or(paced, |it| it.set_up * set_ups + it.release * releases);
    let factor = paced / burst;
    let scale =
        |it: Times| Times { set_up: it.set_up * factor, release: it.release * factor, ..it };
    times.into_iter().map(scale).collect()
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
        let of = |count: &u32| {
            let each = (0..plan.repetitions.max(1))
                .map(|_| own_refreshes(&line, sender, protocol, *count, supervision))
                .collect::<Result<Vec<f64>>>()?;
            let median = Median::of(each).context("there are repetitions")?.median;
            Ok(rounded(median))
        };
        Ok(TurnCost {
            protocol: protocol.name_in_settings().to_owned(),
            message: None,
            direction: Direction::Sent,
            does: None,
            sessions: REFRESHED.to_vec(),
            microseconds: REFRESHED.iter().map(of).collect::<Result<_>>()?,
        })
    })
}

/// Sets sessions up, measures a refresh that the daemon sends, microseconds, and releases them.
fn own_refreshes(
    line: &Line,
    sender: &mut Sender<'_>,
    protocol: Protocol,
    count: u32,
    supervision: &Supervision<'_>,
) -> Result<f64> {
    supervision.watcher.begin(&format!("{}: own refreshes of {count}", protocol.name()), 1);
    let lost = sender.set_up(count, supervision)?;
    ensure!(lost == 0, "{lost} of {count} set-ups were lost; other work on this machine disturbs");
    let before = line.sample()?;
    sender.listen(PERIOD, supervision)?;
    let after = line.sample()?;
    let sent = after.outgoing.since(before.outgoing).packets;
    ensure!(sent >= u64::from(count) / 2, "it has sent {sent} refreshes of {count} sessions");
    sender.release(count, supervision)?;
    let spent = after.processor.saturating_sub(before.processor).as_secs_f64() * 1e6;
    Ok(spent / sent as f64)
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
/// or are passed on, that of a refresh; all else, that of a set-up. A message of Boomerang that neither installs nor removes comes
/// back to the router on its way: what it takes less than the mean, the other one takes more.
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
            let out = |mean: f64, it: &Times| (2.0 * mean - it.refresh).max(mean);
            all.push(entry(Some(Does::Installs), None, 2, &|it| out(it.set_up, it)));
            all[1] = entry(Some(Does::Removes), None, 2, &|it| out(it.release, it));
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
    fn set_ups_and_releases_are_scaled_to_a_constant_rate() {
        for protocol in Protocol::RESERVING {
            let [set_ups, releases] = messages(protocol).map(f64::from);
            let times = |set_up| Times { set_up, refresh: 0.5, release: 1.0 };
            let scaled = scaled(protocol, vec![times(2.0), times(4.0)], 30.0);
            let [few, many] = scaled[..] else { panic!("{scaled:?}") };
            assert!((few.set_up * set_ups + few.release * releases - 30.0).abs() < 1e-9);
            assert!((many.set_up - 2.0 * few.set_up).abs() < 1e-9 && many.refresh == 0.5);
        }
    }

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
            let both = f64::from(u32::from(protocol == Protocol::Boomerang) + 1);
            let passed_on = if protocol == Protocol::Boomerang { [0.5, 0.75] } else { [0.0; 2] };
            let releases = [1.0, 1.0].iter().zip(passed_on).map(|(it, back)| both * it - back);
            let removes = &of(Some(Does::Removes)).microseconds;
            assert!(
                removes.iter().zip(releases).all(|(it, expected)| (it - expected).abs() < 0.011)
            );
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
