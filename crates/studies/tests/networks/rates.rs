//! Minimal run of the rate measurement: the pairs of every protocol that reserves pass a router, and are counted.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use earmark_studies::bench::rates::line::{Line, NEVER, Processors};
use earmark_studies::bench::rates::load::Load;
use earmark_studies::bench::router::Protocol;
use earmark_studies::bench::{Supervision, Unwatched};

use crate::Outcome;

fn line(protocol: Protocol, refresh: Duration) -> anyhow::Result<Line> {
    Line::of(PathBuf::from(env!("CARGO_BIN_EXE_earmark-studies")), protocol, refresh, String::new())
}

/// ```text
///   s ---- r1 ---- d
/// ```
///
/// Each protocol passes a small burst and a small rate.
pub(crate) fn pairs_of_every_protocol_go_through() -> Outcome {
    let interrupted = AtomicBool::new(false);
    let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
    for protocol in Protocol::RESERVING {
        let line = line(protocol, NEVER)?;
        line.pin(Processors::One)?;
        let courses = line.with_ends(Processors::One, |sender| {
            let window = Duration::from_millis(500);
            let loads = [Load::Burst(50), Load::Rate { rate: 100, window }];
            loads
                .map(|load| sender.offer(load, &supervision))
                .into_iter()
                .collect::<Result<Vec<_>, _>>()
        })?;
        for course in courses {
            // Each session has a set-up and a release.
            assert_eq!((course.sent, course.through), (100, 100), "{protocol:?}");
        }
        assert_eq!(line.lost()?, 0, "{protocol:?}");
    }
    Ok(())
}

/// Sessions of each protocol that reserves outlive their lifetime with refreshes, and are gone after their release.
pub(crate) fn sessions_of_every_protocol_stand() -> Outcome {
    let interrupted = AtomicBool::new(false);
    let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
    for protocol in Protocol::RESERVING {
        let line = line(protocol, Duration::from_secs(1))?;
        let claims = line.with_ends(Processors::One, |sender| {
            assert!(sender.hold_sessions(40, Duration::from_secs(6), &supervision)?, "in time");
            let installed = line.claims()?;
            sender.release(40, &supervision)?;
            anyhow::Ok([installed, line.claims()?])
        })?;
        assert_eq!(claims, [40 * protocol.claims_of_a_session(), 0], "{protocol:?}");
    }
    Ok(())
}
