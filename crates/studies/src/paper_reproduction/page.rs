//! Page of a report: one file without scripts, fonts or external links, readable on a phone and on paper. Figures come
//! first, and tables are folded behind them; a table that is wider than the page is stacked, so that nothing is cut off.

use std::fmt::Write;

use super::section::{Block, Cell, Estimate, Figure, Section, Table};
use earmark_lab::plot::{chart, escape};

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:90rem;margin:2rem auto;padding:0 1rem;\
color:CanvasText;background:Canvas;overflow-wrap:break-word}p,ul,dl{max-width:62rem}h1,h2,h3{line-height:1.2}\
h2{margin-top:3rem;border-bottom:1px solid #8886}svg{display:block;width:100%;height:auto}figure{margin:1.5rem 0;max-width:62rem}\
figure.narrow{display:none}caption{font-weight:600;text-align:left;padding:.3rem 0}\
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .6rem;border-bottom:1px solid #8884;text-align:right;vertical-align:top}\
td{white-space:nowrap}td.words,th:first-child{text-align:left;white-space:normal}.faint{opacity:.75;font-size:.85em}\
td .faint{display:block;white-space:normal}summary{cursor:pointer;padding:.3rem 0}.warning{border-left:4px solid #c4432b;padding-left:1rem}\
nav a{display:inline-block;margin-right:1rem}.claims th{text-align:left}.claims td:first-child{min-width:10rem}.claims td:last-child{overflow-wrap:anywhere}.claims b{white-space:nowrap}.cannot_be_told{opacity:.75}.holds{color:#1a7f37}.does_not_hold{color:#c4432b}\
@media(prefers-color-scheme:dark){.holds{color:#3fb950}.does_not_hold{color:#f47067}}\
@media print{body{max-width:none;margin:0}h2{break-before:page}figure,tr{break-inside:avoid}\
details::details-content{content-visibility:visible;display:block}}";

/// Rules of tables that are too wide for the page: each row becomes a block, with the heading before each cell.
const STACKED: &str = "\
CLASS{display:block}CLASS caption,CLASS tbody{display:block}CLASS thead{display:none}CLASS tr{display:block;padding:.5rem 0;\
border-bottom:1px solid #8888}CLASS td{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,3fr);gap:.5rem;border:0;\
padding:.1rem 0;text-align:left;white-space:normal}CLASS td::before{content:attr(data-label);opacity:.75}\
CLASS td:first-child{font-weight:600}";

/// Widths of the page, pixels, below which tables with at most so many columns are stacked.
const STACKS: [(usize, u32); 5] =
    [(3, 520), (5, 760), (7, 1_000), (12, 1_500), (usize::MAX, 2_400)];

/// Width of the page, pixels, below which figures are drawn for a phone.
const PHONE: u32 = 700;

/// A section, with its anchor and its title.
pub type Titled<'a> = (&'a str, &'a str, &'a Section);

/// Returns the page: introductory paragraphs, a part that is HTML already, and these sections.
pub fn page(
    title: &str,
    first: &[String],
    warning: Option<&str>,
    opening: &str,
    sections: &[Titled<'_>],
) -> String {
    let title = escape(title);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <style>{}</style></head><body><h1>{title}</h1>",
        style()
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
    out.push_str(opening);
    for (name, title, section) in sections {
        let _ = write!(out, "<h2 id=\"{}\">{}</h2>", escape(name), escape(title));
        for group in groups(&section.blocks) {
            show_group(&mut out, group);
        }
        left_out(&mut out, section);
    }
    out.push_str("</body></html>\n");
    out
}

fn style() -> String {
    let mut style = STYLE.to_owned();
    for (place, (_, width)) in STACKS.iter().enumerate() {
        let rules = STACKED.replace("CLASS", &format!(".t{place}"));
        let _ = write!(style, "@media screen and (max-width:{width}px){{{rules}}}");
    }
    let _ = write!(
        style,
        "@media screen and (max-width:{PHONE}px){{figure.wide{{display:none}}figure.narrow{{display:block}}}}"
    );
    style
}

/// Divides blocks by headings.
fn groups(blocks: &[Block]) -> impl Iterator<Item = &[Block]> {
    blocks.chunk_by(|_, next| !matches!(next, Block::Heading(_)))
}

/// Shows the blocks under one heading: tables are folded behind the figures, if there are any.
fn show_group(out: &mut String, blocks: &[Block]) {
    let is_figure = |block: &&Block| matches!(block, Block::Figure(_));
    let is_folded = blocks.iter().any(|block| is_figure(&block));
    let mut figures = blocks.iter().filter(is_figure).peekable();
    for block in blocks {
        match block {
            Block::Heading(text) => {
                let _ = write!(out, "<h3>{}</h3>", escape(text));
            }
            Block::Text(text) => {
                let _ = write!(out, "<p>{}</p>", escape(text));
            }
            // A figure that stands behind a table comes before it.
            Block::Figure(_) => show_figures(out, &mut figures, block),
            Block::Table(table) => {
                while let Some(Block::Figure(figure)) = figures.next() {
                    show_figure(out, figure);
                }
                show_table(out, table, is_folded);
            }
        }
    }
}

/// Shows a figure, unless it was shown.
fn show_figures<'b>(
    out: &mut String,
    figures: &mut std::iter::Peekable<impl Iterator<Item = &'b Block>>,
    block: &Block,
) {
    if let Some(Block::Figure(figure)) = figures.next_if(|next| *next == block) {
        show_figure(out, figure);
    }
}

/// Shows a figure, drawn once for wide pages and once for narrow ones.
pub fn show_figure(out: &mut String, figure: &Figure) {
    let (wide, narrow) = (chart::svg(figure), chart::narrow_svg(figure));
    let _ = write!(
        out,
        "<figure class=\"wide\">{wide}</figure><figure class=\"narrow\">{narrow}</figure>"
    );
}

fn show_table(out: &mut String, table: &Table, is_folded: bool) {
    let title = escape(&table.title);
    if is_folded {
        let count = table.rows.len();
        let _ = write!(out, "<details><summary>Table: {title} ({count} rows)</summary>");
    }
    let class = STACKS.iter().position(|(columns, _)| table.columns.len() <= *columns);
    let class = class.unwrap_or(STACKS.len() - 1);
    let _ = write!(out, "<table class=\"t{class}\"><caption>{title}</caption><thead><tr>");
    for column in &table.columns {
        let _ = write!(out, "<th>{}", escape(column));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (cell, column) in row.iter().zip(&table.columns) {
            let label = escape(column);
            let (class, shown) = match cell {
                Cell::Nothing => ("", "-".to_owned()),
                Cell::Text(text) => (" class=\"words\"", escape(text)),
                Cell::Number(value) => ("", number(*value)),
                Cell::Estimate(estimate) => ("", shown(estimate)),
                Cell::Interval { value, ends: [low, high] } => {
                    ("", with_interval([*value, *low, *high]))
                }
            };
            // A cell of a stacked table is a grid, of a label and one element.
            let _ = write!(out, "<td{class} data-label=\"{label}\"><span>{shown}</span>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    if is_folded {
        out.push_str("</details>");
    }
}

/// Formats a value, with its interval if that is visible.
fn shown(estimate: &Estimate) -> String {
    let [median, low, high] = [estimate.median, estimate.low, estimate.high].map(number);
    if low == high {
        return median;
    }
    with_interval([estimate.median, estimate.low, estimate.high])
}

/// Formats a value and the ends of its interval.
fn with_interval(values: [f64; 3]) -> String {
    let [value, low, high] = values.map(number);
    format!("{value} <span class=\"faint\">{low} to {high}</span>")
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
        _ if size < 1e-4 => return format!("{value:.2e}"),
        _ => 2 - size.log10().floor() as i32,
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
        let has_ends =
            |cell: Option<&Cell>| matches!(cell, Some(Cell::Estimate(_) | Cell::Interval { .. }));
        table.rows.iter().any(|row| has_ends(row.get(column)))
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
                Cell::Interval { value, ends: [low, high] } => {
                    [value, low, high].map(ToString::to_string)
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
    use super::super::section::{Axis, Kind};
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("some", "Some <table>", &["step", "us", "published"]);
        let estimate = Estimate::between(1.1, 1.2345, 2.0, 9);
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
        let page = page(
            "A & B",
            &["First.".to_owned()],
            Some("noisy"),
            "<i>",
            &[("gist", "GIST", &section)],
        );
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

    fn figure(name: &str) -> Figure {
        Figure {
            name: name.to_owned(),
            title: name.to_owned(),
            across: Axis::linear("x"),
            up: Axis::linear("y"),
            kind: Kind::Lines,
            series: Vec::new(),
        }
    }

    /// Under a heading with figures, these come first, and tables are folded; they are in the page without a script.
    #[test]
    fn tables_are_folded_behind_figures() {
        let mut section = Section::default();
        section.heading("With figures");
        section.figure(figure("before"));
        section.table(table());
        section.figure(figure("after"));
        section.heading("Without");
        section.table(table());
        let page = page("", &[], None, "", &[("", "", &section)]);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(
            at(">before<") < at(">after<") && at(">after<") < at("<details><summary>Table: Some")
        );
        assert_eq!((page.matches("<details>").count(), page.matches("<table").count()), (1, 2));
        assert!(at("</details>") < at("<h3>Without"));
        assert_eq!(page.matches(">before<").count(), 2, "wide and narrow");
    }

    #[test]
    fn cells_have_the_heading_of_their_column() {
        let mut section = Section::default();
        let mut table = table();
        table.rows[0][2] = Cell::Interval { value: 298.0, ends: [283.5, 302.5] };
        assert!(csv(&table).unwrap().contains("298,283.5,302.5"));
        section.table(table);
        let page = page("", &[], None, "", &[("", "", &section)]);
        assert!(
            page.contains("data-label=\"published\"><span>298 <span class=\"faint\">284 to 302<"),
            "{page}"
        );
        assert!(page.contains("<table class=\"t0\">") && page.contains(".t0{display:block}"));
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
        assert_eq!([2.3e-6, -0.000_05].map(number), ["2.30e-6", "-5.00e-5"]);
        assert_eq!(shown[7..], ["12\u{202f}346", "-1\u{202f}000\u{202f}000"]);
    }
}
