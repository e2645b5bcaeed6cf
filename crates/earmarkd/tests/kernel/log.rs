//! The log of a real daemon: readers that stall, levels that change, JSON lines.

use std::io::{PipeReader, Read};

use earmark_control::{ApplicationId, LogLevel, LogRequest, Release, Request};
use libtest_mimic::Failed;
use rustix::process::Signal;
use serde_json::Value;

use crate::host::{ETH0, Host, Outcome, check, pair, until};

/// Starts the daemon with its log in a pipe that nobody reads yet.
fn start(host: &mut Host, arguments: &[&str]) -> Result<PipeReader, Failed> {
    let config = host.configure(ETH0)?;
    let (reader, writer) = std::io::pipe()?;
    let daemon = host.command(&config)?.args(arguments).stderr(writer).spawn()?;
    host.await_daemon(daemon)?;
    Ok(reader)
}

fn log_counter(host: &Host, name: &str) -> Result<u64, Failed> {
    let (_, counters) = host.json(&["show", "counters"])?;
    Ok(counters["log"][name].as_u64().ok_or_else(|| counters.to_string())?)
}

/// A full pipe holds neither requests nor signalling up. The lost lines are counted, and said when somebody reads again. A report
/// is shorter than other lines, so that a pipe that is nearly full may take one before.
pub(super) fn stalled_reader_of_the_log_holds_nothing_up() -> Outcome {
    let (mut host, _other) = pair()?;
    let mut reader = start(&mut host, &[])?;
    let mut client = host.client()?;
    // Each request is a line of the audit log, even if it fails.
    let refused = Request::Release(Release::Application(ApplicationId(99)));
    until("lines are lost", || {
        for _ in 0..500 {
            check(client.call::<Value>(&refused).is_err(), "there is no such application")?;
        }
        Ok((log_counter(&host, "lost")? > 500).then_some(()))
    })?;
    check(host.client()?.show_links()?.rows.len() == 1, "requests are served")?;
    let (status, outcome) = host.json(&["send", "--to", "10.0.1.2:5001", "--rate", "1Mbit"])?;
    check(status == Some(0), &outcome.to_string())?;
    check(host.client()?.show_sessions()?.rows.len() == 1, "signalling is served")?;

    let before = log_counter(&host, "lines")?;
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    // Without another line: the daemon tries by itself.
    until("a line is written", || Ok((log_counter(&host, "lines")? > before).then_some(())))?;
    let lost = log_counter(&host, "lost")?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")?;
    let text = reading.join().map_err(|_| "no log")??;
    let said = text.lines().filter_map(|line| line.split_once(" were lost count=")?.1.parse().ok());
    let said: Vec<u64> = said.collect();
    check(said.iter().sum::<u64>() == lost, &format!("{lost} lines are lost, and said: {said:?}"))?;
    check(text.lines().last().is_some_and(|line| line.contains("stopping")), "the last line")
}

/// A level ends by itself; each line is a JSON object.
pub(super) fn level_of_the_log_ends_by_itself() -> Outcome {
    let (mut host, _other) = pair()?;
    let mut reader = start(&mut host, &["--log-format", "json", "--log", "warn,daemon=info"])?;
    let (status, answer) = host.json(&["log", "set", "ledger=debug,control=debug", "1s"])?;
    check(status == Some(0), &answer.to_string())?;
    let level = |host: &Host| -> Result<LogLevel, Failed> {
        let rows = host.client()?.log(LogRequest::default())?.targets;
        let row = rows.iter().find(|row| row.target == "ledger");
        Ok(row.ok_or("no such target")?.level)
    };
    check(level(&host)? == LogLevel::Debug, "it is set")?;
    let (status, _) = host.json(&["send", "--to", "10.0.1.2:5001", "--rate", "1Mbit"])?;
    check(status == Some(0), "status 0")?;
    until("the level ends", || Ok((level(&host)? == LogLevel::Warn).then_some(())))?;
    let unknown = host.earmark(&["log", "set", "nothing=debug"])?;
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    check(unknown.status.code() == Some(1) && said.contains("rsvp"), &said)?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")?;

    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let count = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    check(count("started") == 1 && count("stopping") == 1, &text)?;
    // Once when both are set, and once for each that ends.
    check(count("log_levels_changed") == 3, &text)?;
    let is_opened = |line: &&Value| line["target"] == "control" && line["message"] == "opened";
    check(lines.iter().filter(is_opened).count() == 1, &text)
}
