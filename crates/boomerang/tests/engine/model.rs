//! Random runs of a router against a reference model: after each message, ledger and traffic control hold on each
//! link what the model holds, and the forwarded message agrees. In the end nothing is left.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_boomerang::Config;
use earmark_core::admission::ClaimId;
use earmark_core::{Engine, HostEvent, Input, InterfaceId};
use earmark_wire::boomerang::Rates;
use proptest::prelude::*;

use crate::common::*;

/// A step of a run. There are few flows, so that steps concern the same ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A message on one of its passes.
    Pass { port: u16, back: bool, forward: u32, reverse: u32, nack: bool, interval: u8 },
    /// Traffic control refuses what was granted.
    Refuse { port: u16, back: bool },
    /// The route to the far end moves from eth2 to eth3, or back.
    Move,
    /// Time passes.
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let rate = || prop_oneof![1 => Just(0), 4 => 1..5_u32];
    let pass = (1..5_u16, any::<bool>(), rate(), rate(), 0..8_u8, 5..20_u8);
    prop_oneof![
        12 => pass.prop_map(|(port, back, forward, reverse, nack, interval)| Step::Pass {
            port, back, forward, reverse, nack: nack == 0, interval,
        }),
        1 => (1..5_u16, any::<bool>()).prop_map(|(port, back)| Step::Refuse { port, back }),
        1 => Just(Step::Move),
        2 => (1..40_u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// Half a session in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Half {
    link: InterfaceId,
    /// Mbit/s; 0 if traffic control has refused it and nobody was notified yet.
    rate: u32,
    ends: u64,
}

/// Halves by port and direction.
struct Model {
    now: u64,
    halves: BTreeMap<(u16, bool), Half>,
    way: InterfaceId,
}

/// Creates a router for which one message proves its origin; `untrusted_origins.rs` has the rules of others.
fn patient_router() -> Bench {
    let unproven_lifetime = Duration::from_secs(1_000);
    with_config(Config { unproven_lifetime, ..Config::default() })
}

/// Reservable Mbit/s of a link; the ledger has half a Mbit/s more, which nobody requests.
const RESERVABLE: u32 = 7;

impl Model {
    fn held(&self, link: InterfaceId) -> u32 {
        self.halves.values().filter(|half| half.link == link).map(|half| half.rate).sum()
    }

    fn sessions(&self) -> usize {
        let ports: std::collections::BTreeSet<u16> = self.halves.keys().map(|key| key.0).collect();
        ports.len()
    }

    /// Applies a message. Returns whether it is forwarded with NACK.
    fn pass(&mut self, step: Step) -> bool {
        let Step::Pass { port, back, forward, reverse, nack, interval } = step else {
            unreachable!("a pass")
        };
        if forward == 0 && reverse == 0 && !nack {
            self.halves.remove(&(port, false));
            self.halves.remove(&(port, true));
            return false;
        }
        let link = if back { ETH1 } else { self.way };
        let (key, wanted) = ((port, back), if back { reverse } else { forward });
        // A claim on another link is released. A fault is on no link.
        if self.halves.get(&key).is_some_and(|half| half.rate != 0 && half.link != link) {
            self.halves.remove(&key);
        }
        let before = self.halves.get(&key).copied();
        let ends = self.now + 3 * u64::from(interval);
        let held = before.map_or(0, |half| half.rate);
        let fault = before.is_some_and(|half| half.rate == 0);
        if nack {
            if !fault && before.is_some() {
                self.halves.insert(key, Half { link, rate: held, ends });
            }
            return true;
        }
        if fault {
            self.halves.remove(&key);
            return wanted != 0;
        }
        let fits = wanted <= RESERVABLE - self.held(link) + held;
        let rate = if fits { wanted } else { held };
        match rate {
            0 => self.halves.remove(&key),
            _ => self.halves.insert(key, Half { link, rate, ends }),
        };
        !fits
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Pass { .. } => {}
            Step::Refuse { port, back } => {
                if let Some(half) = self.halves.get_mut(&(port, back)) {
                    half.rate = 0;
                }
            }
            Step::Move => self.way = if self.way == ETH2 { ETH3 } else { ETH2 },
            Step::Wait { seconds } => {
                self.now += seconds;
                let now = self.now;
                self.halves.retain(|_, half| half.ends > now);
            }
        }
    }
}

fn mbit(rate: u32) -> u32 {
    rate * 1_000
}

/// The router, its traffic control, and the route.
struct World {
    router: Bench,
    installed: BTreeMap<ClaimId, (InterfaceId, u64)>,
    moved: bool,
}

impl World {
    fn act(&mut self, step: Step) -> Vec<Outcome> {
        let outcomes = match step {
            Step::Pass { port, back, forward, reverse, nack, interval } => {
                let rates = kbit(mbit(forward), mbit(reverse));
                let flags = u16::from(nack);
                let message = Message { flags, interval, ..message(port, rates) };
                self.router.passes(&if back { message.back() } else { message })
            }
            Step::Refuse { port, back } => self.refuse(port, back),
            Step::Move => self.change_way(),
            Step::Wait { seconds } => self.router.pass(Duration::from_secs(seconds)),
        };
        for outcome in &outcomes {
            match outcome {
                Outcome::Installed(new) => {
                    let rate = new.demand.rate.as_bps() / 1_000_000;
                    self.installed.insert(new.claim, (new.interface, rate));
                }
                Outcome::Removed(claim) => {
                    assert!(
                        self.installed.remove(claim).is_some(),
                        "{claim:?} was never installed"
                    );
                }
                _ => {}
            }
        }
        outcomes
    }

    fn refuse(&mut self, port: u16, back: bool) -> Vec<Outcome> {
        let sessions: Vec<_> = self.router.engine.sessions().collect();
        let session = sessions.iter().find(|s| s.selector.source_port == Some(port));
        let half = session.and_then(|session| if back { session.reverse } else { session.forward });
        let Some(claim) = half.map(|half| half.claim) else { return Vec::new() };
        let owner = self.router.ledger.owner(claim).expect("it is claimed");
        let refusal = HostEvent::TrafficControlRefused { claim, owner, errno: 5 };
        self.router.handle(Input::Host(refusal))
    }

    fn change_way(&mut self) -> Vec<Outcome> {
        let (far, hop) = (prefix("10.0.9.0/24"), |interface, gateway| earmark_core::Hop {
            interface,
            gateway: Some(ip(gateway)),
            source: None,
        });
        let ways = [hop(ETH2, "10.0.2.2"), hop(ETH3, "10.0.3.2")];
        let (old, new) = (ways[usize::from(self.moved)], ways[usize::from(!self.moved)]);
        let route = |hop| earmark_core::Route { prefix: far, metric: 0, hop };
        assert!(self.router.routes.remove(&route(old)) && self.router.routes.insert(route(new)));
        self.moved = !self.moved;
        self.router.handle(Input::Host(HostEvent::RouteChanged(far)))
    }

    fn in_control(&self, link: InterfaceId) -> u64 {
        self.installed.values().filter(|(on, _)| *on == link).map(|(_, rate)| rate).sum()
    }
}

fn world() -> World {
    World { router: patient_router(), installed: BTreeMap::new(), moved: false }
}

proptest! {
    #[test]
    fn router_agrees_with_model(steps in proptest::collection::vec(step(), 1..150)) {
        let mut world = world();
        let mut model = Model { now: 0, halves: BTreeMap::new(), way: ETH2 };
        for step in steps {
            let outcomes = world.act(step);
            if let Step::Pass { forward, reverse, .. } = step {
                let nack = model.pass(step);
                let out = one(&outcomes);
                prop_assert_eq!(out.is_nack(), nack, "{:?}", step);
                let asked = kbit(mbit(forward), mbit(reverse));
                let Rates { forward, reverse } = out.rates[0];
                prop_assert!(forward <= asked.forward && reverse <= asked.reverse, "only lowered");
                prop_assert!(nack || out.rates[0] == asked);
            } else {
                model.apply(step);
            }
            for link in [ETH1, ETH2, ETH3] {
                let held = u64::from(model.held(link));
                prop_assert_eq!(world.router.held(link), held * 1_000, "{:?} of {:?}", step, link);
                prop_assert_eq!(world.in_control(link), held, "{:?} of {:?}", step, link);
            }
            prop_assert_eq!(world.router.engine.population(), (model.sessions(), 0), "{:?}", step);
        }
        world.act(Step::Wait { seconds: 100 });
        prop_assert_eq!(world.router.engine.population(), (0, 0));
        prop_assert_eq!(world.router.engine.next_deadline(), None);
        prop_assert!(world.installed.is_empty());
    }

    /// Equal inputs give equal effects, octet by octet.
    #[test]
    fn equal_inputs_give_equal_effects(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut first, mut second) = (world(), world());
        for step in steps {
            prop_assert_eq!(first.act(step), second.act(step));
        }
    }

    /// Arbitrary octets, and damaged messages with a valid checksum, are only forwarded.
    #[test]
    fn malformed_input_does_no_harm(
        malformed in proptest::collection::vec(any::<u8>(), 0..200),
        damage in proptest::collection::vec((0..80_usize, any::<u8>()), 0..5),
        back: bool,
        local: bool,
    ) {
        let mut router = patient_router();
        router.passes(&message(1, kbit(2_000, 500)));
        router.passes(&message(1, kbit(2_000, 500)).back());
        let good = message(1, kbit(2_500, 500));
        let good = if back { good.back() } else { good };
        let (near, far) = (ip(NEAR), ip(if local { "10.0.2.1" } else { FAR }));
        let mut damaged = good.octets(near, far);
        for (at, octet) in damage {
            if let Some(slot) = damaged.get_mut(8 + at) {
                *slot = octet;
            }
        }
        let kind = good.kind;
        earmark_wire::icmp::seal(&mut damaged, earmark_wire::icmp::PseudoHeader::V4, kind, 1, 1)
            .expect("it has a header");
        for octets in [&malformed, &damaged] {
            let outcomes = router.octets_arrive(ETH1, near, far, octets);
            let sent = outcomes.iter().filter(|o| matches!(o, Outcome::Sent(..))).count();
            prop_assert!(sent <= 1);
            prop_assert!(local || sent == 1);
        }
        for link in [ETH1, ETH2, ETH3] {
            prop_assert!(router.held(link) <= 7_500);
        }
        router.pass(Duration::from_secs(1_000));
        prop_assert_eq!(router.engine.population(), (0, 0));
    }
}
