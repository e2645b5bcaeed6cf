//! Paths that flows open through firewalls and translators: their requests, and what becomes of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use earmark_core::{Endpoint, Time};
use earmark_sim::{LogEntry, LogEvent, NodeId};

use crate::protocols::ScenarioProtocol;

/// Request of an end of a flow, for [`ScenarioProtocol::open`](crate::ScenarioProtocol::open) and its siblings.
#[derive(Clone, Copy, Debug)]
pub struct PathRequest {
    /// Number of the application at the end.
    pub application: u64,
    /// Source address, as the source knows it.
    pub source: IpAddr,
    /// Destination address and port: in requests of the source as it knows them, in those of the destination its own.
    pub destination: Endpoint,
    /// Source port.
    pub source_port: u16,
    /// Whether the edge of the network acts for the other end, which does not take part.
    pub proxy: bool,
}

/// What a protocol tells an end about its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The path is open, or the port is exposed: under this address and port, if they are not those of the host.
    Granted {
        /// Number of the application.
        application: u64,
        /// Address and port at the edge.
        external: Option<Endpoint>,
    },
    /// The request was refused, or has ended.
    Ended {
        /// Number of the application.
        application: u64,
    },
}

/// A request of an end, so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathState {
    /// Time of the request.
    pub(crate) asked: Time,
    /// Time of the first grant.
    pub(crate) granted: Option<Time>,
    /// Time of the end.
    pub(crate) ended: Option<Time>,
    /// Address and port at the edge.
    pub(crate) external: Option<Endpoint>,
}

/// Requests of a run, by node and application.
#[derive(Debug, Default)]
pub(crate) struct PathTracker {
    paths: BTreeMap<(NodeId, u64), PathState>,
}

impl PathTracker {
    /// Begins a request.
    pub(crate) fn begin(&mut self, node: NodeId, application: u64, now: Time) {
        self.paths.insert((node, application), PathState { asked: now, ..PathState::default() });
    }

    /// Ends a request, if it has not ended.
    pub(crate) fn end(&mut self, node: NodeId, application: u64, now: Time) {
        if let Some(path) = self.paths.get_mut(&(node, application)) {
            path.ended.get_or_insert(now);
        }
    }

    /// Returns a request.
    pub(crate) fn get(&self, node: NodeId, application: u64) -> Option<PathState> {
        self.paths.get(&(node, application)).copied()
    }

    /// Returns the requests since a time.
    pub(crate) fn since(&self, time: Time) -> impl Iterator<Item = &PathState> {
        self.paths.values().filter(move |path| path.asked >= time)
    }

    /// Processes the log of the network.
    pub(crate) fn process(&mut self, protocol: &dyn ScenarioProtocol, log: &[LogEntry]) {
        if self.paths.is_empty() {
            return;
        }
        for entry in log {
            let LogEvent::Event(event) = &entry.what else { continue };
            match protocol.path_event(event) {
                Some(PathEvent::Granted { application, external }) => {
                    if let Some(path) = self.paths.get_mut(&(entry.node, application)) {
                        path.granted.get_or_insert(entry.at);
                        path.external = external.or(path.external);
                    }
                }
                Some(PathEvent::Ended { application }) => {
                    self.end(entry.node, application, entry.at);
                }
                None => {}
            }
        }
    }
}
