//! The router in each line of an answer: a member of JSON objects, a first column of tables, a prefix of other lines.

use std::io::{self, Write};

use earmark_control::command::Output;

use super::names::RouterName;

/// Header of the column.
const HEADER: &str = "router";

/// Writer that adds the router to each line before it writes the line.
pub(super) struct Labels<W> {
    router: RouterName,
    /// Width of names.
    width: usize,
    json: bool,
    /// A line that has no end yet.
    line: Vec<u8>,
    /// Whether the header of a table has begun and not ended.
    in_header: bool,
    to: W,
}

impl<W: Write> Labels<W> {
    /// Creates a writer for lines of a router; `width` is that of the longest name.
    pub(super) fn new(router: RouterName, width: usize, json: bool, to: W) -> Labels<W> {
        Labels { router, width, json, line: Vec::new(), in_header: false, to }
    }

    fn write_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let labelled = if self.json { self.object(&text) } else { self.text(&text) };
        self.to.write_all(labelled.as_bytes())
    }

    /// Adds the router to an object as its first member.
    fn object(&self, line: &str) -> String {
        // Names consist of characters that JSON does not escape.
        match line.strip_prefix('{') {
            Some(rest) if rest.trim_start().starts_with('}') => {
                format!("{{\"router\":\"{}\"{rest}", self.router)
            }
            Some(rest) => format!("{{\"router\":\"{}\",{rest}", self.router),
            None => line.to_owned(),
        }
    }

    fn text(&mut self, line: &str) -> String {
        let Labels { router, width, .. } = self;
        let cells = (*width).max(HEADER.len());
        let border = |c: char| c.to_string().repeat(cells + 2);
        let mut characters = line.chars();
        let first = characters.next().unwrap_or('\n');
        let rest = characters.as_str();
        match first {
            '┌' => {
                self.in_header = true;
                format!("┌{}┬{rest}", border('─'))
            }
            '╞' => {
                self.in_header = false;
                format!("╞{}╪{rest}", border('═'))
            }
            '└' => format!("└{}┴{rest}", border('─')),
            '│' if self.in_header => format!("│ {HEADER:cells$} ┆{rest}"),
            '│' => format!("│ {router:cells$} ┆{rest}"),
            '\n' => "\n".to_owned(),
            _ => format!("{:1$} {line}", format!("{router}:"), *width + 1),
        }
    }
}

impl<W: Write> Write for Labels<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        for part in octets.split_inclusive(|&octet| octet == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.write_line()?;
            }
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns an output to standard output whose lines bear the router.
pub(crate) fn labelled_output(router: &RouterName, width: usize, json: bool) -> Output {
    let labels = Labels::new(router.clone(), width, json, io::stdout().lock());
    Output { json, to: Box::new(labels) }
}

#[cfg(test)]
mod tests {
    use super::super::names::RouterNames;
    use super::*;
    use crate::cli::table::new_table;

    fn labelled(text: &str, json: bool) -> String {
        let names = RouterNames::parse("r1,admin@r2").expect("names");
        let mut written = Vec::new();
        let mut labels =
            Labels::new(names.as_slice()[0].clone(), names.width(), json, &mut written);
        // Lines may come in parts.
        for octet in text.as_bytes() {
            labels.write_all(&[*octet]).expect("memory can be written");
        }
        String::from_utf8(written).expect("text")
    }

    #[test]
    fn tables_get_a_first_column_and_other_lines_a_prefix() {
        let mut table = new_table(&["a", "b"]);
        table.add_row(["1\n2", "x"]);
        let text = labelled(&format!("flow\n{table}\n\nend\n"), false);
        let expected = "\
r1:       flow
┌──────────┬───┬───┐
│ router   ┆ a ┆ b │
╞══════════╪═══╪═══╡
│ r1       ┆ 1 ┆ x │
│ r1       ┆ 2 ┆   │
└──────────┴───┴───┘

r1:       end
";
        assert_eq!(text, expected);
    }

    #[test]
    fn objects_get_a_member() {
        let text = labelled("{\"a\":[1,2.50]}\n{}\n", true);
        assert_eq!(text, "{\"router\":\"r1\",\"a\":[1,2.50]}\n{\"router\":\"r1\"}\n");
    }
}
