//! Several reservations for one flow, by three protocols between real daemons: the stream has the best of them.

use std::net::SocketAddr;
use std::time::Duration;

use earmark_control::protocols::boomerang as loops;
use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_scenario::topology::DEMO;
use earmark_wire::boomerang::Rates;

use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{STREAM, STREAM_PORT, Stream, announcement, loss, watch};
use crate::{Outcome, boomerang, qos};
use earmark_testkit::wait::wait_for;

const WINDOW: Duration = Duration::from_secs(1);

/// RSVP reserves for a stream beside a flood. Boomerang and NSIS reserve less for the same flow, and end; then
/// Boomerang reserves more, and RSVP ends. The stream never loses a packet, and r1 lists which reservation its
/// packets use.
pub(crate) fn a_stream_keeps_the_best_of_its_reservations() -> Outcome {
    let net = Net::up(DEMO, "claims", REFRESH)?;
    let (h1, h2) = (net.address("h1", true), net.address("h2", true));
    let to = SocketAddr::new(h2, STREAM_PORT);
    net.client("h2")?.listen(ListenRequest::new(to))?;
    let sender = net.client("h1")?.sender(announcement(&net, "h1", h2))?;
    for at in [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1")] {
        net.await_reserved(at, &[2], SLACK * 2)?;
    }
    let stream = Stream::start(&net, "h1", h2, &["h2"])?;
    let flood = Stream::flood(&net, "h1", "h2", true)?;
    watch(Duration::from_millis(500));

    let from = Some(SocketAddr::new(h1, STREAM_PORT));
    let of_loop = |kbps: u32| {
        let forward = Rates { forward: kbps * 1_000, reverse: 0 };
        let request = loops::request(to, Rate::from_bps(forward.forward.into()), Rate::ZERO);
        boomerang::PendingRequest::send(&net, ReservationRequest { from, ..request })
    };
    let mut whole = vec![("RSVP alone", watch(WINDOW))];
    let mut small = of_loop(8)?;
    small.established()?;
    let mut other = qos::PendingRequest::send(&net, Rate::from_bps(100_000))?;
    other.reserved()?;
    expect(&net, &[("rsvp", "enforced"), ("boomerang", "standby"), ("nsis", "standby")])?;
    whole.push(("beside two smaller ones", watch(WINDOW)));
    small.release()?;
    other.release()?;
    expect(&net, &[("rsvp", "enforced")])?;
    whole.push(("the smaller ones have ended", watch(WINDOW)));
    let mut large = of_loop(3_000)?;
    large.established()?;
    expect(&net, &[("rsvp", "standby"), ("boomerang", "enforced")])?;
    whole.push(("beside a larger one", watch(WINDOW)));
    net.client("h1")?.release(sender.application)?;
    expect(&net, &[("boomerang", "enforced")])?;
    whole.push(("RSVP has ended", watch(WINDOW)));
    large.release()?;
    expect(&net, &[])?;
    let since = watch(WINDOW);

    let heard = stream.stop()?;
    flood.stop()?;
    for (what, since) in whole {
        assert_eq!(loss(&heard[0], since, WINDOW), 0.0, "{what}");
    }
    let lost = loss(&heard[0], since, WINDOW);
    assert!(lost > 0.3, "the link is not full: without a reservation {lost} of {STREAM:?}");
    Ok(())
}

/// Waits until r1 lists exactly these reservations, with these states.
fn expect(net: &Net, expected: &[(&str, &str)]) -> Outcome {
    let mut expected: Vec<(String, String)> =
        expected.iter().map(|(by, state)| ((*by).into(), (*state).into())).collect();
    expected.sort();
    let mut last = Vec::new();
    let reached = wait_for("", SLACK * 2, || {
        let rows = net.client("r1")?.show_reservations()?.rows;
        let state = |row: &earmark_control::ReservationRow| {
            row.enforcement.as_ref().map_or("none".to_owned(), |e| e.state.to_string())
        };
        let on_the_way = rows.iter().filter(|row| row.interface.as_deref() == Some("eth1"));
        last = on_the_way.map(|row| (row.protocol.to_string(), state(row))).collect();
        last.sort();
        Ok((last == expected).then_some(()))
    });
    reached.map_err(|_| format!("r1 shows {last:?} instead of {expected:?}").into())
}
