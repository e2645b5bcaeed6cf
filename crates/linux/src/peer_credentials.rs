//! Process at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys::socket::{peer_credentials, peer_groups};

/// Process at the other end of a connection: its credentials when it connected, as the kernel reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Number of the process; 0 if it is in another PID namespace.
    pub pid: i32,
    /// Number of the user.
    pub uid: u32,
    /// Numbers of the group and of the supplementary groups.
    pub groups: Vec<u32>,
}

impl PeerCredentials {
    /// Reads the credentials of the peer of a connected Unix socket.
    ///
    /// # Errors
    /// The socket is not a connected Unix socket.
    pub fn of(socket: impl AsFd) -> io::Result<PeerCredentials> {
        let socket: BorrowedFd<'_> = socket.as_fd();
        let (pid, uid, gid) = peer_credentials(socket)?;
        let mut groups = peer_groups(socket)?;
        groups.push(gid);
        Ok(PeerCredentials { pid, uid, groups })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn peer_of_own_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let peer = PeerCredentials::of(&one).expect("connected");
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.pid.cast_unsigned(), std::process::id());
        assert!(peer.groups.contains(&rustix::process::getegid().as_raw()));
        let groups = rustix::process::getgroups().expect("own groups");
        assert!(groups.iter().all(|group| peer.groups.contains(&group.as_raw())), "{peer:?}");
        assert!(PeerCredentials::of(std::io::stdin()).is_err());
    }
}
