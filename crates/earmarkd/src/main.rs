//! The `earmarkd` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    earmarkd::cli::main()
}
