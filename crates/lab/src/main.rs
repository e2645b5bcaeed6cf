//! `earmark-lab`: networks to try Earmark on.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    earmark_lab::cli::main()
}
