//! Multicast groups: different branches, receivers that leave, senders with a shared reservation.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use earmark_control::protocols::rsvp::ListenOptions;
use earmark_control::{ListenRequest, ReservationRequest, StyleName};
use earmark_core::{MulticastRoute, Rate};
use earmark_linux::link;

use crate::Outcome;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{STREAM, STREAM_PORT, Stream, announcement, loss, watch};
use earmark_testkit::wait::wait_for;

/// ```text
///                              ,-- 5 Mbit/s -- h2
///   h1 ---- r1 -- 10 Mbit/s -- r2
///                              `-- 5 Mbit/s -- h3
/// ```
pub(crate) const TREE: &str = r#"
    ipv6 = true
    node = [
        { name = "h1" }, { name = "r1" }, { name = "r2" }, { name = "h2" }, { name = "h3" },
    ]
    link = [
        { ends = ["h1", "r1"], bandwidth = "100Mbit" },
        { ends = ["r1", "r2"], bandwidth = "10Mbit" },
        { ends = ["r2", "h2"], bandwidth = "5Mbit" },
        { ends = ["r2", "h3"], bandwidth = "5Mbit" },
    ]"#;

pub(crate) fn branches_over_ipv4() -> Outcome {
    branches("239.1.2.3".parse()?)
}

pub(crate) fn branches_over_ipv6() -> Outcome {
    branches("ff3e::1:2".parse()?)
}

/// h2 requests 2 Mbit/s, and h3 the announced 3: each branch has its rate, and their common link has the larger. Both
/// receive the whole stream beside floods. When h3 leaves, its branch is free and the common link has h2's rate; h2
/// still loses nothing, and h3 does.
fn branches(group: IpAddr) -> Outcome {
    const WINDOW: Duration = Duration::from_secs(2);
    let net = Net::up(TREE, "tree", REFRESH)?;
    let ipv4 = group.is_ipv4();
    // Hosts need a default route to send to groups.
    let default = if ipv4 { "0.0.0.0/0" } else { "::/0" };
    let gateway = if ipv4 { "10.0.0.2" } else { "2001:db8::2" };
    link::add_route(net.namespace("h1"), default.parse()?, gateway.parse()?)?;
    let flow = (net.address("h1", ipv4), group);
    let _routers = [
        net.forward("r1", flow, "eth0", &["eth1"])?,
        net.forward("r2", flow, "eth0", &["eth1", "eth2"])?,
    ];

    let on = SocketAddr::new(group, STREAM_PORT);
    let less = ListenRequest { rate_bps: Some(STREAM.rate), ..ListenRequest::new(on) };
    net.client("h2")?.listen(less)?;
    let third = net.client("h3")?.listen(ListenRequest::new(on))?;
    let announced = ReservationRequest {
        rate_bps: Some(Rate::from_mbps(3)),
        ..announcement(&net, "h1", group)
    };
    let sender = net.client("h1")?.sender(announced)?;
    for (at, mbps) in [(("r2", "eth1"), 2), (("r2", "eth2"), 3), (("r1", "eth1"), 3)] {
        net.await_reserved(at, &[mbps], SLACK * 2)?;
    }

    let stream = Stream::start(&net, "h1", group, &["h2", "h3"])?;
    // The first flood fills the common link and the branch to h2, the other the branch to h3.
    let floods = [Stream::flood(&net, "h1", "h2", ipv4)?, Stream::flood(&net, "h2", "h3", ipv4)?];
    watch(Duration::from_millis(500));
    let both = watch(WINDOW);
    net.client("h3")?.release(third.application)?;
    net.await_reserved(("r2", "eth2"), &[], SLACK)?;
    net.await_reserved(("r1", "eth1"), &[2], SLACK)?;
    net.await_reserved(("r2", "eth1"), &[2], Duration::ZERO)?;
    let one = watch(WINDOW);
    let heard = stream.stop()?;
    for flood in floods {
        let lost = loss(&flood.stop()?[0], both, WINDOW);
        assert!(lost > 0.3, "the links are not full: a flood lost {lost}");
    }
    let [second, third] = &heard[..] else { return Err("two sinks".into()) };
    assert_eq!((loss(second, both, WINDOW), loss(third, both, WINDOW)), (0.0, 0.0));
    assert_eq!(loss(second, one, WINDOW), 0.0, "h2, after h3 has left");
    assert!(loss(third, one, WINDOW) > 0.02, "h3 has no reservation any more");

    net.client("h1")?.release(sender.application)?;
    for node in ["r1", "r2", "h2"] {
        wait_for("the sender is forgotten", SLACK, || {
            Ok(net.client(node)?.show_sessions()?.rows.is_empty().then_some(()))
        })?;
    }
    net.await_reserved(("r1", "eth1"), &[], SLACK)
}

/// There are two senders of 2 Mbit/s each, and a receiver that reserves in the wildcard style: where both pass, the
/// kernel has one class of 2 Mbit/s for both, and the listing has one reservation for all. When one sender ends, the
/// reservation stays.
pub(crate) fn senders_share() -> Outcome {
    let net = Net::up(TREE, "shared", REFRESH)?;
    let group: IpAddr = "239.1.2.4".parse()?;
    for (host, gateway) in [("h1", "10.0.0.2"), ("h2", "10.0.2.1")] {
        link::add_route(net.namespace(host), "0.0.0.0/0".parse()?, gateway.parse()?)?;
    }
    let (first, second) = (net.address("h1", true), net.address("h2", true));
    let _r1 = net.forward("r1", (first, group), "eth0", &["eth1"])?;
    let r2 = net.forward("r2", (first, group), "eth0", &["eth1", "eth2"])?;
    r2.set_route(&MulticastRoute {
        source: Some(second),
        group,
        incoming: Some(net.interface("r2", "eth1")?),
        outgoing: vec![net.interface("r2", "eth2")?],
    })?;

    let on = SocketAddr::new(group, STREAM_PORT);
    let wildcard = ListenOptions { style: StyleName::Wf, ..ListenOptions::default() };
    net.client("h3")?.listen(ListenRequest::new(on).with(&wildcard))?;
    let one = net.client("h1")?.sender(announcement(&net, "h1", group))?;
    net.client("h2")?.sender(announcement(&net, "h2", group))?;
    net.await_reserved(("r1", "eth1"), &[2], SLACK * 2)?;
    wait_for("r2 knows both senders", SLACK, || {
        let rows = net.client("r2")?.show_sessions()?.rows;
        Ok((rows.len() == 2 && rows.iter().all(|row| row.reserved)).then_some(()))
    })?;
    net.await_reserved(("r2", "eth2"), &[2], Duration::ZERO)?;
    let rows = net.client("r2")?.show_reservations()?.rows;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&*rows[0].style, rows[0].senders.len()), ("WF", 0), "{rows:?}");
    net.client("h1")?.release(one.application)?;
    net.await_reserved(("r1", "eth1"), &[], SLACK)?;
    net.await_reserved(("r2", "eth2"), &[2], Duration::ZERO)
}
