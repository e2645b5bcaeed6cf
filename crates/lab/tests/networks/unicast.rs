//! Unicast over IPv6 from end to end.

use std::time::Duration;

use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_scenario::topology::DEMO;

use crate::Outcome;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{STREAM_PORT, Stream, announcement, loss, watch};
use earmark_testkit::wait::wait_for;

/// On the demo's network with IPv6, a stream identified by its ports keeps its rate beside a flood on r1's narrow
/// link, and one identified by its flow label is reserved beside it.
pub(crate) fn a_stream_over_ipv6_keeps_its_rate() -> Outcome {
    const WINDOW: Duration = Duration::from_secs(2);
    let net = Net::up(&format!("ipv6 = true\n{DEMO}"), "six", REFRESH)?;
    let h2 = net.address("h2", false);
    net.client("h2")?.listen(ListenRequest::new((h2, STREAM_PORT).into()))?;
    let sender = net.client("h1")?.sender(announcement(&net, "h1", h2))?;
    for at in [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1")] {
        net.await_reserved(at, &[2], SLACK * 2)?;
    }
    let stream = Stream::start(&net, "h1", h2, &["h2"])?;
    let flood = Stream::flood(&net, "h1", "h2", false)?;
    watch(Duration::from_millis(500));
    let since = watch(WINDOW);
    let heard = stream.stop()?;
    let lost = loss(&flood.stop()?[0], since, WINDOW);
    assert!(lost > 0.3, "the link is not full: the flood lost {lost}");
    assert_eq!(loss(&heard[0], since, WINDOW), 0.0);
    let rows = net.client("r1")?.show_reservations()?.rows;
    let traffic = rows[0].traffic.ok_or("nothing is counted")?;
    assert!(traffic.octets > 500_000 && traffic.drops == 0, "{traffic:?}");

    let on = (h2, STREAM_PORT + 1).into();
    net.client("h2")?.listen(ListenRequest::new(on))?;
    let labelled = ReservationRequest {
        flow_label: Some(0x12345),
        ..ReservationRequest::new(on, Rate::from_mbps(3))
    };
    net.client("h1")?.sender(labelled)?;
    wait_for("r1 has reserved for the flow label", SLACK, || {
        let rows = net.client("r1")?.show_reservations()?.rows;
        let label = |row: &earmark_control::ReservationRow| row.senders[0].flow_label;
        Ok(rows.iter().any(|row| label(row) == Some(0x12345)).then_some(()))
    })?;
    net.client("h1")?.release(sender.application)?;
    net.await_reserved(("r1", "eth1"), &[3], SLACK)?;
    net.client("h1")?.release_all()?;
    net.await_reserved(("r1", "eth1"), &[], SLACK)
}
