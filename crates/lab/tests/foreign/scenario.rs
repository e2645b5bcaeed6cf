//! A scenario on h1 - r1 - r2 - h2 in which all seven kinds of message pass r1, and its capture.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark::client::Client;
use earmark::control::protocol::{Opened, Send};
use earmark_core::Rate;
use earmark_lab::capture::Capture;
use earmark_lab::testbed::{Options, Testbed};
use earmark_lab::topology::{DEMO, Topology};
use earmark_node::Event;
use earmark_rsvp as rsvp;
use earmark_wire::intserv::TokenBucket;
use earmark_wire::ipv4;
use earmark_wire::rsvp::{
    Body, Carried, Message, Path, RsvpHop, SenderDescriptor, SenderTemplate, Session,
    SourceSelector,
};
use socket2::{Domain, Protocol, Socket, Type};

/// Refresh period R of all nodes.
const REFRESH: Duration = Duration::from_secs(1);
/// No step takes longer on a machine that is not overloaded many times.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often states are looked at.
const LOOK: Duration = Duration::from_millis(10);

const H1: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const H2: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// IP protocol numbers.
const RSVP: u8 = 46;
const UDP: u8 = 17;
/// A raw socket of this protocol sends packets whose IP header is the sender's (`IPPROTO_RAW`).
const RAW: i32 = 255;

/// The capture; its file goes when this is dropped.
pub(crate) struct Recorded {
    pub(crate) file: PathBuf,
    pub(crate) frames: u64,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // A temporary file that is gone already is what was wanted.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Plays it; the error in words, since it is told to every test.
pub(crate) fn play() -> Result<Recorded, String> {
    record().map_err(|error| format!("{error:#}"))
}

fn record() -> Result<Recorded> {
    let mut topology = Topology::parse(DEMO)?;
    topology.name = format!("earmark-foreign-{}", std::process::id());
    let file = std::env::temp_dir().join(format!("{}.pcap", topology.name));
    let mut recorded = Recorded { file, frames: 0 };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_earmark-lab"));
    let testbed = Testbed::up(topology, Options { bound: true, ..Options::new(program, REFRESH) })?;
    let capture = Capture::start(testbed.namespace(1), &recorded.file)?;
    let mut network = Network::of(&testbed)?;

    // Path, Resv and ResvConf.
    let first = network.open(5_001, Rate::from_mbps(2))?;
    network.hear("the confirmation", |event| matches!(event, rsvp::Event::Confirmed { .. }))?;
    // ResvErr: 2 + 8 Mbit/s do not fit the 7.5 behind r1.
    let second = network.open(5_003, Rate::from_mbps(8))?;
    network.hear("the refusal", |event| matches!(event, rsvp::Event::ResvError { .. }))?;
    // PathErr: a sender of the same host with and one without a port (RFC 2205 section 3.2).
    send_by_hand(&testbed, 0)?;
    network.wait("the PathErr", |r1| {
        Ok(r1.show_counters()?["rsvp"]["sent"]["path_err"].as_u64() == Some(1))
    })?;
    // Refreshes, of which there are as many as time passes.
    std::thread::sleep(REFRESH * 2);
    // ResvTear, then PathTear.
    network.h2.release(first[1].application)?;
    network.wait("the ResvTear", |r1| Ok(r1.show_reservations()?.rows.is_empty()))?;
    for opened in [&first[0], &second[0]] {
        network.h1.release(opened.application)?;
    }
    network.wait("the PathTears", |r1| Ok(r1.show_sessions()?.rows.is_empty()))?;
    recorded.frames = capture.stop()?;
    Ok(recorded)
}

/// The daemons that are asked for something.
struct Network {
    h1: Client,
    r1: Client,
    h2: Client,
}

impl Network {
    fn of(testbed: &Testbed) -> Result<Network> {
        let client = |node| Client::connect(testbed.control(node));
        Ok(Network { h1: client(0)?, r1: client(1)?, h2: client(3)? })
    }

    /// Asks for a reservation with confirmation at h2, and announces the sender at h1: what was opened at both.
    fn open(&mut self, port: u16, rate: Rate) -> Result<[Opened; 2]> {
        let to = SocketAddr::from((H2, port));
        let receiver = self.h2.reserve(Send { follow: true, ..Send::new(to, rate) })?;
        let from = Some(SocketAddr::from((H1, port)));
        let sender = self.h1.sender(Send { from, ..Send::new(to, rate) })?;
        Ok([sender, receiver])
    }

    /// Waits until h2 hears something.
    fn hear(&mut self, what: &str, wanted: impl Fn(&rsvp::Event) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(notice) = self.h2.next_event(Some(deadline))? {
            if matches!(&notice.event, Event::Rsvp(event) if wanted(event)) {
                return Ok(());
            }
        }
        bail!("h2 did not hear {what}")
    }

    /// Waits until something is so at r1.
    fn wait(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Client) -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&mut self.r1)? {
            if Instant::now() > deadline {
                bail!("r1 still has not: {what}");
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Sends a Path for the first session from h1, past its daemon, with this source port.
fn send_by_hand(testbed: &Testbed, port: u16) -> Result<()> {
    let template = SenderTemplate { source: H1.into(), selector: SourceSelector::Port(port) };
    let tspec = TokenBucket {
        rate: 250_000.0,
        depth: 10_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };
    let path = Path {
        session: Session { destination: H2.into(), protocol: UDP, flags: 0, port: 5_001 },
        hop: RsvpHop { address: H1.into(), lih: 7 },
        refresh_ms: 1_000,
        carried: Carried::Objects(&[]),
        sender: SenderDescriptor { template, tspec, adspec: None },
    };
    let message = Message::new(64, Body::Path(path));
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).context("a Path that cannot be")?;
    let header = ipv4::Repr {
        tos: 0xc0,
        identification: 0,
        dont_fragment: false,
        ttl: 64,
        protocol: RSVP,
        source: H1,
        destination: H2,
        router_alert: Some(0),
        payload_len: octets.len(),
    };
    let mut packet = vec![0; header.header_len()];
    header.emit(&mut packet).context("a header that cannot be")?;
    packet.extend(octets);
    let raw = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW)));
    let socket = testbed.namespace(0).run_in(raw)??;
    socket.send_to(&packet, &SocketAddrV4::new(H2, 0).into())?;
    Ok(())
}
