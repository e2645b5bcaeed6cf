//! RSVP across a core in one aggregate: of Boomerang, at a router that supports nothing else; or of RSVP (RFC 3175).

use std::time::Duration;

use earmark_control::{AggregateRow, ListenRequest, ReservationRequest};
use earmark_core::Rate;

use crate::Outcome;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{FLOOD, STREAM_PORT, Stream, announcement, loss, watch};
use earmark_testkit::wait::wait_for;

/// h1 -- e1 -- c1 -- e2 -- h2
const NETWORK: &str = r#"
    node = [{ name = "h1" }, { name = "e1" }, { name = "c1" }, { name = "e2" }, { name = "h2" }]
    link = [
        { ends = ["h1", "e1"], bandwidth = "100Mbit" },
        { ends = ["e1", "c1"], bandwidth = "100Mbit" },
        { ends = ["c1", "e2"], bandwidth = "10Mbit" },
        { ends = ["e2", "h2"], bandwidth = "100Mbit" },
    ]"#;
/// Settings of an aggregate to e2; `more` are those of its protocol.
fn edge(ipv4: bool, more: &str) -> String {
    let (to, range) =
        if ipv4 { ("10.0.2.2", "10.0.3.0/24") } else { ("2001:db8:0:2::2", "2001:db8:0:3::/64") };
    format!(
        "[[interface.across]]\nto = \"{to}\"\n{more}ranges = [\"{range}\"]\nstep = \"2Mbit\"\n\
         highest = \"50Mbit\"\nshrink_after = \"1s\"\n"
    )
}

const FLOW: Rate = Rate::from_bps(64_000);
const FLOWS: u16 = 40;
/// DSCP of expedited forwarding, of the aggregate.
const EF: u32 = 46;
const MARKED_FLOOD_PORT: u16 = 5_010;
const FIRST_PORT: u16 = 6_000;

/// Forty flows are one class at the core router, which has no RSVP state; RSVP refuses what exceeds the core's
/// bandwidth; and after the end of the flows nothing is left.
pub(crate) fn flows_cross_a_core_in_one_aggregate() -> Outcome {
    let (of_core, edge) = ("protocols = [\"boomerang\"]\n", edge(true, ""));
    let own = [
        (("e1", "eth1"), &*edge),
        (("c1", "eth0"), of_core),
        (("c1", "eth1"), of_core),
        (("e2", "eth0"), "faces_core = true\n"),
    ];
    cross_core("across", true, &own, SLACK, |net| {
        let of_c1 = net.client("c1")?.show_reservations()?.rows;
        assert_eq!(of_c1.len(), 1, "{of_c1:?}");
        assert_eq!(net.client("c1")?.show_sessions()?.rows.len(), 1);
        Ok(())
    })?;
    Ok(())
}

/// The core router runs RSVP, too, and has one session for forty flows: their messages cross it as IP protocol 134.
pub(crate) fn flows_cross_a_core_in_one_session_of_rsvp() -> Outcome {
    cross_core_with_rsvp("region", true)
}

/// Forty flows cross the core in one session of RSVP over IPv6.
pub(crate) fn flows_cross_a_core_in_one_session_over_ipv6() -> Outcome {
    cross_core_with_rsvp("region6", false)
}

fn cross_core_with_rsvp(name: &str, ipv4: bool) -> Outcome {
    let near = edge(ipv4, "protocol = \"rsvp\"\ndscp = \"ef\"\n");
    let at = if ipv4 { "10.0.2.2" } else { "2001:db8:0:2::2" };
    let far = format!("[[interface.deaggregate]]\nat = \"{at}\"\ndscp = \"ef\"\n");
    let own = [(("e1", "eth1"), &*near), (("e2", "eth0"), &*far)];
    let net = cross_core(name, ipv4, &own, SLACK * 2, |net| {
        let sessions = net.client("c1")?.show_sessions()?.rows;
        let [session] = &sessions[..] else { return Err(format!("{sessions:?}").into()) };
        assert_eq!((session.dscp, session.ip_protocol), (Some(46), 0));
        let reservations = net.client("c1")?.show_reservations()?.rows;
        let states = reservations.iter().map(|row| row.enforcement.as_ref().map(|e| &*e.state));
        assert_eq!(states.collect::<Vec<_>>(), [Some("enforced")], "{reservations:?}");
        unmarked_stream_passes_a_marked_flood(net, ipv4)
    })?;
    assert!(net.client("c1")?.show_sessions()?.rows.is_empty(), "no session is left");
    Ok(())
}

/// The edge marks the packets of a reserved stream, whose sender does not: they pass a flood. It removes the mark of another
/// flood's packets: they take nothing from the stream.
fn unmarked_stream_passes_a_marked_flood(net: &Net, ipv4: bool) -> Outcome {
    let h2 = net.address("h2", ipv4);
    let (mut sender, mut receiver) = (net.client("h1")?, net.client("h2")?);
    let listening = receiver.listen(ListenRequest::new((h2, STREAM_PORT).into()))?;
    let sending = sender.sender(announcement(net, "h1", h2))?;
    net.await_reserved(("c1", "eth1"), &[6], SLACK)?;
    let stream = Stream::start(net, "h1", h2, &["h2"])?;
    let marked = Stream::marked_flood(net, (FLOOD, EF), "h1", ("h2", MARKED_FLOOD_PORT), ipv4)?;
    let unmarked = Stream::flood(net, "h1", "h2", ipv4)?;
    std::thread::sleep(Duration::from_millis(500));
    let (span, since) = (Duration::from_secs(2), watch(Duration::from_secs(2)));
    let traces = [stream, marked, unmarked].map(Stream::stop);
    let mut losses = Vec::new();
    for trace in traces {
        losses.push(loss(&trace?[0], since, span));
    }
    assert_eq!(losses[0], 0.0, "the reserved stream loses nothing");
    assert!(losses[1..].iter().all(|&loss| loss > 0.3), "the floods have best effort: {losses:?}");
    sender.release(sending.application)?;
    receiver.release(listening.application)?;
    net.await_reserved(("c1", "eth1"), &[4], Duration::from_secs(1) + SLACK)
}

/// Reserves for forty flows through the aggregate of e1, and for one that exceeds the core, which is refused within a time;
/// then all flows end. `check` looks at the core while the flows are reserved.
fn cross_core(
    name: &str,
    ipv4: bool,
    own: &[((&str, &str), &str)],
    refused_within: Duration,
    check: impl FnOnce(&Net) -> Outcome,
) -> Result<Net, libtest_mimic::Failed> {
    let own = own.iter().map(|&((node, interface), lines)| {
        ((node.to_owned(), interface.to_owned()), lines.to_owned())
    });
    let network = format!("ipv6 = {}\n{NETWORK}", !ipv4);
    let net = Net::with(&network, name, REFRESH, |options| options.settings.own = own.collect())?;
    let h2 = net.address("h2", ipv4);
    let (mut sender, mut receiver) = (net.client("h1")?, net.client("h2")?);
    for number in 0..FLOWS {
        let to = (h2, FIRST_PORT + number).into();
        receiver.listen(ListenRequest::new(to))?;
        sender.sender(ReservationRequest::new(to, FLOW))?;
    }
    let aggregate = || -> Result<AggregateRow, libtest_mimic::Failed> {
        let rows = net.client("e1")?.show_aggregates()?.rows;
        Ok(rows.into_iter().next().ok_or("e1 has no aggregate")?)
    };
    wait_for("all flows are in the aggregate", SLACK * 3, || {
        let row = aggregate()?;
        Ok((row.members == u32::from(FLOWS) && row.waiting == 0).then_some(()))
    })?;
    let row = aggregate()?;
    assert_eq!((row.need_bps, row.granted_bps), (Rate::from_bps(2_560_000), Rate::from_mbps(4)));
    net.await_reserved(("c1", "eth1"), &[4], SLACK)?;
    assert_eq!(net.reserved("e1", "eth1")?, vec![FLOW; usize::from(FLOWS)], "a class each");
    check(&net)?;

    // 7.5 of 10 Mbit/s may be reserved.
    let to = (h2, FIRST_PORT + FLOWS).into();
    receiver.listen(ListenRequest::new(to))?;
    sender.sender(ReservationRequest::new(to, Rate::from_mbps(5)))?;
    wait_for("e1 has asked, and given up", refused_within, || {
        let refused = net.client("e1")?.show_counters()?;
        let sent = refused["rsvp"]["sent"]["resv_err"].as_u64().unwrap_or(0);
        Ok((sent > 0).then_some(()))
    })?;
    assert_eq!(aggregate()?.members, u32::from(FLOWS), "the others stay");
    net.await_reserved(("c1", "eth1"), &[4], SLACK)?;

    sender.release_all()?;
    receiver.release_all()?;
    net.await_reserved(("c1", "eth1"), &[], Duration::from_secs(1) + SLACK * 2)?;
    net.await_reserved(("e1", "eth1"), &[], SLACK)?;
    assert_eq!(aggregate()?.granted_bps, Rate::ZERO);
    Ok(net)
}
