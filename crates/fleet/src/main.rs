//! The program `earmark-fleet`.

use std::process::ExitCode;

fn main() -> ExitCode {
    earmark_fleet::cli::main()
}
