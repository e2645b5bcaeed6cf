//! `earmark change` between daemons: host a, router r, host b. The link behind the router is the narrow one.

use std::net::UdpSocket;

use earmark_control::{ChangeRequest, ListenRequest, ReservationRequest};
use earmark_core::{ApplicationId, Rate};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::host::{Host, Outcome, check, line, until};

const TO: &str = "10.0.2.2:5000";
const WIDE: &str = "[[interface]]\nname = \"eth0\"\nbandwidth = \"100Mbit\"\nclasses = 16\n";
const NARROW: &str = "[[interface]]\nname = \"eth1\"\nbandwidth = \"10Mbit\"\nclasses = 16\n";

fn start() -> Result<[Host; 3], Failed> {
    let [mut a, mut r, mut b] = line()?;
    a.start(WIDE)?;
    r.start(&format!("{WIDE}{NARROW}"))?;
    b.start(WIDE)?;
    Ok([a, r, b])
}

/// Waits until the router has reserved this much on the narrow link, in one class.
fn until_held(r: &Host, mbps: u64) -> Outcome {
    until(&format!("{mbps} Mbit/s are held"), || {
        let rows = r.client()?.show_links()?.rows;
        let link = rows.iter().find(|row| row.interface == "eth1").ok_or("no link")?;
        Ok((link.held_bps == Rate::from_mbps(mbps) && link.claims == 1).then_some(()))
    })
}

/// Waits until a receiver knows a sender that announces this much.
fn until_announced(receiver: &Host, mbps: u64) -> Outcome {
    until(&format!("{mbps} Mbit/s are announced"), || {
        let rows = receiver.client()?.show_sessions()?.rows;
        let rate = rows.first().map(|row| row.rate_bps);
        Ok((rate == Some(mbps * 1_000_000)).then_some(()))
    })
}

/// Changes the rate of an application, and checks exit status and kind of the outcome. Returns the printed object.
fn change(host: &Host, application: &Value, rate: &str, status: i32) -> Result<Value, Failed> {
    let id = application.to_string();
    let (got, answer) = host.json(&["change", &id, "--rate", rate, "--timeout", "4s"])?;
    check(got == Some(status), &format!("{rate}: {got:?} {answer}"))?;
    Ok(answer)
}

/// Checks that the reservation stands in the list of applications.
fn stands(host: &Host, application: &Value) -> Outcome {
    let (_, rows) = host.json(&["show", "applications"])?;
    let rows = rows.as_array().ok_or("rows")?;
    let row = rows.iter().find(|row| row["application"] == *application).ok_or("no row")?;
    let kind = row["outcome"]["kind"].as_str().unwrap_or_default();
    check(["whole", "unverified"].contains(&kind), &format!("{row}"))
}

/// Raises, fails to raise and lowers a reservation; its class in the kernel stays the same.
fn changes_at(changing: &Host, hosts: &[Host; 3], application: &Value) -> Outcome {
    let [a, r, _] = hosts;
    until_held(r, 2)?;
    a.namespace.run_in(|| -> std::io::Result<()> {
        let socket = UdpSocket::bind("10.0.1.1:5000")?;
        for _ in 0..3 {
            socket.send_to(&[0; 100], TO)?;
        }
        Ok(())
    })??;
    let counted = || -> Result<u64, Failed> {
        let rows = r.client()?.show_reservations()?.rows;
        let row = rows.iter().find(|row| row.interface.as_deref() == Some("eth1"));
        Ok(row.and_then(|row| row.traffic).map_or(0, |traffic| traffic.packets))
    };
    until("the packets are counted", || Ok((counted()? == 3).then_some(())))?;
    let answer = change(changing, application, "4Mbit", 0)?;
    check(answer["rate_bps"] == 4_000_000, &answer.to_string())?;
    until_held(r, 4)?;
    let answer = change(changing, application, "20Mbit", 3)?;
    check(answer["rate_bps"] == 4_000_000, &format!("what stays: {answer}"))?;
    until_held(r, 4)?;
    stands(changing, application)?;
    change(changing, application, "1Mbit", 0)?;
    until_held(r, 1)?;
    stands(changing, application)?;
    check(counted()? == 3, "the class is the same")
}

fn reserve(host: &Host, more: &[&str]) -> Result<Value, Failed> {
    let common = ["reserve", "--to", TO, "--timeout", "15s"];
    let (status, answer) = host.json(&[&common, more].concat())?;
    check(status == Some(0), &answer.to_string())?;
    Ok(answer["application"].clone())
}

pub(super) fn reservation_of_nsis_changes() -> Outcome {
    let hosts = start()?;
    let from = ["--protocol", "nsis", "--from", "10.0.1.1:5000", "--rate", "2Mbit"];
    let application = reserve(&hosts[0], &from)?;
    changes_at(&hosts[0], &hosts, &application)
}

pub(super) fn reservation_of_boomerang_changes() -> Outcome {
    let hosts = start()?;
    let rates = ["--forward", "2Mbit", "--reverse", "1Mbit"];
    let from = ["--protocol", "boomerang", "--from", "10.0.1.1:5000"];
    let application = reserve(&hosts[0], &[rates, from].concat())?;
    changes_at(&hosts[0], &hosts, &application)?;
    // What is not named stays.
    let reverse = |mbps| {
        until("the reverse rate", || {
            let rows = hosts[1].client()?.show_links()?.rows;
            let link = rows.iter().find(|row| row.interface == "eth0").ok_or("no link")?;
            Ok((link.held_bps == Rate::from_mbps(mbps)).then_some(()))
        })
    };
    reverse(1)?;
    let id = application.to_string();
    let (status, answer) =
        hosts[0].json(&["change", &id, "--rate", "2Mbit", "--reverse", "3Mbit"])?;
    check(status == Some(0), &answer.to_string())?;
    until_held(&hosts[1], 2)?;
    reverse(3)
}

pub(super) fn reservation_of_yessir_changes() -> Outcome {
    let hosts = start()?;
    hosts[2].client()?.listen(ListenRequest::of("yessir", TO.parse()?))?;
    let from = ["--protocol", "yessir", "--from", "10.0.1.1:5000", "--rate", "2Mbit"];
    let application = reserve(&hosts[0], &from)?;
    changes_at(&hosts[0], &hosts, &application)
}

/// The receiver of RSVP changes its own reservation.
pub(super) fn reservation_of_rsvp_receiver_changes() -> Outcome {
    let hosts = start()?;
    let announced = ReservationRequest::new(TO.parse()?, Rate::from_mbps(20));
    let from = Some("10.0.1.1:5000".parse()?);
    hosts[0].client()?.sender(ReservationRequest { from, ..announced })?;
    let application = reserve(&hosts[2], &["--rate", "2Mbit"])?;
    changes_at(&hosts[2], &hosts, &application)
}

/// A changed announcement is followed by receivers that reserve what is announced. The sender is not told of a refusal
/// further on: nobody answers, and the earlier announcement returns.
pub(super) fn announcement_of_rsvp_changes() -> Outcome {
    let hosts = start()?;
    let [a, r, b] = &hosts;
    b.client()?.listen(ListenRequest::new(TO.parse()?))?;
    let application = reserve(a, &["--rate", "2Mbit"])?;
    until_held(r, 2)?;
    let answer = change(a, &application, "4Mbit", 0)?;
    check(answer["rate_bps"] == 4_000_000, &answer.to_string())?;
    until_held(r, 4)?;
    let answer = change(a, &application, "20Mbit", 4)?;
    check(answer["rate_bps"] == 4_000_000, &format!("what stays: {answer}"))?;
    until_announced(b, 4)?;
    until_held(r, 4)?;
    stands(a, &application)?;
    change(a, &application, "1Mbit", 0)?;
    until_held(r, 1)
}

/// A change without an outcome ends with the connection that follows it.
pub(super) fn followed_change_ends_with_its_client() -> Outcome {
    let hosts = start()?;
    let [a, r, b] = &hosts;
    b.client()?.listen(ListenRequest::new(TO.parse()?))?;
    let application = reserve(a, &["--rate", "2Mbit"])?;
    let number = ApplicationId(application.as_u64().ok_or("no number")?);
    let rate_bps = Some(Rate::from_mbps(20));
    let mut client = a.client()?;
    client.change(ChangeRequest { rate_bps, follow: true, ..ChangeRequest::new(number) })?;
    until_announced(b, 20)?;
    drop(client);
    until_announced(b, 2)?;
    // Without `follow` it is the application's request from now on.
    a.client()?.change(ChangeRequest { rate_bps, ..ChangeRequest::new(number) })?;
    until_announced(b, 20)?;
    until_held(r, 2)
}
