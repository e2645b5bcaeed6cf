//! Namespaces by name.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use earmark_linux::netns::Namespace;

use crate::support::namespace;

/// The child sees the namespace, its parent does not.
pub(crate) fn a_command_runs_inside() {
    let namespace = namespace();
    let output = namespace
        .command("readlink")
        .expect("a command")
        .arg("/proc/self/ns/net")
        .output()
        .expect("readlink runs");
    let seen = String::from_utf8(output.stdout).expect("a text");
    let file = std::fs::File::from(namespace.as_fd().try_clone_to_owned().expect("a descriptor"));
    let inside = file.metadata().expect("an inode").ino();
    assert_eq!(seen.trim(), format!("net:[{inside}]"));
    let outside = std::fs::metadata("/proc/thread-self/ns/net").expect("an inode").ino();
    assert_ne!(inside, outside);
    assert!(Namespace::create(namespace.name()).is_err(), "the name is taken");
}

pub(crate) fn a_dropped_one_is_gone() {
    let first = namespace();
    let name = first.name().to_owned();
    let path = Path::new("/run/netns").join(&name);
    assert!(path.exists());
    drop(Namespace::open(&name).expect("it is there"));
    assert!(path.exists(), "who only opened it does not delete it");
    drop(first);
    assert!(!path.exists());
    for wrong in ["", ".", "..", "a/b"] {
        assert!(Namespace::create(wrong).is_err(), "{wrong:?} is no name");
    }
}
