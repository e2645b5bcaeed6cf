//! Captures of signalling: the messages of all protocols that pass a node, written to a pcap file for any tool to read.
//!
//! A packet socket in the node's namespace sees every frame on every interface, arriving and leaving, so a message
//! that a router forwards is captured twice. A filter in the kernel passes only signalling and reports of RTP,
//! however much data goes by; each fragment of a message is a frame of its own. Timestamps are taken when this
//! program receives a frame, some microseconds late.
//!
//! The simulator's packets have no link layer, and its time starts at zero: [`write_tapped`] writes those.

mod pcap;

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use earmark_core::Time;
use earmark_linux::netns::Namespace;
use earmark_sim::CapturedPacket;
use earmarkd::private_file;
use socket2::{Domain, Protocol, Socket, Type};

use crate::protocols::SIGNALLING;

pub use pcap::{LinkType, PcapWriter};

/// `ETH_P_ALL`: frames of every protocol, outgoing ones included.
const ALL_PROTOCOLS: u16 = 3;
/// Octets of the longest frame that is captured in full.
const LONGEST_FRAME: usize = 1 << 16;
/// Receive buffer of the packet socket, octets.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Timeout of a read, and so the largest delay of the end of a capture.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Limit of frames that are still written after the end of a capture: those that were waiting then, however many
/// follow.
const MAX_LATE: usize = 10_000;

/// A running capture, on a thread of its own. Dropping the value ends it; its file is complete in either case.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    /// Thread that returns the number of written frames; `None` once it was joined.
    thread: Option<JoinHandle<io::Result<u64>>>,
}

/// Creates a capture, which only its owner may read: captures contain what hosts reserve, and names of users. A pipe or
/// a device is written as it is.
fn create(path: &Path) -> io::Result<File> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => File::create(path),
        _ => private_file::create(path),
    }
}

impl Capture {
    /// Starts to write the signalling on all interfaces of a namespace to `file`, which is replaced.
    ///
    /// # Errors
    /// The file cannot be written; a packet socket is unavailable (it needs CAP_NET_RAW).
    pub fn start(namespace: &Namespace, file: &Path) -> Result<Capture> {
        let refused = || format!("cannot capture in {}", namespace.name().unwrap_or("a namespace"));
        // A socket stays in the namespace where it was opened, whatever thread uses it.
        let socket = namespace.run_in(open).and_then(|opened| opened).with_context(refused)?;
        let cannot_write = || format!("cannot write {}", file.display());
        let out = BufWriter::new(create(file).with_context(cannot_write)?);
        let pcap = PcapWriter::new(out, LinkType::Ethernet).with_context(cannot_write)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("capture".into());
        let thread = thread.spawn(move || record(&socket, pcap, &stopped))?;
        Ok(Capture { stop, thread: Some(thread) })
    }

    /// Ends the capture; returns the number of frames in the file.
    ///
    /// # Errors
    /// The error that ended the capture earlier, or a failed write.
    pub fn stop(mut self) -> Result<u64> {
        self.end().context("the capture failed")
    }

    fn end(&mut self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(frames)) => frames,
            Some(Err(_)) | None => Err(io::Error::other("the thread that captures died")),
        }
    }
}

/// The signalling on all interfaces of a namespace, to be read from time to time.
#[derive(Debug)]
pub struct Tap {
    socket: Socket,
}

impl Tap {
    /// Opens a tap.
    ///
    /// # Errors
    /// A packet socket is unavailable (it needs CAP_NET_RAW).
    pub fn open(namespace: &Namespace) -> Result<Tap> {
        let socket = namespace.run_in(open)?.context("cannot capture")?;
        socket.set_nonblocking(true)?;
        Ok(Tap { socket })
    }

    /// Returns the Ethernet frames since the last call.
    ///
    /// # Errors
    /// The packet socket has failed.
    pub fn frames(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut frames = Vec::new();
        let mut frame = vec![0; LONGEST_FRAME];
        while frames.len() < MAX_LATE {
            match self.socket.read(&mut frame) {
                Ok(length) => frames.push(frame[..length].to_vec()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_nothing(&error) => break,
                Err(error) => return Err(error).context("cannot capture"),
            }
        }
        Ok(frames)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // A drop without `stop` follows another failure, which is reported.
            let _ = self.end();
        }
    }
}

/// Opens a packet socket with the filter.
fn open() -> io::Result<Socket> {
    let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
    let mut socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.attach_filter(&SIGNALLING)?;
    // Frames received before the filter was attached are dropped; later ones match it.
    socket.set_nonblocking(true)?;
    let mut nowhere = [0; 1];
    while socket.read(&mut nowhere).is_ok() {}
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(MAX_WAIT))?;
    Ok(socket)
}

/// Writes frames until the end of the capture, then those that are still waiting.
fn record(
    mut socket: &Socket,
    mut pcap: PcapWriter<BufWriter<File>>,
    stop: &AtomicBool,
) -> io::Result<u64> {
    let mut frame = vec![0; LONGEST_FRAME];
    let mut late = 0;
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        if stopping {
            socket.set_nonblocking(true)?;
            late += 1;
        }
        match socket.read(&mut frame) {
            Ok(length) => {
                // A time before 1970 is written as 1970.
                let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                pcap.packet(at, &frame[..length])?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_nothing(&error) && !stopping => {}
            Err(error) if is_nothing(&error) => break,
            // One interface went down: others may be up.
            Err(error) if error.kind() == ErrorKind::NetworkDown => {}
            Err(error) => return Err(error),
        }
        if late > MAX_LATE {
            break;
        }
    }
    pcap.finish()
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Writes the packets that a node of the simulator sent and received, with the times of its clock. Returns their
/// number.
///
/// # Errors
/// The file cannot be written.
pub fn write_tapped(file: &Path, tapped: &[CapturedPacket]) -> Result<u64> {
    let write = || -> io::Result<u64> {
        let mut pcap = PcapWriter::new(BufWriter::new(create(file)?), LinkType::RawIp)?;
        for CapturedPacket { at, octets, .. } in tapped {
            pcap.packet(at.since(Time::ZERO), octets)?;
        }
        pcap.finish()
    };
    match write() {
        Ok(packets) => Ok(packets),
        Err(error) => bail!("cannot write {}: {error}", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{DemoNetwork, OnSimulator, Plan, ROUTER, Stream};
    use crate::protocols::PROTOCOLS;
    use earmark_scenario::topology::{DEMO, Topology};

    #[test]
    fn device_is_written_as_it_is() {
        let null = Path::new("/dev/null");
        let mode = || fs::metadata(null).unwrap().permissions();
        let before = mode();
        assert_eq!(write_tapped(null, &[]).unwrap(), 0);
        assert_eq!(mode(), before);
    }

    /// The decoder also reads the packets of the simulator's router, which shows that they are well-formed.
    #[test]
    fn the_simulators_signalling_can_be_read() {
        let plan = Plan::default();
        let mut network = OnSimulator::new(Topology::parse(DEMO).unwrap(), plan.clone(), 1);
        network.tap(ROUTER).unwrap();
        for by in PROTOCOLS {
            let within = Duration::from_secs(1);
            network.reserve(by, Stream::Measured, plan.stream.rate, within).unwrap();
            network.release(Stream::Measured).unwrap();
            network.wait(within).unwrap();
        }
        let tapped = network.take_captured(ROUTER).unwrap();
        let name = format!("earmark-tapped-{}.pcap", std::process::id());
        let file = std::env::temp_dir().join(name);
        let packets = write_tapped(&file, &tapped).unwrap();
        let octets = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let mut lines = Vec::new();
        let format = earmark_decode::Format::Json;
        let summary = earmark_decode::decode(&octets[..], &mut lines, format).unwrap();
        assert_eq!((summary.messages, summary.malformed), (packets, 0));
        let text = String::from_utf8(lines).unwrap();
        for (kind, count) in [("Path", 2), ("Resv", 2), ("ResvConf", 2), ("PathTear", 2)] {
            assert_eq!(text.matches(&format!("\"message\":\"{kind}\"")).count(), count, "{kind}");
        }
        // Forwards and back; once for the reservation and once for the release.
        for (kind, count) in [("echo", 4), ("echo reply", 4), ("active", 2), ("release", 2)] {
            assert_eq!(text.matches(&format!("\"message\":\"{kind}\"")).count(), count, "{kind}");
        }
    }
}
