//! Unicast from end to end: over IPv6, of IPsec, and by hosts that signal inside UDP.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use earmark_control::{ListenRequest, Opened, Request, ReservationRequest};
use earmark_core::Rate;
use earmark_scenario::topology::DEMO;
use earmark_wire::ipsec;
use socket2::{Domain, Protocol, Socket, Type};

use crate::Outcome;
use crate::net::{Net, REFRESH, SLACK, lifetime};
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

/// One security association of ESP gets the reservation, with RSVP (RFC 2207) and with NSIS, and another one does not.
pub(crate) fn a_reservation_for_one_security_association() -> Outcome {
    const SPI: u32 = 0x1000;
    const PACKETS: u64 = 50;
    let net = Net::up(DEMO, "ipsec", REFRESH)?;
    let h2 = net.address("h2", true);
    for (protocol, port) in [("rsvp", 9_000), ("nsis", 0)] {
        let on = (h2, port).into();
        net.client("h2")?
            .listen(ListenRequest { ip_protocol: ipsec::ESP, ..ListenRequest::of(protocol, on) })?;
        let request = ReservationRequest {
            ip_protocol: ipsec::ESP,
            spi: Some(SPI),
            rate_bps: Some(Rate::from_mbps(2)),
            ..ReservationRequest::of(protocol, on)
        };
        let mut h1 = net.client("h1")?;
        let _opened: Opened = match protocol {
            "rsvp" => h1.sender(request)?,
            _ => h1.call(&Request::Reserve(request))?,
        };
        for at in [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1")] {
            net.await_reserved(at, &[2], SLACK * 2)?;
        }
        let socket = net.namespace("h1").run_in(|| {
            Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(ipsec::ESP))))
        })??;
        for spi in [SPI, SPI + 1] {
            let packet = [&spi.to_be_bytes()[..], &[0; 96]].concat();
            for _ in 0..PACKETS {
                socket.send_to(&packet, &SocketAddr::new(h2, 0).into())?;
            }
        }
        wait_for("r1 counts the packets of the association", SLACK, || {
            let rows = net.client("r1")?.show_reservations()?.rows;
            let [row] = &rows[..] else { return Err(format!("{protocol}: {rows:?}").into()) };
            assert_eq!(row.senders[0].spi, Some(SPI), "{protocol}");
            let packets = row.traffic.map_or(0, |traffic| traffic.packets);
            assert!(packets <= PACKETS, "{protocol}: {packets} packets");
            Ok((packets == PACKETS).then_some(()))
        })?;
        net.client("h1")?.release_all()?;
        net.client("h2")?.release_all()?;
        net.await_reserved(("r1", "eth1"), &[], SLACK)?;
    }
    Ok(())
}

/// Hosts without raw sockets keep their reservation over many refresh periods: the summary refreshes and acknowledgements of
/// their routers reach them inside UDP (RFC 2205 appendix C).
pub(crate) fn hosts_inside_udp_keep_their_reservation() -> Outcome {
    const HOSTS: [&str; 2] = ["h1", "h2"];
    let net = Net::with(DEMO, "inside-udp", REFRESH, |options| {
        let settings = &mut options.settings;
        for host in HOSTS {
            let rsvp = (host.to_owned(), "rsvp");
            settings.own_protocols.insert(rsvp, "udp_only = true\n".to_owned());
            let protocols = "protocols = [\"rsvp\"]\n".to_owned();
            settings.own.insert((host.to_owned(), "eth0".to_owned()), protocols);
        }
        for (router, interface) in [("r1", "eth0"), ("r2", "eth1")] {
            let inside_udp = "udp_encapsulation = true\n".to_owned();
            settings.own.insert((router.to_owned(), interface.to_owned()), inside_udp);
        }
    })?;
    let h2 = net.address("h2", true);
    net.client("h2")?.listen(ListenRequest::new((h2, STREAM_PORT).into()))?;
    net.client("h1")?.sender(announcement(&net, "h1", h2))?;
    let routers = [("r1", "eth1"), ("r2", "eth1")];
    for at in routers {
        net.await_reserved(at, &[2], SLACK * 2)?;
    }
    for _ in 0..3 {
        sleep(lifetime(REFRESH));
        for (node, interface) in routers {
            assert_eq!(net.reserved(node, interface)?, [Rate::from_mbps(2)], "{node}");
        }
    }
    net.client("h1")?.release_all()?;
    net.await_reserved(("r1", "eth1"), &[], SLACK)
}
