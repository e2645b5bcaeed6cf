//! Tickets in real daemons: three of them in network namespaces, with real traffic control.
//!
//! Without the privileges for namespaces the test is shown as ignored, with the reason.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use earmark_control::{Client, Event, ReservationRequest};
use earmark_core::Rate;
use earmark_core::outcome::Kind;
use earmark_lab::testbed::{self, Options, Testbed};
use earmark_scenario::topology::{DEMO, Topology};
use libtest_mimic::{Arguments, Failed, Trial};

/// Program whose daemons know Tickets.
const TICKETS: &str = env!("CARGO_BIN_EXE_tickets");
const TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let test = |name: &str| Trial::test(name, request_reserves_in_traffic_control_of_every_router);
    let name = "request_reserves_in_traffic_control_of_every_router";
    let trial = match testbed::obstacle() {
        None => test(name),
        // The runner shows a reason only as part of the name.
        Some(reason) => test(&format!("{name} ({reason})")).with_ignored_flag(true),
    };
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

fn request_reserves_in_traffic_control_of_every_router() -> Result<(), Failed> {
    let mut topology = Topology::parse(DEMO)?;
    topology.name = format!("tickets-{}", std::process::id());
    let node = |name: &str| topology.node(name).ok_or("a node of the demo is missing");
    let (h1, r1, h2) = (node("h1")?, node("r1")?, node("h2")?);
    let address = |node: usize| topology.address(node).ok_or("a node has no address");
    let (source, destination) = (address(h1)?, address(h2)?);
    let testbed = Testbed::up(topology, Options::new(TICKETS.into(), Duration::from_secs(30)))?;

    let mut client = Client::connect(testbed.control(h1))?;
    let request = |rate| ReservationRequest {
        protocol: "tickets".to_owned(),
        from: Some((source, 5_001).into()),
        follow: true,
        ..ReservationRequest::new((destination, 5_001).into(), rate)
    };
    let opened = client.reserve(request(Rate::from_mbps(2)))?;
    assert_eq!(outcome(&mut client)?, Kind::Whole);

    let mut router = Client::connect(testbed.control(r1))?;
    let rows = router.show_reservations()?.rows;
    let [row] = &rows[..] else { return Err(format!("not one reservation: {rows:?}").into()) };
    assert_eq!((row.protocol.as_ref(), row.rate_bps), ("tickets", 2_000_000));
    let enforcement = row.enforcement.as_ref().ok_or("the reservation has no queue")?;
    assert_eq!(enforcement.state, "enforced");

    client.reserve(ReservationRequest {
        from: Some((source, 5_002).into()),
        ..request(Rate::from_mbps(50))
    })?;
    assert_eq!(outcome(&mut client)?, Kind::Refused);

    client.release(opened.application)?;
    let deadline = Instant::now() + TIMEOUT;
    while !router.show_reservations()?.rows.is_empty() {
        assert!(Instant::now() < deadline, "the reservation is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Returns the next outcome that an event reports.
fn outcome(client: &mut Client) -> Result<Kind, Failed> {
    let deadline = Some(Instant::now() + TIMEOUT);
    loop {
        let event: Event = client.next_event(deadline)?.ok_or("no outcome in time")?;
        if let Some(outcome) = event.outcome.filter(|_| event.protocol != "enforcement") {
            return Ok(outcome.kind);
        }
    }
}
