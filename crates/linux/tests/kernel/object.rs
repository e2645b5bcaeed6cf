//! The committed classifier is what its source compiles to.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Failed, Trial};

pub(crate) fn trial() -> Trial {
    let name = "classifier: the object is what its source compiles to";
    let compiler = Command::new("clang-14").arg("--version").output();
    let there = compiler.is_ok_and(|output| output.status.success());
    let name = if there { name.to_owned() } else { format!("{name} (needs clang-14)") };
    Trial::test(name, compare).with_ignored_flag(!there)
}

fn compare() -> Result<(), Failed> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    // Two runs at a time must not write the same file.
    let name = format!("classifier-{}.o", std::process::id());
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new(directory.join("build.sh")).arg(&fresh).status()?;
    if !status.success() {
        return Err("build.sh failed".into());
    }
    let compiled = std::fs::read(&fresh)?;
    std::fs::remove_file(&fresh)?;
    if compiled != std::fs::read(directory.join("classifier.o"))? {
        return Err("classifier.o is not what classifier.c compiles to: run bpf/build.sh".into());
    }
    Ok(())
}
