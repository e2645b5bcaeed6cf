//! Routers that do what they should not: each is a row with the reason, and the others stay fresh.

mod support;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use earmark_testkit::command_line::{TemporaryDirectory, status, stderr, stdout};
use support::{FleetProcess, answer, fake_router, metrics, program};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Memory that the program may take, whatever routers send.
const MEMORY: usize = 64 * 1024 * 1024;

/// Returns a router that sends a text and closes.
fn sends(text: impl Into<Vec<u8>>) -> String {
    let text = text.into();
    fake_router(move |mut stream| {
        let _ = stream.write_all(&text);
    })
}

/// Returns a router that sends a head, and then a text again and again with pauses.
fn repeats(head: &'static str, text: String, pause: Duration) -> String {
    fake_router(move |mut stream: TcpStream| {
        let _ = stream.write_all(head.as_bytes());
        while stream.write_all(text.as_bytes()).is_ok() {
            std::thread::sleep(pause);
        }
    })
}

/// Returns the arguments for routers by name, which are scraped each second.
fn arguments(routers: &[(&str, String)]) -> Vec<String> {
    let times = ["--interval", "1s", "--timeout", "800ms"].map(str::to_owned);
    let routers = routers.iter();
    let routers = routers.flat_map(|(name, url)| ["--router".to_owned(), format!("{name}={url}")]);
    times.into_iter().chain(routers).collect()
}

#[test]
fn each_fault_is_a_row_with_its_reason() {
    let closed =
        TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let length =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10000000000\r\n\r\n";
    let endless = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    let line = format!("# {}\n", "x".repeat(1_000));
    let none = Duration::ZERO;
    let faults = [
        ("down", format!("http://{closed}/metrics"), "cannot connect to 127.0.0.1:"),
        ("unresolved", "http://router.invalid:9470/".to_owned(), "router.invalid"),
        (
            "silent",
            fake_router(|_stream| std::thread::sleep(Duration::from_secs(600))),
            "no complete answer within 800ms",
        ),
        (
            "endless",
            repeats(endless, "x 1\n".to_owned(), Duration::from_millis(50)),
            "no complete answer within 800ms",
        ),
        ("ten_gigabytes", repeats(length, line.repeat(60), none), "exceeds 4194304 octets"),
        ("many_lines", repeats(endless, "\n".repeat(60_000), none), "exceeds 100000 lines"),
        ("long_line", repeats(endless, "x".repeat(60_000), none), "the line exceeds 16384 octets"),
        (
            "long_head",
            repeats("HTTP/1.1 200 OK\r\n", format!("X: {}\r\n", "x".repeat(9_000)), none),
            "invalid HTTP answer",
        ),
        ("html", sends(answer("text/html", "<p>Welcome")), "the content type \"text/html\""),
        ("html_as_text", sends(answer(TEXT, "<!doctype html>\n")), "line 1: no name of a metric"),
        ("no_type", sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "the content type \"\""),
        (
            "broken",
            sends(answer(TEXT, "earmark_link_up{interface=\"e\"} one\n")),
            "line 1: the value is no number",
        ),
        (
            "latin1",
            sends(
                [answer(TEXT, "x 1\n??").as_bytes(), b""]
                    .concat()
                    .into_iter()
                    .map(|octet| if octet == b'?' { b'\xe4' } else { octet })
                    .collect::<Vec<_>>(),
            ),
            "invalid metrics: line 2",
        ),
        ("cut_off", sends(answer(TEXT, "x 1")), "line 1: the text ends within the line"),
        (
            "closed_early",
            sends("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nx 1\n"),
            "invalid HTTP answer",
        ),
        ("other", sends(answer(TEXT, "go_goroutines 7\n")), "metrics of another program"),
        ("busy", sends("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), "HTTP status 503"),
        (
            "elsewhere",
            sends(
                "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            ),
            "HTTP status 302",
        ),
        ("ssh", sends("SSH-2.0-OpenSSH_9.2\r\n"), "invalid HTTP answer"),
    ];
    let sent = Arc::new(AtomicU64::new(0));
    let good = move |mut stream: TcpStream| {
        // 1 MB more at each scrape, which is 8 Mbit/s.
        let sent = sent.fetch_add(1_000_000, Ordering::Relaxed);
        let _ = stream.write_all(answer(TEXT, &metrics(2, sent)).as_bytes());
    };
    let mut routers = vec![("good", fake_router(good))];
    routers.extend(faults.iter().map(|(name, url, _)| (*name, url.clone())));
    let fleet = FleetProcess::start(&arguments(&routers));

    let rows = fleet.wait("all faults are known", |rows| {
        rows.iter()
            .all(|row| row["state"] == if row["name"] == "good" { "good" } else { "unreachable" })
    });
    for (name, _, reason) in &faults {
        let row = rows.iter().find(|row| row["name"] == *name).expect(name);
        let found = row["reason"].as_str().expect("a reason");
        assert!(found.contains(reason), "{name}: {found}");
        assert!(row["age_s"].is_null() && row["since"].is_string(), "{row}");
    }
    assert_eq!(rows.last().expect("rows")["name"], "good", "trouble comes first");

    // The good one stays fresh beside the others, and has rates.
    let rows = fleet
        .wait("rates", |rows| rows.last().is_some_and(|row| row["links"][0]["used_bps"].is_f64()));
    for _ in 0..30 {
        let rows = fleet.json("/api/fleet");
        let row = rows["routers"].as_array().and_then(|rows| rows.last().cloned()).expect("a row");
        assert!(row["age_s"].as_f64().expect("an age") < 5.0, "{row}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let good = rows.last().expect("a row");
    assert_eq!((&good["sessions"]["a"], &good["reserved_bps"]), (&12.0.into(), &20e6.into()));
    let history = fleet.json(&format!("/api/router/{}", good["id"]));
    assert!(history["links"][1]["samples"].as_array().expect("samples").len() >= 2, "{history}");
    assert!(fleet.largest_memory() < MEMORY, "{}", fleet.largest_memory());
    assert_eq!(fleet.end(), Some(0));
}

#[test]
fn router_that_returns_is_reachable_again() {
    let is_up = Arc::new(AtomicU64::new(0));
    let seen = is_up.clone();
    let url = fake_router(move |mut stream: TcpStream| {
        if seen.load(Ordering::Relaxed) == 1 {
            let _ = stream.write_all(answer(TEXT, &metrics(1, 0)).as_bytes());
        }
    });
    let fleet = FleetProcess::start(&arguments(&[("r1", url)]));
    let state = |state: &'static str| move |rows: &[serde_json::Value]| rows[0]["state"] == state;
    let down = fleet.wait("it is unreachable", state("unreachable"));
    is_up.store(1, Ordering::Relaxed);
    let up = fleet.wait("it is reachable", state("good"));
    assert_ne!(down[0]["since"], up[0]["since"]);
    is_up.store(0, Ordering::Relaxed);
    let down = fleet.wait("it is unreachable again", state("unreachable"));
    assert_eq!(down[0]["version"], "0.1.0", "the latest metrics stay");
    assert!(down[0]["age_s"].is_f64());
}

#[test]
fn five_hundred_routers_with_many_links_are_bounded() {
    let text = answer(TEXT, &metrics(300, 0));
    let routers: Vec<String> = (0..500).map(|_| text.clone()).collect();
    let url = sends(routers[0].clone());
    let names: Vec<String> = (0..500).map(|number| format!("r{number}")).collect();
    let routers: Vec<(&str, String)> =
        names.iter().map(|name| (name.as_str(), url.clone())).collect();
    let mut arguments = arguments(&routers);
    arguments[1] = "30s".to_owned();
    arguments[3] = "30s".to_owned();
    let fleet = FleetProcess::start(&arguments);
    let rows = fleet.wait("all are known", |rows| rows.iter().all(|row| row["state"] == "trouble"));
    assert_eq!(rows[0]["links"].as_array().expect("links").len(), 32_768 / 500);
    assert_eq!(rows[0]["troubles"][0], "235 links are left out");
    assert!(fleet.largest_memory() < 2 * MEMORY, "{}", fleet.largest_memory());
}

#[test]
fn requests_that_are_not_for_the_page_are_refused() {
    let fleet = FleetProcess::start(&arguments(&[("r1", "http://127.0.0.1:1/".to_owned())]));
    let address = fleet.address;
    let own = format!("Host: {address}\r\n");
    for (line, headers, status) in [
        ("GET /", own.clone(), 200),
        ("GET /fleet.js", own.clone(), 200),
        ("GET /elements.js", own.clone(), 200),
        ("GET /api/fleet", own.clone(), 200),
        ("GET /api/router/0", own.clone(), 200),
        ("GET /", format!("Host: localhost:{}\r\n", address.port()), 200),
        ("GET /api/fleet", format!("{own}Origin: http://{address}\r\n"), 200),
        ("GET /api/router/1", own.clone(), 404),
        ("GET /api/router/-1", own.clone(), 404),
        ("GET /api/router/", own.clone(), 404),
        ("GET /../etc/passwd", own.clone(), 404),
        ("GET /fleet.js/", own.clone(), 404),
        ("POST /api/fleet", own.clone(), 405),
        ("DELETE /api/router/0", own.clone(), 405),
        ("GET /api/fleet", "Host: rebound.example\r\n".to_owned(), 421),
        ("GET /api/fleet", String::new(), 421),
        ("GET /api/fleet", format!("{own}Origin: http://elsewhere.example\r\n"), 403),
    ] {
        let answer = fleet.send(&format!("{line} HTTP/1.1\r\n{headers}\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line} {headers}: {answer}");
        assert!(answer.contains("content-security-policy: default-src 'self'"), "{line}: {answer}");
    }
    let long = format!("GET / HTTP/1.1\r\n{own}X: {}\r\n\r\n", "x".repeat(20_000));
    assert!(!fleet.send(&long).starts_with("HTTP/1.1 200"));
}

#[test]
fn settings_are_checked() {
    let place = TemporaryDirectory::new("fleet");
    let good = "interval = '30s'\n[[router]]\nname = 'r1'\nmetrics = 'http://10.0.0.1:9470'\n";
    let good = place.file("good.toml", good);
    let output = program().args(["--config", &good, "--check"]).output().expect("it runs");
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let valid =
        "r1: http://10.0.0.1:9470/metrics\nvalid: 1 routers, page at http://127.0.0.1:9490/\n";
    assert_eq!(stdout(&output), valid);
    let bad =
        place.file("bad.toml", "[[router]]\nname = 'r1'\nmetrics = 'https://10.0.0.1:9470'\n");
    for arguments in [vec!["--config", &bad], vec!["--config", &bad, "--check"]] {
        let output = program().args(arguments).output().expect("it runs");
        assert_eq!(status(&output), 1);
        let text = stderr(&output);
        assert!(
            text.contains("router \"r1\": metrics: the scheme is not http\n  help: "),
            "{text}"
        );
    }
    let output = program().output().expect("it runs");
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let arguments = ["--router", "r1=http://10.0.0.1:9470", "--listen", &address];
    let output = program().args(arguments).output().expect("it runs");
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("cannot listen at 127.0.0.1:"), "{}", stderr(&output));
}
