//! Man page of a command.
//!
//! clap_mangen writes the sections that clap knows the parts of. The text after the help (`after_help`) is ours: its examples
//! keep their lines, which clap_mangen would fill.

use std::io;

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, roman};

/// Title of the manual, in the head of each page.
pub const MANUAL: &str = "Earmark";

/// Pages that each page refers to.
const SEE_ALSO: &str = "earmark(1), earmarkd(8), earmark.toml(5)";

/// Returns the pages of a program: its own and one for each of its commands, by file name. Hidden commands have none.
///
/// # Errors
/// A page cannot be rendered.
pub fn pages(command: Command, section: &str) -> io::Result<Vec<(String, String)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let version = command.get_version().unwrap_or_default().to_owned();
    let mut pages = Vec::new();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|each| !each.is_hide_set()).cloned());
        let man = Man::new(command.clone()).section(section).manual(MANUAL);
        let man = man.source(format!("{MANUAL} {version}"));
        pages.push((man.get_filename(), page(&man, &command)?));
    }
    Ok(pages)
}

fn page(man: &Man, command: &Command) -> io::Result<String> {
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    if command.get_subcommands().any(|each| !each.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::new();
    if let Some(help) = command.get_after_long_help().or(command.get_after_help()) {
        after_help(&help.to_string(), &mut roff);
    }
    roff.control("SH", ["SEE ALSO"]).text([roman(SEE_ALSO)]);
    roff.to_writer(&mut out)?;
    String::from_utf8(out).map_err(io::Error::other)
}

/// Writes the text after the help: examples in a section of their own, and paragraphs, in which indented lines stay as they are.
fn after_help(help: &str, roff: &mut Roff) {
    let (mut section, mut is_paragraph) = ("", false);
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let is_example = matches!(line, "Example:" | "Examples:");
        if line.is_empty() {
            is_paragraph = false;
        } else if line.starts_with(' ') {
            let mut block = vec![line];
            while let Some(line) = lines.next_if(|next| next.starts_with(' ')) {
                block.push(line);
            }
            lines_as_they_are(&block, roff);
            is_paragraph = false;
        } else {
            let next = if is_example { "EXAMPLES" } else { "NOTES" };
            if section != next {
                roff.control("SH", [next]);
                (section, is_paragraph) = (next, true);
            }
            if is_example {
                continue;
            }
            if !is_paragraph {
                roff.control("PP", []);
            }
            roff.text([roman(line)]);
            is_paragraph = true;
        }
    }
}

/// Writes lines that are not filled, indented, without the blanks that they share.
pub(crate) fn lines_as_they_are(lines: &[&str], roff: &mut Roff) {
    let indent = lines.iter().map(|line| line.len() - line.trim_start().len()).min();
    // The man macros indent paragraphs by multiples of four here.
    roff.control("PP", []).control("RS", ["4"]).control("nf", []);
    for line in lines {
        roff.text([roman(line.get(indent.unwrap_or(0)..).unwrap_or(line))]);
    }
    roff.control("fi", []).control("RE", []);
}
