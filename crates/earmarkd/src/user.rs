//! User that the daemon changes to after the work that needs root (`daemon.user`).
//!
//! Root's capabilities are dropped in any case; a user of its own also keeps the daemon from root's files. Users are looked up
//! in `/etc/passwd` alone: a daemon that depends on a directory server to start is of no use when the network is down.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread;

/// A user, looked up before anything changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    uid: Uid,
    gid: Gid,
}

impl User {
    /// Looks up a user by name; `None` if there is none.
    pub(crate) fn find(name: &str) -> io::Result<Option<User>> {
        Ok(find_in(&std::fs::read_to_string("/etc/passwd")?, name))
    }

    /// Returns the number of the user.
    pub(crate) fn number(self) -> u32 {
        self.uid.as_raw()
    }

    /// Changes the calling thread, the daemon's only one, to this user for good, and keeps the capabilities.
    pub(crate) fn become_now(self) -> io::Result<()> {
        thread::set_keep_capabilities(true)?;
        thread::set_thread_groups(&[self.gid])?;
        thread::set_thread_res_gid(self.gid, self.gid, self.gid)?;
        thread::set_thread_res_uid(self.uid, self.uid, self.uid)?;
        thread::set_keep_capabilities(false)?;
        // The permitted capabilities were kept; the effective ones were cleared with the user.
        let mut sets = thread::capabilities(None)?;
        sets.effective = sets.permitted;
        thread::set_capabilities(None, sets)?;
        Ok(())
    }

    /// Changes the owner of a file to this user.
    pub(crate) fn own(self, path: &std::path::Path) -> io::Result<()> {
        Ok(rustix::fs::chown(path, Some(self.uid), None)?)
    }
}

/// Returns the name of a user; `None` if `/etc/passwd` has none.
pub(crate) fn name_of(uid: u32) -> Option<String> {
    name_in(&std::fs::read_to_string("/etc/passwd").ok()?, uid)
}

fn name_in(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Finds a user in `name:password:uid:gid:...`, one user a line.
fn find_in(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().map(|line| line.split(':')).find_map(|mut fields| {
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(User { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nbad:x:one:2\nearmark:x:990:985::/:/bin/false\n";
        let found = find_in(passwd, "earmark").unwrap();
        assert_eq!((found.uid.as_raw(), found.gid.as_raw()), (990, 985));
        assert_eq!(find_in(passwd, "ear"), None);
        assert_eq!(find_in(passwd, "bad"), None);
        assert_eq!(name_in(passwd, 990).as_deref(), Some("earmark"));
        assert_eq!(name_in(passwd, 985), None);
    }
}
