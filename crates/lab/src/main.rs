//! `earmark-lab`: networks to try Earmark on.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Counted for `bench messages` and `bench life`; it costs other commands a few instructions for each block of memory.
#[global_allocator]
static HEAP: earmark_linux::heap::Counting = earmark_linux::heap::Counting;

fn main() -> ExitCode {
    earmark_lab::cli::main()
}
