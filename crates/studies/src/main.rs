//! Command `earmark-studies`: measurements of Earmark, and published studies done again.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Allocator that counts the heap for `bench messages` and `bench life`; it costs other commands a few instructions
/// for each allocation.
#[global_allocator]
static HEAP: earmark_linux::heap::Counting = earmark_linux::heap::Counting;

fn main() -> ExitCode {
    earmark_studies::cli::main()
}
