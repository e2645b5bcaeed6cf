//! Captures of signalling: the RSVP packets that pass a node, written to a pcap file for any tool to read.
//!
//! In a namespace a packet socket sees every frame on every interface, arriving and leaving, so that a message which a
//! router passes on is there twice. A filter in the kernel lets nothing but RSVP through, however much data goes by; each
//! fragment of a message is a frame of its own. Times are those at which this program was told, some microseconds late.
//!
//! The simulator's packets have no link layer, and its time starts at zero: [`write_tapped`] writes those.

mod pcap;

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use earmark_core::Time;
use earmark_linux::netns::Namespace;
use earmark_sim::Tapped;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

pub use pcap::{LinkType, PcapWriter};

/// `ETH_P_ALL`: frames of every protocol, outgoing ones included.
const ALL_PROTOCOLS: u16 = 3;
/// Octets of the longest frame that is kept whole.
const LONGEST_FRAME: usize = 1 << 16;
/// Frames may wait in so many octets of kernel memory.
const RECEIVE_BUFFER: usize = 4 << 20;
/// How long a read waits, and so how soon a capture ends when it is told to.
const NAP: Duration = Duration::from_millis(50);
/// Frames that are still taken once the capture was told to end: what was waiting then, however much follows.
const MOST_LATE: usize = 10_000;

/// RSVP over IP in Ethernet, as classic BPF. IPv4: EtherType 0x0800 at octet 12, protocol 46 at octet 23. IPv6: EtherType
/// 0x86dd, next header 46 at octet 20, or 0 there and 46 at octet 54, behind hop-by-hop options.
const RSVP: [SockFilter; 12] = [
    SockFilter::new(0x28, 0, 0, 12),          // load the half-word at 12
    SockFilter::new(0x15, 0, 2, 0x0800),      // not IPv4: two on
    SockFilter::new(0x30, 0, 0, 23),          // load the octet at 23
    SockFilter::new(0x15, 6, 7, 46),          // RSVP: take it; else nothing
    SockFilter::new(0x15, 0, 6, 0x86dd),      // not IPv6: nothing
    SockFilter::new(0x30, 0, 0, 20),          // load the octet at 20
    SockFilter::new(0x15, 3, 0, 46),          // RSVP: take it
    SockFilter::new(0x15, 0, 3, 0),           // no hop-by-hop options: nothing
    SockFilter::new(0x30, 0, 0, 54),          // load the octet at 54
    SockFilter::new(0x15, 0, 1, 46),          // not RSVP: nothing
    SockFilter::new(0x06, 0, 0, 0xffff_ffff), // take all of it
    SockFilter::new(0x06, 0, 0, 0),           // take nothing
];

/// A capture at work, on a thread of its own. Dropped, it ends as well; its file is whole in either case.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    /// How many frames were written; `None` once the thread was joined.
    thread: Option<JoinHandle<io::Result<u64>>>,
}

impl Capture {
    /// Begins to write the RSVP packets on all interfaces of a namespace to `file`, in place of what it held.
    ///
    /// # Errors
    /// The file cannot be written; no packet socket is to be had (it takes CAP_NET_RAW).
    pub fn start(namespace: &Namespace, file: &Path) -> Result<Capture> {
        let refused = || format!("cannot capture in {}", namespace.name());
        // A socket stays in the namespace that it was opened in, whatever thread uses it.
        let socket = namespace.run_in(open).and_then(|opened| opened).with_context(refused)?;
        let cannot_write = || format!("cannot write {}", file.display());
        let out = BufWriter::new(File::create(file).with_context(cannot_write)?);
        let pcap = PcapWriter::new(out, LinkType::Ethernet).with_context(cannot_write)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("capture".into());
        let thread = thread.spawn(move || record(&socket, pcap, &told))?;
        Ok(Capture { stop, thread: Some(thread) })
    }

    /// Ends it: how many frames are in the file.
    ///
    /// # Errors
    /// What ended it earlier, or kept the file from being written.
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

impl Drop for Capture {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Whoever drops a capture has failed already, and says why.
            let _ = self.end();
        }
    }
}

/// A socket that gets the frames wanted.
fn open() -> io::Result<Socket> {
    let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
    let mut socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.attach_filter(&RSVP)?;
    // What came before the filter stood is anything; after it nothing else can come.
    socket.set_nonblocking(true)?;
    let mut nowhere = [0; 1];
    while socket.read(&mut nowhere).is_ok() {}
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(NAP))?;
    Ok(socket)
}

/// Writes frames until it is told to stop, then what is still waiting.
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
                // A clock that stands before 1970 is shown as 1970.
                let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                pcap.packet(at, &frame[..length])?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_nothing(&error) && !stopping => {}
            Err(error) if is_nothing(&error) => break,
            // The interface went down: others may be up.
            Err(error) if error.kind() == ErrorKind::NetworkDown => {}
            Err(error) => return Err(error),
        }
        if late > MOST_LATE {
            break;
        }
    }
    pcap.finish()
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Writes what a node of the simulator sent and received; times are those of its clock. Returns how many packets.
///
/// # Errors
/// The file cannot be written.
pub fn write_tapped(file: &Path, tapped: &[Tapped]) -> Result<u64> {
    let write = || -> io::Result<u64> {
        let mut pcap = PcapWriter::new(BufWriter::new(File::create(file)?), LinkType::RawIp)?;
        for Tapped { at, octets } in tapped {
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
    use crate::demo::{OnSimulator, Plan, ROUTER, Stage, Stream};
    use crate::topology::{DEMO, Topology};

    /// The same decoder reads what the simulator's router saw, and what it saw was fit to be sent.
    #[test]
    fn the_simulators_signalling_can_be_read() {
        let plan = Plan::default();
        let mut stage = OnSimulator::new(Topology::parse(DEMO).unwrap(), plan.clone(), 1);
        stage.tap(ROUTER).unwrap();
        stage
            .reserve(
                earmark_sim::Protocol::Rsvp,
                Stream::Measured,
                plan.stream.rate,
                Duration::from_secs(1),
            )
            .unwrap();
        stage.release(Stream::Measured).unwrap();
        stage.wait(Duration::from_secs(1)).unwrap();
        let tapped = stage.take_tapped(ROUTER).unwrap();
        let name = format!("earmark-tapped-{}.pcap", std::process::id());
        let file = std::env::temp_dir().join(name);
        let packets = write_tapped(&file, &tapped).unwrap();
        let octets = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let mut lines = Vec::new();
        let format = earmark::decode::Format::Json;
        let summary = earmark::decode::decode(&octets[..], &mut lines, format).unwrap();
        assert_eq!((summary.messages, summary.malformed), (packets, 0));
        let text = String::from_utf8(lines).unwrap();
        for kind in ["Path", "Resv", "ResvConf", "PathTear"] {
            assert_eq!(text.matches(&format!("\"message\":\"{kind}\"")).count(), 2, "{kind}");
        }
    }
}
