//! Minimal run of the measurement of observed daemons.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use earmark_studies::bench::observed::{Plan, measure};
use earmark_studies::bench::router::Protocol;
use earmark_studies::bench::{Supervision, Unwatched};

use crate::Outcome;

/// Both daemons get all sessions, and everybody who observes is served.
pub(crate) fn daemons_are_observed() -> Outcome {
    let interrupted = AtomicBool::new(false);
    let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
    let plan = Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_earmark-studies")),
        protocol: Protocol::Rsvp,
        sessions: 300,
        window: Duration::from_secs(1),
        windows: 2,
    };
    let observation = measure(&plan, &supervision)?;
    assert!(observation.is_whole(), "{observation:?}");
    let other = Plan { protocol: Protocol::Boomerang, ..plan };
    let refused = measure(&other, &supervision).expect_err("they end").to_string();
    assert!(refused.contains("every 30 s"), "{refused}");
    let [alone, observed] = &observation.daemons[..] else { panic!("{observation:?}") };
    assert!(alone.observers.is_none(), "{alone:?}");
    let seen = observed.observers.as_ref().expect("it is observed");
    assert!(seen.listed >= 300 && seen.turns > 10 && seen.turn_s[0] > 0.0, "{seen:?}");
    assert!(seen.metrics_octets > 1_000, "{seen:?}");
    assert_eq!((alone.refresh_us.len(), observed.refresh_us.len()), (2, 2));
    Ok(())
}
