//! A port that sends messages of all protocols as fast as it can, while new reservations are made through another port.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use earmark_core::Outgoing;
use earmark_linux::{SignallingSocket, link};
use earmark_testkit::messages;
use earmark_wire::rsvp::{MessageType, SourceSelector, Style};
use earmark_wire::{gist, icmp, udp};
use libtest_mimic::Failed;

use crate::host::{Host, Outcome, await_carrier, check, line, until};
use crate::limits::{count, loop_of, report_of};

const FLOODER: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 3);
const SINK: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const RSVP: u8 = 46;
/// Different messages of each protocol.
const MESSAGES: u16 = 4_000;
/// Reservations of each protocol during the flood, and the time within which each must be made.
const ROUNDS: u16 = 8;
const LIMIT: Duration = Duration::from_secs(1);

/// A Path of a sender of its own.
fn path_of(number: u16) -> Vec<u8> {
    let mut parts = messages::rsvp::sample(MessageType::Path, Style::FixedFilter, false);
    parts.session.destination = SINK.into();
    parts.session.port = 9_000;
    parts.hop.address = FLOODER.into();
    if let Some(template) = &mut parts.template {
        template.source = FLOODER.into();
        template.selector = SourceSelector::Port(number);
    }
    parts.send_ttl = 64;
    messages::rsvp::octets(&parts.message())
}

/// A Query of a session of its own, inside UDP.
fn query_of(number: u16) -> Vec<u8> {
    let query = messages::gist::valid_query();
    let mut octets = vec![0; udp::HEADER + gist::MAGIC_LEN + query.len()];
    let room = gist::emit_magic(&mut octets[udp::HEADER..]).expect("there is room");
    room.copy_from_slice(&query);
    let mut replace = |from: &[u8], to: &[u8]| {
        for at in 0..octets.len() - from.len() {
            if octets[at..].starts_with(from) {
                octets[at..at + to.len()].copy_from_slice(to);
            }
        }
    };
    replace(&messages::packets::SOURCE.octets(), &FLOODER.octets());
    replace(&messages::packets::DESTINATION.octets(), &SINK.octets());
    replace(&[7; 16], &number.to_be_bytes());
    let port = gist::iana::PORT;
    let (source, destination) = (FLOODER.into(), SINK.into());
    let header = udp::Repr { source, destination, source_port: port, destination_port: port };
    header.emit(&mut octets).expect("it is short");
    octets
}

/// Messages of four protocols in turn.
fn flood() -> Vec<(Outgoing, Vec<u8>)> {
    type Kind = (u8, fn(u16) -> Vec<u8>);
    let kinds: [Kind; 4] = [
        (RSVP, path_of),
        (icmp::PROTOCOL_V4, |number| loop_of(FLOODER, number)),
        (udp::PROTOCOL, query_of),
        (udp::PROTOCOL, |number| report_of(FLOODER, number)),
    ];
    let out = |protocol| Outgoing {
        router_alert: true,
        ..Outgoing::new(protocol, FLOODER.into(), SINK.into(), 64)
    };
    (1..=MESSAGES)
        .flat_map(|number| kinds.map(|(protocol, message)| (out(protocol), message(number))))
        .collect()
}

/// Adds a third port to the router of a line, with the flooder behind it.
fn with_flooder() -> Result<[Host; 4], Failed> {
    let [a, r, b] = line()?;
    let f = Host::new("f")?;
    link::sysctl(&f.namespace, "net.ipv6.conf.default.disable_ipv6", "1")?;
    link::create_veth(&f.namespace, "eth0", &r.namespace, "eth2")?;
    for (host, name, address) in [(&f, "eth0", "10.0.3.3"), (&r, "eth2", "10.0.3.254")] {
        link::add_address(&host.namespace, name, address.parse()?, 24)?;
        link::set_up(&host.namespace, name, true)?;
    }
    await_carrier(&f, "eth0")?;
    await_carrier(&r, "eth2")?;
    link::add_route(&f.namespace, "0.0.0.0/0".parse()?, "10.0.3.254".parse()?)?;
    Ok([a, r, b, f])
}

fn settings(names: &[&str]) -> String {
    let interface = |name: &&str| {
        format!("[[interface]]\nname = \"{name}\"\nbandwidth = \"100Mbit\"\nqueues = \"none\"\n")
    };
    names.iter().map(interface).collect()
}

/// Makes one reservation from `host`; returns its time.
fn reserve(host: &Host, protocol: &str, port: u16) -> Result<Duration, Failed> {
    let (to, start) = (format!("{SINK}:{port}"), Instant::now());
    let from = format!("10.0.1.1:{port}");
    let arguments = ["reserve", "--protocol", protocol, "--to", &to, "--from", &from];
    let rate = if protocol == "boomerang" { "--forward" } else { "--rate" };
    let (status, answer) =
        host.json(&[&arguments[..], &[rate, "10kbit", "--timeout", "5s"]].concat())?;
    let time = start.elapsed();
    check(status == Some(0), &format!("{protocol} {port} after {time:?}: {answer}"))?;
    Ok(time)
}

/// New reservations through one port are made within a second, while another port sends as fast as it can.
pub(crate) fn port_that_floods_delays_no_other() -> Outcome {
    let [mut a, mut r, mut b, f] = with_flooder()?;
    a.start(&settings(&["eth0"]))?;
    r.start(&settings(&["eth0", "eth1", "eth2"]))?;
    b.start(&settings(&["eth0"]))?;
    let mut listeners = Vec::new();
    for round in 0..=ROUNDS {
        let on = format!("{SINK}:{}", 5_000 + round);
        let (status, answer) = b.json(&["listen", "--on", &on])?;
        check(status == Some(0), &answer.to_string())?;
        listeners.push(answer);
    }
    let protocols = [("rsvp", 5_000), ("boomerang", 6_000), ("nsis", 7_000)];
    for (protocol, port) in protocols {
        reserve(&a, protocol, port + ROUNDS)?;
    }
    let flood = flood();
    let mut socket = f.namespace.run_in(SignallingSocket::open)??;
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let times = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for messages in flood.chunks(256) {
                    socket.send_all(
                        messages.iter().map(|(out, octets)| (out, &octets[..])),
                        |_, _| {},
                    );
                    sent.fetch_add(messages.len() as u64, Ordering::Relaxed);
                }
            }
        });
        let outcome = until("the flood exceeds what is read", || {
            let shed = count(&r, "/socket/port_share/eth2").unwrap_or_default();
            Ok((shed > 1_000).then_some(()))
        });
        let times = outcome.and_then(|()| {
            let all = (0..ROUNDS).flat_map(|round| protocols.map(|(p, port)| (p, port + round)));
            all.map(|(protocol, port)| Ok((protocol, reserve(&a, protocol, port)?))).collect()
        });
        done.store(true, Ordering::Relaxed);
        times
    });
    let times: Vec<(&str, Duration)> = times?;
    let rate = sent.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    println!("{rate:.0} messages a second; set-ups: {times:?}");
    let longest = times.iter().max_by_key(|(_, time)| *time).ok_or("no reservation")?;
    check(longest.1 <= LIMIT, &format!("{longest:?} of {times:?}"))?;
    for quiet in ["eth0", "eth1"] {
        let shed = count(&r, &format!("/socket/port_share/{quiet}"))?;
        check(shed == 0, &format!("{shed} messages of {quiet} are shed"))?;
    }
    Ok(())
}
