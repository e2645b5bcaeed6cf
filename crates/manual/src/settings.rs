//! Man page of the configuration file, `earmark.toml(5)`.

use earmarkd::config::{Block, Line, blocks};
use roff::{Roff, bold, roman};

use crate::page::{MANUAL, lines_as_they_are};

/// Returns the page, made from the example configuration.
pub fn page(example: &str) -> String {
    let mut roff = Roff::new();
    let source = format!("{MANUAL} {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["earmark.toml", "5", "", &source, MANUAL]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("earmark.toml - settings of the Earmark daemon")]);
    roff.control("SH", ["SYNOPSIS"]).text([bold("/etc/earmark/earmark.toml")]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "The file is TOML. Each setting stands below its explanation, with its default or an example. Settings after # are left out \
         by default. `earmarkd config example` prints the same as a file.",
    )]);
    for block in blocks(example) {
        match block {
            Block::Table(table) => _ = roff.control("SH", [table]),
            Block::Keys(keys) => lines_as_they_are(&keys, &mut roff),
            Block::Text(lines) => {
                roff.control("PP", []);
                for line in lines {
                    match line {
                        Line::Plain("") => _ = roff.control("PP", []),
                        Line::Plain(text) | Line::Meaning(text) => _ = roff.text([roman(text)]),
                        Line::Value(value, meaning) => {
                            roff.control("TP", []).text([bold(format!("\"{value}\""))]);
                            roff.text([roman(meaning)]);
                        }
                    }
                }
            }
        }
    }
    roff.control("SH", ["SEE ALSO"]).text([roman("earmark(1), earmarkd(8)")]);
    roff.render()
}
