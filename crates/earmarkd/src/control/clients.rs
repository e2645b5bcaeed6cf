//! Clients by their numbers, and what the event loop asks of all of them in each turn.
//!
//! Most turns serve messages and no client. What they ask is found anew only after a client may have changed, so that
//! connected clients cost such a turn nothing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use earmark_core::Time;

use super::connection::Connection;

/// Number of a client while it is connected; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// The clients. Whoever borrows them for a change is assumed to change them.
#[derive(Debug, Default)]
pub(super) struct Clients {
    by_id: BTreeMap<ClientId, Connection>,
    /// Number of changes so far.
    changes: u64,
    /// What was found after so many changes.
    found: Cell<Option<(u64, Summary)>>,
}

/// What holds of all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Summary {
    /// Timeout of idle connections that `deadline` includes.
    idle_timeout: Duration,
    /// Time at which the first connection is idle for too long, or is closed even if output is left.
    deadline: Option<Time>,
    /// Whether a listing can go on.
    can_list: bool,
}

impl Clients {
    /// Returns the number of changes so far: what is known about the clients is still true if it is the same.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the time at which the first connection is idle for too long, or is closed even if output is left.
    pub(super) fn deadline(&self, idle_timeout: Duration) -> Option<Time> {
        self.summary(idle_timeout).deadline
    }

    /// Returns whether a listing can go on.
    pub(super) fn can_list(&self, idle_timeout: Duration) -> bool {
        self.summary(idle_timeout).can_list
    }

    fn summary(&self, idle_timeout: Duration) -> Summary {
        match self.found.get() {
            Some((changes, found))
                if changes == self.changes && found.idle_timeout == idle_timeout =>
            {
                found
            }
            _ => {
                let deadline =
                    |client: &Connection| client.closing.or(client.idle_deadline(idle_timeout));
                let found = Summary {
                    idle_timeout,
                    deadline: self.by_id.values().filter_map(deadline).min(),
                    can_list: self.by_id.values().any(Connection::can_list),
                };
                self.found.set(Some((self.changes, found)));
                found
            }
        }
    }
}

impl Deref for Clients {
    type Target = BTreeMap<ClientId, Connection>;

    fn deref(&self) -> &Self::Target {
        &self.by_id
    }
}

impl DerefMut for Clients {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.changes += 1;
        &mut self.by_id
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use earmark_linux::PeerCredentials;

    use super::*;
    use crate::control::Role;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn connection(at: Time) -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let peer = PeerCredentials::of(&ours).expect("credentials");
        (Connection::new(ours, peer, Role::Operator, at).expect("a connection"), theirs)
    }

    /// Each change is seen; what was found stays while nothing changes.
    #[test]
    fn summary_follows_changes() {
        let mut clients = Clients::default();
        assert_eq!((clients.deadline(TIMEOUT), clients.changes()), (None, 0));
        let mut peers = Vec::new();
        for number in [2, 1] {
            let (connection, peer) = connection(Time::from_secs(number));
            clients.insert(ClientId(number), connection);
            peers.push(peer);
            assert_eq!(clients.deadline(TIMEOUT), Some(Time::from_secs(number) + TIMEOUT));
        }
        let changes = clients.changes();
        assert_eq!(clients.values().count(), 2);
        assert_eq!(clients.deadline(TIMEOUT / 2), Some(Time::from_secs(1) + TIMEOUT / 2));
        assert_eq!(clients.changes(), changes, "nothing was changed");
        clients.get_mut(&ClientId(1)).expect("it is there").watching = true;
        assert_eq!(clients.deadline(TIMEOUT), Some(Time::from_secs(2) + TIMEOUT));
        clients.get_mut(&ClientId(1)).expect("it is there").closing = Some(Time::from_secs(5));
        assert_eq!(clients.deadline(TIMEOUT), Some(Time::from_secs(5)));
        assert!(!clients.can_list(TIMEOUT));
        clients.remove(&ClientId(1));
        assert_eq!(clients.deadline(TIMEOUT), Some(Time::from_secs(2) + TIMEOUT));
    }
}
