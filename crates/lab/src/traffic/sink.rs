//! The receiving end of measured traffic.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use earmark_core::Time;

use super::now;
use super::packet::{HEADER_V4, HEADER_V6, Label};
use super::source::TrafficError;

/// Largest number of packets that a sink records; later ones are counted only. Two and a half hours of 5 Mbit/s.
pub const MAX_ARRIVALS: usize = 4_000_000;

/// Receive buffer, octets: a sink without the processor for a while must not lose packets that the network carried.
/// One second of 20 Mbit/s.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Interval at which a sink checks for its end.
const TICK: Duration = Duration::from_millis(50);

/// A packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Stream of the packet.
    pub stream: u32,
    /// Number of the packet, from 0.
    pub sequence: u64,
    /// Departure time.
    pub sent: Time,
    /// Arrival time.
    pub at: Time,
    /// Octets of the IP packet.
    pub packet_octets: u32,
}

/// A running sink, on a thread of its own.
#[derive(Debug)]
pub struct Sink {
    stop: Arc<AtomicBool>,
    octets: Arc<AtomicU64>,
    thread: JoinHandle<Result<Vec<Arrival>, TrafficError>>,
}

impl Sink {
    /// Receives from a bound socket until it is stopped. Packets without a label are ignored.
    ///
    /// # Errors
    /// The socket cannot be set up; the thread cannot be started.
    pub fn start(socket: UdpSocket) -> Result<Sink, TrafficError> {
        // The forced size needs privileges and ignores the system's limit; without them the limit applies.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err()
        {
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)
                .map_err(|errno| TrafficError::io("enlarge a receive buffer")(errno.into()))?;
        }
        socket.set_read_timeout(Some(TICK)).map_err(TrafficError::io("set a receive timeout"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let octets = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&octets));
        let thread = std::thread::Builder::new()
            .name("traffic-sink".into())
            .spawn(move || receive(&socket, &stopped, &counted))
            .map_err(TrafficError::io("start a thread"))?;
        Ok(Sink { stop, octets, thread })
    }

    /// Returns the IP packet octets received so far, for a display while it runs.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }

    /// Stops the sink; returns all arrivals, in order of arrival.
    ///
    /// # Errors
    /// The error that ended it earlier.
    pub fn stop(self) -> Result<Vec<Arrival>, TrafficError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| TrafficError::Died)?
    }
}

fn receive(
    socket: &UdpSocket,
    stop: &AtomicBool,
    octets: &AtomicU64,
) -> Result<Vec<Arrival>, TrafficError> {
    let mut buffer = vec![0; 65_536];
    let mut arrivals = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if is_timeout(&error) => continue,
            Err(error) => {
                return Err(TrafficError::Io { doing: "receive a packet", error });
            }
        };
        let at = now();
        let Some(Label { stream, sequence, sent }) = Label::read(&buffer[..length]) else {
            continue;
        };
        let header = if from.is_ipv4() { HEADER_V4 } else { HEADER_V6 };
        // A datagram is shorter than 2^16.
        let packet_octets = header + length as u32;
        octets.fetch_add(u64::from(packet_octets), Ordering::Relaxed);
        if arrivals.len() < MAX_ARRIVALS {
            arrivals.push(Arrival { stream, sequence, sent, at, packet_octets });
        }
    }
    Ok(arrivals)
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
