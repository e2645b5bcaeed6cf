//! The web page in a real browser: a headless Chromium in the namespace of a host whose daemon serves the page.
//!
//! The tests need root, chromium and chromedriver; without them they are listed as ignored. With `EARMARK_SCREENSHOTS=DIRECTORY` they
//! write the pictures of the documentation.

#[path = "page/browser.rs"]
mod browser;
#[allow(dead_code)]
#[path = "kernel/host.rs"]
mod host;

use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

use earmark_linux::link;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

use self::browser::Browser;
use self::host::{ETH0, Host, Outcome, check, pair, until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PAGE: &str = "http://127.0.0.1:9480/";
/// Names that are scripts where they are read as HTML.
const NODE: &str = "<img src=x onerror=window.broken=1>";
const USER: &str = "<script>window.broken=1</script>";
/// Checks of accessibility, by Deque Systems.
const AXE: &str = include_str!("page/axe/axe.min.js");

/// Starts a daemon with a page for this role, beside a host with a daemon.
fn start(node: &str, role: &str) -> Result<(Host, Host), Failed> {
    let (mut host, mut other) = pair()?;
    link::set_up(&host.namespace, "lo", true)?;
    let path = host.directory.join("token");
    std::fs::write(&path, TOKEN)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let path = path.display();
    host.start(&format!(
        "[node]\nname = \"{node}\"\n[web]\nlisten = \"127.0.0.1:9480\"\ntoken_file = \"{path}\"\nrole = \"{role}\"\n{ETH0}"
    ))?;
    other.start(ETH0)?;
    Ok((host, other))
}

fn log_in(browser: &Browser<'_>) -> Outcome {
    browser.open(PAGE)?;
    browser.wait("!document.getElementById('login').hidden")?;
    browser.fill("#token", "another token")?;
    browser.click("#login button")?;
    browser.wait(
        "document.getElementById('status').textContent.includes('token is missing or wrong')",
    )?;
    browser.fill("#token", TOKEN)?;
    browser.click("#login button")?;
    browser.wait("!document.getElementById('contents').hidden")
}

/// Returns the destinations of reservations, as the command line lists them.
fn reserved(host: &Host) -> Result<String, Failed> {
    Ok(host.json(&["show", "reservations"])?.1.to_string())
}

fn page_shows_reserves_searches_and_releases() -> Outcome {
    let (host, _other) = start("r1", "operator")?;
    let browser = Browser::start(&host)?;
    log_in(&browser)?;
    browser.wait("document.querySelector('#node').textContent === 'r1'")?;
    browser.wait("document.querySelector('#link-rows h3')?.textContent === 'eth0'")?;
    browser.wait("document.querySelector('#link-rows canvas')")?;

    browser.choose("#reserve-protocol", "boomerang")?;
    browser.fill("#reserve-from", "10.0.1.1:4000")?;
    browser.fill("#reserve-to", "10.0.1.2:5001")?;
    browser.fill("#reserve-rate", "2")?;
    browser.click("#reserve button")?;
    browser
        .wait("document.getElementById('request-result').textContent.includes('application 1')")?;
    browser.wait(
        "document.querySelector('#application-rows td:nth-child(5)')?.textContent === 'whole'",
    )?;
    browser.wait(
        "document.getElementById('reservation-rows').textContent.includes('10.0.1.2:5001')",
    )?;
    browser.wait(
        "document.getElementById('link-rows').textContent.includes('2 Mbit/s of 7.5 Mbit/s')",
    )?;
    browser.wait("document.querySelectorAll('#event-rows li').length > 0")?;
    check(reserved(&host)?.contains("10.0.1.2"), "the command line lists the reservation")?;

    browser.fill("#search-to", "10.9.0.0/16")?;
    browser.click("#search button")?;
    browser.wait("document.getElementById('search-result').textContent === '0 reservations.'")?;
    browser.fill("#search-to", "10.0.1.0/24")?;
    browser.click("#search button")?;
    browser.wait("document.getElementById('search-result').textContent === '1 reservation.'")?;
    browser.fill("#search-link", "eth7")?;
    browser.click("#search button")?;
    browser.wait("document.getElementById('search-result').textContent.includes('help: ')")?;
    browser.fill("#search-link", "")?;

    // More than the link has: the refusal is an event.
    browser.fill("#reserve-to", "10.0.1.2:5002")?;
    browser.fill("#reserve-rate", "50")?;
    browser.click("#reserve button")?;
    browser.wait("document.getElementById('event-rows').textContent.includes('refused')")?;
    // No address: the request itself is refused, with its help.
    browser.fill("#reserve-to", "nowhere")?;
    browser.click("#reserve button")?;
    browser.wait("document.getElementById('request-result').textContent.includes('help: ')")?;

    is_accessible(&browser)?;
    fits(&browser)?;
    pictures(&browser)?;

    browser.click("button[aria-label='Release application 1']")?;
    browser.wait(
        "document.getElementById('request-result').textContent === 'Application 1 is released.'",
    )?;
    until("the reservation is released", || {
        Ok((!reserved(&host)?.contains("10.0.1.2")).then_some(()))
    })
}

/// Checks by axe, in both schemes of colors.
fn is_accessible(browser: &Browser<'_>) -> Outcome {
    browser.run(AXE)?;
    for scheme in ["light", "dark"] {
        browser.prefer(scheme)?;
        let found = browser.run_until_called(
            "const done = arguments[0]; axe.run().then((found) => done(found.violations.map(({ id, nodes }) => \
             [id, ...nodes.map((node) => node.html + ' ' + node.failureSummary)])), (error) => done([String(error)]))",
        )?;
        check(found == Value::Array(Vec::new()), &format!("{scheme}: {found:#}"))?;
    }
    browser.prefer("light")
}

/// Nothing has to be scrolled sideways.
fn fits(browser: &Browser<'_>) -> Outcome {
    for width in [360, 900, 1_600] {
        browser.resize(width, 800)?;
        browser.wait(&format!("window.innerWidth === {width}"))?;
        browser.wait("document.documentElement.scrollWidth <= window.innerWidth")?;
    }
    Ok(())
}

/// Writes the pictures of the documentation if they are wanted.
fn pictures(browser: &Browser<'_>) -> Outcome {
    let Some(directory) = std::env::var_os("EARMARK_SCREENSHOTS") else { return Ok(()) };
    for (name, width, height) in [("page-wide.png", 1_200, 1_150), ("page-phone.png", 360, 900)] {
        browser.resize(width, height)?;
        browser.run("window.scrollTo(0, 0); document.activeElement?.blur()")?;
        // The charts follow the width, and get some samples.
        std::thread::sleep(std::time::Duration::from_secs(5));
        std::fs::write(std::path::Path::new(&directory).join(name), browser.screenshot()?)?;
    }
    Ok(())
}

fn names_that_are_html_stay_text() -> Outcome {
    let (host, other) = start(NODE, "operator")?;
    let browser = Browser::start(&host)?;
    log_in(&browser)?;
    browser.wait(&format!("document.querySelector('#node').textContent === '{NODE}'"))?;
    let listening = other.earmark(&["listen", "--on", "10.0.1.2:5003"])?;
    check(listening.status.success(), &String::from_utf8_lossy(&listening.stderr))?;
    browser.fill("#reserve-from", "10.0.1.1:4003")?;
    browser.fill("#reserve-to", "10.0.1.2:5003")?;
    browser.fill("#reserve-rate", "1")?;
    browser.fill("#reserve-user", USER)?;
    browser.fill("#reserve-application", NODE)?;
    browser.click("#reserve button")?;
    browser.wait(
        "document.getElementById('reservation-rows').textContent.includes('10.0.1.2:5003')",
    )?;
    browser.fill("#search-link", USER)?;
    browser.click("#search button")?;
    browser.wait("document.getElementById('search-result').textContent.includes('<script>')")?;
    let clean = browser.run(
        "return window.broken === undefined && document.querySelectorAll('img, script').length === 1",
    )?;
    check(clean == Value::Bool(true), "no name has become an element")
}

fn reader_has_no_forms_that_change_something() -> Outcome {
    let (host, _other) = start("r1", "reader")?;
    let browser = Browser::start(&host)?;
    log_in(&browser)?;
    let (status, answer) = host.json(&[
        "reserve",
        "--protocol",
        "boomerang",
        "--from",
        "10.0.1.1:4000",
        "--to",
        "10.0.1.2:5001",
        "--forward",
        "1Mbit",
    ])?;
    check(status == Some(0), &answer.to_string())?;
    browser.wait(
        "document.getElementById('application-rows').textContent.includes('10.0.1.2:5001')",
    )?;
    let hidden = browser.run(
        "return document.getElementById('reserve').hidden && document.querySelectorAll('#application-rows button').length === 0",
    )?;
    check(hidden == Value::Bool(true), "a reader sees no form")
}

/// Name and function of a test.
type Test = (&'static str, fn() -> Outcome);

fn main() -> ExitCode {
    if host::is_command() {
        return earmark::cli::main();
    }
    let missing = match rustix::process::geteuid().is_root() {
        true => browser::missing_program().map(|program| format!("needs {program}")),
        false => Some("needs root".to_owned()),
    };
    let tests: [Test; 3] = [
        ("page_shows_reserves_searches_and_releases", page_shows_reserves_searches_and_releases),
        ("names_that_are_html_stay_text", names_that_are_html_stay_text),
        ("reader_has_no_forms_that_change_something", reader_has_no_forms_that_change_something),
    ];
    let trials = tests.map(|(name, test)| match &missing {
        // The kind is the only reason that the runner prints for an ignored test.
        Some(reason) => Trial::test(name, test).with_kind(reason).with_ignored_flag(true),
        None => Trial::test(name, test),
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}
