//! Kernel state across the death of a router's daemon and the start of another: the flow's class stays the same.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use earmark_control::Client;
use earmark_control::{LinkRow, ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_lab::testbed::{Options, Testbed};
use earmark_lab::traffic::{Shape, Source};
use earmark_scenario::topology::{DEMO, Topology};
use earmark_testkit::wait::wait_for;
use libtest_mimic::Failed;

use crate::classes::{self, Class};
use crate::{LAB, Outcome};

/// Refresh period R.
const REFRESH: Duration = Duration::from_secs(4);
/// Longest time between two refreshes, 1.5 R (RFC 2205 section 3.7).
const LONGEST_REFRESH: Duration = Duration::from_secs(6);
/// Time for messages and this test on a busy machine.
const SLACK: Duration = Duration::from_secs(1);

const R1: usize = 1;
const SHAPE: Shape =
    Shape { rate: Rate::from_mbps(2), packet_octets: 1_000, bucket_octets: 32_000 };

/// Before the death, after it, with the new daemon, and with the state restored, the flow is in the same class, whose
/// counter only grows. The new daemon has *adopted* it or, after the first Path, *holds* it: at the latest after one refresh
/// interval.
pub(crate) fn the_class_of_a_flow_outlives_the_daemon() -> Outcome {
    let mut topology = Topology::parse(DEMO)?;
    topology.name = format!("earmark-test-{}", std::process::id());
    let options = Options { bound: true, ..Options::new(PathBuf::from(LAB), REFRESH) };
    let mut testbed = Testbed::up(topology, options)?;
    let to: SocketAddr = "10.0.2.2:5001".parse()?;
    let from: SocketAddr = "10.0.0.1:5001".parse()?;
    Client::connect(testbed.control(3))?.listen(ListenRequest::new(to))?;
    let sender = ReservationRequest {
        from: Some(from),
        burst_octets: SHAPE.bucket_octets,
        min_packet: SHAPE.packet_octets,
        max_packet: SHAPE.packet_octets,
        ..ReservationRequest::new(to, SHAPE.rate)
    };
    Client::connect(testbed.control(0))?.sender(sender)?;
    let index = wait_for("the reservation stands", SLACK * 10, || {
        let link = narrow_link(&testbed)?;
        Ok(((link.claims, link.adopted) == (1, 0)).then_some(link.index))
    })?;
    let socket = testbed.namespace(0).run_in(|| UdpSocket::bind(from))??;
    socket.connect(to)?;
    let source = Source::start(socket, SHAPE, Duration::from_secs(120))?;

    await_refresh(&testbed)?;
    let before = class_of_the_flow(&testbed, index)?;
    testbed.kill_daemon(R1)?;
    std::thread::sleep(Duration::from_millis(200));
    let orphaned = class_of_the_flow(&testbed, index)?;
    testbed.start_daemon(R1)?;
    testbed.await_daemon(R1)?;
    let link = narrow_link(&testbed)?;
    // The neighbors notice the restart at once, and may have sent everything again by now.
    assert_eq!((link.claims + link.adopted, link.held_bps), (1, SHAPE.rate), "{link:?}");
    let adopted = class_of_the_flow(&testbed, index)?;

    wait_for("the state has formed again", LONGEST_REFRESH + SLACK, || {
        let link = narrow_link(&testbed)?;
        assert_eq!((link.claims + link.adopted, link.held_bps), (1, SHAPE.rate), "{link:?}");
        Ok((link.claims == 1).then_some(()))
    })?;
    std::thread::sleep(Duration::from_millis(200));
    let held = class_of_the_flow(&testbed, index)?;
    let classes = [before, orphaned, adopted, held];
    assert!(classes.iter().all(|class| class.handle == before.handle), "{classes:?}");
    assert!(classes.is_sorted_by(|a, b| a.octets < b.octets), "{classes:?}");
    source.stop()?;
    Ok(())
}

/// Returns r1's link to r2.
fn narrow_link(testbed: &Testbed) -> Result<LinkRow, Failed> {
    let rows = Client::connect(testbed.control(R1))?.show_links()?.rows;
    Ok(rows.into_iter().find(|link| link.interface == "eth1").ok_or("r1 has no eth1")?)
}

/// Waits for a Path at r1, which extends the lifetime of its state. The next Path is at least 0.5 R away.
fn await_refresh(testbed: &Testbed) -> Outcome {
    let mut client = Client::connect(testbed.control(R1))?;
    let mut last = f64::MAX;
    wait_for("a refresh", LONGEST_REFRESH + SLACK, || {
        let rows = client.show_sessions()?.rows;
        let expires = rows.first().and_then(|row| row.expires_in_s).ok_or("no path state")?;
        let refreshed = expires > last;
        last = expires;
        Ok(refreshed.then_some(()))
    })
}

/// Returns the one class with traffic in the pool on r1's narrow link.
fn class_of_the_flow(testbed: &Testbed, index: u32) -> Result<Class, Failed> {
    let pool = classes::pool(testbed.namespace(R1), index)?;
    let mut used = pool.iter().filter(|class| class.octets > 0);
    match (used.next(), used.next()) {
        (Some(class), None) => Ok(*class),
        (first, second) => Err(format!("one class, not {first:?} and {second:?}").into()),
    }
}
