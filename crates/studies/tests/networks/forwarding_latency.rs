//! One router between two hosts, as in the report on overhead: every message of every protocol that reserves passes it,
//! and is captured at the expected points.

use earmark_studies::bench::router::{Protocol, Step};
use earmark_studies::paper_reproduction::forwarding_latency::ForwardingTestbed;

use crate::Outcome;

/// Every message that creates or ends a session passes the interfaces and the daemon, and takes longer between the
/// former.
pub(crate) fn messages_pass_both_checkpoints() -> Outcome {
    for protocol in Protocol::RESERVING {
        let mut testbed = ForwardingTestbed::up(protocol, "")?;
        for session in 1..=3 {
            for kind in protocol.messages().iter().filter(|kind| kind.step != Step::Refresh) {
                let what = format!("{} {}, session {session}", protocol.name(), kind.name);
                let message = testbed.write(kind, session, 1);
                let passed = testbed.forward(&message)?.ok_or_else(|| format!("{what}: lost"))?;
                let inside =
                    passed.inside.as_ref().ok_or_else(|| format!("{what}: not in the daemon"))?;
                assert!(inside.traffic_control_us <= inside.all_us, "{what}: {inside:?}");
                assert!(
                    0.0 < inside.all_us && inside.all_us < passed.interfaces_us,
                    "{what}: {passed:?}"
                );
            }
        }
    }
    Ok(())
}

/// Once the daemon has handled a message of an initiating node, the kernel's offload sets up its further sessions of
/// Boomerang.
pub(crate) fn the_offload_sets_up_loops() -> Outcome {
    let protocol = Protocol::Boomerang;
    let mut testbed = ForwardingTestbed::up(protocol, "[boomerang]\nkernel = true\n")?;
    testbed.expect_daemon(false);
    let out = &protocol.messages()[0];
    let mut by_kernel = 0;
    // Sixteen consecutive sessions have one initiating node.
    for session in 0..16 {
        let message = testbed.write(out, session, 1);
        let passed = testbed.forward(&message)?.ok_or("a message was lost")?;
        by_kernel += u32::from(passed.inside.is_none());
    }
    assert!((8..=16).contains(&by_kernel), "{by_kernel} of 16");
    Ok(())
}
