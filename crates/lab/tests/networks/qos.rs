//! QoS NSLP between real daemons with changing routes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use earmark_control::Client;
use earmark_control::protocols::nsis::request as nsis_request;
use earmark_control::{Opened, Request, ReservationRequest};
use earmark_core::{Prefix, Rate};
use earmark_linux::link;
use earmark_node::Event;
use earmark_nsis::{Event as NsisEvent, qos};
use earmark_testkit::wait::wait_for;
use libtest_mimic::Failed;

use crate::Outcome;
use crate::changes::DIAMOND;
use crate::engine_event::engine_event;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{STREAM, STREAM_PORT, Stream, loss, watch};

/// Link of h2.
const TOWARDS_H2: &str = "10.0.5.0/30";
/// Next hop of r1 on the path by r2.
const BY_R2: &str = "10.0.1.2";
/// Next hop of r1 on the path by r3.
const BY_R3: &str = "10.0.2.2";

/// The route to the receiver moves from r2 to r3, and back when the link to r3 goes down. Each time routers find the
/// new path long before the next refresh, reserve there, and release the old path; the stream again loses nothing
/// beside a flood.
pub(crate) fn a_reservation_by_nsis_follows_the_route() -> Outcome {
    const WINDOW: Duration = Duration::from_secs(1);
    let net = Net::up(DIAMOND, "moves", REFRESH)?;
    let h2 = net.address("h2", true);
    let mut pending = PendingRequest::send(&net, STREAM.rate)?;
    pending.reserved()?;
    let there = [("h1", "eth0"), ("r4", "eth2")];
    let (by_r2, by_r3) = ([("r1", "eth1"), ("r2", "eth1")], [("r1", "eth2"), ("r3", "eth1")]);
    let stands = |ways: &[(&str, &str)], mbps: &[u32]| -> Outcome {
        ways.iter().try_for_each(|&at| net.await_reserved(at, mbps, SLACK * 2))
    };
    stands(&there, &[2])?;
    stands(&by_r2, &[2])?;
    stands(&by_r3, &[])?;

    let stream = Stream::start(&net, "h1", h2, &["h2"])?;
    let flood = Stream::flood(&net, "h1", "h2", true)?;
    let mut whole = vec![watch(WINDOW)];

    let towards_h2: Prefix = TOWARDS_H2.parse()?;
    link::remove_route(net.namespace("r1"), towards_h2)?;
    link::add_route(net.namespace("r1"), towards_h2, BY_R3.parse()?)?;
    stands(&by_r3, &[2])?;
    // The old state would last for minutes, so a message has removed it.
    stands(&by_r2, &[])?;
    stands(&there, &[2])?;
    whole.push(watch(WINDOW));

    // The kernel removes the routes of a link that goes down without a notification.
    link::set_up(net.namespace("r1"), "eth2", false)?;
    link::add_route(net.namespace("r1"), towards_h2, BY_R2.parse()?)?;
    stands(&by_r2, &[2])?;
    stands(&there, &[2])?;
    whole.push(watch(WINDOW));

    let heard = stream.stop()?;
    let lost = loss(&flood.stop()?[0], whole[0], WINDOW);
    assert!(lost > 0.3, "the links are not full: the flood lost {lost}");
    for since in whole {
        assert_eq!(loss(&heard[0], since, WINDOW), 0.0);
    }
    pending.release()?;
    stands(&by_r2, &[])?;
    stands(&there, &[])?;
    wait_for("r1 forgets", SLACK, || {
        Ok(net.client("r1")?.show_sessions()?.rows.is_empty().then_some(()))
    })
}

/// Request of h1: a rate for the stream to h2.
pub(crate) struct PendingRequest {
    client: Client,
    opened: Opened,
}

impl PendingRequest {
    pub(crate) fn send(net: &Net, rate: Rate) -> Result<PendingRequest, Failed> {
        let [from, to] = ["h1", "h2"].map(|at| SocketAddr::new(net.address(at, true), STREAM_PORT));
        let mut client = net.client("h1")?;
        let opened = client.call(&Request::Reserve(ReservationRequest {
            from: Some(from),
            burst_octets: STREAM.bucket_octets,
            max_packet: STREAM.packet_octets,
            follow: true,
            ..nsis_request(to, rate)
        }))?;
        Ok(PendingRequest { client, opened })
    }

    pub(crate) fn reserved(&mut self) -> Outcome {
        let deadline = Instant::now() + SLACK * 2;
        let mut others = Vec::new();
        while let Some(notice) = self.client.next_event(Some(deadline))? {
            let Some(Event::Nsis(NsisEvent::Qos(event))) = engine_event(&notice) else {
                continue;
            };
            if matches!(event, qos::Event::Reserved { .. }) {
                return Ok(());
            }
            others.push(event);
        }
        Err(format!("it was not reserved; there were {others:?}").into())
    }

    pub(crate) fn release(mut self) -> Outcome {
        self.client.release(self.opened.application)?;
        Ok(())
    }
}
