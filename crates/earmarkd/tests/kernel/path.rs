//! `show path`: the daemon's answer about a flow agrees with the kernel's handling of its packets.

#[path = "path/claims.rs"]
pub(crate) mod claims;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;

use earmark_control::{PathAnswer, PathOutcome, PathRequest, Request};
use earmark_linux::link;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::flow_routes::{Fork, settings};
use crate::host::{Host, Outcome, check, until};

const TO: &str = "10.0.9.1:5001";
const FROM: &str = "10.0.1.5:4000";
const TWO_NEXT_HOPS: &str = "route replace 10.0.9.0/29 nexthop via 10.0.2.2 nexthop via 10.0.3.2";
/// Packets of a flow that is observed on its link, and octets of each.
const PACKETS: u64 = 20;
const OCTETS: usize = 1_000;

/// The request about the sender's flow from `FROM` to `TO`.
fn asked() -> Result<PathRequest, Failed> {
    Ok(PathRequest { from: Some(FROM.parse()?), ..PathRequest::new(TO.parse()?) })
}

fn path(host: &Host, request: PathRequest) -> Result<PathAnswer, Failed> {
    Ok(host.client()?.path(request)?)
}

/// Interface and next hop of an answer.
fn leaves(answer: &PathAnswer) -> (Option<&str>, Option<String>) {
    (answer.interface.as_deref(), answer.next_hop.map(|hop| hop.to_string()))
}

fn expect(answer: &PathAnswer, is_so: bool) -> Outcome {
    check(is_so, &format!("{answer:#?}"))
}

/// Creates a router whose daemon takes part on all its links.
fn router(commands: &[&str]) -> Result<Fork, Failed> {
    let mut fork = Fork::new()?;
    commands.iter().try_for_each(|command| fork.ip(command))?;
    fork.router.start(&settings(&["eth0", "eth1", "eth2"]))?;
    Ok(fork)
}

pub(crate) fn plain_route_is_told() -> Outcome {
    let fork = router(&["route add 10.0.9.0/29 via 10.0.2.2 metric 7"])?;
    let answer = path(&fork.router, asked()?)?;
    expect(&answer, leaves(&answer) == (Some("eth1"), Some("10.0.2.2".into())))?;
    let rule = answer.rule.as_ref().ok_or("no rule")?;
    let said = (rule.priority, &*rule.selector, &*rule.action, rule.certain);
    expect(&answer, said == (32_766, "from all", "lookup main", true))?;
    let (route, table) = (answer.route.as_ref().ok_or("no route")?, answer.table.as_ref());
    expect(&answer, (route.prefix.to_string(), route.metric) == ("10.0.9.0/29".into(), 7))?;
    expect(&answer, table.is_some_and(|table| (table.number, &*table.name) == (254, "main")))?;
    expect(&answer, route.next_hops.len() == 1 && route.hash_policy.is_none())?;
    let flow = &answer.flow;
    expect(&answer, flow.incoming.as_deref() == Some("eth0") && flow.incoming_assumed)?;
    expect(&answer, answer.claims.is_empty() && answer.claim_count == 0)?;
    let packets = answer.packets.as_ref().ok_or("no packets")?;
    expect(&answer, packets.get == "best_effort" && packets.enforcement.is_none())?;
    expect(&answer, packets.class.as_deref() == Some("ea4d:2"))?;
    expect(&answer, answer.warnings.is_empty())?;

    // The command prints the same, and its JSON is that of the socket.
    let command = ["show", "path", "10.0.9.1", "--dport", "5001", "--from", FROM];
    let output = fork.router.earmark(&command)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in [
        "10.0.1.5:4000 -> 10.0.9.1:5001, udp, in through eth0 (as routes to its source lead)\n",
        "leaves through eth1, next hop 10.0.2.2\n",
        "rule      32766: from all lookup main\n",
        "route     10.0.9.0/29 metric 7 in table main\n",
        "nothing is reserved for it on eth1\n",
        "packets get best effort, class ea4d:2 on eth1",
    ] {
        check(said.contains(words), &format!("{words}: {said}"))?;
    }
    let output = fork.router.earmark(&[&command[..], &["--json"]].concat())?;
    let json: PathAnswer = serde_json::from_slice(&output.stdout)?;
    check(json == answer, &format!("{json:#?}"))?;

    // This host's own packets, packets to itself, and packets to a neighbor.
    let own = path(&fork.router, PathRequest::new(TO.parse()?))?;
    expect(&own, own.flow.source == Some("10.0.2.1".parse()?) && own.flow.incoming.is_none())?;
    let local = path(&fork.router, PathRequest { to: "10.0.3.1:9".parse()?, ..asked()? })?;
    expect(&local, local.outcome == PathOutcome::Local && local.packets.is_none())?;
    expect(&local, local.table.as_ref().is_some_and(|table| table.name == "local"))?;
    let neighbor = path(&fork.router, PathRequest { to: "10.0.3.2:9".parse()?, ..asked()? })?;
    expect(&neighbor, leaves(&neighbor) == (Some("eth2"), None))?;
    let all = path(&fork.router, PathRequest::new("10.0.3.255:9".parse()?))?;
    expect(&all, all.outcome == PathOutcome::Broadcast && leaves(&all).0 == Some("eth2"))
}

/// The answers over IPv6, with rules that refuse.
pub(crate) fn ipv6_is_told() -> Outcome {
    let mut fork = Fork::new()?;
    fork.add_ipv6()?;
    for command in [
        "-6 route add fd09::/64 nexthop via fd02::2 nexthop via fd03::2",
        "-6 route add fd09::/64 via fd03::2 table 200",
        "-6 rule add from fd01::4/126 iif eth0 lookup 200",
        "-6 rule add from fd01::3 prohibit",
        "-6 route add unreachable fd05::/64",
    ] {
        fork.ip(command)?;
    }
    link::sysctl(&fork.router.namespace, "net.ipv6.fib_multipath_hash_policy", "1")?;
    fork.router.start(&settings(&["eth0", "eth1", "eth2"]))?;
    let ask = |from: &str, to: &str| {
        let from = Some(SocketAddr::new(from.parse::<IpAddr>()?, 4_000));
        path(
            &fork.router,
            PathRequest { from, ..PathRequest::new((to.parse::<IpAddr>()?, 9).into()) },
        )
    };
    let hashed = ask("fd01::1", "fd09::1")?;
    let route = hashed.route.as_ref().ok_or("no route")?;
    expect(&hashed, hashed.outcome == PathOutcome::Forwarded && route.next_hops.len() == 2)?;
    expect(&hashed, route.hash_policy.as_ref().is_some_and(|policy| policy.number == 1))?;
    expect(&hashed, route.next_hops.iter().filter(|hop| hop.chosen).count() == 1)?;
    let ruled = ask("fd01::5", "fd09::1")?;
    expect(&ruled, leaves(&ruled) == (Some("eth2"), Some("fd03::2".into())))?;
    let rule = ruled.rule.as_ref().ok_or("no rule")?;
    expect(&ruled, rule.selector == "from fd01::4/126 iif eth0" && rule.certain)?;
    let prohibited = ask("fd01::3", "fd09::1")?;
    expect(&prohibited, prohibited.outcome == PathOutcome::Prohibited)?;
    expect(&prohibited, prohibited.rule.as_ref().is_some_and(|rule| rule.action == "prohibit"))?;
    let unreachable = ask("fd01::1", "fd05::1")?;
    expect(&unreachable, unreachable.outcome == PathOutcome::Unreachable)?;
    let none = ask("fd01::1", "fd08::1")?;
    expect(&none, none.outcome == PathOutcome::NoRoute)
}

/// Packets that the router has sent through both links.
fn sent(router: &Host) -> Result<[u64; 2], Failed> {
    let mut sent = [0; 2];
    for (name, sent) in ["eth1", "eth2"].iter().zip(&mut sent) {
        let run = || Command::new("ip").args(["-s", "-j", "link", "show", "dev", name]).output();
        let answer: Value = serde_json::from_slice(&router.namespace.run_in(run)??.stdout)?;
        *sent = answer[0]["stats64"]["tx"]["bytes"].as_u64().ok_or("no counter")?;
    }
    Ok(sent)
}

/// Both links have the same metric, and the hash includes ports: each flow leaves by the reported link.
pub(crate) fn link_of_real_packets_is_named() -> Outcome {
    let fork = Fork::new()?;
    for command in [
        TWO_NEXT_HOPS,
        "nexthop add id 1 via 10.0.2.2 dev eth1",
        "nexthop add id 2 via 10.0.3.2 dev eth2",
        "nexthop add id 10 group 1,2/2,2",
        "nexthop add id 11 group 1/2 type resilient buckets 32 idle_timer 3600",
    ] {
        fork.ip(command)?;
    }
    link::sysctl(&fork.router.namespace, "net.ipv4.fib_multipath_hash_policy", "1")?;
    // Neighbors are resolved before packets are counted.
    for neighbor in ["10.0.2.2:9", "10.0.3.2:9"] {
        let send = || UdpSocket::bind("0.0.0.0:0")?.send_to(b"hello", neighbor);
        fork.router.namespace.run_in(send)??;
    }
    let mut fork = fork;
    fork.router.start(&settings(&["eth0", "eth1", "eth2"]))?;
    let asked_before = asked_of_flows(&fork.router)?;
    for (route, kind) in [
        (TWO_NEXT_HOPS, None),
        ("route replace 10.0.9.0/29 nhid 10", Some("group")),
        ("route replace 10.0.9.0/29 nhid 11", Some("resilient group")),
    ] {
        fork.ip(route)?;
        let mut carried = [0; 2];
        for port in 0..12_u16 {
            let from = SocketAddr::from(([10, 0, 1, 5], 4_000 + port));
            let to = SocketAddr::from(([10, 0, 9, 1], 5_000 + port * 7));
            let request = PathRequest { from: Some(from), ..PathRequest::new(to) };
            let answer = path(&fork.router, request)?;
            let told = answer.route.as_ref().ok_or("no route")?;
            expect(&answer, told.nexthop_kind.as_deref() == kind && told.next_hops.len() == 2)?;
            expect(&answer, told.hash_policy.as_ref().is_some_and(|policy| policy.number == 1))?;
            let chosen = told.next_hops.iter().position(|hop| hop.chosen).ok_or("none chosen")?;
            expect(&answer, leaves(&answer).0 == Some(["eth1", "eth2"][chosen]))?;
            carried[chosen] += 1;

            let before = sent(&fork.router)?;
            fork.sender.namespace.run_in(|| -> std::io::Result<()> {
                let socket = UdpSocket::bind(from)?;
                (0..PACKETS).try_for_each(|_| socket.send_to(&[0; OCTETS], to).map(drop))
            })??;
            let all = PACKETS * OCTETS as u64;
            until(&format!("all packets of {from} leave by {}", ["eth1", "eth2"][chosen]), || {
                let after = sent(&fork.router)?;
                let grown = [after[0] - before[0], after[1] - before[1]];
                check(grown[1 - chosen] < all / 2, &format!("{grown:?}: {answer:#?}"))?;
                Ok((grown[chosen] >= all).then_some(()))
            })?;
        }
        check(carried.iter().all(|&count| count > 0), &format!("{kind:?}: {carried:?}"))?;
    }
    // Without both ports the answer may differ from that of the flow, and warns about it.
    let answer = path(&fork.router, PathRequest { from: Some("10.0.1.5:0".parse()?), ..asked()? })?;
    expect(&answer, answer.warnings.iter().any(|warning| warning.contains("--sport N")))?;
    let own = path(&fork.router, PathRequest::new(TO.parse()?))?;
    expect(&own, own.warnings.iter().any(|warning| warning.contains("--from ADDRESS")))?;
    // Kept routes of reservations were not looked up.
    check(asked_of_flows(&fork.router)? == asked_before, "no kept route was asked for")
}

fn asked_of_flows(router: &Host) -> Result<Value, Failed> {
    Ok(router.client()?.show_counters()?["flow_routes"]["asked"].clone())
}

pub(crate) fn rules_by_source_and_mark_are_followed() -> Outcome {
    let mut fork = Fork::new()?;
    for command in [
        "route add 10.0.9.0/29 via 10.0.2.2",
        "route add 10.0.9.0/29 via 10.0.3.2 table 200",
        "route add default via 10.0.3.2 table 300",
        "rule add prio 80 from 10.0.2.1 lookup main",
        "rule add prio 90 from 10.0.1.6 goto 95",
        "rule add prio 92 from 10.0.1.6 lookup 200",
        "rule add prio 95 nop",
        "rule add prio 100 from 10.0.1.4/30 iif eth0 lookup 200",
        "rule add prio 101 fwmark 7 lookup 200",
        "rule add prio 102 ipproto udp dport 6000-6009 lookup 300 suppress_prefixlength 0",
        "rule add prio 103 ipproto udp dport 6000-6004 lookup 300",
        "rule add prio 104 from 10.0.1.3 prohibit",
    ] {
        fork.ip(command)?;
    }
    let mark = "[[mark]]\nmark = 7\nto = \"10.0.9.0/29\"\nip_protocol = 17\nport = 7001\n";
    fork.router.start(&format!("{}{mark}", settings(&["eth0", "eth1", "eth2"])))?;
    let ask = |from: &str, port: u16, mark| {
        let (from, to) = (format!("{from}:4000").parse()?, ([10, 0, 9, 1], port).into());
        path(&fork.router, PathRequest { from: Some(from), mark, ..PathRequest::new(to) })
    };
    for (from, port, mark, priority, link) in [
        ("10.0.1.1", 5_001, None, 32_766, "eth1"),
        ("10.0.1.5", 5_001, None, 100, "eth2"),
        ("10.0.1.6", 5_001, None, 100, "eth2"),
        ("10.0.1.1", 5_001, Some(7), 101, "eth2"),
        ("10.0.1.1", 5_001, Some(8), 32_766, "eth1"),
        ("10.0.1.1", 7_001, None, 101, "eth2"),
        ("10.0.1.1", 7_001, Some(0), 32_766, "eth1"),
        ("10.0.1.1", 6_004, None, 103, "eth2"),
        ("10.0.1.1", 6_005, None, 32_766, "eth1"),
    ] {
        let answer = ask(from, port, mark)?;
        expect(&answer, leaves(&answer).0 == Some(link))?;
        let rule = answer.rule.as_ref().ok_or("no rule")?;
        expect(&answer, (rule.priority, rule.certain) == (priority, true))?;
        let of_settings = port == 7_001 && mark.is_none();
        expect(&answer, answer.flow.mark_of_settings == of_settings)?;
        expect(&answer, answer.flow.mark == mark.or(of_settings.then_some(7)))?;
    }
    let prohibited = ask("10.0.1.3", 5_001, None)?;
    expect(&prohibited, prohibited.outcome == PathOutcome::Prohibited)?;
    let rule = prohibited.rule.as_ref().ok_or("no rule")?;
    expect(&prohibited, (rule.priority, &*rule.action) == (104, "prohibit"))?;
    // For this host's own packets, rules see no source before one is chosen, or the one that a socket is bound to.
    let own = path(&fork.router, PathRequest::new(TO.parse()?))?;
    let priority = |answer: &PathAnswer| answer.rule.as_ref().map(|rule| rule.priority);
    expect(&own, own.flow.source == Some("10.0.2.1".parse()?) && priority(&own) == Some(32_766))?;
    let from = Some("10.0.2.1:4000".parse()?);
    let bound = path(&fork.router, PathRequest { from, ..PathRequest::new(TO.parse()?) })?;
    expect(&bound, bound.flow.incoming.is_none() && priority(&bound) == Some(80))?;
    // The rule for `eth0` does not apply to packets from another interface.
    let elsewhere = PathRequest { incoming: Some("eth1".into()), ..asked()? };
    let answer = path(&fork.router, elsewhere)?;
    expect(&answer, answer.flow.incoming.as_deref() == Some("eth1"))?;
    expect(&answer, !answer.flow.incoming_assumed && leaves(&answer).0 == Some("eth1"))?;
    // The kernel cannot be queried for this protocol.
    let sctp = path(&fork.router, PathRequest { ip_protocol: 132, ..asked()? })?;
    expect(&sctp, sctp.warnings.iter().any(|warning| warning.contains("TCP and UDP only")))
}

pub(crate) fn refusals_are_said() -> Outcome {
    let fork = router(&[
        "route add unreachable 10.5.0.0/16",
        "route add prohibit 10.6.0.0/16",
        "route add blackhole 10.7.0.0/16",
    ])?;
    for (to, outcome, words) in [
        ("10.5.0.1:9", PathOutcome::Unreachable, "unreachable"),
        ("10.6.0.1:9", PathOutcome::Prohibited, "prohibit"),
        ("10.7.0.1:9", PathOutcome::Blackhole, "blackhole"),
        ("10.8.0.1:9", PathOutcome::NoRoute, "no route"),
    ] {
        for from in [Some(FROM.parse()?), None] {
            let request = PathRequest { from, ..PathRequest::new(to.parse()?) };
            let answer = path(&fork.router, request)?;
            expect(&answer, answer.outcome == outcome && answer.interface.is_none())?;
            expect(&answer, answer.packets.is_none() && answer.route.is_none())?;
        }
        let output = fork.router.earmark(&["show", "path", to, "--from", FROM])?;
        let said = String::from_utf8_lossy(&output.stdout);
        check(output.status.code() == Some(0) && said.contains(words), &said)?;
    }
    let to_link = || -> Result<PathRequest, Failed> {
        Ok(PathRequest { to: "10.0.3.2:9".parse()?, ..asked()? })
    };
    link::sysctl(&fork.router.namespace, "net.ipv4.conf.eth1.rp_filter", "1")?;
    let strange = PathRequest { incoming: Some("eth1".into()), ..to_link()? };
    let answer = path(&fork.router, strange)?;
    expect(&answer, answer.outcome == PathOutcome::WrongInterface)?;
    link::sysctl(&fork.router.namespace, "net.ipv4.ip_forward", "0")?;
    let answer = path(&fork.router, to_link()?)?;
    expect(&answer, answer.outcome == PathOutcome::NotForwarded)
}

pub(crate) fn malformed_questions_are_rejected() -> Outcome {
    let fork = router(&["route add 10.0.9.0/29 via 10.0.2.2"])?;
    for (arguments, status, words) in [
        (&["10.0.9.1", "--ip-protocol", "ospf"][..], 2, "an IP protocol is udp, tcp"),
        (&["10.0.9.1:80", "--dport", "81"], 2, "names port 80, and --dport names 81"),
        (&["10.0.9.1", "--interface-in", "eth0"], 2, "--from"),
        (&["10.0.9.1", "--ip-protocol", "1", "--dport", "9"], 1, "IP protocol icmp has no ports"),
        (&["10.0.9.1", "--from", "fd01::1"], 1, "are of different IP versions"),
        (&["239.1.2.3:5001"], 1, "is a group"),
        (&["0.0.0.0"], 1, "is not a destination address"),
        (
            &["10.0.9.1", "--from", "10.0.1.5", "--interface-in", "eth9"],
            1,
            "there is no interface eth9",
        ),
    ] {
        let output = fork.router.earmark(&[&["show", "path"], arguments].concat())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let told = format!("{arguments:?}: {:?}: {said}", output.status);
        check(output.status.code() == Some(status) && said.contains(words), &told)?;
        check(output.stdout.is_empty(), &told)?;
    }
    let odd = r#"{"path":{"to":"10.0.9.1:9","colour":1}}"#;
    check(serde_json::from_str::<Request>(odd).is_err(), "a key too many")
}
