//! The `earmark` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    earmark::cli::main()
}
