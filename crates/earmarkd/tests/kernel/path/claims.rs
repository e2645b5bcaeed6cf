//! `show path`: claims on the flow, and traffic control changed by other programs.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use earmark_control::protocols::boomerang as loops;
use earmark_control::protocols::rsvp::ListenOptions;
use earmark_control::{
    ListenRequest, Opened, PathAnswer, PathOutcome, PathRequest, Request, ReservationRequest,
    StyleName,
};
use earmark_core::Rate;
use libtest_mimic::Failed;

use super::{FROM, TO, asked, expect, leaves, path, router};
use crate::flow_routes::{Fork, settings};
use crate::host::{Host, Outcome, check, until};

/// Two protocols reserve for one flow: the larger claim governs, the other is on standby until the larger one is released.
pub(crate) fn governing_claim_is_named() -> Outcome {
    let mut fork = Fork::new()?;
    fork.ip("route add 10.0.9.0/29 via 10.0.2.2")?;
    fork.sender.start(&settings(&["eth0"]))?;
    fork.router.start(&settings(&["eth0", "eth1", "eth2"]))?;
    fork.receiver.start(&settings(&["eth1", "eth2"]))?;
    let (from, to): (SocketAddr, SocketAddr) = (FROM.parse()?, TO.parse()?);
    let mut sender = fork.sender.client()?;
    fork.receiver.client()?.listen(ListenRequest::new(to))?;
    let rsvp =
        ReservationRequest { from: Some(from), ..ReservationRequest::new(to, Rate::from_mbps(2)) };
    let rsvp = sender.sender(rsvp)?.application;
    let boomerang = ReservationRequest {
        from: Some(from),
        ..loops::request(to, Rate::from_mbps(1), Rate::ZERO)
    };
    let boomerang: Opened = sender.call(&Request::Reserve(boomerang))?;
    let precedences = |answer: &PathAnswer| -> Vec<(String, String)> {
        let precedence = |claim: &earmark_control::ClaimRow| {
            let by = claim.protocol.clone().unwrap_or_default();
            (by.into_owned(), claim.precedence.clone().into_owned())
        };
        answer.claims.iter().map(precedence).collect()
    };
    let named = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(by, precedence)| ((*by).to_owned(), (*precedence).to_owned())).collect()
    };
    let both = named(&[("rsvp", "governs"), ("boomerang", "standby")]);
    let answer = until("both have reserved", || {
        let answer = path(&fork.router, asked()?)?;
        Ok((precedences(&answer) == both).then_some(answer))
    })?;
    expect(&answer, answer.claim_count == 2 && answer.elsewhere.is_empty())?;
    expect(&answer, answer.claims[0].rate_bps == 2_000_000)?;
    expect(&answer, answer.claims[1].rate_bps == 1_000_000)?;
    let packets = answer.packets.as_ref().ok_or("no packets")?;
    expect(&answer, packets.get == "reserved")?;
    let state = packets.enforcement.as_ref().ok_or("nothing is enforced")?;
    expect(&answer, state.state == "enforced" && state.claims == 2)?;
    // The class is the one in which the kernel counts the packets.
    let class = packets.class.clone().ok_or("no class")?;
    let before = in_class(&fork.router, &class)?;
    fork.sender.namespace.run_in(|| -> std::io::Result<()> {
        let socket = UdpSocket::bind(from)?;
        (0..5).try_for_each(|_| socket.send_to(&[0; 100], to).map(drop))
    })??;
    until("the packets are in the class", || {
        Ok((in_class(&fork.router, &class)? == before + 5).then_some(()))
    })?;
    // The claims belong to the listed reservations.
    let listed = fork.router.client()?.show_reservations()?.rows;
    let answer = path(&fork.router, asked()?)?;
    for claim in &answer.claims {
        let row = claim.reservation.as_ref().ok_or("nobody's")?;
        let is_it = |other: &earmark_node::ReservationRow| {
            (&other.protocol, &other.senders, &other.style, &other.traffic, &other.enforcement)
                == (&row.protocol, &row.senders, &row.style, &row.traffic, &row.enforcement)
                && (other.destination, other.rate_bps) == (row.destination, row.rate_bps)
        };
        check(listed.iter().any(is_it), &format!("{row:#?}\n{listed:#?}"))?;
    }
    let limited = path(&fork.router, PathRequest { limit: Some(1), ..asked()? })?;
    expect(&limited, limited.claims.len() == 1 && limited.claim_count == 2)?;
    let output = fork.router.earmark(&["show", "path", TO, "--from", FROM])?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(said.contains("packets get 2 Mbit/s by rsvp, class ea4d:"), &said)?;

    sender.release(rsvp)?;
    let one = named(&[("boomerang", "governs")]);
    let answer = until("the next best takes over", || {
        let answer = path(&fork.router, asked()?)?;
        Ok((precedences(&answer) == one).then_some(answer))
    })?;
    let packets = answer.packets.as_ref().ok_or("no packets")?;
    expect(&answer, packets.get == "reserved" && packets.class.as_ref() != Some(&class))?;
    sender.release(boomerang.application)?;
    let answer = until("nothing is left", || {
        let answer = path(&fork.router, asked()?)?;
        Ok(answer.claims.is_empty().then_some(answer))
    })?;
    expect(&answer, answer.packets.as_ref().is_some_and(|packets| packets.get == "best_effort"))?;

    // A reservation for all senders is matched by those with other ports too.
    let all = "10.0.9.2:5002".parse()?;
    let wildcard = ListenOptions { style: StyleName::Wf, ..ListenOptions::default() };
    fork.receiver.client()?.listen(ListenRequest::new(all).with(&wildcard))?;
    sender.sender(ReservationRequest {
        from: Some(from),
        ..ReservationRequest::new(all, Rate::from_mbps(1))
    })?;
    until("all senders share one", || {
        let from = Some("10.0.1.7:9".parse()?);
        let answer = path(&fork.router, PathRequest { from, ..PathRequest::new(all) })?;
        let Some(claim) = answer.claims.first() else { return Ok(None) };
        expect(&answer, claim.precedence == "governs" && claim.matches.source.is_none())?;
        expect(&answer, claim.matches.destination_port == Some(5_002))?;
        Ok(Some(()))
    })
}

/// Packets that a class of the router's eth1 has sent.
fn in_class(router: &Host, class: &str) -> Result<u64, Failed> {
    let run = || Command::new("tc").args(["-s", "class", "show", "dev", "eth1"]).output();
    let said = String::from_utf8(router.namespace.run_in(run)??.stdout)?;
    let head = format!("class htb {class} ");
    let mut lines = said.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    // Sample line: Sent 640 bytes 5 pkt (dropped 0, overlimits 0 requeues 0)
    let count = lines.next().and_then(|line| line.split_whitespace().nth(3));
    Ok(count.ok_or_else(|| format!("no class {class}: {said}"))?.parse()?)
}

/// Another program's qdisc is on the link: it is named, and no class is reported, because packets may not be sent to it.
pub(crate) fn foreign_qdisc_is_named() -> Outcome {
    let fork = router(&["route add 10.0.9.0/29 via 10.0.2.2"])?;
    let tc = |arguments: &str| -> Outcome {
        let run = || Command::new("tc").args(arguments.split_whitespace()).status();
        check(fork.router.namespace.run_in(run)??.success(), arguments)
    };
    let class = |answer: &PathAnswer| answer.packets.as_ref().and_then(|p| p.class.clone());
    let answer = path(&fork.router, asked()?)?;
    expect(&answer, class(&answer).as_deref() == Some("ea4d:2") && answer.warnings.is_empty())?;
    tc("qdisc replace dev eth1 root handle 7777: pfifo limit 9")?;
    let answer = until("the qdisc is named", || {
        let answer = path(&fork.router, asked()?)?;
        let is_named = answer.warnings.iter().any(|warning| warning.contains("pfifo"));
        Ok(is_named.then_some(answer))
    })?;
    expect(&answer, class(&answer).is_none())?;
    tc("qdisc delete dev eth1 root")?;
    until("the link is in order again", || {
        let answer = path(&fork.router, asked()?)?;
        Ok((answer.warnings.is_empty() && class(&answer).is_some()).then_some(()))
    })
}

/// The firewall marks the packets, but the settings do not contain the mark: the reservation is on the other link.
pub(crate) fn reservation_elsewhere_is_warned_of() -> Outcome {
    let mut fork = Fork::new()?;
    for command in [
        "route add 10.0.9.0/29 via 10.0.2.2",
        "route add 10.0.9.0/29 via 10.0.3.2 table 200",
        "rule add fwmark 7 lookup 200",
        "route add unreachable 10.0.9.0/29 table 201",
        "rule add fwmark 8 lookup 201",
    ] {
        fork.ip(command)?;
    }
    fork.sender.start(&settings(&["eth0"]))?;
    let quiet =
        settings(&["eth0", "eth1", "eth2"]).replace("\"eth0\"\n", "\"eth0\"\nqueues = \"none\"\n");
    fork.router.start(&quiet)?;
    let (from, to) = (FROM.parse()?, TO.parse()?);
    let mut sender = fork.sender.client()?;
    let reserve = ReservationRequest {
        from: Some(from),
        ..loops::request(to, Rate::from_mbps(1), Rate::ZERO)
    };
    let _: Opened = sender.call(&Request::Reserve(reserve))?;
    let answer = until("it is reserved on eth1", || {
        let answer = path(&fork.router, asked()?)?;
        Ok((answer.claim_count == 1).then_some(answer))
    })?;
    expect(&answer, answer.elsewhere.is_empty() && answer.warnings.is_empty())?;
    let marked = path(&fork.router, PathRequest { mark: Some(7), ..asked()? })?;
    expect(&marked, leaves(&marked).0 == Some("eth2") && marked.claims.is_empty())?;
    expect(&marked, marked.packets.as_ref().is_some_and(|packets| packets.get == "best_effort"))?;
    let [other] = &marked.elsewhere[..] else { return expect(&marked, false) };
    expect(&marked, other.interface == "eth1" && other.protocol.as_deref() == Some("boomerang"))?;
    let warning = "this flow is reserved on a link that its packets do not use: boomerang 1 Mbit/s on eth1; \
                   they leave through eth2";
    expect(&marked, marked.warnings == [warning])?;
    let refused = path(&fork.router, PathRequest { mark: Some(8), ..asked()? })?;
    expect(&refused, refused.outcome == PathOutcome::Unreachable && refused.elsewhere.len() == 1)?;
    // The queues of the link are left alone, so that nothing is known about the service of reserved packets.
    let back = PathRequest { from: Some(to), ..PathRequest::new(from) };
    let back = path(&fork.router, back)?;
    expect(&back, leaves(&back).0 == Some("eth0"))?;
    let packets = back.packets.as_ref().ok_or("no packets")?;
    expect(&back, packets.queues.as_deref() == Some("none") && packets.get == "best_effort")?;
    expect(&back, back.warnings.iter().any(|warning| warning.contains("has no queues")))
}
