//! Page of a report: one file without scripts, fonts or external links, readable on a phone and on paper.

use std::fmt::Write;

use super::section::{Block, Cell, Estimate, Section, Table};
use earmark_lab::plot::{chart, escape};

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;\
color:CanvasText;background:Canvas}h1,h2,h3{line-height:1.2}h2{margin-top:3rem;border-bottom:1px solid #8886}\
svg{width:100%;height:auto}figure{margin:1.5rem 0}figcaption,caption{font-weight:600;text-align:left;padding:.3rem 0}\
.wide{overflow-x:auto}.tall{max-height:36rem;overflow-y:auto}.tall thead{position:sticky;top:0;background:Canvas}table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .7rem;border-bottom:1px solid #8884;text-align:right;white-space:nowrap}\
th:first-child,td:first-child,td.words{text-align:left;white-space:normal}.faint{opacity:.65;font-size:.85em}\
.warning{border-left:4px solid #c4432b;padding-left:1rem}nav a{display:inline-block;margin-right:1rem}\
@media print{body{max-width:none;margin:0}h2{break-before:page}figure,table{break-inside:avoid}.wide{overflow:visible}\
.tall{max-height:none}.tall table{break-inside:auto}.tall thead{position:static}}";

/// Number of rows above which a table scrolls in a window of its own, except on paper.
const TALL: usize = 30;

/// A section, with its anchor and its title.
pub type Titled<'a> = (&'a str, &'a str, &'a Section);

/// Returns the page of these sections, after introductory paragraphs.
pub fn page(
    title: &str,
    first: &[String],
    warning: Option<&str>,
    sections: &[Titled<'_>],
) -> String {
    let title = escape(title);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><h1>{title}</h1>"
    );
    // Writing to a string does not fail, here and below.
    for paragraph in first {
        let _ = write!(out, "<p>{}</p>", escape(paragraph));
    }
    if let Some(warning) = warning {
        let _ = write!(out, "<p class=\"warning\">{}</p>", escape(warning));
    }
    out.push_str("<nav>");
    for (name, title, _) in sections {
        let _ = write!(out, "<a href=\"#{}\">{}</a>", escape(name), escape(title));
    }
    out.push_str("</nav>");
    for (name, title, section) in sections {
        let _ = write!(out, "<h2 id=\"{}\">{}</h2>", escape(name), escape(title));
        section.blocks.iter().for_each(|block| show(&mut out, block));
        left_out(&mut out, section);
    }
    out.push_str("</body></html>\n");
    out
}

fn show(out: &mut String, block: &Block) {
    let _ = match block {
        Block::Heading(text) => write!(out, "<h3>{}</h3>", escape(text)),
        Block::Text(text) => write!(out, "<p>{}</p>", escape(text)),
        Block::Figure(figure) => write!(out, "<figure>{}</figure>", chart::svg(figure)),
        Block::Table(table) => {
            show_table(out, table);
            Ok(())
        }
    };
}

fn show_table(out: &mut String, table: &Table) {
    let title = escape(&table.title);
    // The keyboard can reach scrolling elements.
    let tall = table.rows.len() > TALL;
    let class = if tall { "\"wide tall\" tabindex=\"0\"" } else { "\"wide\"" };
    let _ = write!(out, "<div class={class}><table><caption>{title}</caption><thead><tr>");
    for column in &table.columns {
        let _ = write!(out, "<th>{}", escape(column));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = match cell {
                Cell::Nothing => write!(out, "<td>-"),
                Cell::Text(text) => write!(out, "<td class=\"words\">{}", escape(text)),
                Cell::Number(value) => write!(out, "<td>{}", number(*value)),
                Cell::Estimate(estimate) => write!(out, "<td>{}", shown(estimate)),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

/// Formats a value, with its interval if that is visible.
fn shown(estimate: &Estimate) -> String {
    let [median, low, high] = [estimate.median, estimate.low, estimate.high].map(number);
    if low == high {
        return median;
    }
    format!("{median} <span class=\"faint\">{low} to {high}</span>")
}

/// Writes the missing figures, grouped by reason.
fn left_out(out: &mut String, section: &Section) {
    if section.left_out.is_empty() {
        return;
    }
    out.push_str("<h3>What lacks here</h3><ul>");
    for (key, reason) in &section.left_out {
        let _ = write!(out, "<li>{}: {}", escape(key), escape(reason));
    }
    out.push_str("</ul>");
}

/// Formats a number with three significant digits, or with all digits before the point.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if value == value.trunc() && size < 1e15 => 0,
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 2 - (size.log10().floor() as i32).max(-6),
    };
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    match text.split_once('.') {
        Some(_) => text,
        None => grouped(&text),
    }
}

/// Groups digits by three, from five digits on.
fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    if digits.len() < 5 {
        return format!("{sign}{digits}");
    }
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<&str> = groups.filter_map(|group| std::str::from_utf8(group).ok()).collect();
    format!("{sign}{}", groups.join("\u{202f}"))
}

/// Returns a table as CSV: a measured value has three columns, the value and the ends of its interval.
///
/// # Errors
/// None in practice: the table is written into memory.
pub fn csv(table: &Table) -> Result<String, csv::Error> {
    let is_measured = |column: usize| {
        table.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Estimate(_))))
    };
    let columns: Vec<(usize, &String)> = table.columns.iter().enumerate().collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = columns.iter().flat_map(|(place, column)| match is_measured(*place) {
        true => ["", " low", " high"].map(|end| format!("{column}{end}")).to_vec(),
        false => vec![(*column).clone()],
    });
    writer.write_record(head)?;
    for row in &table.rows {
        let cells = columns.iter().flat_map(|(place, _)| {
            let cell = row.get(*place).unwrap_or(&Cell::Nothing);
            let [value, low, high] = match cell {
                Cell::Nothing => [String::new(), String::new(), String::new()],
                Cell::Text(text) => [text.clone(), String::new(), String::new()],
                Cell::Number(value) => [value.to_string(), String::new(), String::new()],
                Cell::Estimate(Estimate { median, low, high, .. }) => {
                    [median.to_string(), low.to_string(), high.to_string()]
                }
            };
            if is_measured(*place) { vec![value, low, high] } else { vec![value] }
        });
        writer.write_record(cells)?;
    }
    let octets = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("some", "Some <table>", &["step", "us", "published"]);
        let estimate = Estimate { median: 1.2345, low: 1.1, high: 2.0, repetitions: 9 };
        table.row(["find & look".into(), estimate.into(), 2.0.into()]);
        table.row(["none".into(), Cell::Nothing, Cell::Nothing]);
        table
    }

    #[test]
    fn page_is_complete_and_self_contained() {
        let mut section = Section::default();
        section.heading("Steps");
        section.text("1 < 2");
        section.table(table());
        section.leave_out("gist", "no <root>");
        let page =
            page("A & B", &["First.".to_owned()], Some("noisy"), &[("gist", "GIST", &section)]);
        for part in [
            "<title>A &amp; B</title>",
            "<p>1 &lt; 2</p>",
            "<a href=\"#gist\">GIST</a>",
            "<h2 id=\"gist\">",
            "1.23 <span class=\"faint\">1.10 to 2</span>",
            "<li>gist: no &lt;root&gt;",
            "<p class=\"warning\">noisy</p>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
    }

    #[test]
    fn long_tables_scroll() {
        let page = |rows: usize| {
            let mut table = table();
            table.rows = vec![table.rows[0].clone(); rows];
            let mut section = Section::default();
            section.table(table);
            page("", &[], None, &[("", "", &section)])
        };
        assert!(!page(TALL).contains("class=\"wide tall\""));
        assert!(page(TALL + 1).contains("class=\"wide tall\""));
    }

    #[test]
    fn tables_are_written_as_csv() {
        let text = csv(&table()).unwrap();
        assert_eq!(
            text,
            "step,us,us low,us high,published\nfind & look,1.2345,1.1,2,2\nnone,,,,\n"
        );
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown = [0.0, 0.001_234, 0.5, 1.234, 12.34, 123.4, 1_234.0, 12_345.6, -1e6].map(number);
        let expected = ["0", "0.00123", "0.500", "1.23", "12.3", "123", "1234"];
        assert_eq!(shown[..7], expected);
        assert_eq!(shown[7..], ["12\u{202f}346", "-1\u{202f}000\u{202f}000"]);
    }
}
