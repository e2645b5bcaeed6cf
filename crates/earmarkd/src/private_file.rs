//! Files that only their owner may read: recordings and their secrets, captures, and what a test network writes.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Permissions of the files.
const MODE: u32 = 0o600;

/// Creates a file with mode 0600, or empties an existing one and gives it this mode. Nothing follows a symbolic link, by
/// which another user of the directory could have the daemon overwrite a file.
///
/// # Errors
/// The file cannot be written, is not a regular file, or belongs to another user.
pub fn create(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let file =
        OpenOptions::new().write(true).create(true).mode(MODE).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let refused = |text: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    if !found.is_file() {
        return refused("it is not a regular file; name a path without a file");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refused("it belongs to another user; remove it, or name another path");
    }
    // The mode changes before the first octet is written.
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.set_len(0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use earmark_testkit::command_line::TemporaryDirectory;

    use super::*;

    #[test]
    fn file_is_for_its_owner_even_if_it_exists() {
        let place = TemporaryDirectory::new("private");
        let path = |name: &str| place.0.join(name);
        std::fs::write(path("old"), "a longer text").expect("an own directory");
        std::fs::set_permissions(path("old"), Permissions::from_mode(0o644)).expect("an own file");
        for name in ["old", "new"] {
            let mut file = create(&path(name)).expect(name);
            file.write_all(b"text").expect(name);
            let mode = std::fs::metadata(path(name)).expect(name).mode();
            assert_eq!(mode & 0o7777, 0o600, "{name}");
            assert_eq!(std::fs::read_to_string(path(name)).expect(name), "text");
        }
    }

    #[test]
    fn what_is_no_own_file_is_refused_and_unchanged() {
        let place = TemporaryDirectory::new("private-refused");
        let path = |name: &str| place.0.join(name);
        std::fs::write(path("target"), "precious").expect("an own directory");
        std::os::unix::fs::symlink(path("target"), path("link")).expect("an own directory");
        std::fs::create_dir(path("directory")).expect("an own directory");
        for name in ["link", "directory"] {
            assert!(create(&path(name)).is_err(), "{name}");
        }
        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path("target"), Some(65_534), None).expect("root");
            let error = create(&path("target")).expect_err("another owner").to_string();
            assert!(error.contains("it belongs to another user"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(path("target")).expect("a file"), "precious");
    }
}
