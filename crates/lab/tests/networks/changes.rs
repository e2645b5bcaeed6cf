//! Route changes under a live stream, and the death of a neighbor.

use std::net::IpAddr;
use std::time::Duration;

use earmark_control::ListenRequest;
use earmark_core::Prefix;
use earmark_linux::link;
use earmark_scenario::topology::DEMO;
use earmark_testkit::wait::wait_for;
use libtest_mimic::Failed;

use crate::Outcome;
use crate::net::{Net, REFRESH, SLACK, lifetime};
use crate::stream::{STREAM_PORT, Stream, announcement, loss, watch};

/// ```text
///              ,-- 10 Mbit/s -- r2 --.
///   h1 ---- r1                        r4 ---- h2
///              `-- 10 Mbit/s -- r3 --'
/// ```
pub(crate) const DIAMOND: &str = r#"
    node = [
        { name = "h1" }, { name = "r1" }, { name = "r2" }, { name = "r3" }, { name = "r4" },
        { name = "h2" },
    ]
    link = [
        { ends = ["h1", "r1"], bandwidth = "100Mbit" },
        { ends = ["r1", "r2"], bandwidth = "10Mbit" },
        { ends = ["r1", "r3"], bandwidth = "10Mbit" },
        { ends = ["r2", "r4"], bandwidth = "100Mbit" },
        { ends = ["r3", "r4"], bandwidth = "100Mbit" },
        { ends = ["r4", "h2"], bandwidth = "100Mbit" },
    ]"#;
/// Link of h2.
const TOWARDS_H2: &str = "10.0.5.0/30";
/// Next hop of r1 on the path by r2.
const BY_R2: &str = "10.0.1.2";
/// Next hop of r1 on the path by r3.
const BY_R3: &str = "10.0.2.2";
/// W of RFC 2205 section 3.6: delay of local repair, in which routes settle.
const REPAIR_DELAY: Duration = Duration::from_secs(2);
/// Delay from the repair to the tear of the old path.
const DEPARTURE_DELAY: Duration = Duration::from_secs(3);

/// The route to the receiver moves from r2 to r3, and back when the link to r3 goes down. Each time the reservation
/// is on the new path as soon as local repair may act, the old path is free, and the stream again loses nothing
/// beside a flood.
pub(crate) fn a_reservation_follows_the_route() -> Outcome {
    const WINDOW: Duration = Duration::from_secs(1);
    // With this lifetime of state, an earlier end is the effect of a message.
    const SLOW: Duration = Duration::from_secs(2);
    let net = Net::up(DIAMOND, "diamond", SLOW)?;
    let h2 = net.address("h2", true);
    net.client("h2")?.listen(ListenRequest::new((h2, STREAM_PORT).into()))?;
    net.client("h1")?.sender(announcement(&net, "h1", h2))?;
    net.await_reserved(("r1", "eth1"), &[2], SLACK * 2)?;
    net.await_reserved(("r2", "eth1"), &[2], Duration::ZERO)?;
    net.await_reserved(("r1", "eth2"), &[], Duration::ZERO)?;

    let stream = Stream::start(&net, "h1", h2, &["h2"])?;
    let flood = Stream::flood(&net, "h1", "h2", true)?;
    let mut whole = vec![watch(WINDOW)];

    let towards_h2: Prefix = TOWARDS_H2.parse()?;
    link::remove_route(net.namespace("r1"), towards_h2)?;
    link::add_route(net.namespace("r1"), towards_h2, BY_R3.parse()?)?;
    net.await_reserved(("r1", "eth2"), &[2], REPAIR_DELAY + SLACK)?;
    net.await_reserved(("r3", "eth1"), &[2], Duration::ZERO)?;
    net.await_reserved(("r1", "eth1"), &[], DEPARTURE_DELAY + SLACK)?;
    net.await_reserved(("r2", "eth1"), &[], SLACK)?;
    let torn = net.client("r2")?.show_counters()?["rsvp"]["received"]["path_tear"].clone();
    assert_eq!(torn, 1, "the old way is told that it is over");
    whole.push(watch(WINDOW));

    // The kernel removes the routes of a link that goes down without a notification.
    link::set_up(net.namespace("r1"), "eth2", false)?;
    link::add_route(net.namespace("r1"), towards_h2, BY_R2.parse()?)?;
    net.await_reserved(("r1", "eth1"), &[2], REPAIR_DELAY + SLACK)?;
    net.await_reserved(("r2", "eth1"), &[2], Duration::ZERO)?;
    whole.push(watch(WINDOW));
    // No message can reach r3, so its state times out.
    wait_for("r3 forgets", lifetime(SLOW) + SLACK, || {
        Ok(net.client("r3")?.show_sessions()?.rows.is_empty().then_some(()))
    })?;
    net.await_reserved(("r3", "eth1"), &[], SLACK)?;

    let heard = stream.stop()?;
    let lost = loss(&flood.stop()?[0], whole[0], WINDOW);
    assert!(lost > 0.3, "the links are not full: the flood lost {lost}");
    for since in whole {
        assert_eq!(loss(&heard[0], since, WINDOW), 0.0);
    }
    Ok(())
}

/// r2 dies, daemon and forwarding, while its links stay up: r1 receives no Resv any more, so it releases the
/// reservation when its lifetime ends, and reports this upstream; h2 receives no Path any more, and removes the
/// sender.
pub(crate) fn a_neighbor_that_dies_is_forgotten() -> Outcome {
    let mut net = Net::up(DEMO, "death", REFRESH)?;
    let h2 = net.address("h2", true);
    net.client("h2")?.listen(ListenRequest::new((h2, STREAM_PORT).into()))?;
    net.client("h1")?.sender(announcement(&net, "h1", h2))?;
    for at in [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1")] {
        net.await_reserved(at, &[2], SLACK * 2)?;
    }
    link::sysctl(net.namespace("r2"), "net.ipv4.ip_forward", "0")?;
    net.kill_daemon("r2")?;
    net.await_reserved(("r1", "eth1"), &[], lifetime(REFRESH) + SLACK)?;
    net.await_reserved(("h1", "eth0"), &[], SLACK)?;
    let rows = net.client("r1")?.show_reservations()?.rows;
    assert!(rows.is_empty(), "{rows:?}");
    let rows = net.client("r1")?.show_sessions()?.rows;
    assert_eq!(rows.len(), 1, "h1 still announces its data: {rows:?}");
    wait_for("h2 forgets the sender", lifetime(REFRESH) + SLACK, || {
        Ok(net.client("h2")?.show_sessions()?.rows.is_empty().then_some(()))
    })?;
    let rows = net.client("h2")?.show_reservations()?.rows;
    assert!(rows.is_empty(), "{rows:?}");
    Ok(())
}

/// Only r2's daemon dies. Its kernel continues to forward, signalling too, and keeps its reservations: so h2's next
/// Resv goes directly to r1, which names neighbours beyond its links, finds a new next hop behind a router without RSVP,
/// and the stream always has a reservation.
pub(crate) fn a_router_without_its_daemon_is_skipped() -> Outcome {
    let mut net = Net::with(DEMO, "passed", REFRESH, |options| {
        options.settings.interface = "neighbors = [\"10.0.0.0/8\"]\n".to_owned();
    })?;
    let h2 = net.address("h2", true);
    net.client("h2")?.listen(ListenRequest::new((h2, STREAM_PORT).into()))?;
    net.client("h1")?.sender(announcement(&net, "h1", h2))?;
    net.await_reserved(("r1", "eth1"), &[2], SLACK * 2)?;
    let next_hop = |net: &Net| -> Result<Option<IpAddr>, Failed> {
        let rows = net.client("r1")?.show_reservations()?.rows;
        let hops: Vec<IpAddr> = rows.iter().filter_map(|row| row.next_hop).collect();
        Ok(if let [one] = hops[..] { Some(one) } else { None })
    };
    let r2: IpAddr = "10.0.1.2".parse()?;
    assert_eq!(next_hop(&net)?, Some(r2));
    net.kill_daemon("r2")?;
    wait_for("h2 is the one next hop", lifetime(REFRESH) + SLACK, || {
        net.await_reserved(("r1", "eth1"), &[2], Duration::ZERO)?;
        Ok((next_hop(&net)? == Some(h2)).then_some(()))
    })?;
    net.await_reserved(("r2", "eth1"), &[2], Duration::ZERO)
}
