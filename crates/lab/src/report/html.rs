//! Page of a demo in one file: no scripts, no fonts, no external links.

use std::fmt::Write;
use std::fs;

use super::{chart, table};
use earmark_core::Rate;

use crate::demo::Report;
use crate::plot::escape;

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:CanvasText;background:Canvas}svg{width:100%;height:auto}table{border-collapse:collapse;width:100%;margin:1rem 0}\
th,td{padding:.35rem .6rem;border-bottom:1px solid #8886;text-align:right}\
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}.faint{opacity:.7;font-size:.9rem}";

/// Returns the page.
pub fn page(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Earmark: the demo</title>\
         <style>{STYLE}</style></head><body><h1>A stream beside a flood</h1>\
         <p>Four nodes, h1 - r1 - r2 - h2, with 10 Mbit/s between the routers. A stream of {} and a flood of \
         20 Mbit/s go from h1 to h2: first without, then with a reservation, then without again.</p>",
        Rate::from_bps(report.reserved_bps())
    );
    out.push_str(&chart::svg(&report.timeline, "Rate received at h2"));
    stages(&mut out, report);
    for note in table::footnotes(report) {
        let _ = write!(out, "<p>{}</p>", escape(&note));
    }
    let broken = report.broken_promises();
    if broken.is_empty() {
        out.push_str("<p><strong>All promises held.</strong></p>");
    }
    for promise in broken {
        let _ = write!(out, "<p><strong>Broken promise:</strong> {}</p>", escape(&promise));
    }
    let _ = write!(
        out,
        "<p class=\"faint\">Network: {}. Rates count IP packet octets; delays are one-way; the time between stages, in which \
         queues settle, is not counted. {}</p></body></html>",
        escape(report.network.describe()),
        escape(&machine())
    );
    out
}

fn stages(out: &mut String, report: &Report) {
    out.push_str(
        "<table><thead><tr><th>stage<th>protocol<th>reserved<br>Mbit/s<th>offered<br>Mbit/s<th>received<br>Mbit/s\
         <th>loss<th>delay p50<br>ms<th>delay p99<br>ms<th>set-up<br>ms</tr></thead><tbody>",
    );
    for (stage, span) in report.stages.iter().zip(&report.timeline.spans) {
        out.push_str("<tr>");
        for cell in table::cells(stage, span) {
            let _ = write!(out, "<td>{}", escape(&cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
}

/// Describes kernel and processor of this machine.
fn machine() -> String {
    let system = rustix::system::uname();
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("processor unknown", |(_, model)| model.trim());
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{} {}, {count} x {model}",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy()
    )
}
