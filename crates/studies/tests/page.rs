//! The page of a report in a real browser, a headless Chromium: nothing is cut off at any width, and tables are reached
//! without scripts.
//!
//! The test needs chromium and chromedriver; without them it is listed as ignored. With `EARMARK_REPORT=DIRECTORY/index.html`
//! it checks that page in place of its own; with `EARMARK_SCREENSHOTS=DIRECTORY` it writes a picture of each width.

#[path = "../../earmarkd/tests/page/browser.rs"]
#[allow(dead_code)]
mod browser;
#[path = "../../fleet/tests/support/host.rs"]
mod host;

use std::path::PathBuf;
use std::process::ExitCode;

use earmark_studies::paper_reproduction::section::{
    Axis, Cell, Estimate, Figure, Kind, Section, Series, Table,
};
use earmark_studies::paper_reproduction::{page, verdicts};
use serde_json::Value;

use self::browser::Browser;
use self::host::{Host, Outcome, check, run_as_root};

/// Widths of a phone, a small window and a large one, pixels.
const WIDTHS: [u32; 3] = [360, 900, 1_600];

/// Returns what is cut off, overlaps or leaves its box, one line each.
const PROBLEMS: &str = "
    const width = document.documentElement.clientWidth, found = [];
    const name = (e) => `${e.tagName}.${e.getAttribute('class')} ${(e.textContent || '').slice(0, 60)}`;
    if (document.documentElement.scrollWidth > width) found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    for (const e of document.body.querySelectorAll('*:not(svg *)')) {
        const box = e.getBoundingClientRect();
        if (box.width === 0 || box.height === 0 || !e.checkVisibility()) continue;
        if (box.left < -1 || box.right > width + 1) found.push(`outside: ${name(e)}`);
        const display = getComputedStyle(e).display;
        if (display !== 'inline' && e.tagName !== 'svg' && e.scrollWidth > e.clientWidth + 1) found.push(`overflows: ${name(e)}`);
    }
    for (const svg of document.querySelectorAll('svg')) {
        const frame = svg.getBoundingClientRect();
        if (frame.width === 0) continue;
        const texts = [...svg.querySelectorAll('text')].map((text) => [text, text.getBoundingClientRect()]);
        for (const [e, box] of [...svg.querySelectorAll('rect, line, polyline, circle')].map((e) => [e, e.getBoundingClientRect()]).concat(texts)) {
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
                found.push(`clipped in ${svg.getAttribute('aria-label')}: ${name(e)}`);
        }
        for (const [i, [one, a]] of texts.entries()) for (const [other, b] of texts.slice(i + 1)) {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across > 1 && down > 4) found.push(`overlap in ${svg.getAttribute('aria-label')}: ${one.textContent} and ${other.textContent}`);
        }
    }
    return found.slice(0, 20)";

fn estimate(value: f64) -> Estimate {
    Estimate::of(&[0.9 * value, value, 1.1 * value, value, value, value, value]).expect("values")
}

/// Returns a page with the widest tables, the longest names and the most series of any part.
fn widest_page() -> String {
    let mut section = Section::default();
    section.heading("Everything that is wide");
    section.text("A paragraph with a_key.of_the_published_figures.that_has_no_space.and_is_longer_than_a_phone_is_wide.cp1_median.");
    let names: Vec<String> =
        (0..12).map(|n| format!("Boomerang, by the kernel: reservation management {n}")).collect();
    for kind in [Kind::Bars, Kind::Dots, Kind::Lines] {
        let series = (0..8).map(|n| {
            let points = (0..12).map(move |x| estimate(10_f64.powi((n + x) % 6)).at(f64::from(x)));
            Series::measured(
                format!("Boomerang, set-ups by the daemon and refreshes by the kernel {n}"),
                points,
            )
        });
        let label =
            "microseconds of a message from interface to interface, with waking the daemon up";
        section.figure(Figure {
            name: "wide".to_owned(),
            title: "A reservation by each of the protocols in a router with a daemon, from interface to interface".to_owned(),
            across: if kind == Kind::Lines { Axis::linear(label) } else { Axis::named(label, &names) },
            up: Axis::linear("us"),
            kind,
            series: series.collect(),
        });
    }
    for columns in [2, 4, 6, 9, 12, 15] {
        let headings: Vec<String> =
            (0..columns).map(|n| format!("published thousand cycles {n}")).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new("wide", "A table", &headings);
        for row in 0..3 {
            let cells = (0..columns).map(|column| match (row + column) % 4 {
                0 => Cell::from("Boomerang, by the kernel"),
                1 => estimate(123_456.0).into(),
                2 => Cell::Interval { value: 0.001_234, ends: [0.001_2, 0.001_3] },
                _ => Cell::Nothing,
            });
            table.row(cells);
        }
        section.table(table);
    }
    section.leave_out("budapest.table6_rsvp_path_tear_steps.tear_psb_and_path_refresh", "a reason");
    let opening = verdicts::opening(&verdicts::verdicts([&section]), &[&section]);
    page::page(
        "The overhead of reservation protocols",
        &[],
        Some("noisy"),
        &opening,
        &[("wide", "Wide", &section)],
    )
}

fn nothing_is_cut_off_at_any_width() -> Outcome {
    let host = Host::new("report-page")?;
    let file = match std::env::var_os("EARMARK_REPORT") {
        Some(file) => PathBuf::from(file),
        None => {
            let file = host.directory.join("index.html");
            std::fs::write(&file, widest_page())?;
            file
        }
    };
    host.namespace.run_in(|| -> Outcome {
        let browser = Browser::start(&host)?;
        browser.open(&format!("file://{}", file.display()))?;
        check(browser.run("return document.scripts.length")? == 0, "the page has no script")?;
        let hidden = "return [...document.querySelectorAll('details table')].filter((table) => table.checkVisibility()).length";
        check(browser.run(hidden)? == 0, "tables are folded")?;
        for width in WIDTHS {
            browser.resize(width, 1_200)?;
            browser.wait(&format!("window.innerWidth === {width}"))?;
            for open in [false, true] {
                browser.run(&format!("for (const one of document.querySelectorAll('details')) one.open = {open}"))?;
                let found = browser.run(PROBLEMS)?;
                check(found == Value::Array(Vec::new()), &format!("{width} pixels: {found:#}"))?;
            }
            browser.run("for (const one of document.querySelectorAll('details')) one.open = false")?;
            if let Some(directory) = std::env::var_os("EARMARK_SCREENSHOTS") {
                let height = browser.run("return Math.min(document.documentElement.scrollHeight, 9000)")?;
                browser.resize(width, height.as_u64().and_then(|height| height.try_into().ok()).unwrap_or(1_200))?;
                let picture = PathBuf::from(directory).join(format!("report-{width}.png"));
                std::fs::write(picture, browser.screenshot()?)?;
            }
        }
        // A click on a summary opens its table; the element does it, without a script.
        browser.click("summary")?;
        browser.wait("document.querySelector('details table').checkVisibility()")
    })?
}

fn main() -> ExitCode {
    let missing = browser::missing_program().map(|program| format!("needs {program}"));
    run_as_root(missing, &[("nothing_is_cut_off_at_any_width", nothing_is_cut_off_at_any_width)])
}
