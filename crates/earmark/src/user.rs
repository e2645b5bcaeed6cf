//! The user that the daemon becomes when everything that needs root is done (`daemon.user`).
//!
//! Root's capabilities are given up in any case; a user of its own besides keeps the daemon from root's files. Users are
//! looked up in `/etc/passwd` alone: a daemon that waits for a directory server at start would be no help when the
//! network is down.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread;

/// A user, found before anything is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    uid: Uid,
    gid: Gid,
}

impl User {
    /// The user of this name; `None` where there is none.
    pub(crate) fn find(name: &str) -> io::Result<Option<User>> {
        Ok(find_in(&std::fs::read_to_string("/etc/passwd")?, name))
    }

    /// Becomes this user for good, and keeps the capabilities. For the calling thread, which is the daemon's only one.
    pub(crate) fn become_now(self) -> io::Result<()> {
        thread::set_keep_capabilities(true)?;
        thread::set_thread_groups(&[self.gid])?;
        thread::set_thread_res_gid(self.gid, self.gid, self.gid)?;
        thread::set_thread_res_uid(self.uid, self.uid, self.uid)?;
        thread::set_keep_capabilities(false)?;
        // Kept are the permitted ones; what is effective was cleared with the user.
        let mut sets = thread::capabilities(None)?;
        sets.effective = sets.permitted;
        thread::set_capabilities(None, sets)?;
        Ok(())
    }

    /// Gives this user a file.
    pub(crate) fn own(self, path: &std::path::Path) -> io::Result<()> {
        Ok(rustix::fs::chown(path, Some(self.uid), None)?)
    }
}

/// `name:password:uid:gid:...`, one user a line.
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
    }
}
