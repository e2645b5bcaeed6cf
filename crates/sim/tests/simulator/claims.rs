//! Random claims on a few flows, by all four protocols between whole nodes, compared with a simple model: each packet
//! is served by the best installed claim.
//!
//! ```text
//!   h1 --0--+                    +--1-- h2
//!           r1 --4-- 6 Mbit/s -- r2
//!   x ---2--+                    +--3-- sink of the flood
//! ```
//!
//! Reservations of h1 for its own flows, and of x, another host, for flows of h1 and for ranges that contain them, are
//! installed, changed in rate and removed. Daemons of hosts die, and the daemon of r1 dies and restarts. After each
//! step r1's traffic control holds exactly the claims of the [`model`], and packets of each flow have the model's rate,
//! during a flood of twice the link.
//!
//! `EARMARK_CLAIMS_CASES` sets the number of sequences.

mod model;
mod play;

use earmark_wire::rsvp::Style;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use self::model::Claimant;
use self::play::{Host, Play};

/// One step of a sequence.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Reserves, or changes the reserved rate, in units of 50 kbit/s.
    Set(Claimant, u8),
    /// Releases one of the reservations.
    Release(Index),
    /// The daemon of a host dies, and restarts after its reservations have expired.
    Silence(Host),
    /// The daemon of r1 dies and restarts.
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

/// Returns the number of sequences.
fn cases() -> u32 {
    let wanted = std::env::var("EARMARK_CLAIMS_CASES").ok();
    wanted.map_or(8, |text| text.parse().expect("EARMARK_CLAIMS_CASES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn packets_are_served_by_the_best_installed_claim(
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
