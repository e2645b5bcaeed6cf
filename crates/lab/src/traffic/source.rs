//! The sending end of measured traffic.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use earmark_core::{Rate, Time};

use super::packet::{HEADER_V4, HEADER_V6, Label, MIN_PAYLOAD};
use super::{Pacer, now};

/// Longest sleep, which bounds the time to stop a source.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Parameters of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rate, counted in IP packet octets.
    pub rate: Rate,
    /// Octets of each IP packet, headers included.
    pub packet_octets: u32,
    /// Octets that may be sent in a row after a delay.
    pub bucket_octets: u32,
}

/// Error of sending or receiving traffic.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The packet length is out of range.
    #[error("a packet of {octets} octets is too short or too long; use {least} to 1500")]
    PacketLength {
        /// Requested length.
        octets: u32,
        /// Shortest possible length.
        least: u32,
    },
    /// The rate is zero.
    #[error("the rate must be more than zero")]
    ZeroRate,
    /// A system call failed.
    #[error("cannot {doing}: {error}")]
    Io {
        /// Name of the operation.
        doing: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// The thread ended by a panic.
    #[error("the traffic thread died")]
    Died,
}

impl TrafficError {
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> TrafficError {
        move |error| TrafficError::Io { doing, error }
    }
}

/// A running source, on a thread of its own.
#[derive(Debug)]
pub struct Source {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Time>, TrafficError>>,
}

impl Source {
    /// Sends from `socket`, which must be connected, for a duration or until it is stopped.
    ///
    /// # Errors
    /// The parameters are invalid; the socket is not connected; the thread cannot be started.
    pub fn start(
        socket: UdpSocket,
        shape: Shape,
        how_long: Duration,
    ) -> Result<Source, TrafficError> {
        let peer = socket.peer_addr().map_err(TrafficError::io("send on an unconnected socket"))?;
        let header = if peer.is_ipv4() { HEADER_V4 } else { HEADER_V6 };
        let least = header + MIN_PAYLOAD;
        if !(least..=1_500).contains(&shape.packet_octets) {
            return Err(TrafficError::PacketLength { octets: shape.packet_octets, least });
        }
        if shape.rate == Rate::ZERO {
            return Err(TrafficError::ZeroRate);
        }
        let payload = vec![0; (shape.packet_octets - header) as usize];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("traffic-source".into())
            .spawn(move || send(&socket, shape, how_long, payload, &stopped))
            .map_err(TrafficError::io("start a thread"))?;
        Ok(Source { stop, thread })
    }

    /// Stops the source; returns the departure time of each packet, by number.
    ///
    /// # Errors
    /// The error that ended it earlier.
    pub fn stop(self) -> Result<Vec<Time>, TrafficError> {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits for the end of the source; returns the departure time of each packet, by number.
    ///
    /// # Errors
    /// The error that ended it earlier.
    pub fn join(self) -> Result<Vec<Time>, TrafficError> {
        self.thread.join().map_err(|_| TrafficError::Died)?
    }
}

fn send(
    socket: &UdpSocket,
    shape: Shape,
    how_long: Duration,
    mut payload: Vec<u8>,
    stop: &AtomicBool,
) -> Result<Vec<Time>, TrafficError> {
    let start = now();
    let end = start + how_long;
    // Two sources get the same number only if they start in the same nanosecond of a period of 4 s.
    let stream = start.as_nanos() as u32;
    let mut pacer = Pacer::new(shape.rate, shape.packet_octets, shape.bucket_octets, start);
    let mut sent = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let (due, at) = (pacer.due(), now());
        if due.max(at) >= end {
            break;
        }
        if due > at {
            std::thread::sleep(due.since(at).min(MAX_WAIT));
            continue;
        }
        Label { stream, sequence: sent.len() as u64, sent: at }.write(&mut payload);
        pacer.record(at);
        sent.push(at);
        match socket.send(&payload) {
            Ok(_) => {}
            // The port has no receiver yet, or a queue of this host is full: the sink will count the packet as lost.
            Err(error) if is_loss(&error) => {}
            Err(error) => {
                return Err(TrafficError::Io { doing: "send a packet", error });
            }
        }
    }
    Ok(sent)
}

fn is_loss(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::ConnectionRefused
        || kind == io::ErrorKind::WouldBlock
        || kind == io::ErrorKind::Interrupted
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}
