//! Random networks of up to 6 routers, 8 senders and 8 receivers, compared with a model of the reservations by RFC
//! 2205.
//!
//! Senders and receivers start, change and leave, while messages are lost, duplicated, damaged and reordered, links
//! fail and daemons die. When all that has stopped and some refresh periods have passed, the listings, ledger and
//! traffic control of every node and the flowspecs at the senders must equal those that the [`model`] computes. On
//! links that are too small for all, nothing is ever reserved twice, and refused requests do not fit. In the end all
//! senders and receivers leave, and no state is left anywhere, not even a timer.
//!
//! `EARMARK_MERGING_CASES` sets the number of networks.

#[path = "../common/mod.rs"]
mod common;
mod model;
mod play;
mod scenario;
mod state;

use earmark_core::Rate;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use play::{Play, Trees};
use scenario::scenario;

/// Returns the number of networks for each property.
fn cases() -> u32 {
    let wanted = std::env::var("EARMARK_MERGING_CASES").ok();
    wanted.map_or(60, |text| text.parse().expect("EARMARK_MERGING_CASES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Links have room for all requests.
    #[test]
    fn reservations_equal_the_model(scenario in scenario()) {
        let mut play = Play::new(&scenario, Rate::from_mbps(1_000), false, Trees::Shared);
        for &(pause, step) in &scenario.steps {
            play.pass(pause);
            play.act(step);
        }
        play.settle();
        agree("after settling", &state::differences(&play))?;
        agree("although there is room", &play.refusals)?;
        ends_empty(&mut play)?;
    }

    /// Links have room for all, and trees cross: rates may sustain themselves, but not the reservations.
    #[test]
    fn cyclic_reservations_end_with_the_last_receiver(scenario in scenario()) {
        let mut play = Play::new(&scenario, Rate::from_mbps(1_000), true, Trees::Own);
        for &(pause, step) in &scenario.steps {
            play.pass(pause);
            play.act(step);
        }
        play.settle();
        agree("after settling", &state::differences_but_in_rate(&play))?;
        agree("although there is room", &play.refusals)?;
        ends_empty(&mut play)?;
    }

    /// Links have room for one or two of the reservations.
    #[test]
    fn scarce_bandwidth_is_reserved_once(scenario in scenario(), kbps in 100..1_500_u64) {
        let mut play = Play::new(&scenario, Rate::from_bps(kbps * 1_000), true, Trees::Shared);
        for &(pause, step) in &scenario.steps {
            play.pass(pause);
            play.act(step);
            agree("meanwhile", &state::overcommitted(&play))?;
        }
        play.settle();
        agree("after settling", &state::refused_though_it_fits(&play))?;
        ends_empty(&mut play)?;
    }
}

/// Makes everybody leave; if tear messages are lost, the remaining state expires.
fn ends_empty(play: &mut Play) -> TestCaseResult {
    play.end();
    play.settle();
    agree("in the end", &state::remains(play))
}

fn agree(when: &str, differences: &[String]) -> TestCaseResult {
    prop_assert!(differences.is_empty(), "{when}:\n{}", differences.join("\n"));
    Ok(())
}
