//! The committed BPF objects equal the compiled sources.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Failed, Trial};

pub(crate) fn trial() -> Trial {
    let name = "object::committed_bpf_object_equals_the_compiled_source";
    let compiler = Command::new("clang-14").arg("--version").output();
    let there = compiler.is_ok_and(|output| output.status.success())
        && Path::new("/usr/include/bpf/bpf_helpers.h").exists();
    let needs = "needs clang-14 and libbpf-dev";
    let name = if there { name.to_owned() } else { format!("{name} ({needs})") };
    Trial::test(name, compare).with_ignored_flag(!there)
}

fn compare() -> Result<(), Failed> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    // Two runs at a time must not write the same files.
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bpf-{}", std::process::id()));
    std::fs::create_dir(&fresh)?;
    let status = Command::new(directory.join("build.sh")).arg(&fresh).status()?;
    let objects = ["classifier.o", "rsvp.o", "boomerang.o", "yessir.o", "nsis.o", "packets.o"];
    let compiled = objects.map(|object| std::fs::read(fresh.join(object)));
    std::fs::remove_dir_all(&fresh)?;
    if !status.success() {
        return Err("build.sh failed".into());
    }
    for (object, compiled) in objects.into_iter().zip(compiled) {
        if compiled? != std::fs::read(directory.join(object))? {
            return Err(format!("{object} is not what its source compiles to: run build.sh").into());
        }
    }
    Ok(())
}
