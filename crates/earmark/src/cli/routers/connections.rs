//! Connections to all routers of a command, made at the same time.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use earmark_control::command::Failure;

use super::forwarding::{Forwarding, SocketDirectory, Target, is_forwardable};
use super::names::{RouterName, RouterNames};
use super::options::RouterOptions;
use super::report::report;
use super::router::Router;

/// Time after which the routers that have not answered are named.
const PROGRESS: Duration = Duration::from_secs(2);
/// Routers that are named in a line of progress.
const NAMED: usize = 5;

/// Forwarded sockets of a command; dropping the value ends every `ssh` and removes the sockets.
pub(super) struct Connections {
    /// Routers in the order of their names in the command.
    pub(super) routers: Vec<Router>,
    /// Whether a router could not be reached.
    pub(super) has_failed: bool,
    forwardings: Vec<Forwarding>,
    /// Removed after the forwardings have ended.
    _directory: Arc<SocketDirectory>,
}

impl Connections {
    /// Connects to all routers. Failures of single routers are reported to standard error.
    ///
    /// # Errors
    /// No router can be connected to, because of the arguments or of this host.
    pub(super) fn open(
        names: &RouterNames,
        options: &RouterOptions,
        remote: &Path,
        json: bool,
    ) -> Result<Connections, Failure> {
        if !is_forwardable(remote) {
            let message = format!("`ssh` cannot forward to the socket {}", remote.display());
            let hint = "with --on, --control is an absolute path on the routers, without : \\ % $ and quotes";
            return Err(Failure::new("invalid_socket", message, hint));
        }
        let directory = Arc::new(SocketDirectory::create()?);
        let (sender, results) = channel();
        for (number, router) in names.as_slice().iter().enumerate() {
            let (sender, directory, router) = (sender.clone(), directory.clone(), router.clone());
            let (remote, program) = (remote.to_owned(), options.ssh.clone());
            let timeout = options.connect_timeout;
            thread::spawn(move || {
                let target =
                    Target { router: &router, remote: &remote, program: &program, timeout };
                let result = Forwarding::start(&target, &directory, number);
                // The receiver waits for all.
                let _ = sender.send((number, result));
            });
        }
        drop(sender);
        let mut results_by_number: Vec<Option<Result<Forwarding, Failure>>> =
            names.as_slice().iter().map(|_| None).collect();
        let mut progress_at = Instant::now() + PROGRESS;
        loop {
            match results.recv_timeout(progress_at.saturating_duration_since(Instant::now())) {
                Ok((number, result)) => results_by_number[number] = Some(result),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if !json {
                        eprintln!(
                            "{}",
                            progress(names, |number| results_by_number[number].is_some())
                        );
                    }
                    progress_at = Instant::now() + PROGRESS;
                }
            }
        }
        let mut connections = Connections {
            routers: Vec::new(),
            has_failed: false,
            forwardings: Vec::new(),
            _directory: directory,
        };
        for (name, result) in names.as_slice().iter().zip(results_by_number) {
            match result {
                Some(Ok(forwarding)) => {
                    let socket = forwarding.socket().to_owned();
                    connections.routers.push(Router { name: name.clone(), socket });
                    connections.forwardings.push(forwarding);
                }
                Some(Err(failure)) => {
                    report(name, &failure, json);
                    connections.has_failed = true;
                }
                // The thread has panicked, which the standard library reports.
                None => connections.has_failed = true,
            }
        }
        Ok(connections)
    }

    /// Replaces the failure of a lost connection by what `ssh` says about it.
    pub(super) fn explain(&self, router: &RouterName, failure: Failure) -> Failure {
        let at = self.routers.iter().position(|known| known.name == *router);
        match at.and_then(|at| self.forwardings.get(at)) {
            Some(forwarding) => forwarding.explain(failure),
            None => failure,
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        // All end at the same time; dropping each then waits for it.
        self.forwardings.iter_mut().for_each(Forwarding::begin_end);
    }
}

/// Says how many routers have answered, and names some that have not.
fn progress(names: &RouterNames, has_answered: impl Fn(usize) -> bool) -> String {
    let names = names.as_slice();
    let waiting: Vec<&str> = names
        .iter()
        .enumerate()
        .filter(|(number, _)| !has_answered(*number))
        .map(|(_, name)| name.as_str())
        .collect();
    let named = waiting.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = match waiting.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let answered = names.len() - waiting.len();
    format!("earmark: {answered} of {} routers connected; waiting for {named}{more}", names.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_some_of_those_that_wait() {
        let names = RouterNames::parse("r1,r2,r3,r4,r5,r6,r7,r8").expect("names");
        let text = progress(&names, |number| number == 1);
        assert_eq!(
            text,
            "earmark: 1 of 8 routers connected; waiting for r1, r3, r4, r5, r6 and 2 more"
        );
        let text = progress(&names, |number| number != 7);
        assert_eq!(text, "earmark: 7 of 8 routers connected; waiting for r8");
    }
}
