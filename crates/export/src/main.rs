//! The program `earmark-export`.

use std::process::ExitCode;

fn main() -> ExitCode {
    earmark_export::cli::main()
}
