//! Places for clients: a limit for all, a share for each user, and a timeout of idle connections, so that no user keeps the
//! others from the control socket.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;

use earmark_control::{Problem, ProblemCode, Response};
use earmark_core::Time;
use earmark_linux::PeerCredentials;
use tracing::debug;

use super::clients::ClientId;
use super::connection::Connection;
use super::hub::{CLOSE_TIMEOUT, Hub, say};
use super::roles::{Role, UserText, is_privileged};

/// Most clients at a time.
pub const MAX_CLIENTS: usize = 64;
/// Most clients of one user, other than root and the daemon's own.
pub const MAX_CLIENTS_PER_USER: usize = MAX_CLIENTS / 4;
/// Places that only root and the daemon's own user get.
pub const RESERVED_CLIENTS: usize = MAX_CLIENTS / 8;

impl Hub {
    /// Adds a client. Returns `None` if that failed, or if the client is refused (it gets an error).
    pub fn connect(&mut self, stream: UnixStream, now: Time) -> Option<ClientId> {
        let peer = PeerCredentials::of(&stream).inspect_err(|error| debug!(%error, "client lost"));
        self.connect_as(stream, peer.ok()?, now)
    }

    /// Adds a client that is this process of this user; see [`Hub::connect`].
    pub fn connect_as(
        &mut self,
        stream: UnixStream,
        peer: PeerCredentials,
        now: Time,
    ) -> Option<ClientId> {
        let admitted = self.roles.role(&peer).and_then(|role| {
            self.make_room(peer.uid)?;
            Ok(role)
        });
        let role = admitted.as_ref().copied().unwrap_or(Role::Reader);
        let mut connection = Connection::new(stream, peer, role, now).ok()?;
        if let Err(problem) = admitted {
            self.counters.refused_clients += 1;
            say(&mut connection, &Response::Error(problem));
            // The client is disconnected whether it gets the error or not.
            let _ = connection.flush();
            return None;
        }
        self.counters.clients += 1;
        self.last_client += 1;
        let id = ClientId(self.last_client);
        self.clients.insert(id, connection);
        Some(id)
    }

    /// Adds a connection of the web page for a user with this role. The page bounds their number, so that they take no
    /// place from others.
    #[cfg(feature = "http")]
    pub(crate) fn connect_page(
        &mut self,
        stream: UnixStream,
        peer: PeerCredentials,
        role: Role,
        now: Time,
    ) {
        let Ok(mut connection) = Connection::new(stream, peer, role, now) else { return };
        connection.is_page = true;
        self.last_client += 1;
        self.clients.insert(ClientId(self.last_client), connection);
    }

    /// Makes sure that there is a place for one more client of a user. If all are taken, the connection that has been idle
    /// longest is closed, of the user with the most connections.
    fn make_room(&mut self, uid: u32) -> Result<(), Problem> {
        let mut counts = BTreeMap::<u32, usize>::new();
        let of_socket = || self.clients.values().filter(|client| !client.is_page);
        for client in of_socket() {
            *counts.entry(client.peer.uid).or_default() += 1;
        }
        let own = counts.get(&uid).copied().unwrap_or_default();
        let is_privileged = is_privileged(uid);
        let has_share = is_privileged || own < MAX_CLIENTS_PER_USER;
        let reserved = if is_privileged { 0 } else { RESERVED_CLIENTS };
        if has_share && of_socket().count() + reserved < MAX_CLIENTS {
            return Ok(());
        }
        let mut users: Vec<(usize, u32)> =
            counts.into_iter().map(|(user, count)| (count, user)).collect();
        users.sort_unstable_by(|one, other| other.cmp(one));
        if has_share {
            // A user takes no place of one who has fewer.
            users.retain(|&(count, user)| is_privileged || count > own || user == uid);
        } else {
            users.retain(|&(_, user)| user == uid);
        }
        let busy = self.busy();
        let idle = |user: u32| {
            let of_user = self.clients.iter().filter(move |(_, client)| client.peer.uid == user);
            let idle = of_user.filter(|(id, client)| !client.watching && !busy.contains(id));
            let idle = idle.filter(|(_, client)| !client.is_page);
            idle.min_by_key(|(_, client)| client.active_at).map(|(&id, _)| id)
        };
        if let Some(id) = users.into_iter().find_map(|(_, user)| idle(user)) {
            self.close_for_another(id);
            return Ok(());
        }
        let message = match has_share {
            true => format!("client limit {MAX_CLIENTS} reached"),
            false => format!("client limit {MAX_CLIENTS_PER_USER} of {} reached", UserText(uid)),
        };
        Err(Problem::new(ProblemCode::Limit, message, "end a `watch` or two and try again"))
    }

    /// Returns the clients with an application or a trace.
    fn busy(&self) -> BTreeSet<ClientId> {
        let applications = self.applications.values();
        let of_applications =
            applications.flat_map(|known| [known.owner, known.follower]).flatten();
        of_applications.chain(self.traces.values().copied()).collect()
    }

    fn close_for_another(&mut self, id: ClientId) {
        let Some(mut client) = self.clients.remove(&id) else { return };
        debug!(uid = client.peer.uid, pid = client.peer.pid, "an idle client gives its place away");
        self.counters.idle_clients += 1;
        client.forget_waiting();
        say(&mut client, &Response::Error(idle("another client needs the place")));
        // A client that does not read now sees the end of the connection.
        let _ = client.flush();
    }

    /// Closes the connections that have been idle too long.
    pub(super) fn close_idle(&mut self, now: Time) {
        let timeout = self.idle_timeout;
        let is_due =
            |client: &Connection| client.idle_deadline(timeout).is_some_and(|at| at <= now);
        if !self.clients.values().any(is_due) {
            return;
        }
        let busy = self.busy();
        for (id, client) in self.clients.iter_mut().filter(|(_, client)| is_due(client)) {
            if busy.contains(id) {
                client.active_at = now;
                continue;
            }
            self.counters.idle_clients += 1;
            client.forget_waiting();
            let reason = format!("no request for {} s", timeout.as_secs());
            say(client, &Response::Error(idle(&reason)));
            let _ = client.flush();
            client.closing = Some(now + CLOSE_TIMEOUT);
        }
    }
}

fn idle(reason: &str) -> Problem {
    Problem::new(
        ProblemCode::Idle,
        format!("idle connection closed: {reason}"),
        "connect again; control.idle_timeout sets the time",
    )
}
