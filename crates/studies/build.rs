//! Tells the program which commit and which compiler it was built from, for its results.

use std::process::Command;

fn main() {
    let commit = match output("git", &["rev-parse", "HEAD"]) {
        Some(commit) => match output("git", &["status", "--porcelain", "--untracked-files=no"]) {
            Some(changes) if changes.is_empty() => commit,
            _ => format!("{commit}, changed"),
        },
        None => "unknown".to_owned(),
    };
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compiler = output(&compiler, &["--version"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=EARMARK_COMMIT={commit}");
    println!("cargo:rustc-env=EARMARK_RUSTC={compiler}");
    for file in ["HEAD", "index"] {
        if let Some(file) = output("git", &["rev-parse", "--git-path", file]) {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    for file in ["build.rs", "src", "data"] {
        println!("cargo:rerun-if-changed={file}");
    }
}

/// Returns what a program prints; `None` if it cannot be run, or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
