//! Random inputs to a router, compared with a simple model: after each message, the ledger holds the sum of the largest
//! requests for each sender, traffic control has what was installed and not removed, and in the end no state remains.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_core::Rate;
use earmark_core::admission::ClaimId;
use earmark_wire::rsvp::{
    Body, ErrorKind, FilterSpec, FixedFilterFlow, Message, MessageType, Path, Session,
    SourceSelector,
};
use proptest::prelude::*;

use crate::common::*;

/// One input. Sessions and senders are few, so that inputs affect each other.
#[derive(Clone, Copy, Debug)]
enum Step {
    Path { session: u16, sender: u16 },
    PathTear { session: u16, sender: u16 },
    Resv { session: u16, sender: u16, hop: u8, mbps: u32 },
    ResvTear { session: u16, sender: u16, hop: u8 },
    Pass { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (session, sender, hop) = (1..4u16, 1..4u16, 2..4u8);
    prop_oneof![
        3 => (session.clone(), sender.clone())
            .prop_map(|(session, sender)| Step::Path { session, sender }),
        1 => (session.clone(), sender.clone())
            .prop_map(|(session, sender)| Step::PathTear { session, sender }),
        4 => (session.clone(), sender.clone(), hop.clone(), 1..5u32)
            .prop_map(|(session, sender, hop, mbps)| Step::Resv { session, sender, hop, mbps }),
        2 => (session, sender, hop)
            .prop_map(|(session, sender, hop)| Step::ResvTear { session, sender, hop }),
        1 => (1..60u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// Expected state: senders with the time of their last Path; requests by sender and next hop with the time of their
/// last Resv.
#[derive(Default)]
struct Model {
    now: u64,
    senders: BTreeMap<(u16, u16), u64>,
    requests: BTreeMap<(u16, u16, u8), (u32, u64)>,
}

/// (3 + 0.5) * 1.5 * 30 s is 157.5 s; steps take whole seconds.
const LIFETIME: u64 = 157;

impl Model {
    fn held(&self) -> u32 {
        let mut largest: BTreeMap<(u16, u16), u32> = BTreeMap::new();
        for (&(session, sender, _), &(mbps, _)) in &self.requests {
            let entry = largest.entry((session, sender)).or_default();
            *entry = mbps.max(*entry);
        }
        largest.values().sum()
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Path { session, sender } => {
                self.senders.insert((session, sender), self.now);
            }
            Step::PathTear { session, sender } => self.drop_sender((session, sender)),
            Step::Resv { session, sender, hop, mbps } => {
                if !self.senders.contains_key(&(session, sender)) {
                    return;
                }
                let before = self.requests.insert((session, sender, hop), (mbps, self.now));
                if self.held() > 7 {
                    match before {
                        // The remaining reservation counts as refreshed.
                        Some((mbps, _)) => {
                            self.requests.insert((session, sender, hop), (mbps, self.now))
                        }
                        None => self.requests.remove(&(session, sender, hop)),
                    };
                }
            }
            Step::ResvTear { session, sender, hop } => {
                self.requests.remove(&(session, sender, hop));
            }
            Step::Pass { seconds } => {
                self.now += seconds;
                let now = self.now;
                let silent =
                    |(&key, &at): (&(u16, u16), &u64)| (now > at + LIFETIME).then_some(key);
                let dead: Vec<_> = self.senders.iter().filter_map(silent).collect();
                dead.into_iter().for_each(|key| self.drop_sender(key));
                self.requests.retain(|_, (_, at)| now <= *at + LIFETIME);
            }
        }
    }

    fn drop_sender(&mut self, key: (u16, u16)) {
        self.senders.remove(&key);
        self.requests.retain(|&(session, sender, _), _| (session, sender) != key);
    }
}

fn session_of(number: u16) -> Session {
    Session { port: number, ..session() }
}

fn template_of(number: u16) -> FilterSpec {
    FilterSpec { selector: SourceSelector::Port(number), ..template() }
}

fn act(router: &mut Bench, step: Step) -> Vec<Outcome> {
    match step {
        Step::Path { session, sender } => {
            let mut path = Path { session: session_of(session), ..path() };
            path.sender.template = template_of(sender);
            router.receive(ETH1, Body::Path(path))
        }
        Step::PathTear { session, sender } => {
            let mut tear = path_tear();
            (tear.session, tear.template) = (session_of(session), template_of(sender));
            router.receive(ETH1, Body::PathTear(tear))
        }
        Step::Resv { session, sender, hop, mbps } => {
            let flows = [FixedFilterFlow { filter: template_of(sender), ..flow(mbps) }];
            let mut resv = resv(&flows);
            resv.session = session_of(session);
            resv.hop.address = ip(&format!("10.0.2.{hop}"));
            router.receive(ETH2, Body::Resv(resv))
        }
        Step::ResvTear { session, sender, hop } => {
            let flows = [FixedFilterFlow { filter: template_of(sender), ..flow(1) }];
            let mut tear = resv_tear(&flows);
            tear.session = session_of(session);
            tear.hop.address = ip(&format!("10.0.2.{hop}"));
            router.receive(ETH2, Body::ResvTear(tear))
        }
        Step::Pass { seconds } => router.pass(Duration::from_secs(seconds)),
    }
}

/// Tracks the commands to traffic control, and checks that they are consistent.
fn follow(installed: &mut BTreeMap<ClaimId, Rate>, outcomes: &[Outcome]) {
    for outcome in outcomes {
        match outcome {
            Outcome::Installed(new) => {
                installed.insert(new.claim, new.demand.rate);
            }
            Outcome::Removed(claim) => {
                assert!(installed.remove(claim).is_some(), "{claim:?} was never installed");
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn router_state_matches_model(steps in proptest::collection::vec(step(), 1..120)) {
        let (mut router, mut model) = (router(), Model::default());
        let mut installed = BTreeMap::new();
        for step in steps {
            let outcomes = act(&mut router, step);
            // All sent messages can be parsed.
            let _ = sent(&outcomes);
            follow(&mut installed, &outcomes);
            model.apply(step);
            prop_assert_eq!(router.held(), Rate::from_mbps(u64::from(model.held())), "{:?}", step);
            let in_control: Rate = installed.values().copied().sum();
            prop_assert_eq!(in_control, router.held(), "{:?}", step);
            let (_, senders, requests) = router.engine.population();
            prop_assert_eq!((senders, requests), (model.senders.len(), model.requests.len()), "{:?}", step);
        }
        follow(&mut installed, &router.pass(Duration::from_secs(400)));
        prop_assert_eq!(router.engine.population(), (0, 0, 0));
        prop_assert_eq!(router.engine.neighbors().count(), 0);
        prop_assert_eq!(router.held(), Rate::ZERO);
        prop_assert!(installed.is_empty());
    }

    /// Random octets, and valid messages with damage, are only dropped or answered.
    #[test]
    fn malformed_input_is_dropped_or_answered(
        malformed in proptest::collection::vec(any::<u8>(), 0..256),
        damage in proptest::collection::vec((0..200usize, any::<u8>()), 0..6),
        from_downstream: bool,
    ) {
        let mut router = router();
        router.receive(ETH1, Body::Path(path()));
        router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
        let mut message = if from_downstream {
            octets(Body::Resv(resv(&[flow(3)])), 64)
        } else {
            octets(Body::Path(path()), 63)
        };
        message[2..4].copy_from_slice(&[0, 0]); // no checksum, so that damage is not detected
        for (at, octet) in damage {
            if let Some(slot) = message.get_mut(at) {
                *slot = octet;
            }
        }
        let interface = if from_downstream { ETH2 } else { ETH1 };
        for octets in [&malformed, &message] {
            let outcomes = router.receive_octets(interface, ip("10.0.2.1"), 63, octets);
            for octets in crate::signing::sent_octets(&outcomes) {
                // Only an error may quote what is unknown here.
                let Err(error) = Message::parse(octets) else { continue };
                let quotes = matches!(error.kind, ErrorKind::UnknownCType | ErrorKind::UnknownStyle);
                let errors = [MessageType::PathErr, MessageType::ResvErr].map(MessageType::code);
                prop_assert!(quotes && errors.contains(&octets[1]), "{error:?}");
            }
        }
        prop_assert!(router.held() <= Rate::from_bps(7_500_000));
        router.pass(Duration::from_secs(1));
    }
}
