//! The page in a real browser: a headless Chromium with 50 routers, one of which has a name that is HTML.
//!
//! The test needs chromium and chromedriver; without them it is listed as ignored. With `EARMARK_SCREENSHOTS=DIRECTORY` it writes
//! the picture of the documentation.

#[path = "../../earmarkd/tests/page/browser.rs"]
#[allow(dead_code)]
mod browser;
#[path = "support/host.rs"]
mod host;
mod support;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use self::browser::Browser;
use self::host::{Host, Outcome, check, run_as_root};
use self::support::{FleetProcess, answer, fake_router, metrics};

const TEXT: &str = "text/plain; version=0.0.4";
/// Names that are scripts where they are read as HTML.
const ROUTER: &str = "<img src=x onerror=window.broken=1>";
const LINK: &str = "<script>window.broken=1</script>";
/// Checks of accessibility, by Deque Systems.
const AXE: &str = include_str!("../../earmarkd/tests/page/axe/axe.min.js");

fn settings(host: &Host) -> Result<Vec<String>, libtest_mimic::Failed> {
    let sent = Arc::new(AtomicU64::new(0));
    let router = |change: fn(String) -> String| {
        let sent = sent.clone();
        fake_router(move |mut stream| {
            let octets = sent.fetch_add(20_000, Ordering::Relaxed);
            let text = change(metrics(2, octets));
            let _ = stream.write_all(answer(TEXT, &text).as_bytes());
        })
    };
    let good = router(|text| text);
    let named = router(|text| text.replace("eth1", LINK));
    let full = router(|text| {
        text.replace(
            "reserved_bytes_per_second{interface=\"eth0\"} 1250000",
            "reserved_bytes_per_second{interface=\"eth0\"} 9000000",
        )
    });
    let down = "http://127.0.0.1:1/metrics".to_owned();
    let html = fake_router(|mut stream| {
        let _ = stream.write_all(answer("text/html", "<p>Login").as_bytes());
    });
    let mut routers = vec![
        (ROUTER.to_owned(), named),
        ("core-1".into(), down),
        ("edge-7".into(), html),
        ("edge-8".into(), full),
    ];
    routers.extend((0..46).map(|number| (format!("r{number:02}"), good.clone())));
    let mut text = "listen = '127.0.0.1:9490'\ninterval = '1s'\ntimeout = '900ms'\n".to_owned();
    for (name, url) in routers {
        text += &format!(
            "[[router]]\nname = '{name}'\nmetrics = '{url}'\npage = 'http://127.0.0.1:9480/'\n"
        );
    }
    let path = host.directory.join("fleet.toml");
    std::fs::write(&path, text)?;
    Ok(vec!["--config".to_owned(), path.display().to_string()])
}

fn fifty_routers_are_on_one_page() -> Outcome {
    let host = Host::new("fleet-page")?;
    host.namespace.run_in(|| -> Outcome {
        let fleet = FleetProcess::start(&settings(&host)?);
        fleet.wait("all are known", |rows| rows.iter().all(|row| row["state"] != "pending"));
        let browser = Browser::start(&host)?;
        browser.open(&format!("http://{}/", fleet.address))?;
        browser.wait("document.querySelectorAll('#routers > li').length === 50")?;
        browser.wait("document.getElementById('summary').textContent === '50 routers, 2 unreachable, 1 with trouble'")?;
        let first = "[...document.querySelectorAll('#routers h2')].slice(0, 3).map((title) => title.textContent).join()";
        browser.wait(&format!("{first} === 'core-1,edge-7,edge-8'"))?;
        browser.wait("document.querySelector('#routers li .state').textContent.includes('cannot connect to 127.0.0.1:1')")?;
        browser.wait("document.querySelectorAll('#routers li.trouble .state')[0].textContent.includes('eth0 is nearly full')")?;

        filter_selects_rows(&browser)?;
        names_stay_text(&browser)?;
        open_row_keeps_the_focus(&browser)?;
        is_accessible_and_fits(&browser)?;
        picture(&browser)?;

        drop(fleet);
        browser.wait("document.getElementById('status').textContent.includes('not fresh')")
    })?
}

fn filter_selects_rows(browser: &Browser<'_>) -> Outcome {
    let visible = "document.querySelectorAll('#routers > li:not([hidden])').length";
    browser.fill("#filter-text", "r4")?;
    browser.wait(&format!("{visible} === 6"))?;
    browser.fill("#filter-text", "text/html")?;
    browser.wait(&format!("{visible} === 1"))?;
    browser.fill("#filter-text", " ")?;
    browser.choose("#filter-state", "unreachable or trouble")?;
    browser.wait(&format!("{visible} === 3"))?;
    browser.run(
        "const state = document.getElementById('filter-state'); state.value = ''; \
         state.dispatchEvent(new Event('input', { bubbles: true }))",
    )?;
    browser.wait(&format!("{visible} === 50"))
}

fn names_stay_text(browser: &Browser<'_>) -> Outcome {
    let id = "[...document.querySelectorAll('#routers h2 button')].find((button) => button.textContent.startsWith('<img'))";
    browser.run(&format!("{id}.click()"))?;
    browser.wait(&format!("document.querySelector('.links:not([hidden]) article:first-child h3')?.textContent === '{LINK}'"))?;
    // Two samples are one line.
    browser
        .wait("document.querySelectorAll('.links:not([hidden]) svg path.reserved').length === 2")?;
    browser.wait(
        "document.querySelector('.links:not([hidden]) path.used').getAttribute('d').includes('L')",
    )?;
    let clean = browser.run(
        "return window.broken === undefined && document.querySelectorAll('img, script').length === 1",
    )?;
    check(clean == Value::Bool(true), "no name has become an element")
}

fn open_row_keeps_the_focus(browser: &Browser<'_>) -> Outcome {
    browser.run("document.querySelector('#routers li.trouble button').click()")?;
    browser.run("document.querySelector('#routers li.trouble button').focus()")?;
    browser.wait("document.querySelector('#routers li.trouble svg')")?;
    browser.run("document.querySelector('#routers li.trouble dd').textContent = 'old'")?;
    browser.wait("document.querySelector('#routers li.trouble dd').textContent !== 'old'")?;
    browser.wait("document.activeElement.textContent === 'edge-8'")
}

/// Checks by axe at three widths in both schemes of colors, and that nothing has to be scrolled sideways.
fn is_accessible_and_fits(browser: &Browser<'_>) -> Outcome {
    browser.run(AXE)?;
    for width in [360, 900, 1_600] {
        browser.resize(width, 800)?;
        browser.wait(&format!("window.innerWidth === {width}"))?;
        browser.wait("document.documentElement.scrollWidth <= window.innerWidth")?;
        for scheme in ["light", "dark"] {
            browser.prefer(scheme)?;
            let found = browser.run_until_called(
                "const done = arguments[0]; axe.run().then((found) => done(found.violations.map(({ id, nodes }) => \
                 [id, ...nodes.slice(0, 3).map((node) => node.html + ' ' + node.failureSummary)])), (error) => done([String(error)]))",
            )?;
            check(found == Value::Array(Vec::new()), &format!("{width} {scheme}: {found:#}"))?;
        }
    }
    browser.prefer("light")
}

/// Writes the picture of the documentation if it is wanted.
fn picture(browser: &Browser<'_>) -> Outcome {
    let Some(directory) = std::env::var_os("EARMARK_SCREENSHOTS") else { return Ok(()) };
    browser.resize(1_200, 800)?;
    browser.run("window.scrollTo(0, 0); document.activeElement?.blur()")?;
    // The lines get some samples.
    std::thread::sleep(std::time::Duration::from_secs(20));
    std::fs::write(std::path::Path::new(&directory).join("fleet.png"), browser.screenshot()?)?;
    Ok(())
}

fn main() -> ExitCode {
    let missing = browser::missing_program().map(|program| format!("needs {program}"));
    run_as_root(missing, &[("fifty_routers_are_on_one_page", fifty_routers_are_on_one_page)])
}
