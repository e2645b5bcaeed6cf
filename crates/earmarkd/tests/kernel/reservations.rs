//! Reservations between daemons, and what happens to them when settings or queues change.

use std::net::UdpSocket;

use earmark_control::{LinkRow, ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_linux::link;
use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{ETH0, Host, Outcome, check, line, log, pair, until, wait};

/// A complete sequence: listen, reserve, list, exceed the capacity, release.
pub(super) fn two_daemons_reserve_and_refuse() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    let reserve = |rate| ["reserve", "--to", "10.0.1.2:5001", "--rate", rate, "--timeout", "15s"];
    let output = a.earmark(&reserve("2Mbit"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(
        output.status.code() == Some(0),
        &format!("{said}{}", &String::from_utf8_lossy(&output.stderr)),
    )?;
    check(said.starts_with("reserved 2 Mbit/s to 10.0.1.2:5001 in "), &said)?;

    let rows = a.client()?.show_reservations()?.rows;
    check(rows.len() == 1 && rows[0].rate_bps == 2_000_000, &format!("{rows:?}"))?;
    check(rows[0].interface.as_deref() == Some("eth0"), &format!("{rows:?}"))?;
    check(rows[0].traffic.is_some_and(|traffic| traffic.packets == 0), &format!("{rows:?}"))?;
    let age = rows[0].age_s.ok_or("it has no age")?;
    check((0.0..30.0).contains(&age), &format!("{rows:?}"))?;
    let later = until("it is older", || {
        let rows = a.client()?.show_reservations()?.rows;
        Ok(rows[0].age_s.filter(|later| *later > age))
    })?;
    check(later < age + 30.0, &format!("{age} s and then {later} s"))?;
    let neighbors = a.client()?.show_neighbors()?.rows;
    check(
        neighbors.len() == 1 && neighbors[0].address == "10.0.1.2".parse::<std::net::IpAddr>()?,
        "b",
    )?;

    // 2 + 6 Mbit/s do not fit into 7.5, and the refusal comes from the sender's own link.
    b.client()?.listen(ListenRequest::new("10.0.1.2:5002".parse()?))?;
    let output =
        a.earmark(&["reserve", "--to", "10.0.1.2:5002", "--rate", "6Mbit", "--timeout", "15s"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(output.status.code() == Some(3), &said)?;
    check(said.contains("admission control failure"), &said)?;
    check(
        a.client()?.show_links()?.rows[0].held_bps == Rate::from_mbps(2),
        "the first one stands",
    )?;

    // The receiver reserves for a sender that exists, and for one that does not.
    let on = ReservationRequest::new("10.0.1.2:5003".parse()?, Rate::from_mbps(1));
    a.client()?.sender(on)?;
    let output =
        b.earmark(&["reserve", "--to", "10.0.1.2:5003", "--rate", "1Mbit", "--timeout", "15s"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))?;
    let output =
        b.earmark(&["reserve", "--to", "10.0.1.2:5004", "--rate", "1Mbit", "--timeout", "200ms"])?;
    check(output.status.code() == Some(4), &String::from_utf8_lossy(&output.stdout))?;

    a.client()?.release_all()?;
    until("everything is released", || {
        let link = &a.client()?.show_links()?.rows[0];
        Ok((link.held_bps == Rate::ZERO && link.claims == 0).then_some(()))
    })?;
    until("b has heard of it", || Ok(b.client()?.show_sessions()?.rows.is_empty().then_some(())))
}

/// A link that adds 64 octets to packets of 64: reservations of every protocol take twice their rate, and no more are
/// admitted than fit. The classes of unreserved packets count the overhead, those of reservations do not. A reload changes it.
pub(super) fn overhead_of_a_link_is_counted_for_every_protocol() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(&format!("{ETH0}overhead = 64\n"))?;
    b.start(ETH0)?;
    for port in [5_000, 5_008] {
        b.client()?.listen(ListenRequest::new(([10, 0, 1, 2], port).into()))?;
    }
    b.client()?.listen(ListenRequest::of("yessir", "10.0.1.2:5006".parse()?))?;
    let reserve = |protocol, to, rate| -> Result<(Option<i32>, serde_json::Value), Failed> {
        let request = ["reserve", "--protocol", protocol, "--to", to, "--from", "10.0.1.1:4000"];
        let rate = match protocol {
            "boomerang" => ["--forward", rate, "--timeout", "15s"],
            _ => ["--rate", rate, "--timeout", "15s"],
        };
        a.json(&[&request[..], &rate].concat())
    };
    let protocols = [
        ("rsvp", "10.0.1.2:5000"),
        ("nsis", "10.0.1.2:5002"),
        ("boomerang", "10.0.1.2:5004"),
        ("yessir", "10.0.1.2:5006"),
    ];
    for (protocol, to) in protocols {
        let (status, answer) = reserve(protocol, to, "500kbit")?;
        check(status == Some(0), &format!("{protocol}: {answer}"))?;
    }
    let held = |mbps| {
        until(&format!("{mbps} Mbit/s are held"), || {
            Ok((a.client()?.show_links()?.rows[0].held_bps == Rate::from_mbps(mbps)).then_some(()))
        })
    };
    held(4)?;
    let rows = a.client()?.show_reservations()?.rows;
    let rates: Vec<u64> = rows.iter().map(|row| row.rate_bps).collect();
    check(rates == [500_000; 4], &format!("{rows:?}"))?;
    for (protocol, _) in protocols.into_iter().take(3) {
        let (status, answer) = reserve(protocol, "10.0.1.2:5008", "2Mbit")?;
        check(status == Some(3), &format!("{protocol}, 4 of the other 3.5 Mbit/s: {answer}"))?;
    }
    let classes = || -> Result<String, Failed> {
        let arguments = ["-details", "class", "show", "dev", "eth0"];
        let output = a.namespace.command("tc")?.args(arguments).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let with = |overhead: &str| -> Result<[usize; 2], Failed> {
        let text = classes()?;
        let count = |words: &[&str]| {
            text.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
        };
        Ok([count(&[overhead]), count(&["rate 500Kbit", "overhead"])])
    };
    // The link and best effort.
    check(with("overhead 64")? == [2, 0], &classes()?)?;
    a.configure(ETH0)?;
    let daemon = a.daemon.as_ref().ok_or("no daemon")?;
    kill_process(Pid::from_child(daemon), Signal::HUP)?;
    held(2)?;
    check(with("overhead 14")? == [2, 0], &classes()?)
}

/// Traffic is counted both with a class for each reservation and with a bucket for each in one class.
pub(super) fn reservations_show_their_traffic() -> Outcome {
    ["per-flow", "aggregate"].into_iter().try_for_each(traffic_is_shown_with)
}

/// Packets of a reservation are counted in its row, other packets are not. If queues are left alone, and at the receiver,
/// nothing is counted.
fn traffic_is_shown_with(queues: &str) -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(&format!("{ETH0}queues = \"{queues}\"\n"))?;
    b.start(&format!("{ETH0}queues = \"none\"\n"))?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    let output =
        a.earmark(&["reserve", "--to", "10.0.1.2:5001", "--rate", "2Mbit", "--timeout", "15s"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))?;
    // Five datagrams of 1000 octets and their headers (28), and three to another port.
    a.namespace.run_in(|| -> std::io::Result<()> {
        let socket = UdpSocket::bind("10.0.1.1:0")?;
        for (port, count) in [(5001, 5), (5002, 3)] {
            for _ in 0..count {
                socket.send_to(&[0; 1_000], ("10.0.1.2", port))?;
            }
        }
        Ok(())
    })??;
    let traffic = until("all are through", || {
        let rows = a.client()?.show_reservations()?.rows;
        let traffic = rows[0].traffic.ok_or("nothing is counted")?;
        Ok((traffic.backlog_packets == 0 && traffic.packets >= 5).then_some(traffic))
    })?;
    check(
        (traffic.packets, traffic.octets, traffic.drops) == (5, 5 * 1_028, 0),
        &format!("{traffic:?}"),
    )?;
    let rows = b.client()?.show_reservations()?.rows;
    check(rows.len() == 1 && rows[0].traffic.is_none(), &format!("{rows:?}"))?;
    let counters = a.client()?.show_counters()?;
    for part in ["rsvp", "socket", "traffic_control", "driver", "control"] {
        check(counters[part].is_object(), &format!("{part}: {counters}"))?;
    }
    check(
        counters["socket"]["sent"].as_u64() > Some(0)
            && counters["socket"]["received"].as_u64() > Some(0),
        &counters.to_string(),
    )
}

/// Reservation and release over IPv6.
pub(super) fn two_daemons_reserve_over_ipv6() -> Outcome {
    let (mut a, mut b) = pair()?;
    link::add_address(&a.namespace, "eth0", "2001:db8::1".parse()?, 64)?;
    link::add_address(&b.namespace, "eth0", "2001:db8::2".parse()?, 64)?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("[2001:db8::2]:5001".parse()?))?;
    let to = ["--to", "[2001:db8::2]:5001"];
    let output = a.earmark(&["reserve", to[0], to[1], "--rate", "2Mbit", "--timeout", "15s"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(output.status.code() == Some(0), &said)?;
    check(said.starts_with("reserved 2 Mbit/s to [2001:db8::2]:5001 in "), &said)?;
    let rows = a.client()?.show_reservations()?.rows;
    check(rows.len() == 1 && rows[0].rate_bps == 2_000_000, &format!("{rows:?}"))?;
    check(rows[0].traffic.is_some_and(|traffic| traffic.packets == 0), &format!("{rows:?}"))?;
    let neighbors = a.client()?.show_neighbors()?.rows;
    let there: std::net::IpAddr = "2001:db8::2".parse()?;
    check(neighbors.len() == 1 && neighbors[0].address == there, &format!("{neighbors:?}"))?;
    let output = a.earmark(&["release", "1"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stderr))?;
    until("the reservation is gone", || {
        let links = a.client()?.show_links()?.rows;
        Ok((links[0].held_bps == Rate::ZERO).then_some(()))
    })
}

/// RFC 2205 appendix C: a host without privileges signals inside UDP, its router in both ways, and the other host raw. The data
/// that the host sends is reserved for, and so is the data that it receives.
pub(super) fn a_host_without_raw_sockets_signals_inside_udp() -> Outcome {
    let [mut a, mut r, mut b] = line()?;
    a.start_as_nobody(&format!("udp_only = true\n{ETH0}queues = \"none\"\n"))?;
    r.start(&format!("{ETH0}udp_encapsulation = true\n{}", ETH0.replace("eth0", "eth1")))?;
    b.start(ETH0)?;
    for (sender, receiver, to, link) in
        [(&a, &b, "10.0.2.2:5001", "eth1"), (&b, &a, "10.0.1.1:5002", "eth0")]
    {
        receiver.client()?.listen(ListenRequest::new(to.parse()?))?;
        let output =
            sender.earmark(&["reserve", "--to", to, "--rate", "2Mbit", "--timeout", "15s"])?;
        let said = String::from_utf8_lossy(&output.stdout);
        check(output.status.code() == Some(0), &said)?;
        let held = |r: &Host| -> Result<Option<Rate>, Failed> {
            let rows = r.client()?.show_links()?.rows;
            Ok(rows.iter().find(|row| row.interface == link).map(|row| row.held_bps))
        };
        check(held(&r)? == Some(Rate::from_mbps(2)), &format!("{link} of the router"))?;
        sender.client()?.release_all()?;
        receiver.client()?.release_all()?;
        until("the router has released it", || Ok((held(&r)? == Some(Rate::ZERO)).then_some(())))?;
    }
    Ok(())
}

/// After SIGHUP the link is wider, a rule refuses the existing reservation, and one more interface takes part. Existing
/// reservations stay and keep their class; new requests are subject to the new settings. A file with an error changes nothing,
/// and the log contains its line.
pub(super) fn settings_change_and_reservations_stay() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    link::create_veth(&a.namespace, "eth1", &b.namespace, "eth1")?;
    let ask = |port: u16, mbps: u32| -> Outcome {
        b.client()?.listen(ListenRequest::new(([10, 0, 1, 2], port).into()))?;
        a.client()?.sender(ReservationRequest::new(
            ([10, 0, 1, 2], port).into(),
            Rate::from_mbps(mbps.into()),
        ))?;
        Ok(())
    };
    let links = || -> Result<Vec<(String, u64, u64)>, Failed> {
        let rows = a.client()?.show_links()?.rows;
        let row =
            |row: LinkRow| (row.interface, row.reservable_bps.as_bps(), row.held_bps.as_bps());
        Ok(rows.into_iter().map(row).collect())
    };
    let eth0 = |reservable, held| ("eth0".to_owned(), reservable, held);
    let reload = || -> Outcome {
        let daemon = a.daemon.as_ref().ok_or("no daemon")?;
        Ok(kill_process(Pid::from_child(daemon), Signal::HUP)?)
    };
    ask(5001, 2)?;
    until("it is reserved", || Ok((links()? == [eth0(7_500_000, 2_000_000)]).then_some(())))?;
    let removed = || -> Result<serde_json::Value, Failed> {
        Ok(a.client()?.show_counters()?["driver"]["removed"].clone())
    };
    let before = removed()?;

    a.configure("max_sessions = many\n")?;
    reload()?;
    let wide = ETH0.replace("10Mbit", "20Mbit").replace("16", "32");
    let eth1 = "[[interface]]\nname = \"eth1\"\nbandwidth = \"4Mbit\"\nqueues = \"none\"\n";
    let rule = "[[policy.rule]]\naction = \"refuse\"\ndestinations = [\"10.0.1.2/32\"]\n";
    std::thread::sleep(std::time::Duration::from_millis(200));
    check(links()? == [eth0(7_500_000, 2_000_000)], "nothing has changed")?;
    a.configure(&format!("{wide}{eth1}{rule}"))?;
    reload()?;
    let both = [eth0(15_000_000, 2_000_000), ("eth1".to_owned(), 3_000_000, 0)];
    until("the settings are new", || Ok((links()? == both).then_some(())))?;
    ask(5002, 1)?;
    let refused = |log: &str| log.contains("policy");
    until("the rule refuses", || {
        let rows = b.client()?.show_applications()?.rows;
        Ok(rows.iter().any(|row| refused(&format!("{row:?}").to_lowercase())).then_some(()))
    })?;
    // Longer than the lifetime of state that is not refreshed.
    std::thread::sleep(std::time::Duration::from_secs(3));
    check(links()? == both, "the old reservation stays")?;
    check(before.is_u64() && removed()? == before, "and so does its class")?;
    a.configure(&wide)?;
    reload()?;
    until("the rule is gone", || Ok((links()?[0] == eth0(15_000_000, 3_000_000)).then_some(())))?;

    let mut daemon = a.daemon.take().ok_or("no daemon")?;
    kill_process(Pid::from_child(&daemon), Signal::TERM)?;
    check(wait(&mut daemon)? == Some(0), "status 0")?;
    let said = log(&mut daemon);
    for words in ["c.toml:5: rsvp.max_sessions", "interface eth0: classes", "interface eth1, which"]
    {
        check(said.contains(words), &format!("{words}: {said}"))?;
    }
    Ok(())
}

/// Another program replaces the queues of a link: its reservations are void, and reported so, until the daemon's queues
/// are back.
pub(super) fn queues_that_are_taken_over_void_reservations() -> Outcome {
    let (mut a, mut b) = pair()?;
    let impatient = format!("{ETH0}[daemon]\nreconcile = \"200ms\"\n");
    a.start(&impatient)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    a.client()?.sender(ReservationRequest::new("10.0.1.2:5001".parse()?, Rate::from_mbps(2)))?;
    let reservable = |a: &Host| -> Result<(u64, u32), Failed> {
        let rows = a.client()?.show_links()?.rows;
        let link = rows.first().ok_or("no link")?;
        Ok((link.reservable_bps.as_bps(), link.claims))
    };
    until("it is reserved", || Ok((reservable(&a)? == (7_500_000, 1)).then_some(())))?;
    let tc = |arguments: &[&str]| -> Outcome {
        let status = a.namespace.command("tc")?.args(arguments).status()?;
        check(status.success(), &format!("tc {arguments:?}: {status}"))
    };
    tc(&["qdisc", "replace", "dev", "eth0", "root", "handle", "77:", "pfifo", "limit", "9"])?;
    until("nothing is reserved any more", || Ok((reservable(&a)? == (0, 0)).then_some(())))?;
    until("the receiver hears of it", || {
        let rows = b.client()?.show_applications()?.rows;
        Ok(rows.iter().any(|row| format!("{row:?}").contains("raffic")).then_some(()))
    })?;
    tc(&["qdisc", "delete", "dev", "eth0", "root"])?;
    // The receiver requests the reservation again with its next refresh.
    until("it is reserved again", || Ok((reservable(&a)? == (7_500_000, 1)).then_some(())))
}

/// The key file is read again on SIGHUP: a file with a mistake, or without a key for a secured protocol, leaves the old keys in
/// force; a valid one changes those of all protocols. The log has no secret.
pub(super) fn keys_change_and_broken_file_does_not() -> Outcome {
    let (mut a, mut b) = pair()?;
    let (keys_a, keys_b) = (a.directory.join("keys.toml"), b.directory.join("keys.toml"));
    let key = |id: u32| {
        format!(
            "[[key]]\nid = {id}\nalgorithm = \"hmac-sha-256\"\nsecret = \"hidden number {id}\"\nuser = \"alice\"\n\
             protocols = [\"rsvp\", \"boomerang\", \"yessir\"]\n"
        )
    };
    let write = |path: &std::path::Path, text: &str| -> Outcome {
        std::fs::write(path, text)?;
        Ok(std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?)
    };
    let settings = |path: &std::path::Path, directions: &str| {
        let integrity = format!("name = \"eth0\"\nintegrity = \"{directions}\"\n");
        let eth0 = ETH0.replacen("name = \"eth0\"\n", &integrity, 1);
        format!("{eth0}[integrity]\nkeys = {path:?}\n")
    };
    write(&keys_a, &key(1))?;
    write(&keys_b, &key(1))?;
    a.start(&settings(&keys_a, "both"))?;
    b.start(&settings(&keys_b, "both"))?;
    let reload = |host: &Host| -> Outcome {
        let daemon = host.daemon.as_ref().ok_or("no daemon")?;
        Ok(kill_process(Pid::from_child(daemon), Signal::HUP)?)
    };
    let ask = |port: u16| -> Outcome {
        b.client()?.listen(ListenRequest::new(([10, 0, 1, 2], port).into()))?;
        a.client()?
            .sender(ReservationRequest::new(([10, 0, 1, 2], port).into(), Rate::from_mbps(1)))?;
        Ok(())
    };
    let held = |rate: u64| -> Outcome {
        until("it is reserved", || {
            let rows = a.client()?.show_links()?.rows;
            Ok((rows.first().map(|row| row.held_bps.as_bps()) == Some(rate)).then_some(()))
        })
    };
    ask(5001)?;
    held(1_000_000)?;
    for broken in ["[[key]]\nid = 1\n", "", "secret = hidden number"] {
        write(&keys_a, broken)?;
        reload(&a)?;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    ask(5002)?;
    held(2_000_000)?;
    // Only with the same key do both understand each other again.
    write(&keys_a, &key(2))?;
    write(&keys_b, &key(2))?;
    reload(&a)?;
    reload(&b)?;
    ask(5003)?;
    held(3_000_000)?;
    let mut daemon = a.daemon.take().ok_or("no daemon")?;
    kill_process(Pid::from_child(&daemon), Signal::TERM)?;
    check(wait(&mut daemon)? == Some(0), "status 0")?;
    let said = log(&mut daemon);
    for words in ["missing field `algorithm`", "eth0 has integrity for", "malformed secret"] {
        check(said.contains(words), &format!("{words}: {said}"))?;
    }
    check(said.matches("the old keys stay").count() == 3, &said)?;
    check(!said.contains("hidden"), &said)
}
