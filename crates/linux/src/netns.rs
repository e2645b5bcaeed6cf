//! Named network namespaces, interchangeable with those of `ip netns`.
//!
//! A namespace gets its name by a bind mount of `/proc/<thread>/ns/net` over an empty file in `/run/netns`; it exists
//! as long as that mount, or a process or socket in it. A namespace [without a name](Namespace::unnamed) has no mount:
//! the kernel deletes it with its processes and sockets, however they end. A thread enters a namespace permanently, so
//! work inside a namespace runs on a thread of its own, which ends afterwards.

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

/// Directory in which `ip netns` keeps its names.
const DIRECTORY: &str = "/run/netns";

/// A network namespace. One that this process created is deleted on drop.
#[derive(Debug)]
pub struct Namespace {
    /// Name in `/run/netns`, if it has one.
    name: Option<String>,
    file: File,
    delete_on_drop: bool,
}

impl Namespace {
    /// Creates a namespace, as `ip netns add` does, with its loopback interface up. It remains if this process is
    /// killed.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken; `InvalidInput` if it is not a valid file name.
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

    /// Creates a namespace without a name, with its loopback interface up: other programs cannot find it by name, and
    /// the kernel deletes it when this process ends.
    pub fn unnamed() -> io::Result<Namespace> {
        let file = in_a_new_one(|own| File::open(own))?;
        let namespace = Namespace { name: None, file, delete_on_drop: false };
        crate::link::set_up(&namespace, "lo", true).map_err(io::Error::other)?;
        Ok(namespace)
    }

    /// Opens an existing namespace; dropping the value does not delete it.
    pub fn open(name: &str) -> io::Result<Namespace> {
        let file = File::open(path_of(name)?)?;
        Ok(Namespace { name: Some(name.to_owned()), file, delete_on_drop: false })
    }

    /// Returns the name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Keeps the namespace when this value is dropped.
    pub fn keep(&mut self) {
        self.delete_on_drop = false;
    }

    /// Runs `f` on a thread of its own inside the namespace. Sockets that `f` opens and returns stay in it.
    ///
    /// # Errors
    /// The namespace cannot be entered. A panic of `f` continues in the caller.
    pub fn run_in<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(f())
        })?
    }

    /// Returns a command that will run inside the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> io::Result<Command> {
        let mut command = Command::new(program);
        namespace::enter_before_exec(&mut command, self.file.try_clone()?.into());
        Ok(command)
    }

    /// Deletes the namespace's name now, whoever created it. The interfaces are deleted with its last process and
    /// socket.
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

/// Makes the directory a mount that other mount namespaces share, so that a deletion here takes effect in them and does
/// not leave the namespace in use there. Locked, as in `ip netns`: two processes at once would mount it twice, and one
/// mount would hide the names in the other.
fn make_shared(directory: &Path) -> io::Result<()> {
    let lock = File::open(directory)?;
    lock.lock()?; // released when the file is closed
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

/// Runs `f` on a thread in a new namespace, with the path of the file that represents it.
fn in_a_new_one<T: Send>(f: impl FnOnce(&Path) -> io::Result<T> + Send) -> io::Result<T> {
    on_a_thread(|| {
        namespace::enter_new_network()?;
        // The file of this thread, not of the process: the other threads stayed in the old namespace.
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
