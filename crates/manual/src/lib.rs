//! Man pages and shell completions, made from the definitions behind `--help` and `earmarkd config example`.
//!
//! - [`page`]: a man page of a command.
//! - [`settings`]: the man page of the configuration file.
#![forbid(unsafe_code)]

pub mod page;
pub mod settings;

use std::fs::{create_dir_all, write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

/// Name of the man page of the configuration file.
pub const SETTINGS: &str = "earmark.toml.5";

/// A program of the project.
#[derive(Clone, Debug)]
pub struct Program {
    /// Command line of the program.
    pub command: Command,
    /// Section of its pages: 1, or 8 for a daemon.
    pub section: &'static str,
}

/// Returns the programs.
pub fn programs() -> [Program; 5] {
    [
        Program { command: earmark::cli::command(), section: "1" },
        Program { command: earmarkd::cli::command(), section: "8" },
        Program { command: earmark_export::cli::command(), section: "8" },
        Program { command: earmark_fleet::cli::command(), section: "8" },
        Program { command: earmark_lab::cli::command(), section: "1" },
    ]
}

/// Writes the man pages to `man/PROGRAM/`, and the completions to `completions/PROGRAM/bash/PROGRAM`, `.../zsh/_PROGRAM` and
/// `.../fish/PROGRAM.fish` below a directory.
///
/// # Errors
/// A file cannot be written.
pub fn write_all(directory: &Path) -> Result<()> {
    let file = |folder: &str, name: &str, content: &[u8]| -> Result<()> {
        let folder = directory.join(folder);
        let path = folder.join(name);
        create_dir_all(&folder)
            .and_then(|()| write(&path, content))
            .with_context(|| format!("cannot write {}", path.display()))
    };
    for Program { command, section } in programs() {
        let program = command.get_name().to_owned();
        for (name, page) in page::pages(command.clone(), section)? {
            file(&format!("man/{program}"), &name, page.as_bytes())?;
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let name = match shell {
                Shell::Zsh => format!("_{program}"),
                Shell::Fish => format!("{program}.fish"),
                _ => program.clone(),
            };
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command.clone(), &program, &mut script);
            file(&format!("completions/{program}/{shell}"), &name, &script)?;
        }
    }
    file("man/earmarkd", SETTINGS, settings::page(earmarkd::config::EXAMPLE).as_bytes())
}
