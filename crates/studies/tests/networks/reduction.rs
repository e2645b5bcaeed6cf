//! Refresh reduction (RFC 2961) with many sessions between real daemons.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use earmark_control::LinkRow;
use earmark_core::Rate;
use earmark_lab::testbed::Settings;
use earmark_studies::bench::host::{End, Offer};
use earmark_studies::bench::network::{Host, Network, Set};
use earmark_testkit::wait::wait_for;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::Outcome;

const SESSIONS: u32 = 10_000;
/// Rate of each session, bits per second.
const EACH_BPS: u64 = 8_000;
/// Refresh period R of hosts and daemons.
const REFRESH: Duration = Duration::from_secs(5);
/// K of RFC 2205 section 3.7.
const LIFETIME_FACTOR: u32 = 1;
/// Lifetime of state, (K + 0.5) * 1.5 * R.
const LIFETIME: Duration = Duration::from_millis(11_250);
/// Longest time between two ordinary refreshes of a state, 1.5 R; with this many sessions one of them nearly reaches
/// it.
const LONGEST_REFRESH: Duration = Duration::from_millis(7_500);
/// Timeout of steps without a limit of their own.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest number of messages a second that each daemon may receive, and send. Without reduction there are 2 N / R, 4
/// 000.
const FEW: f64 = 50.0;

/// ```text
///   s ---- r1 ---- r2 ---- d
/// ```
///
/// Ten thousand sessions last for two lifetimes, with a few messages a second. r2's daemon dies, and the next one has
/// all sessions before ordinary refreshes could have restored them: it NACKs r1's summaries, and r1 sends everything
/// again. The new daemon adopts the first one's kernel state, each flow by its reservation, so that no stale state is
/// left.
pub(crate) fn many_sessions_outlive_a_daemon() -> Outcome {
    let settings = Settings {
        protocols: [("rsvp", format!("lifetime_factor = {LIFETIME_FACTOR}\n"))].into(),
        interface: "queues = \"aggregate\"\n".to_owned(),
        ..Settings::default()
    };
    let set = Set { routers: 2, refresh: REFRESH, reduction: true, settings };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_earmark-studies"));
    let mut network = Network::of(program, &set, SESSIONS)?;
    let _hosts = start_hosts(&network)?;
    wait_for("all sessions stand", TIMEOUT, || all_stand(&network))?;

    // Messages lost at first, if any, have been acknowledged after one refresh.
    stay(&network, LONGEST_REFRESH)?;
    let before = [network.sample(1)?, network.sample(2)?];
    stay(&network, LIFETIME * 2 - LONGEST_REFRESH)?;
    for (router, before) in (1..).zip(before) {
        let after = network.sample(router)?;
        let seconds = after.at.since(before.at).as_secs_f64();
        for (after, before) in
            [(after.incoming, before.incoming), (after.outgoing, before.outgoing)]
        {
            let messages = after.since(before).packets as f64 / seconds;
            assert!(messages < FEW, "{messages} messages a second at r{router}");
        }
    }

    let repeated = counter(&network, 1, "/rsvp/reduction/repeated")?;
    network.restart(2)?;
    let serves = Instant::now();
    wait_for("all sessions stand again", TIMEOUT, || all_stand(&network))?;
    let within = serves.elapsed();
    assert!(
        within < LONGEST_REFRESH,
        "after {within:?}, which plain refreshes would have done too"
    );
    let repeated = counter(&network, 1, "/rsvp/reduction/repeated")? - repeated;
    assert!(repeated >= SESSIONS.into(), "r1 told r2 only {repeated} states again");
    assert_eq!(counter(&network, 2, "/traffic_control/adopted")?, u64::from(SESSIONS));
    for router in [1, 2] {
        let rows = network.client(router)?.show_reservations()?.rows;
        let sum = Rate::from_bps(rows.iter().map(|row| row.rate_bps).sum());
        let link = towards_receiver(&network, router)?;
        assert_eq!((link.held_bps, link.adopted), (sum, 0), "r{router}: {link:?}");
        assert_eq!(sum, Rate::from_bps(EACH_BPS * u64::from(SESSIONS)));
    }
    Ok(())
}

/// Starts both hosts of the sessions.
fn start_hosts(network: &Network) -> Result<(Host, Host), Failed> {
    let sessions = network.sessions(SESSIONS, REFRESH)?;
    let receiver = network.start(End::Receiver, sessions)?;
    wait_for("the receiver is there", TIMEOUT, || Ok((receiver.started()? == 1).then_some(())))?;
    let sender = network.start(End::Sender(Offer::Unanswered(500)), sessions)?;
    Ok((receiver, sender))
}

/// Returns a value once both routers have every reservation on their links towards the receiver.
fn all_stand(network: &Network) -> Result<Option<()>, Failed> {
    for router in [1, 2] {
        if towards_receiver(network, router)?.claims < SESSIONS {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

/// Checks that all sessions last for this time.
fn stay(network: &Network, span: Duration) -> Outcome {
    let start = Instant::now();
    while start.elapsed() < span {
        assert!(all_stand(network)?.is_some(), "a session has ended after {:?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn towards_receiver(network: &Network, router: usize) -> Result<LinkRow, Failed> {
    let links = network.client(router)?.show_links()?.rows;
    let found = links.into_iter().find(|link| link.interface == "eth1");
    Ok(found.ok_or_else(|| format!("r{router} has no eth1"))?)
}

fn counter(network: &Network, router: usize, name: &str) -> Result<u64, Failed> {
    let counters = network.client(router)?.show_counters()?;
    let count = counters.pointer(name).and_then(Value::as_u64);
    Ok(count.ok_or_else(|| format!("no counter {name} in {counters}"))?)
}
