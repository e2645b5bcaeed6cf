//! Command `earmark-manual DIRECTORY`: writes the man pages and shell completions of all programs.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

/// Write the man pages and shell completions of earmark, earmarkd, earmark-export, earmark-fleet and earmark-lab.
#[derive(Debug, Parser)]
#[command(name = "earmark-manual", version)]
struct Arguments {
    /// Where to write them: into `man` and `completions` below this directory.
    directory: PathBuf,
}

fn main() -> Result<()> {
    earmark_manual::write_all(&Arguments::parse().directory)
}
