//! Changes of interfaces: late appearance, removal, return, new name, new address, carrier.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use earmark_control::{LinkRow, LinkState, ListenRequest};
use earmark_core::Rate;
use earmark_linux::{link, netns::Namespace};
use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{ETH0, Host, Outcome, check, join, log, pair, until, wait};

/// Runs a program in a host's namespace, which must succeed.
fn run(host: &Host, program: &str, arguments: &[&str]) -> Outcome {
    let output = host.namespace.command(program)?.args(arguments).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    check(output.status.success(), &format!("{program} {arguments:?}: {said}"))
}

fn ip(host: &Host, arguments: &[&str]) -> Outcome {
    run(host, "ip", arguments)
}

fn rename(host: &Host, from: &str, to: &str) -> Outcome {
    ip(host, &["link", "set", "dev", from, "down"])?;
    ip(host, &["link", "set", "dev", from, "name", to])?;
    ip(host, &["link", "set", "dev", to, "up"])
}

fn row(host: &Host, name: &str) -> Result<LinkRow, Failed> {
    let rows = host.client()?.show_links()?.rows;
    let found = rows.iter().find(|row| row.interface == name).cloned();
    found.ok_or_else(|| format!("no row for {name}: {rows:?}").into())
}

fn await_state(host: &Host, name: &str, state: LinkState) -> Result<LinkRow, Failed> {
    until(&format!("{name} is {}", state.name()), || {
        Ok(Some(row(host, name)?).filter(|row| row.state == state))
    })
}

/// Reserves from one host to an address of another, and releases it again.
fn reserve(from: &Host, to: &Host, address: &str) -> Outcome {
    let to_port = format!("{address}:5001");
    until("both ends are up", || {
        let ready = |host: &Host| -> Result<bool, Failed> {
            let row = row(host, "eth0")?;
            Ok(row.state == LinkState::Up && row.addresses.iter().any(std::net::IpAddr::is_ipv4))
        };
        Ok((ready(from)? && ready(to)?).then_some(()))
    })?;
    to.client()?.listen(ListenRequest::new(to_port.parse()?))?;
    let output =
        from.earmark(&["reserve", "--to", &to_port, "--rate", "2Mbit", "--timeout", "15s"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))?;
    check(row(from, "eth0")?.held_bps == Rate::from_mbps(2), "it is held")?;
    check(queues(from, "eth0")?.contains("htb ea4d:"), "the queues are restored")?;
    Ok(())
}

fn release(from: &Host, to: &Host) -> Outcome {
    from.client()?.release_all()?;
    to.client()?.release_all()?;
    until("it is released", || Ok((row(from, "eth0")?.held_bps == Rate::ZERO).then_some(())))
}

/// The queueing disciplines of an interface, as `tc` lists them.
pub(crate) fn queues(host: &Host, name: &str) -> Result<String, Failed> {
    let output = host.namespace.command("tc")?.args(["qdisc", "show", "dev", name]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Stops the daemon. Returns its log.
fn end(host: &mut Host) -> Result<String, Failed> {
    let mut daemon = host.daemon.take().ok_or("no daemon")?;
    kill_process(Pid::from_child(&daemon), Signal::TERM)?;
    check(wait(&mut daemon)? == Some(0), "status 0")?;
    Ok(log(&mut daemon))
}

/// The daemon starts before the interface exists and names it. It reserves on the interface when that appears, and again after
/// it was deleted and created anew with another index.
pub(crate) fn one_that_comes_late_is_waited_for() -> Outcome {
    let (mut a, mut b) = (Host::new("a")?, Host::new("b")?);
    let both = format!("{ETH0}{}", ETH0.replace("eth0", "ppp0"));
    a.start(&both)?;
    b.start(ETH0)?;
    check(row(&a, "eth0")?.state == LinkState::Absent, "it is absent")?;
    check(row(&a, "eth0")?.bandwidth_bps == Rate::from_mbps(10), "its settings are known")?;
    join(&a, &b)?;
    let first = await_state(&a, "eth0", LinkState::Up)?.index;
    reserve(&a, &b, "10.0.1.2")?;

    link::delete(&a.namespace, "eth0")?;
    let gone = await_state(&a, "eth0", LinkState::Absent)?;
    check((gone.claims, gone.held_bps) == (0, Rate::ZERO), &format!("{gone:?}"))?;
    until("the reservation is void", || {
        Ok(a.client()?.show_reservations()?.rows.is_empty().then_some(()))
    })?;
    a.client()?.release_all()?;
    b.client()?.release_all()?;
    join(&a, &b)?;
    let second = await_state(&a, "eth0", LinkState::Up)?.index;
    check(first != second, "it has another index")?;
    reserve(&a, &b, "10.0.1.2")?;
    check(row(&a, "ppp0")?.state == LinkState::Absent, "the other one is still absent")?;

    let said = end(&mut a)?;
    for words in [
        "no such interface: waiting for it interface=eth0",
        "no such interface: waiting for it interface=ppp0",
        "takes part interface=eth0 bandwidth=\"10 Mbit/s\"",
        "the interface was removed; its reservations ended interface=eth0",
    ] {
        check(said.contains(words), &format!("{words}: {said}"))?;
    }
    Ok(())
}

/// A reload may name an interface that does not exist yet, and leave its bandwidth to the driver.
pub(crate) fn one_that_a_reload_adds_is_waited_for() -> Outcome {
    let (mut a, b) = pair()?;
    a.start(ETH0)?;
    let reload = |settings: &str| -> Outcome {
        a.configure(settings)?;
        let daemon = a.daemon.as_ref().ok_or("no daemon")?;
        Ok(kill_process(Pid::from_child(daemon), Signal::HUP)?)
    };
    let eth1 = ETH0.replace("eth0", "eth1");
    reload(&format!("{ETH0}{eth1}"))?;
    until("it is waited for", || {
        let rows = a.client()?.show_links()?.rows;
        let states: Vec<_> = rows.iter().map(|row| (&*row.interface, row.state)).collect();
        Ok((states == [("eth0", LinkState::Up), ("eth1", LinkState::Absent)]).then_some(()))
    })?;
    link::create_veth(&a.namespace, "eth1", &b.namespace, "eth1")?;
    await_state(&a, "eth1", LinkState::Down)?;
    check(queues(&a, "eth1")?.contains("htb ea4d:"), "the queues are restored")?;
    reload(&ETH0.replace("bandwidth = \"10Mbit\"\n", ""))?;
    until("the driver's speed counts", || {
        Ok((row(&a, "eth0")?.bandwidth_bps == Rate::from_mbps(10_000)).then_some(()))
    })
}

/// A renamed interface takes no part any more and gets its queues back; under its old name it takes part again.
pub(crate) fn one_that_is_renamed_is_given_back() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    reserve(&a, &b, "10.0.1.2")?;
    rename(&a, "eth0", "wan0")?;
    let gone = await_state(&a, "eth0", LinkState::Absent)?;
    check((gone.claims, gone.index) == (0, 0), &format!("{gone:?}"))?;
    until("the queues are given back", || {
        Ok((!queues(&a, "wan0")?.contains("ea4d:")).then_some(()))
    })?;
    check(a.client()?.show_links()?.rows.len() == 1, "wan0 takes no part")?;
    release(&a, &b)?;
    rename(&a, "wan0", "eth0")?;
    reserve(&a, &b, "10.0.1.2")?;
    let said = end(&mut a)?;
    check(said.contains("was renamed") && said.contains("new_name=wan0"), &said)
}

/// An interface with another program's queues is left alone and tried again; it takes part once they are gone.
pub(crate) fn one_with_foreign_queues_is_tried_again() -> Outcome {
    let (mut a, mut b) = pair()?;
    rename(&a, "eth0", "wan0")?;
    let foreign = ["dev", "wan0", "root", "handle", "77:", "pfifo", "limit", "9"];
    run(&a, "tc", &[&["qdisc", "add"], &foreign[..]].concat())?;
    a.start(&format!("{ETH0}[daemon]\nreconcile = \"200ms\"\n"))?;
    b.start(ETH0)?;
    rename(&a, "wan0", "eth0")?;
    await_state(&a, "eth0", LinkState::Failed)?;
    check(queues(&a, "eth0")?.contains("pfifo 77:"), "they are left alone")?;
    run(&a, "tc", &["qdisc", "delete", "dev", "eth0", "root"])?;
    await_state(&a, "eth0", LinkState::Up)?;
    reserve(&a, &b, "10.0.1.2")?;
    let said = end(&mut a)?;
    let words = "eth0 has a \"pfifo\" qdisc of another program";
    check(said.matches(words).count() == 1, &said)
}

/// An interface that moves to another namespace is gone; it returns unchanged, often with its old index.
pub(crate) fn one_that_moves_to_another_namespace_comes_back() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    reserve(&a, &b, "10.0.1.2")?;
    // A namespace without a name is identified by a process in it.
    let elsewhere = Namespace::unnamed()?;
    let process = |namespace: &Namespace| -> Result<Child, Failed> {
        Ok(namespace.command("sleep")?.arg("60").spawn()?)
    };
    let (mut there, mut here) = (process(&elsewhere)?, process(&a.namespace)?);
    let outcome = (|| {
        ip(&a, &["link", "set", "dev", "eth0", "netns", &there.id().to_string()])?;
        await_state(&a, "eth0", LinkState::Absent)?;
        let mut back = elsewhere.command("ip")?;
        let back = back.args(["link", "set", "dev", "eth0", "netns", &here.id().to_string()]);
        check(back.status()?.success(), "it moves back")?;
        link::add_address(&a.namespace, "eth0", "10.0.1.1".parse()?, 24)?;
        link::set_up(&a.namespace, "eth0", true)?;
        await_state(&a, "eth0", LinkState::Up)?;
        a.client()?.release_all()?;
        b.client()?.release_all()?;
        reserve(&a, &b, "10.0.1.2")
    })();
    for child in [&mut there, &mut here] {
        child.kill()?;
        child.wait()?;
    }
    outcome
}

/// The interface is deleted and created repeatedly. A takeover costs far more than that, so that the daemon takes it over with
/// growing pauses, answers meanwhile, and reserves when the interface is stable.
pub(crate) fn one_that_flaps_is_taken_over_now_and_then() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(&format!("{ETH0}queues = \"none\"\n"))?;
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    for _ in 0..60 {
        link::delete(&a.namespace, "eth0")?;
        join(&a, &b)?;
        let asked = Instant::now();
        a.client()?.show_links()?;
        slowest = slowest.max(asked.elapsed());
    }
    let took = start.elapsed();
    check(slowest < Duration::from_secs(3), &format!("an answer took {slowest:?}"))?;
    await_state(&a, "eth0", LinkState::Up)?;
    reserve(&a, &b, "10.0.1.2")?;
    let said = end(&mut a)?;
    let taken = said.matches("takes part interface=eth0").count();
    // One takeover happens at once, the next ones after pauses of at least a second, and one more at the end.
    let most = 2 + took.as_secs() as usize;
    check((1..=most).contains(&taken), &format!("{taken} times in {took:?}: {said}"))?;
    check(said.contains("the interface flaps"), &said)
}

/// The interface has no carrier and no address at start: both appear, the carrier goes and returns, the address changes.
pub(crate) fn carrier_and_address_may_come_later_and_change() -> Outcome {
    let (mut a, mut b) = (Host::new("a")?, Host::new("b")?);
    link::create_veth(&a.namespace, "eth0", &b.namespace, "eth0")?;
    link::set_up(&a.namespace, "eth0", true)?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    check(row(&a, "eth0")?.state == LinkState::Down, "there is no carrier")?;
    link::set_up(&b.namespace, "eth0", true)?;
    await_state(&a, "eth0", LinkState::Up)?;
    link::add_address(&a.namespace, "eth0", "10.0.1.1".parse()?, 24)?;
    link::add_address(&b.namespace, "eth0", "10.0.1.2".parse()?, 24)?;
    reserve(&a, &b, "10.0.1.2")?;

    link::set_up(&b.namespace, "eth0", false)?;
    await_state(&a, "eth0", LinkState::Down)?;
    link::set_up(&b.namespace, "eth0", true)?;
    await_state(&a, "eth0", LinkState::Up)?;
    until("refreshes have made it whole", || {
        Ok((row(&a, "eth0")?.held_bps == Rate::from_mbps(2)).then_some(()))
    })?;
    release(&a, &b)?;

    // DHCP changes the address like this with a new lease.
    for (host, old, new) in [(&a, "10.0.1.1/24", "10.0.7.1/24"), (&b, "10.0.1.2/24", "10.0.7.2/24")]
    {
        ip(host, &["address", "add", new, "dev", "eth0"])?;
        ip(host, &["address", "delete", old, "dev", "eth0"])?;
    }
    until("a has its new address", || {
        let addresses = row(&a, "eth0")?.addresses;
        Ok((addresses.first() == Some(&"10.0.7.1".parse()?)).then_some(()))
    })?;
    reserve(&a, &b, "10.0.7.2")?;
    // Duplicate address detection takes a second; messages carry the address afterwards.
    ip(&a, &["address", "add", "2001:db8:7::1/64", "dev", "eth0"])?;
    until("the IPv6 address is usable", || {
        let addresses = row(&a, "eth0")?.addresses;
        Ok(addresses.contains(&"2001:db8:7::1".parse()?).then_some(()))
    })?;
    ip(&a, &["link", "set", "dev", "eth0", "mtu", "1400"])?;
    check(row(&a, "eth0")?.held_bps == Rate::from_mbps(2), "it still stands")?;
    let said = end(&mut a)?;
    check(said.contains("the interface is up interface=eth0"), &said)?;
    check(said.contains("without a carrier interface=eth0"), &said)
}

/// If no bandwidth is configured, it is the link's current speed; without a speed the interface waits.
pub(crate) fn bandwidth_is_the_speed_that_the_driver_tells() -> Outcome {
    let (mut a, b) = pair()?;
    let bridge =
        "[[interface]]\nname = \"br0\"\nqueues = \"none\"\n[daemon]\nreconcile = \"200ms\"\n";
    let eth0 = "[[interface]]\nname = \"eth0\"\nreservable = \"50%\"\nclasses = 16\n";
    ip(&a, &["link", "add", "br0", "type", "bridge"])?;
    ip(&a, &["link", "set", "dev", "br0", "up"])?;
    a.start(&format!("{eth0}{bridge}"))?;
    let fast = row(&a, "eth0")?;
    check(
        (fast.bandwidth_bps, fast.reservable_bps)
            == (Rate::from_mbps(10_000), Rate::from_mbps(5_000)),
        &format!("{fast:?}"),
    )?;
    check(row(&a, "br0")?.state == LinkState::NoSpeed, "a bridge without ports has no speed")?;
    link::create_veth(&a.namespace, "port", &b.namespace, "port")?;
    ip(&a, &["link", "set", "dev", "port", "master", "br0"])?;
    link::set_up(&a.namespace, "port", true)?;
    link::set_up(&b.namespace, "port", true)?;
    let bridge = await_state(&a, "br0", LinkState::Up)?;
    check(bridge.bandwidth_bps == Rate::from_mbps(10_000), &format!("{bridge:?}"))?;
    let said = end(&mut a)?;
    let words = "set `bandwidth` in its [[interface]] interface=br0";
    check(said.matches(words).count() == 1, &said)
}

/// The driver's speed changes: the plan of the link's queues follows at the next comparison.
pub(crate) fn bandwidth_follows_the_speed() -> Outcome {
    let mut a = Host::new("a")?;
    ip(&a, &["tuntap", "add", "name", "tun0", "mode", "tun"])?;
    ip(&a, &["address", "add", "10.0.3.1", "peer", "10.0.3.2", "dev", "tun0"])?;
    ip(&a, &["link", "set", "dev", "tun0", "up"])?;
    let speed = |mbps| run(&a, "ethtool", &["-s", "tun0", "speed", mbps, "duplex", "full"]);
    speed("1000")?;
    a.start("[[interface]]\nname = \"tun0\"\nclasses = 16\n[daemon]\nreconcile = \"200ms\"\n")?;
    let bandwidth = |mbps| {
        until(&format!("{mbps} Mbit/s"), || {
            let row = row(&a, "tun0")?;
            let share = Rate::from_mbps(mbps).share(0.75);
            let expected = (Rate::from_mbps(mbps), share);
            Ok(((row.bandwidth_bps, row.reservable_bps) == expected).then_some(()))
        })
    };
    bandwidth(1_000)?;
    run(&a, "ethtool", &["-s", "tun0", "speed", "100", "duplex", "full"])?;
    bandwidth(100)?;
    let classes = a.namespace.command("tc")?.args(["class", "show", "dev", "tun0"]).output()?;
    let classes = String::from_utf8_lossy(&classes.stdout).into_owned();
    check(classes.contains("rate 100Mbit") && !classes.contains("1Gbit"), &classes)?;
    end(&mut a).map(drop)
}

/// Large packets impair the delay on a slow link; on a fast one, and without segmentation offload, nothing is logged.
pub(crate) fn segmentation_offload_on_a_slow_link_is_warned_of_once() -> Outcome {
    let (mut a, b) = pair()?;
    for name in ["eth1", "eth2"] {
        link::create_veth(&a.namespace, name, &b.namespace, name)?;
    }
    for feature in ["tso", "gso"] {
        run(&a, "ethtool", &["-K", "eth1", feature, "off"])?;
    }
    let fast = ETH0.replace("eth0", "eth2").replace("10Mbit", "1Gbit");
    a.start(&format!("{ETH0}{}{fast}", ETH0.replace("eth0", "eth1")))?;
    for mtu in ["1400", "1500"] {
        ip(&a, &["link", "set", "dev", "eth0", "mtu", mtu])?;
    }
    let said = end(&mut a)?;
    check(said.matches("segmentation offload is on").count() == 1, &said)?;
    check(said.contains("ethtool -K eth0 tso off gso off"), &said)
}

/// Every event about a link contains its name beside the index, even if the link has just gone; the text contains only the
/// name.
pub(crate) fn events_name_interfaces() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    let mut watcher = a.client()?;
    watcher.start_watching()?;
    reserve(&a, &b, "10.0.1.2")?;
    link::delete(&a.namespace, "eth0")?;
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut seen = Vec::new();
    loop {
        let notice = watcher.next_event(Some(deadline))?.ok_or("the reservation is not void")?;
        let Some(name) = notice.interface_name.as_deref() else { continue };
        check(name == "eth0", &format!("{notice:?}"))?;
        seen.push(notice.text);
        if seen.iter().any(|text| text.contains("on eth0 removed")) {
            break;
        }
    }
    check(seen.iter().any(|text| text.contains("on eth0 made")), &format!("{seen:?}"))
}

/// On a link without link-layer header, as VPNs have, messages are intercepted, and packets of reservations are classified and
/// counted, with a class for each reservation and with a bucket for each.
pub(crate) fn link_without_ethernet_takes_reservations() -> Outcome {
    ["per-flow", "aggregate"].into_iter().try_for_each(|queues| {
        let mut a = Host::new("a")?;
        let mut python = a.namespace.command("python3")?;
        python.args(["-c", include_str!("tun.py")]).stdout(Stdio::piped());
        let mut far_end = python.spawn()?;
        let outcome = reserve_through_tun(&mut a, &mut far_end, queues);
        far_end.kill()?;
        far_end.wait()?;
        outcome
    })
}

fn reserve_through_tun(a: &mut Host, far_end: &mut Child, queues: &str) -> Outcome {
    let mut line = String::new();
    BufReader::new(far_end.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    check(line == "ready\n", &line)?;
    ip(a, &["address", "add", "10.0.3.1", "peer", "10.0.3.2", "dev", "tun0"])?;
    ip(a, &["link", "set", "dev", "tun0", "up"])?;
    let settings = "[[interface]]\nname = \"tun0\"\nbandwidth = \"10Mbit\"\nclasses = 16\n";
    a.start(&format!("{settings}queues = \"{queues}\"\n"))?;
    await_state(a, "tun0", LinkState::Up)?;
    let to = ["--to", "10.0.3.2:5001", "--forward", "2Mbit", "--timeout", "15s"];
    let output = a.earmark(&[&["reserve", "--protocol", "boomerang"], &to[..]].concat())?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))?;
    a.namespace.run_in(|| -> std::io::Result<()> {
        let socket = UdpSocket::bind("10.0.3.1:0")?;
        for (port, count) in [(5001, 5), (5002, 3)] {
            for _ in 0..count {
                socket.send_to(&[0; 1_000], ("10.0.3.2", port))?;
            }
        }
        Ok(())
    })??;
    let traffic = until("all are through", || {
        let traffic = a.client()?.show_reservations()?.rows[0].traffic.ok_or("not counted")?;
        Ok((traffic.backlog_packets == 0 && traffic.packets >= 5).then_some(traffic))
    })?;
    check((traffic.packets, traffic.octets) == (5, 5 * 1_028), &format!("{traffic:?}"))
}

/// Settings may contain an alternative name, as udev assigns; the log says which name to use.
pub(crate) fn alternative_name_is_explained() -> Outcome {
    let (mut a, _b) = pair()?;
    ip(&a, &["link", "property", "add", "dev", "eth0", "altname", "enp0s1"])?;
    a.start("[[interface]]\nname = \"enp0s1\"\nbandwidth = \"10Mbit\"\n")?;
    check(row(&a, "enp0s1")?.state == LinkState::Absent, "settings are for main names")?;
    let said = end(&mut a)?;
    check(said.contains("another name of eth0"), &said)
}

/// Whether a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}
