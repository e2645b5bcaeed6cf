//! A flood of set-ups through a router: each source is limited, whether kernel or daemon handles the messages, and others are
//! not affected.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use earmark_core::Outgoing;
use earmark_linux::SignallingSocket;
use earmark_wire::boomerang::{Flags, Keys, Options, Qos, Rates, Reservation, Shape};
use earmark_wire::icmp::{self, HEADER, Kind, PseudoHeader};
use earmark_wire::rtcp::{self, Application, CNAME_LEN, Chunks, Packet, SenderInfo, SenderReport};
use earmark_wire::udp;
use earmark_wire::yessir::{Command, Flowspec, Generic, Message, NAME, OctetRate, Style, VERSION};
use libtest_mimic::Failed;

use crate::host::{Host, Outcome, check, line, until};

const FLOODER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 77);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 88);
const SINK: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// Limits of the routers: sessions of one source, and changes of one source in a second.
const SESSIONS: u32 = 100;
const CHANGES: u32 = 50;
/// Set-ups in a second.
const FLOOD: u32 = 2_000;

/// A set-up of Boomerang, 1 bit/s, for a flow of its own.
pub(crate) fn loop_of(source: Ipv4Addr, number: u16) -> Vec<u8> {
    let reservation = Reservation {
        transaction_id: number.into(),
        flags: Flags(0),
        refresh_interval: 30,
        key: 1,
        classifier: Keys {
            source: source.into(),
            destination: SINK.into(),
            source_port: number + 1,
            destination_port: 9,
            protocol: 17,
            tos: 0,
            flags: 0,
        },
        mask: Shape {
            source: 32,
            destination: 32,
            source_port: true,
            destination_port: true,
            protocol: true,
            tos: false,
        },
        qos: Qos::Bitrate(Rates { forward: 1, reverse: 0 }),
        options: Options::Items(&[]),
    };
    let mut octets = vec![0; HEADER + reservation.buffer_len()];
    reservation.emit(&mut octets[HEADER..]).expect("it fits");
    icmp::seal(&mut octets, PseudoHeader::V4, Kind::Request, number, 1).expect("it fits");
    octets
}

/// A set-up of YESSIR, 8 bit/s, for a stream of its own.
pub(crate) fn report_of(source: Ipv4Addr, number: u16) -> Vec<u8> {
    let ssrc = u32::from(number) + 1;
    let message = Message {
        ssrc,
        generic: Generic {
            command: Command::Active,
            style: Style::Individual,
            interval: 30,
            reservation: 7,
            multiplexed: true,
        },
        flowspec: Some(Flowspec::Class { dscp: 46, rate: OctetRate(1.0) }),
        link_info: None,
        failures: Default::default(),
        auth: None,
        token: None,
        others: &[],
    };
    let mut app = vec![0; message.buffer_len()];
    message.emit(&mut app).expect("it fits");
    let sender = SenderInfo::default();
    let report = SenderReport { ssrc, sender, blocks: &[], extension: &[] };
    let mut room = [0; CNAME_LEN];
    let chunks = Chunks::cname(ssrc, b"somebody@somewhere", &mut room).expect("short");
    let packets = [
        Packet::SenderReport(report),
        Packet::SourceDescription(chunks),
        Packet::Application(Application { subtype: VERSION, ssrc, name: NAME, data: &app[12..] }),
    ];
    let mut octets = vec![0; udp::HEADER + rtcp::buffer_len(&packets)];
    rtcp::emit(&packets, &mut octets[udp::HEADER..]).expect("it fits");
    let header = udp::Repr {
        source: source.into(),
        destination: SINK.into(),
        source_port: 2 * number + 2,
        destination_port: 5_000,
    };
    header.emit(&mut octets).expect("it fits");
    octets
}

/// Number of sessions of a source on the router.
fn sessions(router: &Host, source: Ipv4Addr) -> Result<u32, Failed> {
    let rows = router.client()?.show_sessions()?.rows;
    Ok(rows.iter().filter(|row| row.source == IpAddr::from(source)).count() as u32)
}

fn flood(
    protocol: u8,
    message: fn(Ipv4Addr, u16) -> Vec<u8>,
    settings: &str,
) -> Result<Host, Failed> {
    const OTHERS: u16 = 5;
    let [a, mut r, b] = line()?;
    let interface = |name| {
        format!(
            "[[interface]]\nname = \"{name}\"\nbandwidth = \"10Mbit\"\nqueues = \"none\"\nrole = \"core\"\n"
        )
    };
    let limits = format!("max_per_source = {SESSIONS}\nchanges_per_second = {CHANGES}\n");
    let tables = format!("[boomerang]\n{limits}{settings}[yessir]\n{limits}");
    r.start(&format!("{tables}{}{}", interface("eth0"), interface("eth1")))?;
    let mut socket = a.namespace.run_in(SignallingSocket::open)??;
    let mut send = |source: Ipv4Addr, number| {
        let out = Outgoing {
            protocol,
            interface: None,
            source: source.into(),
            destination: SINK.into(),
            ttl: 64,
            router_alert: true,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        };
        socket.send(&out, &message(source, number))
    };
    let start = Instant::now();
    for number in 0..FLOOD as u16 {
        send(FLOODER, number)?;
        if number % (FLOOD as u16 / OTHERS) == 100 {
            send(OTHER, number)?;
        }
        let due = start + Duration::from_secs(1) / FLOOD * u32::from(number);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    until("a second's changes are made", || {
        let second = sessions(&r, FLOODER)?;
        let most = f64::from(CHANGES) * (1.5 + 1.5 * start.elapsed().as_secs_f64());
        check(f64::from(second) <= most, &format!("{second} of {most}"))?;
        Ok((second >= CHANGES).then_some(()))
    })?;
    until("others are not held up", || {
        Ok((sessions(&r, OTHER)? == u32::from(OTHERS)).then_some(()))
    })?;
    for number in 0..2 * FLOOD as u16 {
        send(FLOODER, number)?;
        std::thread::sleep(Duration::from_secs(1) / FLOOD);
    }
    until("there are as many as may be", || {
        let all = sessions(&r, FLOODER)?;
        check(all <= SESSIONS, &format!("{all} in all"))?;
        Ok((all == SESSIONS).then_some(()))
    })?;
    drop(b);
    Ok(r)
}

pub(crate) fn count(router: &Host, path: &str) -> Result<u64, Failed> {
    let all = router.client()?.show_counters()?;
    let number = all.pointer(path).and_then(serde_json::Value::as_u64);
    number.ok_or_else(|| format!("no {path}: {all}").into())
}

pub(crate) fn a_flood_of_loops_is_limited() -> Outcome {
    let router = flood(icmp::PROTOCOL_V4, loop_of, "")?;
    check(count(&router, "/boomerang/refused/limit")? > 0, "refused")
}

/// The limits also hold in the kernel, which has set up a part of the sessions.
pub(crate) fn a_flood_of_loops_is_limited_in_the_kernel_too() -> Outcome {
    let router = flood(icmp::PROTOCOL_V4, loop_of, "kernel = { share = \"50%\" }\n")?;
    check(count(&router, "/boomerang/refused/limit")? > 0, "refused")?;
    let [requests, replies, daemons] =
        ["/boomerang/messages/requests", "/boomerang/messages/replies", "/driver/received"]
            .map(|path| count(&router, path));
    let (all, daemons) = (requests? + replies?, daemons?);
    check(daemons < all, &format!("{daemons} of {all} came to the daemon"))
}

pub(crate) fn a_flood_of_reports_is_limited() -> Outcome {
    flood(17, report_of, "").map(drop)
}
