//! Firewalls and a translator between a host and the world, which open for what was asked for, and for nothing else.
//!
//! ```text
//!   client --- fw1 --- nat --- core --- fw2 --- server
//! ```
//!
//! The packet filters of fw1, nat and fw2 are real, and so is the translation. A scan finds exactly the pinholes that stand.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use earmark_control::protocols::nsis::natfw::{Expose, Open};
use earmark_control::protocols::nsis::{self, ReserveOptions};
use earmark_control::{
    ApplicationId, ListenRequest, Listing, Opened, PinholeRow, Request, ReservationRequest,
    TranslationRow,
};
use earmark_core::Rate;
use earmark_scenario::topology::Topology;
use earmark_testkit::wait::wait_for;
use libtest_mimic::Failed;

use crate::Outcome;
use crate::net::{Net, REFRESH, SLACK};

const TOPOLOGY: &str = r#"
ipv6 = true
[[node]]
name = "client"
[[node]]
name = "fw1"
[[node]]
name = "nat"
[[node]]
name = "core"
[[node]]
name = "fw2"
[[node]]
name = "server"
[[link]]
ends = ["client", "fw1"]
bandwidth = "100Mbit"
[[link]]
ends = ["fw1", "nat"]
bandwidth = "100Mbit"
[[link]]
ends = ["nat", "core"]
bandwidth = "100Mbit"
[[link]]
ends = ["core", "fw2"]
bandwidth = "100Mbit"
[[link]]
ends = ["fw2", "server"]
bandwidth = "100Mbit"
"#;

/// Ports that a scan tries.
const PORTS: [u16; 4] = [5_001, 5_002, 5_003, 6_001];
/// Lifetime of sessions, seconds.
const LIFETIME: u32 = 6;
/// Time for which a scan waits for each packet.
const PATIENCE: Duration = Duration::from_millis(60);

/// Builds the network. The translator translates what comes from the client.
fn up(name: &str) -> Result<Net, Failed> {
    let topology = Topology::parse(TOPOLOGY)?;
    let address = |host: &str| -> Result<IpAddr, Failed> {
        let node = topology.node(host).ok_or("a host")?;
        let (end, _) = topology.interfaces(node).next().ok_or("a link")?;
        Ok(end.address.into())
    };
    let (client, server) = (address("client")?, address("server")?);
    Net::with(TOPOLOGY, name, REFRESH, |options| {
        let any = "[[natfw.rule]]\nwildcards = true\n";
        let firewall = "[natfw]\nenabled = true\nfirewall = true\n";
        let nodes = [
            ("client", format!("[natfw]\nenabled = true\nsignaling_destination = \"{server}\"\n")),
            ("server", "[natfw]\nenabled = true\nresponder = \"any\"\n".to_owned()),
            ("fw1", format!("{firewall}guard = [\"eth0\", \"eth1\"]\n{any}")),
            (
                "nat",
                format!(
                    "{firewall}external = [\"eth1\"]\nguard = [\"eth1\"]\n\
                     [natfw.translator]\nsources = [\"{client}/32\"]\n{any}"
                ),
            ),
            (
                "fw2",
                format!("{firewall}external = [\"eth0\"]\nguard = [\"eth0\", \"eth1\"]\n{any}"),
            ),
            ("core", String::new()),
        ];
        for (node, text) in nodes {
            let text = format!("refresh = \"1s\"\n{text}");
            options.settings.own_protocols.insert((node.to_owned(), "nsis"), text);
        }
    })
}

fn bind(net: &Net, node: &str, own: SocketAddr) -> Result<UdpSocket, Failed> {
    let socket = net.namespace(node).run_in(|| UdpSocket::bind(own))??;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Packets from one host, from its port, to each destination. Returns the ports of another host at which some arrive, and
/// where they came from.
fn scan(
    net: &Net,
    (from, port): (&str, u16),
    to: &[SocketAddr],
    at: &str,
) -> Result<BTreeSet<(u16, SocketAddr)>, Failed> {
    let ipv4 = to[0].is_ipv4();
    let source = bind(net, from, SocketAddr::new(net.address(from, ipv4), port))?;
    let own = net.address(at, ipv4);
    let listening: Vec<(u16, UdpSocket)> = PORTS
        .iter()
        .chain([&700, &701])
        .filter(|port| !(from == at && **port == 700))
        .map(|&port| Ok((port, bind(net, at, SocketAddr::new(own, port))?)))
        .collect::<Result<_, Failed>>()?;
    let mut found = BTreeSet::new();
    // The first packet may wait for a neighbour's address.
    for _ in 0..2 {
        for to in to {
            source.send_to(b"scan", to)?;
        }
        for (port, socket) in &listening {
            while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
                found.insert((*port, from));
            }
        }
    }
    Ok(found)
}

/// Returns all ports of an address.
fn all_ports(address: IpAddr) -> Vec<SocketAddr> {
    PORTS.iter().map(|port| SocketAddr::new(address, *port)).collect()
}

fn ports(found: &BTreeSet<(u16, SocketAddr)>) -> Vec<u16> {
    found.iter().map(|(port, _)| *port).collect()
}

/// Waits until every firewall and the translator have this number of installed pinholes. The answer installs them one after the
/// other, from the server to the client, so that one of them alone says nothing of the path.
fn await_pinholes(net: &Net, number: usize) -> Outcome {
    for node in ["fw1", "nat", "fw2"] {
        let mut last = Vec::new();
        let reached = wait_for("", SLACK, || {
            last = net.client(node)?.show::<PinholeRow>(Listing::Pinholes)?.rows;
            let installed = last.iter().filter(|row| row.installed).count();
            Ok((installed == number && last.len() == number).then_some(()))
        });
        reached.map_err(|_| format!("{node} has {last:?} instead of {number} pinholes"))?;
    }
    Ok(())
}

fn open(net: &Net, node: &str, to: SocketAddr, from_port: u16) -> Result<Opened, Failed> {
    let from = Some(SocketAddr::new(net.address(node, to.is_ipv4()), from_port));
    let open = Open { from, lifetime_s: Some(LIFETIME), ..Open::new(to) };
    Ok(net.client(node)?.call(&Request::Open(open))?)
}

/// A path through two firewalls and a translator is open exactly while its session lives: after the grant, for replies too, and
/// not after the release; and it closes by itself if a daemon on the path is killed.
pub(crate) fn a_path_is_open_while_its_session_lives() -> Outcome {
    let mut net = up("path")?;
    let (client, server) = (net.address("client", true), net.address("server", true));
    let nothing: [u16; 0] = [];
    let outward = |net: &Net, port| scan(net, ("client", port), &all_ports(server), "server");
    assert_eq!(ports(&outward(&net, 700)?), nothing, "closed before");
    assert_eq!(ports(&scan(&net, ("server", 5_001), &all_ports(client), "client")?), nothing);

    let opened = open(&net, "client", (server, 5_001).into(), 700)?;
    await_pinholes(&net, 1)?;
    let found = outward(&net, 700)?;
    assert_eq!(ports(&found), [5_001], "one port of one host");
    let (_, translated) = found.first().ok_or("a packet")?;
    assert_ne!(translated.ip(), client, "the source is translated");
    assert_eq!(ports(&outward(&net, 701)?), nothing, "of one port");
    let replies = scan(&net, ("server", 5_001), &[*translated], "client")?;
    assert_eq!(replies, BTreeSet::from([(700, (server, 5_001).into())]), "replies come back");
    assert_eq!(ports(&scan(&net, ("server", 5_002), &[*translated], "client")?), nothing);
    // Refreshes keep it open for longer than its lifetime.
    let until = Instant::now() + Duration::from_secs(u64::from(LIFETIME) + 2);
    while Instant::now() < until {
        assert_eq!(ports(&outward(&net, 700)?), [5_001], "open all the time");
    }

    net.client("client")?.release(opened.application)?;
    await_pinholes(&net, 0)?;
    assert_eq!(ports(&outward(&net, 700)?), nothing, "closed after");
    assert_eq!(ports(&scan(&net, ("server", 5_001), &[*translated], "client")?), nothing);

    for victim in ["fw1", "nat", "fw2"] {
        open(&net, "client", (server, 5_001).into(), 700)?;
        await_pinholes(&net, 1)?;
        net.kill_daemon(victim)?;
        assert_eq!(ports(&outward(&net, 700)?), [5_001], "{victim} is killed, the session lives");
        let closed = wait_for("", Duration::from_secs(u64::from(LIFETIME) * 2), || {
            Ok(outward(&net, 700)?.is_empty().then_some(()))
        });
        closed.map_err(|_| format!("{victim} is killed, and the path stays open"))?;
        net.start_daemon(victim)?;
        net.client("client")?.release_all()?;
        assert_eq!(ports(&outward(&net, 700)?), nothing, "{victim} runs again");
    }
    Ok(())
}

/// A port behind a firewall and a translator is exposed: it has a public address, at which one host outside reaches it when it has
/// opened the path, and no other host and no other port.
pub(crate) fn an_exposed_port_is_reached_by_who_asked() -> Outcome {
    let net = up("exposed")?;
    let (client, server) = (net.address("client", true), net.address("server", true));
    let nothing: [u16; 0] = [];
    let expose = Expose { lifetime_s: Some(LIFETIME), ..Expose::new(6_001) };
    let exposed: Opened = net.client("client")?.call(&Request::Expose(expose))?;
    let external = wait_for("nat has a translation", SLACK, || {
        let rows = net.client("nat")?.show::<TranslationRow>(Listing::Translations)?.rows;
        Ok(rows.first().map(|row| row.external))
    })?;
    let external = SocketAddr::new(external.address, external.port);
    assert_ne!(external.ip(), client);
    let inward = |from: &str, port| scan(&net, (from, port), &[external], "client");
    assert_eq!(ports(&inward("server", 900)?), nothing, "a reservation opens nothing");

    let opened = open(&net, "server", external, 900)?;
    await_pinholes(&net, 1)?;
    assert_eq!(inward("server", 900)?, BTreeSet::from([(6_001, (server, 900).into())]));
    assert_eq!(ports(&inward("server", 901)?), nothing, "from another port");
    let direct = scan(&net, ("server", 900), &all_ports(client), "client")?;
    assert_eq!(ports(&direct), nothing, "not at its internal address");

    net.client("server")?.release(opened.application)?;
    await_pinholes(&net, 0)?;
    assert_eq!(ports(&inward("server", 900)?), nothing, "closed after");
    net.client("client")?.release(exposed.application)?;
    wait_for("nat has no translation", SLACK, || {
        let rows = net.client("nat")?.show::<TranslationRow>(Listing::Translations)?.rows;
        Ok(rows.is_empty().then_some(()))
    })
}

/// Firewalls of IPv6 open in the same way, in both directions, and the translator of IPv4 leaves the packets as they are.
pub(crate) fn a_path_over_ipv6_is_open_while_its_session_lives() -> Outcome {
    let net = up("path6")?;
    let (client, server) = (net.address("client", false), net.address("server", false));
    let nothing: [u16; 0] = [];
    let outward = || scan(&net, ("client", 700), &all_ports(server), "server");
    assert_eq!(ports(&outward()?), nothing, "closed before");
    let opened = open(&net, "client", (server, 5_001).into(), 700)?;
    await_pinholes(&net, 1)?;
    assert_eq!(outward()?, BTreeSet::from([(5_001, (client, 700).into())]));
    let replies = scan(&net, ("server", 5_001), &[(client, 700).into()], "client")?;
    assert_eq!(ports(&replies), [700], "replies come back");
    assert_eq!(ports(&scan(&net, ("server", 5_002), &all_ports(client), "client")?), nothing);
    net.client("client")?.release(opened.application)?;
    await_pinholes(&net, 0)?;
    assert_eq!(ports(&outward()?), nothing, "closed after");
    Ok(())
}

/// Reserves 2 Mbit/s from a port of a host, bound to a path that this host has opened.
fn reserve(
    net: &Net,
    (node, from_port): (&str, u16),
    to: SocketAddr,
    bound_to: Option<ApplicationId>,
) -> Outcome {
    let from = Some(SocketAddr::new(net.address(node, true), from_port));
    let request = ReservationRequest { from, ..nsis::request(to, Rate::from_mbps(2)) };
    let options = ReserveOptions { bound_to, ..ReserveOptions::default() };
    net.client(node)?.reserve(request.with(&options))?;
    Ok(())
}

/// The kernel of the translator has the reservations of both directions, with the addresses that the packets have when they leave.
/// The reservations outlive a daemon that is killed, and end with the path.
pub(crate) fn a_translated_path_is_reserved_in_both_directions() -> Outcome {
    let mut net = up("reserved")?;
    let (client, server) = (net.address("client", true), net.address("server", true));
    for (host, port) in [("client", 700), ("server", 5_001)] {
        let on = SocketAddr::new(net.address(host, true), port);
        net.client(host)?.listen(nsis::listen_request(on))?;
    }
    let opened = open(&net, "client", (server, 5_001).into(), 700)?;
    await_pinholes(&net, 1)?;
    let rows = net.client("nat")?.show::<PinholeRow>(Listing::Pinholes)?.rows;
    let outside = rows.first().and_then(|row| row.new_source).ok_or("a translation")?;
    let outside = SocketAddr::new(outside.address, outside.port);
    reserve(&net, ("client", 700), (server, 5_001).into(), Some(opened.application))?;
    // The server has opened nothing, so that nothing binds its reservation to the path.
    reserve(&net, ("server", 5_001), outside, None)?;
    let outward = [("fw1", "eth1"), ("nat", "eth1"), ("core", "eth1"), ("fw2", "eth1")];
    let inward = [("fw2", "eth0"), ("core", "eth0"), ("nat", "eth0"), ("fw1", "eth0")];
    for at in outward.into_iter().chain(inward) {
        net.await_reserved(at, &[2], SLACK)?;
    }
    let rows = net.client("nat")?.show_reservations()?.rows;
    let of = |interface: &str| rows.iter().find(|row| row.interface.as_deref() == Some(interface));
    let sender = of("eth1").and_then(|row| row.senders.first()).ok_or("a sender")?;
    assert_eq!((sender.address, sender.port), (outside.ip(), outside.port()), "outside");
    assert_eq!(of("eth0").ok_or("a row")?.destination, client, "inside");

    let at = ("nat", "eth1");
    let sending = net.client("client")?.reserve(ReservationRequest {
        from: Some(SocketAddr::new(client, 700)),
        rate_bps: Some(Rate::from_mbps(3)),
        ..ReservationRequest::of("rsvp", (server, 5_001).into())
    })?;
    let listening =
        net.client("server")?.listen(ListenRequest::of("rsvp", (server, 5_001).into()))?;
    net.await_reserved(at, &[2, 3], SLACK)?;
    // RSVP cannot know the addresses outside, and the listing says so.
    let rows = net.client("nat")?.show_reservations()?.rows;
    let row = rows.into_iter().find(|row| row.protocol == "rsvp").ok_or("a reservation of RSVP")?;
    let reason = row.enforcement.and_then(|row| row.reason).ok_or("a reason")?;
    assert!(reason.contains(&format!("as those of {outside}")), "{reason}");
    net.client("server")?.release(listening.application)?;
    net.client("client")?.release(sending.application)?;
    net.await_reserved(at, &[2], SLACK)?;

    net.kill_daemon("nat")?;
    net.start_daemon("nat")?;
    let until = Instant::now() + REFRESH * 12;
    while Instant::now() < until {
        for at in [("nat", "eth1"), ("nat", "eth0"), ("core", "eth1"), ("fw1", "eth0")] {
            net.await_reserved(at, &[2], Duration::ZERO)?;
        }
    }
    net.client("server")?.release_all()?;
    for at in inward {
        net.await_reserved(at, &[], SLACK)?;
    }
    net.client("client")?.release(opened.application)?;
    for at in outward {
        net.await_reserved(at, &[], SLACK)?;
    }
    Ok(())
}
