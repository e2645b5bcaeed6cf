//! Command `earmark-lab`: networks for trials of Earmark.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    earmark_lab::cli::main()
}
