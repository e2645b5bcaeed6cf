//! Accounting records of a real daemon: complete and right, whatever ends it.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_core::random::RandomStreams;
use libtest_mimic::Failed;
use rustix::process::Signal;
use serde_json::Value;

use crate::host::{ETH0, Host, Outcome, check, log, pair, until};

/// Octets of data in a packet, and of the packet.
const DATA: usize = 1_000;
const PACKET: u64 = 1_028;

fn database(host: &Host) -> PathBuf {
    host.directory.join("history.db")
}

fn settings(host: &Host) -> String {
    format!("[history]\ndatabase = \"{}\"\ninterval = \"1s\"\n", database(host).display())
}

/// Returns the records, the earliest first.
fn records(host: &Host) -> Result<Vec<Value>, Failed> {
    let path = database(host).display().to_string();
    let (status, rows) = host.json(&["history", "--limit", "100000", "--database", &path])?;
    check(status == Some(0), &rows.to_string())?;
    let mut rows = rows.as_array().cloned().ok_or("no array")?;
    rows.sort_by_key(|row| row["id"].as_i64());
    Ok(rows)
}

/// Returns the records once all reservations have ended.
fn ended_records(host: &Host, many: usize) -> Result<Vec<Value>, Failed> {
    until("all records are written", || {
        // There may be no database yet.
        let rows = records(host).unwrap_or_default();
        let all = rows.len() == many && rows.iter().all(|row| row["ended"].is_string());
        Ok(all.then_some(rows))
    })
}

/// Sends packets from port 4000 to a port at the other end.
fn send(host: &Host, port: u16, packets: u64) -> Outcome {
    send_sized(host, port, packets, DATA)
}

fn send_sized(host: &Host, port: u16, packets: u64, octets: usize) -> Outcome {
    host.namespace.run_in(|| -> std::io::Result<()> {
        let socket = UdpSocket::bind("10.0.1.1:4000")?;
        for _ in 0..packets {
            socket.send_to(&vec![0; octets], ("10.0.1.2", port))?;
        }
        Ok(())
    })??;
    Ok(())
}

const PROTOCOLS: [(&str, u16); 4] =
    [("rsvp", 5_000), ("nsis", 5_002), ("boomerang", 5_004), ("yessir", 5_006)];

/// Reservations of all protocols have a record each, with what was sent, and why they ended.
pub(super) fn every_protocol_has_records() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(&format!("{}{ETH0}", settings(&a)))?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5000".parse()?))?;
    b.client()?.listen(ListenRequest::of("yessir", "10.0.1.2:5006".parse()?))?;
    for (protocol, port) in PROTOCOLS {
        let to = format!("10.0.1.2:{port}");
        let rate = if protocol == "boomerang" { "--forward" } else { "--rate" };
        let request = ["reserve", "--protocol", protocol, "--to", &to, "--from", "10.0.1.1:4000"];
        let (status, answer) =
            a.json(&[&request[..], &[rate, "500kbit", "--timeout", "15s"]].concat())?;
        check(status == Some(0), &format!("{protocol}: {answer}"))?;
        send(&a, port, 5)?;
    }
    let standing = until("what stands is in the records", || {
        let rows = records(&a).unwrap_or_default();
        let is_read = |row: &Value| row["packets"].as_u64() >= Some(5);
        Ok((rows.len() == 4 && rows.iter().all(is_read)).then_some(rows))
    })?;
    check(standing.iter().all(|row| row["ended"].is_null()), &format!("{standing:?}"))?;
    for suffix in ["", "-wal", "-shm"] {
        let path = format!("{}{suffix}", database(&a).display());
        let mode = std::fs::metadata(&path)?.mode() & 0o777;
        check(mode == 0o640, &format!("{path} has mode {mode:o}"))?;
    }
    for (_, port) in PROTOCOLS {
        send(&a, port, 3)?;
    }
    // The packets leave the queue before it is removed.
    std::thread::sleep(Duration::from_millis(300));
    a.client()?.release_all()?;
    let rows = ended_records(&a, 4)?;
    for (row, (protocol, port)) in rows.iter().zip(PROTOCOLS) {
        let text = row.to_string();
        check(row["protocol"] == protocol && row["destination_port"] == port, &text)?;
        check(row["link"] == "eth0" && row["rate_bps"] == 500_000, &text)?;
        check(row["end_reason"] == "released", &text)?;
        // Packets of YESSIR are those of its reports as well.
        check(row["packets"].as_u64() >= Some(8), &text)?;
        check(row["octets"].as_u64() >= Some(8 * PACKET), &text)?;
        check(row["packets"].as_u64() < Some(20), &text)?;
    }
    let path = database(&a).display().to_string();
    let (_, usage) = a.json(&["usage", "--by", "protocol", "--database", &path])?;
    let sums: BTreeMap<&str, i64> = usage
        .as_array()
        .ok_or("no array")?
        .iter()
        .filter_map(|row| Some((row["key"].as_str()?, row["octets"].as_i64()?)))
        .collect();
    for row in &rows {
        let protocol = row["protocol"].as_str().ok_or("no protocol")?;
        check(sums.get(protocol).copied() == row["octets"].as_i64(), &format!("{usage}, {row}"))?;
    }
    check(a.end(Signal::TERM)? == Some(0), "status 0")
}

/// The reason tells what ended a reservation.
pub(super) fn records_say_why_a_reservation_ended() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(&format!("{}{ETH0}", settings(&a)))?;
    b.start(ETH0)?;
    let reserve = |port: u16| -> Outcome {
        let to = format!("10.0.1.2:{port}");
        let (status, answer) =
            a.json(&["reserve", "--to", &to, "--rate", "500kbit", "--timeout", "15s"])?;
        check(status == Some(0), &answer.to_string())
    };
    let listener = b.client()?.listen(ListenRequest::new("10.0.1.2:5000".parse()?))?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    reserve(5_000)?;
    reserve(5_001)?;
    // The receiver sends a teardown for one, and no more refreshes for the other.
    b.client()?.release(listener.application)?;
    until(
        "one is torn down",
        || Ok((a.client()?.show_links()?.rows[0].claims == 1).then_some(())),
    )?;
    b.end(Signal::KILL)?;
    let rows = ended_records(&a, 2)?;
    let reasons: Vec<_> = rows.iter().map(|row| row["end_reason"].as_str()).collect();
    check(reasons == [Some("torn_down"), Some("expired")], &format!("{rows:?}"))
}

/// A daemon is killed. The kernel forwards on, and what it counts meanwhile is in the record of the reservation that continues, as
/// well as in that of the one that nobody claims any more.
pub(super) fn records_continue_after_a_kill() -> Outcome {
    let (mut a, mut b) = pair()?;
    let config = format!("{}{ETH0}", settings(&a));
    a.start(&config)?;
    b.start(ETH0)?;
    let rate = Rate::from_bps(500_000);
    let reserve = |a: &Host, port: u16, claims| -> Outcome {
        let from = Some("10.0.1.1:4000".parse()?);
        let to = ([10, 0, 1, 2], port).into();
        a.client()?.sender(ReservationRequest { from, ..ReservationRequest::new(to, rate) })?;
        until("it is reserved", || {
            Ok((a.client()?.show_links()?.rows[0].claims == claims).then_some(()))
        })
    };
    for (port, claims) in [(5_000, 1), (5_001, 2)] {
        b.client()?.listen(ListenRequest::new(([10, 0, 1, 2], port).into()))?;
        reserve(&a, port, claims)?;
        send(&a, port, 4)?;
    }
    a.end(Signal::KILL)?;
    for port in [5_000, 5_001] {
        send(&a, port, 2)?;
    }
    a.start(&config)?;
    reserve(&a, 5_000, 1)?;
    for port in [5_000, 5_001] {
        send(&a, port, 1)?;
    }
    let rows = until("the other is given up", || {
        let rows = records(&a)?;
        Ok(rows.iter().any(|row| row["end_reason"] == "not_adopted").then_some(rows))
    })?;
    a.client()?.release_all()?;
    check(rows.len() == 2, &format!("{rows:?}"))?;
    let rows = ended_records(&a, 2)?;
    let found: Vec<_> =
        rows.iter().map(|row| (row["end_reason"].as_str(), row["packets"].as_u64())).collect();
    check(
        found == [(Some("released"), Some(7)), (Some("not_adopted"), Some(7))],
        &format!("{rows:?}"),
    )
}

/// Without a database nothing waits, and the records come later. The log says so once.
pub(super) fn records_wait_for_the_database() -> Outcome {
    let (mut a, _b) = pair()?;
    let place = a.directory.join("absent");
    let path = place.join("history.db");
    a.start(&format!("[history]\ndatabase = \"{}\"\n{ETH0}", path.display()))?;
    let request =
        ["reserve", "--protocol", "boomerang", "--to", "10.0.1.2:5001", "--forward", "1Mbit"];
    for _ in 0..3 {
        let (status, answer) = a.json(&[&request[..], &["--partial"]].concat())?;
        check(status == Some(0), &answer.to_string())?;
        a.client()?.release_all()?;
    }
    let counters = || -> Result<Value, Failed> {
        let (_, counters) = a.json(&["show", "counters"])?;
        Ok(counters["history"].clone())
    };
    let before = counters()?;
    check(before["appended"].as_u64() >= Some(8) && before["applied"] == 0, &before.to_string())?;
    std::fs::create_dir(&place)?;
    until("the records are written", || {
        let now = counters()?;
        Ok((now["applied"] == now["appended"] && now["lost"] == 0).then_some(()))
    })?;
    let path = path.display().to_string();
    let (_, rows) = a.json(&["history", "--database", &path])?;
    check(rows.as_array().is_some_and(|rows| rows.len() == 3), &rows.to_string())?;
    let mut daemon = a.daemon.take().ok_or("no daemon")?;
    daemon.kill()?;
    daemon.wait()?;
    let said = log(&mut daemon);
    check(said.matches("accounting records wait in the journal").count() == 1, &said)?;
    check(said.matches("accounting records are written again").count() == 1, &said)
}

/// A second daemon does not append to the journal of the first.
pub(super) fn journal_in_use_is_an_error() -> Outcome {
    let (mut a, b) = pair()?;
    let journal = a.directory.join("journal").display().to_string();
    let more = format!("journal = \"{journal}\"\n{ETH0}");
    a.start(&format!("{}{more}", settings(&a)))?;
    let config = b.configure(&format!("{}{more}", settings(&b)))?;
    let (status, said) = b.fail_to_start(&config)?;
    let expected = "(history.journal): ";
    check(status == Some(1) && said.contains(expected) && said.contains("in use"), &said)
}

/// Kills after which the test waits until the link is free again: each kill begins the time for adopted reservations anew.
const ROUND: u64 = 6;

/// What the source knows of a reservation: whether it was told that it has one, and what it has sent.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    protocol: &'static str,
    confirmed: bool,
    packets: u64,
}

/// The daemon is killed at random moments, while applications reserve, send and release: 6 times, or as often as EARMARK_KILLS says.
/// The records agree with the source's own notes: one for each reservation that was confirmed, with all of its packets.
pub(super) fn records_agree_with_the_source_after_kills() -> Outcome {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("EARMARK_KILLS").unwrap_or(6);
    let seed = number("EARMARK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = RandomStreams::new(seed).stream("kills");
    let mut draw = |bound: u64| random.next_u64() % bound;
    let (mut a, mut b) = pair()?;
    let config = format!("{}{ETH0}", settings(&a));
    a.start(&config)?;
    b.start(ETH0)?;
    let mut attempts: BTreeMap<u16, Attempt> = BTreeMap::new();
    let mut port = 6_000;
    let mut killed = 0;
    while killed < kills {
        port += 1;
        let protocol = ["boomerang", "nsis", "rsvp"][draw(3) as usize];
        if protocol == "rsvp" {
            b.client()?.listen(ListenRequest::new(([10, 0, 1, 2], port).into()))?;
        }
        let to = format!("10.0.1.2:{port}");
        let rate = if protocol == "boomerang" { "--forward" } else { "--rate" };
        let request = ["reserve", "--protocol", protocol, "--to", &to, "--from", "10.0.1.1:4000"];
        let more = [rate, "200kbit", "--timeout", "3s", "--partial", "--json"];
        let mut reserving = a.command_line(&[&request[..], &more].concat())?;
        let reserving = reserving.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        if draw(3) == 0 {
            std::thread::sleep(Duration::from_millis(draw(80)));
            a.end(Signal::KILL)?;
            killed += 1;
        }
        let answer = reserving.wait_with_output()?;
        let confirmed = answer.status.success();
        let packets = if confirmed { 1 + draw(3) } else { 0 };
        attempts.insert(port, Attempt { protocol, confirmed, packets });
        // They leave the queue within 16 ms.
        send_sized(&a, port, packets, 100)?;
        if a.daemon.is_none() {
            a.start(&config)?;
            if killed % ROUND == 0 {
                until("nobody has claimed the rest", || {
                    let link = &a.client()?.show_links()?.rows[0];
                    Ok((link.adopted == 0 && link.claims == 0).then_some(()))
                })?;
            }
            continue;
        }
        let application = serde_json::from_slice::<Value>(&answer.stdout).unwrap_or_default();
        let Some(application) = application["application"].as_u64() else { continue };
        if draw(2) == 0 {
            std::thread::sleep(Duration::from_millis(150));
            let mut releasing = a.command_line(&["release", &application.to_string()])?;
            let mut releasing = releasing.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            if draw(3) == 0 {
                std::thread::sleep(Duration::from_millis(draw(20)));
                a.end(Signal::KILL)?;
                killed += 1;
            }
            releasing.wait()?;
            if a.daemon.is_none() {
                a.start(&config)?;
            }
        }
    }
    a.client()?.release_all()?;
    let rows = until("all reservations have ended", || {
        let rows = records(&a)?;
        Ok(rows.iter().all(|row| row["ended"].is_string()).then_some(rows))
    })?;
    let mut by_port: BTreeMap<u16, Vec<&Value>> = BTreeMap::new();
    for row in &rows {
        let port = row["destination_port"].as_u64().ok_or("no port")?;
        by_port.entry(u16::try_from(port)?).or_default().push(row);
    }
    for (port, attempt) in &attempts {
        let found = by_port.get(port).map_or(&[][..], Vec::as_slice);
        let context = format!("seed {seed}, port {port}: {attempt:?}, {found:?}");
        check(found.len() <= 1 && (found.len() == 1 || !attempt.confirmed), &context)?;
        if let [row] = found {
            check(row["protocol"] == attempt.protocol, &context)?;
            check(row["packets"] == attempt.packets, &context)?;
        }
    }
    let confirmed = attempts.values().filter(|attempt| attempt.confirmed).count();
    println!(
        "{killed} kills, {} attempts, {confirmed} confirmed, {} records",
        attempts.len(),
        rows.len()
    );
    check(confirmed * 2 > attempts.len(), "most are confirmed")?;
    let (_, counters) = a.json(&["show", "counters"])?;
    let lost = &counters["history"];
    check(lost["lost"] == 0 && lost["invalid"] == 0, &lost.to_string())
}
