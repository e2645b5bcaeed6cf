//! Random claims on a few flows, by all four protocols between whole nodes, against a plain model: each packet gets the best
//! claim that stands.
//!
//! ```text
//!   h1 --0--+                    +--1-- h2
//!           r1 --4-- 6 Mbit/s -- r2
//!   x ---2--+                    +--3-- sink of the flood
//! ```
//!
//! Reservations of h1 for its own flows, and of x, a stranger, for flows of h1 and for ranges that contain them, come, change
//! their rate and go. Hosts fall silent, and the daemon of r1 dies and comes back. After each step r1's traffic control holds
//! just the claims of the [`model`], and packets of each flow have the rate that it says, beside a flood of twice the link.
//!
//! `EARMARK_CLAIMS_CASES` sets how many sequences are tried.

mod common;
#[path = "claims/model.rs"]
mod model;
#[path = "claims/play.rs"]
mod play;

use earmark_wire::rsvp::Style;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use model::Claimant;
use play::{Host, Play};

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Reserves, or changes the rate of what is reserved, in units of 50 kbit/s.
    Set(Claimant, u8),
    /// One of those that have reserved gives that back.
    Release(Index),
    /// The daemon of a host dies, and comes back when its reservations have expired.
    Silence(Host),
    /// The daemon of r1 dies and comes back.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let claimant = select(&Claimant::ALL[..]);
    prop_oneof![
        12 => (claimant, 1..=6_u8).prop_map(|(claimant, rate)| Step::Set(claimant, rate)),
        5 => any::<Index>().prop_map(Step::Release),
        1 => select(&[Host::H1, Host::X][..]).prop_map(Step::Silence),
        1 => Just(Step::Restart),
    ]
}

fn style() -> impl Strategy<Value = Style> {
    select(&[Style::FixedFilter, Style::SharedExplicit, Style::Wildcard][..])
}

/// How many sequences are tried.
fn cases() -> u32 {
    let wanted = std::env::var("EARMARK_CLAIMS_CASES").ok();
    wanted.map_or(8, |text| text.parse().expect("EARMARK_CLAIMS_CASES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn packets_get_the_best_claim_that_stands(
        seed in any::<u64>(),
        styles in [style(), style()],
        steps in vec(step(), 12..20),
    ) {
        let mut play = Play::new(seed, styles);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Set(claimant, units) => play.set(claimant, units),
                Step::Release(index) => play.release(index),
                Step::Silence(host) => play.silence(host),
                Step::Restart => play.restart(),
            }
            let differences = play.differences();
            prop_assert!(differences.is_empty(), "step {number}, {step:?}: {differences:?}\n{play:?}");
        }
    }
}
