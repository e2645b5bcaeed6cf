//! Entering network namespaces, for cases that the safe wrappers do not cover.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Moves the calling thread into a new network namespace.
pub(crate) fn enter_new_network() -> io::Result<()> {
    // SAFETY: NEWNET does not take apart what threads share in memory or descriptors, which is what makes other flags
    // of this call unsafe.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Gives the calling thread a mount namespace of its own, in which `/sys` shows the network namespace of the thread.
pub(crate) fn mount_own_sysfs() -> io::Result<()> {
    // SAFETY: NEWNS gives this thread its own root and working directory too, which others do not rely on sharing with
    // a thread that ends here; neither memory nor descriptors are taken apart.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?;
    Ok(())
}

/// Makes the child of `command` enter `namespace` before it executes the program.
pub(crate) fn enter_before_exec(command: &mut Command, namespace: OwnedFd) {
    let enter = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec, and does there what may be done: one system call, neither
    // memory allocation nor locks.
    unsafe { command.pre_exec(enter) };
}
