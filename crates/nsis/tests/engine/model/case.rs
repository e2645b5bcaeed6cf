//! The case of a seed: settings, and a sequence of steps.

use earmark_core::random::{RandomStreams, Stream};
use earmark_nsis::Config;
use earmark_nsis::gist::{Installation, UpstreamQueries};
use earmark_nsis::nslp::Attributes;

use crate::common::diamond::Family;

/// Number of applications at each end.
pub(crate) const SLOTS: usize = 3;

/// One step of a sequence. A slot is an application at the sender and one at the receiver.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The sender reserves.
    Reserve { slot: usize, mbps: u32, attributes: Attributes, keep_old_branch: bool, same_id: bool },
    /// The sender asks the receiver to reserve.
    Invite { slot: usize, mbps: u32, attributes: Attributes, same_id: bool },
    /// The sender changes its reservation.
    Modify { slot: usize, mbps: u32 },
    /// The sender releases what it has.
    Release { slot: usize },
    /// The receiver releases what it has, and listens again.
    ReleaseAtReceiver { slot: usize },
    /// The packets of the flows take another next node.
    Route { node: usize, next: usize, reported_after_ms: u64 },
    /// A node has no route for the flows.
    Withdraw { node: usize, seconds: u64 },
    /// A link treats datagrams badly.
    Disturb { link: usize, how: Disturbance, seconds: u64 },
    /// The connections of a node break.
    Break { node: usize },
    /// The process of a node ends, and another one starts.
    Restart { node: usize, seconds: u64 },
    /// The process of a node does nothing.
    Pause { node: usize, seconds: u64 },
    /// Time passes.
    Pass { milliseconds: u64 },
}

/// What happens to datagrams on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disturbance {
    /// This part is lost, percent.
    Lose(u64),
    /// Each arrives twice, the second time later.
    Duplicate,
    /// Each is delayed at random, so that they overtake each other.
    Reorder,
}

/// Settings that differ between cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(crate) installation: Installation,
    pub(crate) upstream_queries: UpstreamQueries,
    pub(crate) reduced_refresh: bool,
    pub(crate) summary: u16,
    pub(crate) acknowledge: bool,
    pub(crate) piggyback: bool,
}

impl Variant {
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        config.gist.installation = self.installation;
        config.gist.upstream_queries = self.upstream_queries;
        config.gist.piggyback = self.piggyback;
        config.gist.associations.tls_port = Some(271);
        config.qos.reduced_refresh = self.reduced_refresh;
        config.qos.summary = self.summary;
        config.qos.acknowledge = self.acknowledge;
        config
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) family: Family,
    pub(crate) variant: Variant,
    pub(crate) steps: Vec<Step>,
}

/// Random numbers of a case.
pub(crate) struct Dice(Stream);

impl Dice {
    pub(crate) fn new(seed: u64, purpose: &str) -> Dice {
        Dice(RandomStreams::new(seed).stream(purpose))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.index(values.len())]
    }
}

impl Case {
    /// Returns the case of a seed. One in three has no step that disturbs; see [`Step::disturbs`].
    pub(crate) fn of(seed: u64) -> Case {
        let mut dice = Dice::new(seed, "case");
        let installations =
            [Installation::Delayed, Installation::Confirmed, Installation::Immediate];
        let upstream = [UpstreamQueries::OnLink, UpstreamQueries::Never];
        let variant = Variant {
            installation: dice.of(&installations),
            upstream_queries: dice.of(&upstream),
            reduced_refresh: dice.percent(75),
            summary: dice.of(&[0, 0, 8]),
            acknowledge: dice.percent(25),
            piggyback: dice.percent(75),
        };
        let family = dice.of(&Family::ALL);
        let is_calm = seed.is_multiple_of(3);
        let most = dice.of(&[2, 2, 5]);
        let count = 5 + dice.index(25);
        let mut steps = Vec::new();
        while steps.len() < count {
            let step = step(&mut dice, most);
            if !is_calm || !step.disturbs() {
                steps.push(step);
            }
        }
        Case { seed, family, variant, steps }
    }
}

fn step(dice: &mut Dice, most: u64) -> Step {
    let slot = dice.index(SLOTS);
    let node = dice.index(6);
    let mbps = 1 + dice.below(most) as u32;
    let attributes = dice.of(&[
        Attributes { reliable: false, secure: false },
        Attributes { reliable: true, secure: false },
        Attributes { reliable: true, secure: true },
    ]);
    let same_id = dice.percent(50);
    match dice.below(100) {
        0..16 => {
            let keep_old_branch = dice.percent(25);
            Step::Reserve { slot, mbps, attributes, keep_old_branch, same_id }
        }
        16..30 => Step::Invite { slot, mbps, attributes, same_id },
        30..38 => Step::Modify { slot, mbps },
        38..44 => Step::Release { slot },
        44..47 => Step::ReleaseAtReceiver { slot },
        47..62 => {
            let (node, next) = (dice.index(3), dice.index(2));
            Step::Route { node, next, reported_after_ms: dice.of(&[0, 0, 20, 3_000]) }
        }
        62..64 => Step::Withdraw { node: dice.index(3), seconds: dice.of(&[1, 10, 60]) },
        64..70 => {
            let how = dice.of(&[
                Disturbance::Lose(30),
                Disturbance::Lose(100),
                Disturbance::Duplicate,
                Disturbance::Reorder,
            ]);
            Step::Disturb { link: dice.index(8), how, seconds: dice.of(&[1, 8, 60]) }
        }
        70..73 => Step::Break { node },
        73..76 => Step::Restart { node, seconds: dice.of(&[1, 10, 100]) },
        76..78 => Step::Pause { node, seconds: dice.of(&[1, 10, 100]) },
        _ => Step::Pass { milliseconds: dice.of(&[1, 3, 10, 100, 1_000, 10_000, 60_000, 200_000]) },
    }
}

impl Step {
    /// Returns whether the step may end a reservation that its application wants, or hinder it.
    pub(crate) fn disturbs(&self) -> bool {
        match self {
            Step::Withdraw { .. }
            | Step::Break { .. }
            | Step::Restart { .. }
            | Step::Pause { .. } => true,
            Step::Disturb { how, .. } => matches!(how, Disturbance::Lose(_)),
            _ => false,
        }
    }
}
