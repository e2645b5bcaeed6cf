//! Namespaces, with names and without.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use earmark_linux::netns::Namespace;

use crate::support::namespace;

/// The child is in the namespace, its parent is not.
pub(crate) fn command_runs_inside_the_namespace() {
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
}

pub(crate) fn dropped_namespace_is_deleted() {
    let name = format!("earmark-test-{}", std::process::id());
    let first = Namespace::create(&name).expect("a namespace");
    assert_eq!(first.name(), Some(&*name));
    assert!(Namespace::create(&name).is_err(), "the name is taken");
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

/// Only its holders keep an unnamed namespace: a process that is killed leaves none behind.
pub(crate) fn unnamed_namespace_has_no_mount() {
    let one = namespace();
    assert_eq!(one.name(), None);
    let inode = |file: std::fs::File| file.metadata().expect("an inode").ino();
    let held = inode(one.as_fd().try_clone_to_owned().expect("a descriptor").into());
    let inside = || std::fs::metadata("/proc/thread-self/ns/net").expect("an inode").ino();
    assert_eq!(one.run_in(inside).expect("it can be entered"), held);
    for named in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        // Other namespaces may be deleted during this check.
        assert_ne!(
            named.metadata().map_or(0, |file| file.ino()),
            held,
            "{}",
            named.path().display()
        );
    }
    one.delete().expect("there is nothing to delete");
}
