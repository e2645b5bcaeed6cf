//! Benchmark of Delft: a router without I/O handles the messages of many telephone calls in order of time.
//!
//! A call sets up its session, refreshes it every 30 s, and releases it. Most calls last up to three minutes, so a
//! call has 0 to 6 refreshes, each number equally often; a call over RSVP has on average 4 Path, 4 Resv, 1 ResvConf,
//! 1 ResvTear and 1 PathTear. Calls begin at random, [`CALLS_A_SECOND`] a second, so that some hundred exist at any
//! time. The number of calls is the number of whole calls in the requested number of messages. The paper's second and
//! third scenario count one half of RSVP's messages. The third still needs the Path messages that precede each Resv,
//! and does not count them.
//!
//! Valgrind counts the functions that it is given ([`super::router::COUNTED`]): taking a message from a queue,
//! everything that it causes, and timeouts; writing the messages is not counted. A clock measures the time of the
//! same functions.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use earmark_core::Time;
use earmark_core::random::RandomStreams;
use earmark_sim::distributions;
use serde::{Deserialize, Serialize};

use super::router::{Arrival, Message, Protocol, Router, Step, earmark_counted_input};

/// Mean number of calls that begin in a second.
pub const CALLS_A_SECOND: u32 = 3;
/// Largest number of refreshes of a call.
const MAX_REFRESHES: u32 = 6;
/// Mean number of refreshes of a call.
const REFRESHES: u32 = MAX_REFRESHES / 2;
/// Interval between refreshes.
const REFRESH: Duration = Duration::from_secs(30);
/// Interval between consecutive messages of a set-up, a refresh or a release.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(100);
/// Virtual time that passes after the last release.
const FINAL_WAIT: Duration = Duration::from_secs(1);

/// Which messages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// All of them: scenario 1.
    All,
    /// Path and PathTear, and no others come: scenario 2.
    Path,
    /// Resv, ResvConf and ResvTear: scenario 3.
    Resv,
}

impl Scenario {
    /// All scenarios, in the paper's order.
    pub const ALL: [Scenario; 3] = [Scenario::All, Scenario::Path, Scenario::Resv];

    fn counts(self, message: &Message) -> bool {
        let is_of_path = matches!(message.name, "Path" | "PathTear");
        match self {
            Scenario::All => true,
            Scenario::Path => is_of_path,
            Scenario::Resv => !is_of_path,
        }
    }

    /// Returns whether the scenario contains a message.
    fn has(self, message: &Message) -> bool {
        self != Scenario::Path || self.counts(message)
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Protocol of the calls.
    pub protocol: Protocol,
    /// Scenario: which messages count.
    pub scenario: Scenario,
    /// Largest number of counted messages.
    pub messages: u32,
    /// Seed of call arrivals and lengths.
    pub seed: u64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Played {
    /// Number of calls.
    pub calls: u32,
    /// Largest number of calls at one time.
    pub calls_at_once: usize,
    /// Messages that were counted.
    pub messages: u32,
    /// Messages that the router sent in reply and by its timers.
    pub sent: u64,
    /// Messages received and sent by kind, counted or not (RSVP only).
    pub kinds: Vec<Kind>,
    /// Time of the counted functions, microseconds.
    pub us: f64,
}

/// Numbers of messages of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// Name of the kind.
    pub name: String,
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
}

/// A message of a call, at its time.
#[derive(Clone, Copy)]
struct ScheduledMessage {
    at: Time,
    call: u32,
    message: &'static Message,
    /// Number of the refresh, from 1; 0 for set-up and release.
    round: u32,
}

/// Writes all messages without delivering them, so that this part can be subtracted from a whole-program count.
/// Returns the number of octets.
///
/// # Errors
/// The protocol's messages repeat what the router has sent, so they cannot be written without it.
pub fn only_write(plan: &Plan) -> Result<usize> {
    let name = plan.protocol.name();
    ensure!(
        plan.protocol.is_written_ahead(),
        "messages of {name} cannot be written before they are sent"
    );
    let router = Router::new(plan.protocol);
    let schedule = schedule(plan, calls(plan));
    let queue: Vec<_> = schedule.iter().map(|scheduled| scheduled.write(&router)).collect();
    Ok(queue.iter().map(|arrival| arrival.octets().len()).sum())
}

/// Plays the benchmark once.
///
/// # Errors
/// Fewer messages were requested than one call has; the router dropped a message; or state is left when all calls are
/// over.
pub fn play(plan: &Plan) -> Result<Played> {
    let Plan { protocol, scenario, .. } = *plan;
    let calls = calls(plan);
    let schedule = schedule(plan, calls);
    let mut router = Router::new(protocol);
    // Messages are written in advance if possible, because writing would disturb the caches.
    let queue: Vec<_> = match protocol.is_written_ahead() {
        true => schedule.iter().map(|scheduled| scheduled.write(&router)).collect(),
        false => Vec::new(),
    };
    let first = schedule.first().map(|scheduled| scheduled.write(&router));
    let Some(mut room) = first.filter(|_| calls > 0) else {
        anyhow::bail!("{} messages are too few for one call", plan.messages);
    };
    let mut played =
        Played { calls, calls_at_once: 0, messages: 0, sent: 0, kinds: Vec::new(), us: 0.0 };
    let mut took = Duration::ZERO;
    for (place, scheduled) in schedule.iter().enumerate() {
        let written;
        let arrival = match queue.get(place) {
            Some(arrival) => arrival,
            None => {
                written = scheduled.write(&router);
                &written
            }
        };
        let start = Instant::now();
        router.advance_counted(scheduled.at, |router| played.sent += router.sent().count() as u64);
        if scenario.counts(scheduled.message) {
            earmark_counted_input(arrival, &mut room);
            router.deliver_all_counted(std::slice::from_ref(&room));
            took += start.elapsed();
            played.messages += 1;
            played.sent += router.sent().count() as u64;
        } else {
            took += start.elapsed();
            router.deliver_all(std::slice::from_ref(arrival));
        }
        played.calls_at_once = played.calls_at_once.max(router.sessions(protocol));
    }
    router.advance_counted(router.now() + FINAL_WAIT, |_| {});
    played.us = took.as_secs_f64() * 1e6 - clock_reading_us() * schedule.len() as f64;
    played.kinds = kinds(&router);
    check(&router, plan, &played)?;
    Ok(played)
}

impl ScheduledMessage {
    fn write(&self, router: &Router) -> Arrival {
        self.message.of(router, self.call, self.round)
    }
}

/// Returns the number of whole calls in the requested number of messages.
fn calls(plan: &Plan) -> u32 {
    let counted = plan.protocol.call().iter().filter(|message| plan.scenario.counts(message));
    let of_one: u32 =
        counted.map(|message| if message.step == Step::Refresh { REFRESHES } else { 1 }).sum();
    plan.messages / of_one.max(1)
}

/// Returns all messages of `calls` calls, in order of time.
fn schedule(plan: &Plan, calls: u32) -> Vec<ScheduledMessage> {
    let streams = RandomStreams::new(plan.seed);
    let (mut begin, mut long) = (streams.stream("calls/begin"), streams.stream("calls/long"));
    let span = Duration::from_secs(1) * calls / CALLS_A_SECOND;
    let mut schedule = Vec::new();
    for (call, refreshes) in (0..).zip(refreshes(&mut long, calls)) {
        let begins = Time::from_secs(1) + begin.uniform(Duration::ZERO, span);
        let last = begins + REFRESH * refreshes;
        let ends = last + long.uniform(REFRESH / 10, REFRESH - REFRESH / 10);
        let mut say = |from: Time, step: Step, round: u32| {
            let said = plan.protocol.call().iter().filter(|message| message.step == step);
            for (place, message) in (0..).zip(said.filter(|message| plan.scenario.has(message))) {
                let way = if plan.protocol.is_written_ahead() {
                    MESSAGE_INTERVAL * place
                } else {
                    Duration::ZERO
                };
                schedule.push(ScheduledMessage { at: from + way, call, message, round });
            }
        };
        say(begins, Step::SetUp, 0);
        (1..=refreshes).for_each(|round| say(begins + REFRESH * round, Step::Refresh, round));
        say(ends, Step::Release, 0);
    }
    // The sort is stable: messages of one moment keep their order.
    schedule.sort_by_key(|scheduled| scheduled.at);
    schedule
}

/// Returns the number of refreshes of each call: every number equally often, the rest the average, in random order.
fn refreshes(dice: &mut earmark_core::random::Stream, calls: u32) -> Vec<u32> {
    let whole = calls - calls % (MAX_REFRESHES + 1);
    let number = |call| if call < whole { call % (MAX_REFRESHES + 1) } else { REFRESHES };
    let mut all: Vec<u32> = (0..calls).map(number).collect();
    for last in (1..all.len()).rev() {
        all.swap(last, distributions::below(dice, last as u64 + 1) as usize);
    }
    all
}

/// Measured time between two consecutive readings of the clock, microseconds.
fn clock_reading_us() -> f64 {
    const READINGS: u32 = 1_000;
    let looks: Duration = (0..READINGS).map(|_| Instant::now().elapsed()).sum();
    looks.as_secs_f64() * 1e6 / f64::from(READINGS)
}

/// Returns the messages that the RSVP engine received and sent, by kind.
fn kinds(router: &Router) -> Vec<Kind> {
    let counters = router.rsvp().counters();
    let counts = counters.received.iter().zip(&counters.sent);
    let kinds = earmark_rsvp::MESSAGES.iter().zip(counts).map(|(name, (received, sent))| Kind {
        name: (*name).to_owned(),
        received: *received,
        sent: *sent,
    });
    kinds.filter(|kind| kind.received + kind.sent > 0).collect()
}

/// Checks the benchmark as the paper does: messages out against messages in, and the remaining state.
fn check(router: &Router, plan: &Plan, played: &Played) -> Result<()> {
    let name = plan.protocol.name();
    let (sessions, claims) = (router.sessions(plan.protocol), router.claims());
    ensure!(
        sessions == 0 && claims == 0,
        "{name}: {sessions} sessions and {claims} claims are left when all calls are over"
    );
    let dropped: u64 = router.rsvp().counters().dropped.iter().sum();
    ensure!(dropped == 0, "{name}: the router threw {dropped} messages away");
    for Kind { name, received, sent } in &played.kinds {
        // A state change is forwarded once; refreshes are sent by the refresh timer.
        let goes_on = !matches!(name.as_str(), "path" | "resv");
        ensure!(!goes_on || sent == received, "{name}: {received} came and {sent} went on");
        ensure!(
            goes_on || *sent >= u64::from(played.calls),
            "{name}: {sent} went on in {} calls",
            played.calls
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(protocol: Protocol, scenario: Scenario, messages: u32) -> Played {
        play(&Plan { protocol, scenario, messages, seed: 7 }).expect("it is checked")
    }

    fn kind<'p>(played: &'p Played, name: &str) -> &'p Kind {
        played.kinds.iter().find(|kind| kind.name == name).expect(name)
    }

    #[test]
    fn a_call_has_the_messages_of_the_paper() {
        let played = of(Protocol::Rsvp, Scenario::All, 1_100);
        assert_eq!((played.calls, played.messages), (100, 1_100));
        let received = ["path", "resv", "resv_conf", "resv_tear", "path_tear"]
            .map(|name| kind(&played, name).received);
        assert_eq!(received, [400, 400, 100, 100, 100]);
        assert!((10..100).contains(&played.calls_at_once), "{}", played.calls_at_once);
        assert!(played.us > 0.0 && played.sent > 500);
    }

    #[test]
    fn scenarios_count_halves() {
        let paths = of(Protocol::Rsvp, Scenario::Path, 1_000);
        assert_eq!((paths.calls, paths.messages), (200, 1_000));
        assert!(paths.kinds.iter().all(|kind| kind.name.starts_with("path")));
        let resvs = of(Protocol::Rsvp, Scenario::Resv, 600);
        assert_eq!((resvs.calls, resvs.messages), (100, 600));
        assert_eq!(kind(&resvs, "path").received, 400, "they come, but do not count");
    }

    #[test]
    fn all_protocols_can_be_played() {
        for protocol in [Protocol::Boomerang, Protocol::Yessir, Protocol::Nsis] {
            let played = of(protocol, Scenario::All, 500);
            assert!(played.messages > 450 && played.messages <= 500, "{protocol:?}");
            assert!(played.calls_at_once > 5 && played.sent > 0, "{protocol:?}: {played:?}");
        }
    }

    #[test]
    fn refreshes_are_even_and_in_any_order() {
        let mut dice = RandomStreams::new(1).stream("long");
        let all = refreshes(&mut dice, 20);
        assert_eq!(all.iter().sum::<u32>(), 60);
        assert!((0..=6).all(|number| all.iter().filter(|&&other| other == number).count() >= 2));
        assert!(!all.is_sorted() && all != refreshes(&mut dice, 20));
        assert!(
            play(&Plan {
                protocol: Protocol::Rsvp,
                scenario: Scenario::All,
                messages: 10,
                seed: 1
            })
            .is_err()
        );
    }
}
