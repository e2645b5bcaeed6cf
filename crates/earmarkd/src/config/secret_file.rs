//! Files with secrets: who may read them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::read_text::{ReadFrom, read_text};
use super::{Config, ConfigError, Place, WebAddress};
use crate::protocols;
use crate::user::User;

/// Permissions of users who are neither the owner nor in the group of a file.
const OTHERS: u32 = 0o007;

/// Permissions of the owner of a file.
const OWNER: u32 = 0o700;

/// Why a file with secrets is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretFileError {
    /// The permissions of the file let every user of this host read or change it.
    #[error("{} contains secrets, and every user of this host may use it (mode {mode:04o})", .path.display())]
    OpenToOthers {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
    /// The permissions of the file let a user other than its owner read or change it.
    #[error("{} contains secrets, and other users may use it (mode {mode:04o})", .path.display())]
    OpenToGroup {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
    /// A user other than root and the daemon's own owns the file, and so can change it.
    #[error("{} contains secrets, and user {owner} owns it", .path.display())]
    OtherOwner {
        /// Path of the file.
        path: PathBuf,
        /// Number of the owner.
        owner: u32,
    },
}

impl SecretFileError {
    /// Returns the command or advice that mends the file.
    pub fn hint(&self) -> String {
        match self {
            SecretFileError::OpenToOthers { path, mode } => {
                format!("chmod {:03o} {}", mode & 0o770 & !0o111, path.display())
            }
            SecretFileError::OpenToGroup { path, .. } => format!("chmod 600 {}", path.display()),
            // The shipped unit runs the daemon as a user that the configuration does not name.
            SecretFileError::OtherOwner { path, owner } => format!(
                "chown root {}; or, if the daemon runs as this user, check as it does: \
                 `sudo -u '#{owner}' earmarkd config check`",
                path.display()
            ),
        }
    }

    /// Returns the error at a line of a file; line 0 is none.
    fn at(self, file: &Path, line: usize, key: &str) -> ConfigError {
        let place = Place { file: file.to_owned(), line, key: key.to_owned() };
        ConfigError::at(place, self.to_string(), self.hint())
    }
}

/// Users that may own a file with secrets: root, this process, and the user of `daemon.user`.
#[derive(Clone, Copy, Debug)]
struct Owners {
    process: u32,
    daemon: Option<u32>,
}

impl Owners {
    fn of(config: &Config) -> Owners {
        let user = config.user.as_deref().and_then(|name| User::find(name).ok().flatten());
        let process = rustix::process::geteuid().as_raw();
        Owners { process, daemon: user.map(User::number) }
    }

    fn check(self, path: &Path, file: &Metadata) -> Result<(), SecretFileError> {
        // A pipe has no name by which another user could open it.
        if !file.is_file() {
            return Ok(());
        }
        let (mode, owner) = (file.mode() & 0o7777, file.uid());
        if mode & OTHERS != 0 {
            return Err(SecretFileError::OpenToOthers { path: path.to_owned(), mode });
        }
        if owner != 0 && owner != self.process && Some(owner) != self.daemon {
            return Err(SecretFileError::OtherOwner { path: path.to_owned(), owner });
        }
        Ok(())
    }
}

/// Reads a file with secrets that only its owner may use. The text is overwritten on drop.
pub(crate) fn read_private(path: &Path) -> Result<Zeroizing<String>, ConfigError> {
    let (text, metadata) = read_text(path, ReadFrom::Anything, usize::MAX)?;
    let text = Zeroizing::new(text.unwrap_or_default());
    let mode = metadata.mode() & 0o7777;
    match metadata.is_file() && mode & !OWNER != 0 {
        true => Err(SecretFileError::OpenToGroup { path: path.to_owned(), mode }.at(path, 0, "")),
        false => Ok(text),
    }
}

/// Reads a file that a daemon of this user or root has written for itself. The text is overwritten on drop.
pub(crate) fn read_own(path: &Path) -> Result<Zeroizing<String>, ConfigError> {
    let text = read_private(path)?;
    let metadata =
        std::fs::metadata(path).map_err(|error| ConfigError::unreadable(path, &error))?;
    let owners = Owners { process: rustix::process::geteuid().as_raw(), daemon: None };
    owners.check(path, &metadata).map_err(|error| error.at(path, 0, ""))?;
    Ok(text)
}

impl Config {
    /// Checks who may read the files of these settings that have a secret at a place, and the files with secrets that the
    /// settings name.
    pub(super) fn check_secret_files(
        &self,
        secrets: &[(Place, Metadata)],
    ) -> Result<(), ConfigError> {
        let owners = Owners::of(self);
        for (Place { file, line, key }, metadata) in secrets {
            owners.check(file, metadata).map_err(|error| error.at(file, *line, key))?;
        }
        let path = self.file.as_deref().unwrap_or(Path::new(""));
        let keys = self.keys.clone().map(|keys| ("integrity.keys", keys));
        let (name, streams) = protocols::streams(self);
        let tls = streams.tls.map(|tls| (name, tls.key));
        let web = self.web.as_ref().and_then(|web| match &web.address {
            WebAddress::Tcp(_, token) => Some(("web.token_file", token.clone())),
            WebAddress::Unix(_) => None,
        });
        for (key, file) in keys.into_iter().chain(tls).chain(web) {
            // A file that is out of reach now is an error of the start, which reads it.
            if let Ok(found) = std::fs::metadata(&file) {
                owners.check(&file, &found).map_err(|error| error.at(path, 0, key))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "secret_file_tests.rs"]
mod tests;
