//! The web page of a real daemon, by hand: roles, audit, files with the token, and five hundred browsers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use earmark_linux::link;
use libtest_mimic::Failed;
use rustix::process::Signal;

use crate::host::{ETH0, Host, Outcome, check, pair};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const RESERVE: &str = r#"{"reserve":{"protocol":"boomerang","from":"10.0.1.1:4000","to":"10.0.1.2:5001","rate_bps":1000000}}"#;
const LINKS: &str = r#"{"show":{"what":"links"}}"#;

/// Writes the file of the token, and returns the settings of a page for it.
fn settings(host: &Host, mode: u32, more: &str) -> Result<String, Failed> {
    let path: PathBuf = host.directory.join("token");
    std::fs::write(&path, format!("{TOKEN}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    let path = path.display();
    Ok(format!("[web]\nlisten = \"127.0.0.1:9480\"\ntoken_file = \"{path}\"\n{more}\n{ETH0}"))
}

fn start(more: &str) -> Result<(Host, Host), Failed> {
    let (mut host, other) = pair()?;
    link::set_up(&host.namespace, "lo", true)?;
    host.start(&settings(&host, 0o600, more)?)?;
    Ok((host, other))
}

fn send(host: &Host, request: &str) -> Result<TcpStream, Failed> {
    let mut stream = host.namespace.run_in(|| TcpStream::connect(("127.0.0.1", 9_480)))??;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

fn head(line: &str, length: usize) -> String {
    format!(
        "{line} HTTP/1.1\r\nHost: 127.0.0.1:9480\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

fn api(host: &Host, body: &str) -> Result<String, Failed> {
    let mut answer = String::new();
    send(host, &(head("POST /api", body.len()) + body))?.read_to_string(&mut answer)?;
    Ok(answer)
}

/// What the page reserves is a reservation of the daemon, and the audit log names the page.
pub(super) fn page_of_an_operator_reserves_and_releases() -> Outcome {
    let (mut host, _other) = start("role = \"operator\"")?;
    let answer = api(&host, RESERVE)?;
    check(answer.contains(" 200 ") && answer.contains("\"application\":1"), &answer)?;
    let (_, rows) = host.json(&["show", "applications"])?;
    check(rows.to_string().contains("10.0.1.2"), &rows.to_string())?;
    let links = api(&host, LINKS)?;
    check(links.contains("\"held_bps\":1000000") && links.contains("\"sent_octets\":"), &links)?;
    let answer = api(&host, r#"{"release":{"application":1}}"#)?;
    check(answer.contains("{\"ok\":{\"applications\":[1]}}"), &answer)?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")?;
    let log = std::fs::read_to_string(host.directory.join("log"))?;
    let line = log.lines().find(|line| line.contains("request=reserve")).unwrap_or_default();
    check(line.contains("outcome=ok") && line.contains("via=web"), &log)?;
    check(!log.contains(TOKEN), &log)
}

/// By default browsers with the token may only look.
pub(super) fn page_of_a_reader_changes_nothing() -> Outcome {
    let (host, _other) = start("")?;
    let answer = api(&host, RESERVE)?;
    check(answer.contains(" 403 ") && answer.contains("\"code\":\"forbidden\""), &answer)?;
    let (_, rows) = host.json(&["show", "applications"])?;
    check(!rows.to_string().contains("10.0.1.2"), &rows.to_string())?;
    let answer = api(&host, LINKS)?;
    check(answer.contains("\"interface\":\"eth0\""), &answer)
}

/// At a Unix socket the user of the peer decides, as at the control socket.
pub(super) fn page_at_a_unix_socket_has_the_roles_of_the_control_socket() -> Outcome {
    let (mut host, _other) = pair()?;
    let path = host.directory.join("w");
    host.start(&format!("[web]\nlisten = \"unix:{}\"\n{ETH0}", path.display()))?;
    let mut stream = UnixStream::connect(&path)?;
    stream.write_all(b"GET /role HTTP/1.1\r\nHost: r1\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    check(answer.contains("{\"role\":\"operator\"}"), &answer)?;
    let mode = std::fs::metadata(&path)?.permissions().mode();
    check(mode & 0o777 == 0o660, &format!("mode {mode:o}"))?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")?;
    check(!path.exists(), "the file of the socket is removed")
}

/// The start fails, and the message says what to do.
pub(super) fn token_that_others_may_read_is_an_error() -> Outcome {
    let (host, _other) = pair()?;
    for (mode, word) in [(0o644, "chmod 640"), (0o640, "chmod 600")] {
        let config = host.configure(&settings(&host, mode, "")?)?;
        let (status, said) = host.fail_to_start(&config)?;
        check(status.is_some_and(|status| status != 0) && said.contains(word), &said)?;
    }
    let config = host.configure(&settings(&host, 0o600, "")?)?;
    std::fs::write(host.directory.join("token"), "short\n")?;
    let (status, said) = host.fail_to_start(&config)?;
    check(status.is_some_and(|status| status != 0) && said.contains("openssl rand"), &said)
}

/// Five hundred browsers ask for events and read nothing. Requests at the control socket go on as before.
pub(super) fn five_hundred_tabs_delay_nobody() -> Outcome {
    let (host, _other) = start("role = \"operator\"")?;
    let mut tabs = Vec::new();
    let begin = Instant::now();
    let mut longest = Duration::ZERO;
    for number in 0..500 {
        tabs.push(send(&host, &head("GET /events", 0))?);
        if number % 50 == 0 {
            let asked = Instant::now();
            host.client()?.show_links()?;
            longest = longest.max(asked.elapsed());
        }
    }
    let asked = Instant::now();
    let answer = api(&host, RESERVE)?;
    check(answer.contains(" 200 "), &answer)?;
    check(longest < Duration::from_secs(1), &format!("the control socket waited {longest:?}"))?;
    check(begin.elapsed() < Duration::from_secs(30), &format!("{:?}", asked.elapsed()))?;
    let mut refused = 0;
    for tab in &mut tabs {
        let mut first = [0; 12];
        tab.read_exact(&mut first)?;
        refused += usize::from(&first[9..] == b"503");
    }
    check(refused == 468, &format!("{refused} of 500 refused, and 32 served"))?;
    let (_, rows) = host.json(&["show", "reservations"])?;
    check(rows.to_string().contains("10.0.1.2"), &rows.to_string())
}
