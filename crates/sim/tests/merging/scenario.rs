//! Random scenarios: a network, senders and receivers with the times of their requests, and faults.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use earmark_wire::rsvp::Style;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::Family;

/// Maximum number of routers of a network.
const ROUTERS: usize = 6;
/// Maximum number of senders, and of receivers.
const HOSTS: usize = 8;

/// Maximum number of sessions.
const SESSIONS: usize = 4;

/// A scenario.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) family: Family,
    /// For each router but the first, the earlier router to which it is connected.
    pub(crate) parents: Vec<usize>,
    /// Additional links between routers, which form cycles.
    pub(crate) shortcuts: BTreeSet<(usize, usize)>,
    /// Router of each sender's host.
    pub(crate) senders: Vec<usize>,
    /// Router of each receiver's host.
    pub(crate) receivers: Vec<usize>,
    pub(crate) sessions: Vec<Plan>,
    pub(crate) faults: Percent,
    /// Steps, each after this time.
    pub(crate) steps: Vec<(Duration, Step)>,
}

/// A session. Any of the senders may send to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) style: Style,
    /// Whether guaranteed service is requested instead of controlled load.
    pub(crate) guaranteed: bool,
    pub(crate) destination: Destination,
}

/// Destination of a session's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A group of its own, which any of the receivers may join.
    Group,
    /// One of the receivers; numbers wrap around.
    Receiver(usize),
}

/// Faults of the links, percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percent {
    pub(crate) loss: u8,
    pub(crate) duplication: u8,
    pub(crate) corruption: u8,
    /// Maximum delay, milliseconds.
    pub(crate) jitter: u8,
}

/// One step. Numbers beyond the existing ones wrap around.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A sender starts to send to a session, or changes its Tspec.
    Send { sender: usize, session: usize, amount: u8 },
    /// A sender stops.
    Stop { sender: usize, session: usize },
    /// A receiver of a session requests this much for the senders of the bits of `wanted`, or for all in the wildcard
    /// style.
    Ask { receiver: usize, session: usize, wanted: u8, amount: u8 },
    /// A receiver leaves a session.
    Leave { receiver: usize, session: usize },
    /// The daemon of a router dies.
    Kill { router: usize },
    /// A new daemon starts on a router without one.
    Start { router: usize },
    /// A link between routers fails.
    Fail { link: usize },
    /// A link between routers is up again.
    Mend { link: usize },
}

impl Scenario {
    pub(crate) fn routers(&self) -> usize {
        self.parents.len() + 1
    }
}

/// Returns a strategy for all scenarios.
pub(crate) fn scenario() -> impl Strategy<Value = Scenario> {
    let network = (
        any::<u64>(),
        prop_oneof![Just(Family::V4), Just(Family::V6)],
        vec(any::<usize>(), 0..ROUTERS),
        vec((0..ROUTERS, 0..ROUTERS), 0..3),
        hosts(),
        hosts(),
    );
    (network, vec(plan(), 1..=SESSIONS), faults(), vec((pause(), step()), 1..80)).prop_map(
        |((seed, family, parents, shortcuts, senders, receivers), sessions, faults, steps)| {
            let parents: Vec<usize> =
                parents.into_iter().enumerate().map(|(n, parent)| parent % (n + 1)).collect();
            let routers = parents.len() + 1;
            let joined = |router: usize| router.checked_sub(1).map(|n| parents[n]);
            let shortcuts = shortcuts
                .into_iter()
                .map(|(a, b)| ((a % routers).min(b % routers), (a % routers).max(b % routers)))
                .filter(|&(a, b)| a != b && joined(b) != Some(a))
                .collect();
            let behind = |hosts: Vec<usize>| hosts.into_iter().map(|at| at % routers).collect();
            Scenario {
                seed,
                family,
                shortcuts,
                parents,
                senders: behind(senders),
                receivers: behind(receivers),
                sessions,
                faults,
                steps,
            }
        },
    )
}

/// Returns the routers of hosts. With few hosts, steps more often concern the same one.
fn hosts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![vec(0..ROUTERS, 1..=3), vec(0..ROUTERS, 1..=HOSTS)]
}

fn plan() -> impl Strategy<Value = Plan> {
    const STYLES: [Style; 3] = [Style::FixedFilter, Style::SharedExplicit, Style::Wildcard];
    let destination = prop_oneof![
        2 => Just(Destination::Group),
        1 => (0..HOSTS).prop_map(Destination::Receiver),
    ];
    (select(&STYLES[..]), any::<bool>(), destination)
        .prop_map(|(style, guaranteed, destination)| Plan { style, guaranteed, destination })
}

fn faults() -> impl Strategy<Value = Percent> {
    let bad = (0..=30_u8, 0..=20_u8, 0..=10_u8, 0..=50_u8);
    let none = Just((0, 0, 0, 0));
    prop_oneof![1 => none, 3 => bad].prop_map(|(loss, duplication, corruption, jitter)| Percent {
        loss,
        duplication,
        corruption,
        jitter,
    })
}

/// Usually short, so that steps overlap; sometimes long enough for state to expire.
fn pause() -> impl Strategy<Value = Duration> {
    prop_oneof![6 => 0..100_u64, 3 => 100..3_000_u64, 1 => 3_000..15_000_u64]
        .prop_map(Duration::from_millis)
}

fn step() -> impl Strategy<Value = Step> {
    let (sender, receiver, session) = (|| 0..HOSTS, || 0..HOSTS, || 0..SESSIONS);
    let amount = || 1..9_u8;
    prop_oneof![
        6 => (sender(), session(), amount())
            .prop_map(|(sender, session, amount)| Step::Send { sender, session, amount }),
        2 => (sender(), session()).prop_map(|(sender, session)| Step::Stop { sender, session }),
        6 => (receiver(), session(), any::<u8>(), amount()).prop_map(
            |(receiver, session, wanted, amount)| Step::Ask { receiver, session, wanted, amount }
        ),
        2 => (receiver(), session())
            .prop_map(|(receiver, session)| Step::Leave { receiver, session }),
        1 => (0..ROUTERS).prop_map(|router| Step::Kill { router }),
        1 => (0..ROUTERS).prop_map(|router| Step::Start { router }),
        1 => (0..ROUTERS).prop_map(|link| Step::Fail { link }),
        1 => (0..ROUTERS).prop_map(|link| Step::Mend { link }),
    ]
}

/// Formats the scenario as a script, to be read when a test fails.
impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, IP{:?}, {:?} %", self.seed, self.family, self.faults)?;
        for (number, plan) in self.sessions.iter().enumerate() {
            writeln!(f, "session {number}: {plan:?}")?;
        }
        write!(f, "routers r0")?;
        for (n, parent) in self.parents.iter().enumerate() {
            write!(f, ", r{} at r{parent}", n + 1)?;
        }
        for (a, b) in &self.shortcuts {
            write!(f, ", r{a} also at r{b}")?;
        }
        writeln!(f)?;
        for (kind, hosts) in [("s", &self.senders), ("d", &self.receivers)] {
            let hosts = hosts.iter().enumerate();
            let hosts: Vec<String> = hosts.map(|(n, at)| format!("{kind}{n} at r{at}")).collect();
            writeln!(f, "{}", hosts.join(", "))?;
        }
        for (pause, step) in &self.steps {
            writeln!(f, "{:>6} ms later: {step:?}", pause.as_millis())?;
        }
        Ok(())
    }
}
