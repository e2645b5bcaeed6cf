//! Metrics of a real daemon: scraped by hand, by promtool, and by a Prometheus server while applications reserve and release.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use earmark_linux::link;
use libtest_mimic::Failed;
use rustix::process::Signal;
use serde_json::Value;

use crate::host::{ETH0, Host, Outcome, check, pair, until};

const METRICS: &str = "[metrics]\naddress = \"127.0.0.1:9470\"\nreservations = 10\n";
const RESERVE: [&str; 10] = [
    "reserve",
    "--protocol",
    "boomerang",
    "--from",
    "10.0.1.1:4000",
    "--to",
    "10.0.1.2:5001",
    "--forward",
    "1Mbit",
    "--partial",
];

/// A host with a daemon that serves metrics, beside a host without.
fn start() -> Result<(Host, Host), Failed> {
    let (mut host, other) = pair()?;
    link::set_up(&host.namespace, "lo", true)?;
    host.start(&format!("{METRICS}{ETH0}"))?;
    Ok((host, other))
}

fn connect(host: &Host, port: u16) -> Result<TcpStream, Failed> {
    let stream = host.namespace.run_in(|| TcpStream::connect(("127.0.0.1", port)))??;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

/// Returns the body of a page, which must be found.
fn get(host: &Host, port: u16, path: &str) -> Result<String, Failed> {
    let mut stream = connect(host, port)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: h1\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
    check(head.contains(" 200 "), &format!("{path}: {answer}"))?;
    Ok(body.to_owned())
}

/// Returns the value of a series.
fn value(text: &str, series: &str) -> Result<f64, Failed> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(lines.next().ok_or_else(|| format!("no {series} in\n{text}"))?.parse()?)
}

pub(super) fn metrics_show_what_is_reserved() -> Outcome {
    let (mut host, _other) = start()?;
    let before = get(&host, 9_470, "/metrics")?;
    check(
        value(&before, "earmark_link_reserved_bytes_per_second{interface=\"eth0\"}")? == 0.0,
        &before,
    )?;
    let refused = "earmark_events_total{part=\"boomerang\",kind=\"reservation_refused\"}";
    check(value(&before, refused)? == 0.0, &before)?;
    check(!before.contains("earmark_reservation_"), &before)?;

    let (status, answer) = host.json(&RESERVE)?;
    check(status == Some(0), &answer.to_string())?;
    std::thread::sleep(Duration::from_millis(200));
    let text = get(&host, 9_470, "/metrics")?;
    for (series, expected) in [
        ("earmark_link_reserved_bytes_per_second{interface=\"eth0\"}", 125_000.0),
        ("earmark_link_reservable_bytes_per_second{interface=\"eth0\"}", 937_500.0),
        ("earmark_link_claims{interface=\"eth0\"}", 1.0),
        ("earmark_applications", 1.0),
        ("earmark_soft_states{part=\"boomerang\",kind=\"loops\"}", 1.0),
        ("earmark_setup_seconds_count{protocol=\"boomerang\"}", 1.0),
        ("earmark_requests_total{protocol=\"boomerang\",outcome=\"whole\"}", 1.0),
        ("earmark_driver_total{kind=\"installed\"}", 1.0),
    ] {
        check(value(&text, series)? == expected, &format!("{series} is not {expected}:\n{text}"))?;
    }
    check(value(&text, "earmark_event_loop_turn_seconds_count")? > 0.0, &text)?;
    check(value(&text, "earmark_table_bytes{part=\"boomerang\"}")? > 0.0, &text)?;
    check(value(&text, "process_resident_memory_bytes")? > 1e6, &text)?;
    let labels = "{protocol=\"boomerang\",interface=\"eth0\",destination=\"10.0.1.2\",destination_port=\"5001\",\
                  ip_protocol=\"17\",senders=\"10.0.1.1:4000\",style=\"forward\"}";
    let rate = value(&text, &format!("earmark_reservation_rate_bytes_per_second{labels}"))?;
    check(rate == 125_000.0, &text)?;
    check(value(&text, &format!("earmark_reservation_enforced{labels}"))? == 1.0, &text)?;
    check(
        value(&text, &format!("earmark_reservation_dropped_packets_total{labels}"))? == 0.0,
        &text,
    )?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")
}

/// The start fails, and the message names the setting.
pub(super) fn address_in_use_is_an_error() -> Outcome {
    let (host, _other) = pair()?;
    link::set_up(&host.namespace, "lo", true)?;
    let bind = || std::net::TcpListener::bind("127.0.0.1:9470");
    let _taken = host.namespace.run_in(bind)??;
    let config = host.configure(&format!("{METRICS}{ETH0}"))?;
    let (status, said) = host.fail_to_start(&config)?;
    check(status == Some(1) && said.contains("127.0.0.1:9470 (metrics.address)"), &said)
}

pub(super) fn promtool_finds_no_fault() -> Outcome {
    let (host, _other) = start()?;
    let (status, answer) = host.json(&RESERVE)?;
    check(status == Some(0), &answer.to_string())?;
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let text = get(&host, 9_470, "/metrics")?;
    child.stdin.take().ok_or("no input")?.write_all(text.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.status.success(), &said)?;
    for arguments in
        [["check", "rules", "earmark-rules.yml"], ["test", "rules", "earmark-rules-test.yml"]]
    {
        let output = Command::new("promtool")
            .args(arguments)
            .current_dir(packaging().join("prometheus"))
            .output()?;
        check(output.status.success(), &String::from_utf8_lossy(&output.stderr))?;
    }
    Ok(())
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// A server that ends with its test.
struct Prometheus(Child);

impl Prometheus {
    /// Starts a server at port 9090 of the host, which scrapes the daemon each second and has the rules of the package.
    fn start(host: &Host) -> Result<Prometheus, Failed> {
        let rules = packaging().join("prometheus/earmark-rules.yml").canonicalize()?;
        let config = host.directory.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{}]\n\
             scrape_configs:\n  - job_name: earmark\n    static_configs: [{{targets: [\"127.0.0.1:9470\"]}}]\n",
            rules.display()
        );
        std::fs::write(&config, text)?;
        let mut command = host.namespace.command("prometheus")?;
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", host.directory.join("tsdb").display()));
        command.args(["--web.listen-address=127.0.0.1:9090", "--log.level=error"]);
        Ok(Prometheus(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks the server for the value of an expression at this moment.
fn query(host: &Host, expression: &str) -> Result<Vec<Value>, Failed> {
    let encoded: String = expression.bytes().map(|octet| format!("%{octet:02X}")).collect();
    let answer: Value =
        serde_json::from_str(&get(host, 9_090, &format!("/api/v1/query?query={encoded}"))?)?;
    check(answer["status"] == "success", &format!("{expression}: {answer}"))?;
    Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
}

/// While applications reserve and release, and other scrapers hold all places that they get, the server gets every family. The rules and
/// the panels of the dashboard are expressions that it understands, and each panel shows something.
pub(super) fn prometheus_scrapes_a_daemon_under_load() -> Outcome {
    let (host, _other) = start()?;
    let _server = Prometheus::start(&host)?;
    let scraped = || {
        let Ok(up) = query(&host, "up{job=\"earmark\"} == 1") else { return Ok(None) };
        Ok((!up.is_empty()).then_some(()))
    };
    until("the server scrapes", scraped)?;
    // Scrapers that ask and never read.
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut stream = connect(&host, 9_470)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: h1\r\n\r\n")?;
        stalled.push(stream);
    }
    let end = Instant::now() + Duration::from_secs(6);
    let mut longest = Duration::ZERO;
    while Instant::now() < end {
        let begin = Instant::now();
        let (status, answer) = host.json(&RESERVE)?;
        check(status == Some(0), &answer.to_string())?;
        let released = host.earmark(&["release", "--all"])?;
        check(released.status.success(), &String::from_utf8_lossy(&released.stderr))?;
        longest = longest.max(begin.elapsed());
    }
    check(longest < Duration::from_secs(5), &format!("nothing waits for scrapers: {longest:?}"))?;
    let (status, answer) = host.json(&RESERVE)?;
    check(status == Some(0), &answer.to_string())?;
    until("the server knows the reservation", || {
        let found = query(&host, "earmark_reservation_enforced{destination_port=\"5001\"} == 1")?;
        Ok((!found.is_empty()).then_some(()))
    })?;
    let missed = query(
        &host,
        "count_over_time(up{job=\"earmark\"}[1m]) - sum_over_time(up{job=\"earmark\"}[1m])",
    )?;
    check(missed.first().is_some_and(|row| row["value"][1] == "0"), &format!("{missed:?}"))?;

    let rules: Value = serde_json::from_str(&get(&host, 9_090, "/api/v1/rules")?)?;
    let rules = rules["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
    check(
        rules.len() >= 12 && rules.iter().all(|rule| rule["health"] == "ok"),
        &format!("{rules:?}"),
    )?;
    let page = std::fs::read_to_string(packaging().join("grafana/earmark.json"))?;
    let page: Value = serde_json::from_str(&page)?;
    let panels = page["panels"].as_array().ok_or("no panels")?;
    let mut empty = BTreeSet::new();
    for panel in panels {
        for target in panel["targets"].as_array().ok_or("no targets")? {
            let expression = target["expr"].as_str().ok_or("no expression")?;
            let expression =
                expression.replace("$__rate_interval", "1m").replace("$instance", ".*");
            if query(&host, &expression)?.is_empty() {
                empty.insert(panel["title"].to_string());
            }
        }
    }
    // Nothing was dropped.
    check(empty.iter().all(|title| title == "\"Dropped messages\""), &format!("{empty:?}"))
}
