//! The socket file of the control socket. A file left by a dead daemon is replaced; that of a running daemon never is.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Gid;

use crate::config::Control;
use crate::user::User;

/// Permissions of the socket: owner and group may connect.
const MODE: u32 = 0o660;
/// Permissions of the socket if there is a group of readers: a file has one group only, so the daemon looks at those of each
/// client.
const MODE_WITH_READERS: u32 = 0o666;

/// Why the control socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// Another daemon listens there.
    #[error("another daemon is serving on {}\n  help: stop it first, or give this one another \
        control.socket", .0.display())]
    InUse(PathBuf),
    /// The path exists and is no socket.
    #[error("{} exists and is not a socket\n  help: set another control.socket, or move the \
        file", .0.display())]
    NotASocket(PathBuf),
    /// The group does not exist.
    #[error(
        "unknown group {0:?}\n  help: control.group and control.readers are names from /etc/group, or \
        numbers"
    )]
    NoSuchGroup(String),
    /// A system call failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The listening socket. Dropping it removes its file.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    /// Path at which clients look for the socket.
    path: PathBuf,
    /// Current path of the socket: temporary until the socket is published.
    place: PathBuf,
    /// Inode of the file, so that a file that has replaced it is not removed.
    inode: u64,
    /// Whether the directory was created for the socket.
    made_directory: bool,
}

impl Listener {
    /// Creates the socket under a temporary name in the same directory. Clients cannot find it before [`Listener::publish`], so
    /// that none sees it with wrong permissions or connects to a daemon that may still fail to start.
    ///
    /// # Errors
    /// See [`ListenerError`].
    pub fn prepare(control: &Control) -> Result<Listener, ListenerError> {
        let path = control.socket.clone();
        let group = control.group.as_deref().map(group_number).transpose()?;
        // An unknown group must not be found out after the socket is in place.
        control.readers.as_deref().map(group_number).transpose()?;
        let mode = if control.readers.is_some() { MODE_WITH_READERS } else { MODE };
        let made_directory = make_directory(&path)?;
        check_place(&path)?;
        let place = temporary_name(&path);
        // A process with the same number may have left one when it died during its start.
        let _ = std::fs::remove_file(&place);
        let failed =
            |doing, source| ListenerError::System { doing, path: control.socket.clone(), source };
        let socket = UnixListener::bind(&place).map_err(|error| failed("listen on", error))?;
        let mut listener = Listener { socket, path, place, inode: 0, made_directory };
        listener.arrange(group, mode).map_err(|error| failed("set the permissions of", error))?;
        Ok(listener)
    }

    fn arrange(&mut self, group: Option<Gid>, mode: u32) -> io::Result<()> {
        self.inode = std::fs::symlink_metadata(&self.place)?.ino();
        self.socket.set_nonblocking(true)?;
        std::fs::set_permissions(&self.place, Permissions::from_mode(mode))?;
        if let Some(group) = group {
            rustix::fs::chown(&self.place, None, Some(group))?;
        }
        Ok(())
    }

    /// Changes the owner of the socket to the user that the daemon is about to become, and of its directory if that was created
    /// for it, so that both can be removed at the end.
    pub(crate) fn hand_over(&self, user: User) -> io::Result<()> {
        user.own(&self.place)?;
        match self.path.parent() {
            Some(directory) if self.made_directory => user.own(directory),
            _ => Ok(()),
        }
    }

    /// Moves the socket to its final path, atomically replacing the file of a dead daemon.
    ///
    /// # Errors
    /// Another daemon has taken the path meanwhile, or the system refuses.
    pub fn publish(&mut self) -> Result<(), ListenerError> {
        check_place(&self.path)?;
        std::fs::rename(&self.place, &self.path).map_err(|source| ListenerError::System {
            doing: "put in place",
            path: self.path.clone(),
            source,
        })?;
        self.place.clone_from(&self.path);
        Ok(())
    }

    /// Returns another descriptor of the socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn try_clone(&self) -> io::Result<UnixListener> {
        self.socket.try_clone()
    }

    /// Accepts the next client; `None` if none waits.
    pub fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.socket.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours =
            std::fs::symlink_metadata(&self.place).is_ok_and(|file| file.ino() == self.inode);
        if ours {
            // If this fails, the next daemon finds a socket without a listener and replaces it.
            let _ = std::fs::remove_file(&self.place);
        }
    }
}

/// Creates the socket's directory. Returns whether it did not exist before.
fn make_directory(path: &Path) -> Result<bool, ListenerError> {
    let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) else {
        return Ok(false);
    };
    if directory.is_dir() {
        return Ok(false);
    }
    let missing = directory.ancestors().take_while(|one| !one.exists());
    let missing: Vec<&Path> = missing.filter(|one| !one.as_os_str().is_empty()).collect();
    // The mode is set afterwards, because the process creates files for itself only.
    let make = || {
        for one in missing.iter().rev() {
            std::fs::DirBuilder::new().mode(0o755).create(one)?;
            std::fs::set_permissions(one, Permissions::from_mode(0o755))?;
        }
        Ok(true)
    };
    make().map_err(|source| ListenerError::System {
        doing: "create the directory",
        path: directory.to_owned(),
        source,
    })
}

fn check_place(path: &Path) -> Result<(), ListenerError> {
    let failed = |source| ListenerError::System { doing: "look at", path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ListenerError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // A full queue also means that a daemon is running.
        Ok(_) => Err(ListenerError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(ListenerError::InUse(path.to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

/// Number of a group. Names are looked up in `/etc/group` alone: a daemon that depends on a directory server to start is
/// of no use when the network is down.
pub(crate) fn group_number(group: &str) -> Result<Gid, ListenerError> {
    if let Ok(number) = group.parse() {
        return Ok(Gid::from_raw(number));
    }
    let unknown = || ListenerError::NoSuchGroup(group.to_owned());
    let file = std::fs::read_to_string("/etc/group").map_err(|_| unknown())?;
    file.lines()
        .map(|line| line.split(':'))
        .find_map(|mut fields| (fields.next()? == group).then(|| fields.nth(1)?.parse().ok())?)
        .map(Gid::from_raw)
        .ok_or_else(unknown)
}

/// Checks that a group exists.
///
/// # Errors
/// The group does not exist.
pub(crate) fn check_group(group: &str) -> Result<(), ListenerError> {
    group_number(group).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary directory of a test, removed with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let path = std::env::temp_dir().join(format!("earmark-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Place(path)
        }

        fn control(&self) -> Control {
            Control::new(self.0.join("deeper/control.sock"))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn open(control: &Control) -> Result<Listener, ListenerError> {
        let mut listener = Listener::prepare(control)?;
        assert!(listener.place != control.socket, "it is not in place before it is published");
        listener.publish()?;
        Ok(listener)
    }

    #[test]
    fn socket_belongs_to_group_and_is_removed_at_end() {
        let place = Place::new("mode");
        let control = place.control();
        let listener = open(&control).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let _client = UnixStream::connect(&control.socket).unwrap();
        assert!(listener.accept().unwrap().is_some());
        let mode = std::fs::metadata(&control.socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, MODE);
        let directory = std::fs::metadata(control.socket.parent().unwrap()).unwrap();
        assert_eq!(directory.permissions().mode() & 0o7777, 0o755);
        drop(listener);
        assert!(!control.socket.exists());
        // A socket that was never published is removed too.
        drop(Listener::prepare(&control).unwrap());
        assert_eq!(std::fs::read_dir(control.socket.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn socket_of_running_daemon_is_kept() {
        let place = Place::new("living");
        let control = place.control();
        let _living = open(&control).unwrap();
        let error = open(&control).unwrap_err();
        assert!(error.to_string().starts_with("another daemon is serving on "), "{error}");
        assert!(UnixStream::connect(&control.socket).is_ok());
    }

    #[test]
    fn socket_of_dead_daemon_is_replaced() {
        let place = Place::new("dead");
        let control = place.control();
        let dead = open(&control).unwrap();
        // Simulates kill -9: the descriptor is closed, the file stays.
        let Listener { socket, .. } = &dead;
        rustix::net::shutdown(socket, rustix::net::Shutdown::Both).unwrap();
        assert!(UnixStream::connect(&control.socket).is_err());
        let second = open(&control).unwrap();
        assert!(UnixStream::connect(&control.socket).is_ok());
        // Dropping the first listener must not remove the file of the second.
        drop(dead);
        assert!(control.socket.exists());
        drop(second);
    }

    #[test]
    fn other_file_is_not_removed() {
        let place = Place::new("file");
        let control = Control::new(place.0.join("file"));
        std::fs::write(&control.socket, "precious").unwrap();
        assert!(matches!(open(&control), Err(ListenerError::NotASocket(_))));
        assert_eq!(std::fs::read_to_string(&control.socket).unwrap(), "precious");
    }

    #[test]
    fn failure_to_create_directory_is_named() {
        let place = Place::new("directory");
        std::fs::write(place.0.join("file"), "").unwrap();
        let control = Control::new(place.0.join("file/deeper/s"));
        let error = open(&control).unwrap_err().to_string();
        assert!(error.starts_with("cannot create the directory "), "{error}");
        assert!(error.contains("file/deeper: Not a directory"), "{error}");
    }

    #[test]
    fn groups_are_found_by_name_or_number() {
        assert_eq!(group_number("42").unwrap().as_raw(), 42);
        assert_eq!(group_number("root").unwrap().as_raw(), 0);
        assert!(matches!(group_number("no-such-group"), Err(ListenerError::NoSuchGroup(_))));
    }
}
