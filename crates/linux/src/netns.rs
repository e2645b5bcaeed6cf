//! Named network namespaces, interchangeable with those of `ip netns`.
//!
//! A namespace gets its name by a bind mount of `/proc/<thread>/ns/net` over an empty file in `/run/netns`; it lives
//! as long as that mount, a process or a socket in it does. One [without a name](Namespace::unnamed) has no mount: it is
//! gone with its processes and sockets, whatever ends them. A thread enters one for good: so work that belongs into a
//! namespace is given to a thread of its own, which ends with it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys::namespace;

/// Where `ip netns` keeps its names.
const DIRECTORY: &str = "/run/netns";

/// A network namespace. One that this process created is deleted on drop.
#[derive(Debug)]
pub struct Namespace {
    /// Its name in `/run/netns`, if it has one.
    name: Option<String>,
    file: File,
    delete_on_drop: bool,
}

impl Namespace {
    /// Creates a namespace, as `ip netns add` does, with its loopback interface up. It outlives this process where that
    /// is killed.
    ///
    /// # Errors
    /// `AlreadyExists` where the name is taken; `InvalidInput` where it is not the name of a file.
    pub fn create(name: &str) -> io::Result<Namespace> {
        let path = path_of(name)?;
        fs::create_dir_all(DIRECTORY)?;
        make_shared(Path::new(DIRECTORY))?;
        fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        let mounted = in_a_new_one(|own| Ok(mount_bind(own, &path)?));
        if let Err(error) = mounted {
            fs::remove_file(&path)?;
            return Err(error);
        }
        let mut namespace = Namespace::open(name)?;
        namespace.delete_on_drop = true;
        crate::link::set_up(&namespace, "lo", true).map_err(io::Error::other)?;
        Ok(namespace)
    }

    /// Creates one that nothing of this process outlives, with its loopback interface up: no other program finds it by
    /// a name, and there is nothing to delete.
    pub fn unnamed() -> io::Result<Namespace> {
        let file = in_a_new_one(|own| File::open(own))?;
        let namespace = Namespace { name: None, file, delete_on_drop: false };
        crate::link::set_up(&namespace, "lo", true).map_err(io::Error::other)?;
        Ok(namespace)
    }

    /// Opens one that exists; it stays when the value is dropped.
    pub fn open(name: &str) -> io::Result<Namespace> {
        let file = File::open(path_of(name)?)?;
        Ok(Namespace { name: Some(name.to_owned()), file, delete_on_drop: false })
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Lets the namespace outlive this value.
    pub fn keep(&mut self) {
        self.delete_on_drop = false;
    }

    /// Runs `f` on a thread of its own inside the namespace. Sockets that `f` opens and returns stay in it.
    ///
    /// # Errors
    /// That of entering the namespace. A panic of `f` goes on in the caller.
    pub fn run_in<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(f())
        })?
    }

    /// A command that will run inside the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> io::Result<Command> {
        let mut command = Command::new(program);
        namespace::enter_before_exec(&mut command, self.file.try_clone()?.into());
        Ok(command)
    }

    /// Deletes the namespace's name now, whoever created it. Its interfaces go when its last process and socket have gone.
    pub fn delete(mut self) -> io::Result<()> {
        self.delete_on_drop = false;
        self.name.as_deref().map_or(Ok(()), remove)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.delete_on_drop
            && let Some(name) = &self.name
            && let Err(error) = remove(name)
        {
            tracing::warn!(namespace = name, %error, "cannot delete the namespace");
        }
    }
}

fn remove(name: &str) -> io::Result<()> {
    let path = path_of(name)?;
    unmount(&path, UnmountFlags::DETACH)?;
    fs::remove_file(path)
}

fn path_of(name: &str) -> io::Result<PathBuf> {
    if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name of a namespace"));
    }
    Ok(Path::new(DIRECTORY).join(name))
}

/// Makes the directory a mount that other mount namespaces share, so that a deletion here is one everywhere and does
/// not leave the namespace alive in theirs. Locked, as `ip netns` does it: two at a time would mount it twice, one hiding
/// the names in the other.
fn make_shared(directory: &Path) -> io::Result<()> {
    let lock = File::open(directory)?;
    lock.lock()?; // until it is closed
    let flags = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    match mount_change(directory, flags) {
        // Not a mount yet: bind it to itself.
        Err(rustix::io::Errno::INVAL) => {
            mount_bind_recursive(directory, directory)?;
            Ok(mount_change(directory, flags)?)
        }
        outcome => Ok(outcome?),
    }
}

/// Runs `f` on a thread in a new namespace, with the file that stands for it there.
fn in_a_new_one<T: Send>(f: impl FnOnce(&Path) -> io::Result<T> + Send) -> io::Result<T> {
    on_a_thread(|| {
        namespace::enter_new_network()?;
        // This thread's, not the process's: the others stayed where they were.
        f(Path::new("/proc/thread-self/ns/net"))
    })?
}

fn on_a_thread<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("in-namespace".into());
        match thread.spawn_scoped(scope, f)?.join() {
            Ok(value) => Ok(value),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
