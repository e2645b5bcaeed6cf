//! Random networks of up to 6 routers, 8 senders and 8 receivers, against a model of what RFC 2205 wants to be reserved.
//!
//! Senders and receivers come, change their minds and go, while messages get lost, doubled, damaged and overtaken, links
//! fail and daemons die. When all that has stopped and some refresh periods have passed, what every node shows, what its
//! ledger holds, what its traffic control has and what the senders were told must be what the [`model`] computes. On
//! links that are too small for everybody, nothing is ever promised twice, and who is refused does not fit. In the end
//! everybody leaves, and nothing is left anywhere, not even a timer.
//!
//! `EARMARK_MERGING_CASES` sets how many networks are tried.

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

/// How many networks each property is tried on.
fn cases() -> u32 {
    let wanted = std::env::var("EARMARK_MERGING_CASES").ok();
    wanted.map_or(60, |text| text.parse().expect("EARMARK_MERGING_CASES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// With room for all.
    #[test]
    fn what_stands_is_what_the_model_says(scenario in scenario()) {
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

    /// With room for all, and trees that cross: rates may keep themselves up, but not the reservations.
    #[test]
    fn circles_end_with_the_last_receiver(scenario in scenario()) {
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

    /// With links for one or two of the reservations.
    #[test]
    fn scarce_bandwidth_is_given_out_once(scenario in scenario(), kbps in 100..1_500_u64) {
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

/// Everybody leaves, and while some of the messages that say so get lost the rest dies of silence.
fn ends_empty(play: &mut Play) -> TestCaseResult {
    play.end();
    play.settle();
    agree("in the end", &state::remains(play))
}

fn agree(when: &str, differences: &[String]) -> TestCaseResult {
    prop_assert!(differences.is_empty(), "{when}:\n{}", differences.join("\n"));
    Ok(())
}
