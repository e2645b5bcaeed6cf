//! Boomerang between real daemons: one loop reserves in both directions, and the far end is a stock host that answers
//! pings.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use earmark_boomerang::{Event, OnRefusal};
use earmark_control::Client;
use earmark_control::protocols::boomerang as loops;
use earmark_control::{Opened, Request, ReservationRequest, ReservationRow};
use earmark_core::{Prefix, Rate};
use earmark_linux::link;
use earmark_scenario::topology::DEMO;
use earmark_testkit::wait::wait_for;
use earmark_wire::boomerang::Rates;
use libtest_mimic::Failed;

use crate::Outcome;
use crate::changes::DIAMOND;
use crate::engine_event::engine_event;
use crate::multicast::TREE;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{STREAM_PORT, Stream, loss, watch};

/// Lifetime of a loop's state: three intervals of a second, each up to half as long again.
const SILENCE: Duration = Duration::from_millis(4_500);

pub(crate) fn both_ways_over_ipv4() -> Outcome {
    both_ways(true)
}

pub(crate) fn both_ways_over_ipv6() -> Outcome {
    both_ways(false)
}

/// h1 reserves 2 Mbit/s to a port of h2, and 3 Mbit/s from there to any port of its own; h2 has no daemon. Every link
/// has the rate of its direction, and a stream in each direction loses nothing beside a flood. A release removes
/// everything at once.
fn both_ways(ipv4: bool) -> Outcome {
    const WINDOW: Duration = Duration::from_secs(1);
    let mut net = up(&format!("ipv6 = {}\n{DEMO}", !ipv4), "loop")?;
    net.kill_daemon("h2")?;
    let (h1, h2) = (net.address("h1", ipv4), net.address("h2", ipv4));
    let to = SocketAddr::new(h2, STREAM_PORT);
    let mut pending = PendingRequest::send(&net, loops::request(to, mbps(2), mbps(3)))?;
    let rates = pending.established()?;
    assert_eq!(rates, Rates { forward: 2_000_000, reverse: 3_000_000 });
    for (at, rate) in [
        (("h1", "eth0"), 2),
        (("r1", "eth1"), 2),
        (("r2", "eth1"), 2),
        (("r2", "eth0"), 3),
        (("r1", "eth0"), 3),
    ] {
        net.await_reserved(at, &[rate], SLACK)?;
    }
    let rows = net.client("r1")?.show_reservations()?.rows;
    let seen: Vec<_> = rows.iter().map(ends).collect();
    let there = ("forward", h1, 0, h2, STREAM_PORT, 2_000_000);
    let back = ("reverse", h2, STREAM_PORT, h1, 0, 3_000_000);
    assert_eq!(seen, [there, back]);

    // The directions are tested in turn, because one stream ends at the port of h2 where the other begins.
    for (ports, from, address, to) in
        [([STREAM_PORT; 2], "h1", h2, "h2"), ([STREAM_PORT, 6_000], "h2", h1, "h1")]
    {
        let stream = Stream::between(&net, ports, from, address, &[to])?;
        let flood = Stream::flood(&net, from, to, ipv4)?;
        watch(Duration::from_millis(300));
        let since = watch(WINDOW);
        let heard = stream.stop()?;
        let lost = loss(&flood.stop()?[0], since, WINDOW);
        assert!(lost > 0.3, "the link is not full: the flood from {from} lost {lost}");
        assert_eq!(loss(&heard[0], since, WINDOW), 0.0, "from {from}");
    }

    pending.release()?;
    for at in [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1"), ("r2", "eth0"), ("r1", "eth0")] {
        net.await_reserved(at, &[], SLACK)?;
    }
    Ok(())
}

/// The route back differs from the route there: each link has the rate that leaves through it, and nothing else.
pub(crate) fn each_way_has_its_own_route() -> Outcome {
    let mut net = up(DIAMOND, "ways")?;
    net.kill_daemon("h2")?;
    let towards_h1: Prefix = "10.0.0.0/30".parse()?;
    link::remove_route(net.namespace("r4"), towards_h1)?;
    link::add_route(net.namespace("r4"), towards_h1, "10.0.4.1".parse()?)?;
    let to = SocketAddr::new(net.address("h2", true), STREAM_PORT);
    let mut pending = PendingRequest::send(&net, loops::request(to, mbps(2), mbps(3)))?;
    pending.established()?;
    let there = [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1"), ("r4", "eth2")];
    let back = [("r4", "eth1"), ("r3", "eth0"), ("r1", "eth0")];
    for (ways, rate) in [(&there[..], 2), (&back[..], 3)] {
        for &at in ways {
            net.await_reserved(at, &[rate], SLACK)?;
        }
    }
    for nothing in [("r2", "eth0"), ("r3", "eth1"), ("r1", "eth2"), ("r4", "eth0")] {
        net.await_reserved(nothing, &[], Duration::ZERO)?;
    }
    pending.release()?;
    for at in there.into_iter().chain(back) {
        net.await_reserved(at, &[], SLACK)?;
    }
    Ok(())
}

/// A request above the narrow link's bandwidth is refused with the available rate, and nothing stays reserved. A
/// request for that rate is granted, and then nothing is left for a third one.
pub(crate) fn a_refusal_offers_the_available_rate() -> Outcome {
    let net = up(DEMO, "offer")?;
    let to = |port| SocketAddr::new(net.address("h2", true), port);
    let narrow = Rates { forward: 7_500_000, reverse: 1_000_000 };
    let mut first = PendingRequest::send(&net, loops::request(to(STREAM_PORT), mbps(8), mbps(1)))?;
    assert_eq!(first.refused()?, (narrow, OnRefusal::Release));
    for node in ["h1", "r1", "r2", "h2"] {
        wait_for("nothing is reserved", SLACK, || {
            Ok(net.client(node)?.show_reservations()?.rows.is_empty().then_some(()))
        })?;
    }
    let most = Rate::from_bps(narrow.forward.into());
    let mut second =
        PendingRequest::send(&net, loops::request(to(STREAM_PORT + 1), most, Rate::ZERO))?;
    assert_eq!(second.established()?.forward, narrow.forward);
    let mut third =
        PendingRequest::send(&net, loops::request(to(STREAM_PORT + 2), mbps(1), Rate::ZERO))?;
    assert_eq!(third.refused()?.0, Rates::ZERO);
    let mut fourth = PendingRequest::send(
        &net,
        ReservationRequest { query: true, ..loops::request(to(80), mbps(9), mbps(9)) },
    )?;
    let offer = fourth.wait(|event| match event {
        Event::Offered { offer, .. } => Some(*offer),
        _ => None,
    })?;
    assert_eq!(offer, Rates { forward: 0, reverse: 7_500_000 });
    second.release()?;
    net.await_reserved(("r1", "eth1"), &[], SLACK)
}

/// After the death of the sender's daemon there are no refreshes, and the routers release the reservation within its
/// lifetime.
pub(crate) fn silence_ends_a_loop() -> Outcome {
    let mut net = up(DEMO, "silent")?;
    let to = SocketAddr::new(net.address("h2", true), STREAM_PORT);
    PendingRequest::send(&net, loops::request(to, mbps(2), mbps(3)))?.established()?;
    let places = [("r1", "eth1"), ("r2", "eth1"), ("r2", "eth0"), ("r1", "eth0")];
    for (at, rate) in places.into_iter().zip([2, 2, 3, 3]) {
        net.await_reserved(at, &[rate], SLACK)?;
    }
    // With refreshes the reservation stays.
    std::thread::sleep(SILENCE);
    net.await_reserved(("r1", "eth1"), &[2], Duration::ZERO)?;
    net.kill_daemon("h1")?;
    for at in places {
        net.await_reserved(at, &[], SILENCE + SLACK)?;
    }
    Ok(())
}

/// A message to a group has no answer: it passes down the tree once, and each branch has the requested rate.
pub(crate) fn a_group_is_reserved_for_without_an_answer() -> Outcome {
    let net = up(TREE, "group")?;
    let group = "239.1.2.5".parse()?;
    link::add_route(net.namespace("h1"), "0.0.0.0/0".parse()?, "10.0.0.2".parse()?)?;
    let flow = (net.address("h1", true), group);
    let _routers = [
        net.forward("r1", flow, "eth0", &["eth1"])?,
        net.forward("r2", flow, "eth0", &["eth1", "eth2"])?,
    ];
    let to = SocketAddr::new(group, STREAM_PORT);
    let from = Some(SocketAddr::new(flow.0, STREAM_PORT));
    let mut pending = PendingRequest::send(
        &net,
        ReservationRequest { from, ..loops::request(to, mbps(2), Rate::ZERO) },
    )?;
    let confirmed = pending.wait(|event| match event {
        Event::Established { confirmed, .. } => Some(*confirmed),
        _ => None,
    })?;
    assert!(!confirmed);
    let places = [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1"), ("r2", "eth2")];
    for at in places {
        net.await_reserved(at, &[2], SLACK)?;
    }
    pending.release()?;
    for at in places {
        net.await_reserved(at, &[], SLACK)?;
    }
    Ok(())
}

/// Starts daemons that refresh loops every second.
fn up(topology: &str, name: &str) -> Result<Net, Failed> {
    Net::with(topology, name, REFRESH, |options| {
        options.settings.protocols.insert("boomerang", "refresh = \"1s\"\n".to_owned());
    })
}

fn mbps(rate: u64) -> Rate {
    Rate::from_mbps(rate)
}

/// Returns direction, ends, and rate of a row.
fn ends(row: &ReservationRow) -> (&str, std::net::IpAddr, u16, std::net::IpAddr, u16, u64) {
    let sender = row.senders[0];
    let (destination, port) = (row.destination, row.destination_port);
    (&row.style, sender.address, sender.port, destination, port, row.rate_bps)
}

/// A loop from h1.
pub(crate) struct PendingRequest {
    client: Client,
    opened: Opened,
}

impl PendingRequest {
    pub(crate) fn send(net: &Net, request: ReservationRequest) -> Result<PendingRequest, Failed> {
        let mut client = net.client("h1")?;
        let opened =
            client.call(&Request::Reserve(ReservationRequest { follow: true, ..request }))?;
        Ok(PendingRequest { client, opened })
    }

    /// Returns the rates that all nodes have granted.
    pub(crate) fn established(&mut self) -> Result<Rates, Failed> {
        self.wait(|event| match event {
            Event::Established { rates, .. } => Some(*rates),
            _ => None,
        })
    }

    /// Returns the available rates, and the action on refusal.
    pub(crate) fn refused(&mut self) -> Result<(Rates, OnRefusal), Failed> {
        self.wait(|event| match event {
            Event::Refused { offer, reaction, .. } => Some((*offer, *reaction)),
            _ => None,
        })
    }

    /// Returns the first value that `find` gets from an event.
    fn wait<T>(&mut self, mut find: impl FnMut(&Event) -> Option<T>) -> Result<T, Failed> {
        let deadline = Instant::now() + SLACK * 2;
        let mut others = Vec::new();
        while let Some(notice) = self.client.next_event(Some(deadline))? {
            let Some(earmark_node::Event::Boomerang(event)) = engine_event(&notice) else {
                continue;
            };
            match find(&event) {
                Some(found) => return Ok(found),
                None => others.push(event),
            }
        }
        Err(format!("it did not come; there were {others:?}").into())
    }

    pub(crate) fn release(mut self) -> Outcome {
        self.client.release(self.opened.application)?;
        Ok(())
    }
}
