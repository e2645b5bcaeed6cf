//! `earmark trace --on`: a flow from router to router, by what each says about its packets.
//!
//! Each router is asked for the path of the flow, and the next hop belongs to the router that lists its address. `report` prints
//! the hops.

mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use earmark_control::command::{Failure, Output};
use earmark_control::{Client, ClientError, LinkRow, PathAnswer, PathOutcome, PathRequest};

use self::report::{End, Report};
use super::names::RouterName;
use super::router::Router;
use crate::cli::outcome::{Outcome, wrong_usage};
use crate::protocols::TraceOptions;

/// Checks the options of a trace from router to router.
///
/// # Errors
/// An option belongs to traces by messages only.
pub(super) fn check(options: &TraceOptions) -> Result<(), Failure> {
    if options.last_hop.is_some() {
        return Err(wrong_usage(
            "--last-hop: with --on a trace begins at the router that has the source, or at the first one",
        ));
    }
    if options.from.is_some_and(|from| from.spi.is_some()) {
        return Err(wrong_usage(
            "--from ADDR@SPI: with --on a flow is named by its addresses and ports",
        ));
    }
    Ok(())
}

/// A router, and the interfaces with their addresses that it lists.
struct Node {
    name: RouterName,
    links: Vec<LinkRow>,
}

impl Node {
    /// Returns the interface that has an address.
    fn interface_of(&self, address: IpAddr) -> Option<&str> {
        let link = self.links.iter().find(|link| link.addresses.contains(&address));
        link.map(|link| link.interface.as_str())
    }
}

/// What a router says about the flow.
struct Hop {
    router: RouterName,
    answer: PathAnswer,
}

/// Asks the routers on the path of a flow, and prints what each says.
pub(super) fn trace(
    routers: &[Router],
    options: &TraceOptions,
    out: &mut Output,
    failed: &mut dyn FnMut(&Router, Failure),
) -> Result<Outcome, Failure> {
    let deadline = Instant::now() + options.timeout;
    let answers: Vec<_> = routers
        .iter()
        .map(|router| ask(router, |daemon| daemon.show_links().map(|links| links.rows)))
        .collect();
    let mut is_answered = true;
    let mut nodes = Vec::new();
    for (router, answer) in routers.iter().zip(answers) {
        let links = receive(&answer, deadline).unwrap_or_else(|failure| {
            failed(router, failure);
            is_answered = false;
            Vec::new()
        });
        nodes.push(Node { name: router.name.clone(), links });
    }
    let (hops, end) = follow(&nodes, request(options), options.max_hops, |at, request| {
        let answer = ask(&routers[at], move |daemon| daemon.path(request));
        receive(&answer, deadline).map_err(|failure| {
            let is_timeout = failure.code == TIMEOUT;
            failed(&routers[at], failure);
            is_timeout
        })
    });
    let report = Report { options, hops: &hops, end: &end };
    out.line(&report.text(), &report.json())?;
    Ok(match report.outcome() {
        Outcome::TimedOut => Outcome::TimedOut,
        _ if !is_answered => Outcome::Failed,
        outcome => outcome,
    })
}

/// Code of the failure of a router that does not answer in time.
const TIMEOUT: &str = "timeout";

/// Sends a request to a router in a thread.
fn ask<T: Send + 'static>(
    router: &Router,
    request: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send + 'static,
) -> Receiver<Result<T, ClientError>> {
    let (sender, answer) = channel();
    let socket = router.socket.clone();
    thread::spawn(move || {
        let result = Client::connect(&socket).and_then(|mut daemon| request(&mut daemon));
        // The receiver may have given up.
        let _ = sender.send(result);
    });
    answer
}

fn receive<T>(answer: &Receiver<Result<T, ClientError>>, deadline: Instant) -> Result<T, Failure> {
    match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(answer) => answer.map_err(Failure::from),
        Err(_) => Err(Failure::new(
            TIMEOUT,
            "the daemon does not answer in time",
            "--timeout waits longer",
        )),
    }
}

/// Returns the request for the flow of a trace.
fn request(options: &TraceOptions) -> PathRequest {
    PathRequest {
        from: options.from.map(|from| SocketAddr::new(from.address, from.port)),
        flow_label: options.from.and_then(|from| from.flow_label),
        ip_protocol: options.ip_protocol,
        // The claim that governs is the first one.
        limit: Some(1),
        ..PathRequest::new(options.to)
    }
}

/// Follows a flow from router to router. `ask` returns what a router says; an error says whether the time was over.
fn follow(
    nodes: &[Node],
    mut flow: PathRequest,
    max_hops: u8,
    mut ask: impl FnMut(usize, PathRequest) -> Result<PathAnswer, bool>,
) -> (Vec<Hop>, End) {
    let source = flow.from.map(|from| from.ip());
    let has_source = |node: &Node| source.is_some_and(|source| node.interface_of(source).is_some());
    let mut at = (nodes.iter().position(has_source).unwrap_or_default(), None);
    let (mut hops, mut visited) = (Vec::new(), BTreeSet::new());
    loop {
        let name = nodes[at.0].name.clone();
        // Policy rules may treat packets of each incoming interface otherwise, so a router may be on the path twice.
        if !visited.insert(at.clone()) {
            return (hops, End::Loop { router: name });
        }
        if max_hops > 0 && hops.len() >= usize::from(max_hops) {
            return (hops, End::HopLimit);
        }
        let incoming = at.1.clone().filter(|_| flow.from.is_some());
        let answer = match ask(at.0, PathRequest { incoming, ..flow.clone() }) {
            Ok(answer) => answer,
            Err(is_timeout) => return (hops, End::Unanswered { router: name, is_timeout }),
        };
        // The first router completes the flow with the address that it sends from.
        if flow.from.is_none() {
            let port = answer.flow.source_port;
            flow.from = answer.flow.source.map(|source| SocketAddr::new(source, port));
        }
        let (outcome, next_hop) = (answer.outcome, answer.next_hop);
        let address = next_hop.unwrap_or(answer.flow.destination);
        hops.push(Hop { router: name.clone(), answer });
        match outcome {
            PathOutcome::Forwarded => {}
            PathOutcome::Local | PathOutcome::Broadcast => {
                return (hops, End::Arrived { router: name });
            }
            _ => return (hops, End::Stopped { router: name, outcome }),
        }
        let owners: Vec<(usize, &str)> = nodes
            .iter()
            .enumerate()
            .filter(|(number, _)| *number != at.0)
            .filter_map(|(number, node)| Some((number, node.interface_of(address)?)))
            .collect();
        at = match (owners.as_slice(), next_hop) {
            ([(number, interface)], _) => (*number, Some((*interface).to_owned())),
            ([], None) => return (hops, End::Arrived { router: name }),
            ([], Some(next_hop)) => return (hops, End::NotNamed { router: name, next_hop }),
            (owners, _) => {
                let owners = owners.iter().map(|(number, _)| nodes[*number].name.clone()).collect();
                return (hops, End::Ambiguous { address, owners });
            }
        };
    }
}
