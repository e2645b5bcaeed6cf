//! Scenario on h1 - r1 - r2 - h2 with all kinds of messages at r1, and its capture: over IPv4, over IPv6, and signed.

use std::fs::Permissions;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_control::Client;
use earmark_control::protocols::rsvp::ListenOptions;
use earmark_control::{ListenRequest, Opened, ReservationRequest, StyleName};
use earmark_core::Rate;
use earmark_lab::capture::Capture;
use earmark_lab::testbed::{Options, Settings, Testbed};
use earmark_linux::link;
use earmark_node::Event;
use earmark_rsvp as rsvp;
use earmark_scenario::topology::{DEMO, Topology};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{
    Body, Carried, Message, Path, RsvpHop, SenderDescriptor, SenderTemplate, Session,
    SourceSelector,
};
use earmark_wire::{ipv4, ipv6};
use socket2::{Domain, Socket, Type};

use crate::engine_event::engine_event;

/// Refresh period R of all nodes.
const REFRESH: Duration = Duration::from_secs(1);
/// Timeout of a step, for a machine with much other load.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of state checks.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Settings that enable Hello.
const HELLO: &str = "[rsvp.hello]\ninterval = \"500ms\"\n";

/// Variant of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Over IPv4.
    Four,
    /// Over IPv6.
    Six,
    /// Over IPv4, with INTEGRITY in each message, and a challenge of each neighbor.
    Signed,
}

/// IP protocol numbers.
const RSVP: u8 = 46;
const UDP: u8 = 17;
/// Protocol of a raw socket whose packets include their IP header (`IPPROTO_RAW`).
const RAW: i32 = 255;

/// Kind of message: its number in the common header, and its name.
pub(crate) type Kind = (u8, &'static str);

/// Kinds of RFC 2205.
const KINDS: [Kind; 7] = [
    (1, "Path"),
    (2, "Resv"),
    (3, "PathErr"),
    (4, "ResvErr"),
    (5, "PathTear"),
    (6, "ResvTear"),
    (7, "ResvConf"),
];
/// Bundle of RFC 2961, with several messages.
pub(crate) const BUNDLE: Kind = (12, "Bundle");
/// Kinds of RFC 2961, and Hello, which the settings enable.
const EXCHANGE: [Kind; 4] = [BUNDLE, (13, "Ack"), (15, "Srefresh"), (20, "Hello")];
/// Kinds of RFC 2747.
const HANDSHAKE: [Kind; 2] = [(25, "Integrity Challenge"), (26, "Integrity Response")];

impl Variant {
    pub(crate) const ALL: [Variant; 3] = [Variant::Four, Variant::Six, Variant::Signed];

    /// Returns the suffix of a test's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Variant::Four => "over_ipv4",
            Variant::Six => "over_ipv6",
            Variant::Signed => "signed",
        }
    }

    /// Returns the kinds of messages that always occur, by number.
    pub(crate) fn kinds(self) -> Vec<Kind> {
        let mut kinds = [&KINDS[..], &EXCHANGE].concat();
        if self == Variant::Signed {
            // The PathErr follows from a handmade Path, which is unsigned and so would be dropped.
            kinds.retain(|(_, name)| *name != "PathErr");
            kinds.extend(HANDSHAKE);
        }
        kinds
    }
}

/// The capture; dropping the value removes its file.
pub(crate) struct Recorded {
    pub(crate) variant: Variant,
    pub(crate) file: PathBuf,
    pub(crate) frames: u64,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // A temporary file that is already gone needs no removal.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Runs the scenario; the error is text, because every test reports it.
pub(crate) fn play(variant: Variant) -> Result<Recorded, String> {
    record(variant).map_err(|error| format!("{error:#}"))
}

fn record(variant: Variant) -> Result<Recorded> {
    let mut topology = match variant {
        Variant::Six => Topology::parse(&format!("ipv6 = true\n{DEMO}"))?,
        Variant::Four | Variant::Signed => Topology::parse(DEMO)?,
    };
    topology.name = format!("earmark-foreign-{}-{variant:?}", std::process::id());
    let file = std::env::temp_dir().join(format!("{}.pcap", topology.name));
    let mut recorded = Recorded { variant, file, frames: 0 };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_earmark-lab"));
    let mut options = Options { bound: true, ..Options::new(program, REFRESH) };
    options.settings.protocols.insert("rsvp", HELLO.to_owned());
    let keys = recorded.file.with_extension("toml");
    if variant == Variant::Signed {
        options.settings = signed(&keys)?;
    }
    let testbed = Testbed::up(topology, options);
    if variant == Variant::Signed {
        // Daemons read the keys at their start only.
        std::fs::remove_file(&keys)?;
    }
    let testbed = testbed?;
    let capture = Capture::start(testbed.namespace(1), &recorded.file)?;
    let mut network = Network::of(&testbed, variant)?;

    // Path, Resv and ResvConf.
    let first = network.open(5_001, Rate::from_mbps(2))?;
    network.receive("the confirmation", |event| matches!(event, rsvp::Event::Confirmed { .. }))?;
    // Other objects: shared styles, and in IPv6 a flow label.
    let mut shared = Vec::new();
    for (port, style) in [(5_005, StyleName::Wf), (5_006, StyleName::Se)] {
        shared.push(network.open_shared(port, style, variant)?);
        network
            .receive("the confirmation", |event| matches!(event, rsvp::Event::Confirmed { .. }))?;
    }
    // ResvErr: 4 + 8 Mbit/s exceed the 7.5 behind r1.
    let second = network.open(5_003, Rate::from_mbps(8))?;
    network.receive("the refusal", |event| matches!(event, rsvp::Event::ResvError { .. }))?;
    // PathErr: a sender of the same host with and one without a port (RFC 2205 section 3.2). Handmade messages are
    // unsigned.
    if variant != Variant::Signed {
        send_by_hand(&testbed, network.addresses)?;
        network.wait("the PathErr", |r1| {
            Ok(r1.show_counters()?["rsvp"]["sent"]["path_err"].as_u64() == Some(1))
        })?;
    }
    // Bundle: a change of the link's MTU changes the Path messages of all sessions through it at the same time.
    link::set_mtu(testbed.namespace(1), "eth1", 1_400)?;
    network.wait("the Bundle", |r1| {
        Ok(r1.show_counters()?["rsvp"]["sent"]["bundle"].as_u64() >= Some(1))
    })?;
    // Refreshes: their number depends on the time.
    std::thread::sleep(REFRESH * 2);
    // ResvTear, then PathTear.
    for [_, receiver] in shared.iter().chain([&first]) {
        network.h2.release(receiver.application)?;
    }
    network.wait("the ResvTear", |r1| Ok(r1.show_reservations()?.rows.is_empty()))?;
    for [sender, _] in shared.iter().chain([&first, &second]) {
        network.h1.release(sender.application)?;
    }
    network.wait("the PathTears", |r1| Ok(r1.show_sessions()?.rows.is_empty()))?;
    recorded.frames = capture.stop()?;
    Ok(recorded)
}

/// Writes one key for all nodes to a file of its own; returns the settings that use it.
fn signed(keys: &std::path::Path) -> Result<Settings> {
    let key =
        "[[key]]\nid = 1\nalgorithm = \"hmac-sha-256\"\nsecret = \"a secret of this test alone\"\n";
    std::fs::write(keys, key)?;
    std::fs::set_permissions(keys, Permissions::from_mode(0o600))?;
    let integrity =
        format!("[integrity]\nkeys = \"{}\"\nhandshake = \"required\"\n", keys.display());
    Ok(Settings {
        protocols: [("rsvp", format!("{HELLO}{integrity}"))].into(),
        interface: "integrity = { rsvp = \"both\" }\n".to_owned(),
        ..Settings::default()
    })
}

/// Daemons with clients.
struct Network {
    /// Addresses of h1 and h2.
    addresses: [IpAddr; 2],
    h1: Client,
    r1: Client,
    h2: Client,
}

impl Network {
    fn of(testbed: &Testbed, variant: Variant) -> Result<Network> {
        let client = |node| Client::connect(testbed.control(node));
        let topology = testbed.topology();
        let address = |node| {
            let (end, _) = topology.interfaces(node).next().context("a node without a link")?;
            match variant {
                Variant::Six => end.address6.map(IpAddr::from).context("no IPv6"),
                Variant::Four | Variant::Signed => Ok(end.address.into()),
            }
        };
        let addresses = [address(0)?, address(3)?];
        Ok(Network { addresses, h1: client(0)?, r1: client(1)?, h2: client(3)? })
    }

    /// Requests a reservation with confirmation at h2, and announces the sender at h1; returns both.
    fn open(&mut self, port: u16, rate: Rate) -> Result<[Opened; 2]> {
        let [h1, h2] = self.addresses;
        let to = SocketAddr::from((h2, port));
        let receiver = self
            .h2
            .reserve(ReservationRequest { follow: true, ..ReservationRequest::new(to, rate) })?;
        let from = Some(SocketAddr::from((h1, port)));
        let sender =
            self.h1.sender(ReservationRequest { from, ..ReservationRequest::new(to, rate) })?;
        Ok([sender, receiver])
    }

    /// Opens a session in a style with shared reservations; in IPv6 with a sender that is identified by its flow
    /// label.
    fn open_shared(
        &mut self,
        port: u16,
        style: StyleName,
        variant: Variant,
    ) -> Result<[Opened; 2]> {
        let to = SocketAddr::from((self.addresses[1], port));
        let options = ListenOptions { style, confirm: true, ..ListenOptions::default() };
        let listen = ListenRequest { follow: true, ..ListenRequest::new(to).with(&options) };
        let receiver = self.h2.listen(listen)?;
        let flow_label = (variant == Variant::Six).then_some(0x12345);
        let sender =
            ReservationRequest { flow_label, ..ReservationRequest::new(to, Rate::from_mbps(1)) };
        Ok([self.h1.sender(sender)?, receiver])
    }

    /// Waits until h2 receives an event.
    fn receive(&mut self, what: &str, wanted: impl Fn(&rsvp::Event) -> bool) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while let Some(notice) = self.h2.next_event(Some(deadline))? {
            let event = engine_event(&notice);
            if matches!(&event, Some(Event::Rsvp(event)) if wanted(event)) {
                return Ok(());
            }
        }
        bail!("h2 did not hear {what}")
    }

    /// Waits for a condition at r1.
    fn wait(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Client) -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !is_so(&mut self.r1)? {
            if Instant::now() > deadline {
                bail!("r1 still has not: {what}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// Sends a Path for the first session from h1 without its daemon, and without a source port.
fn send_by_hand(testbed: &Testbed, [h1, h2]: [IpAddr; 2]) -> Result<()> {
    let template = SenderTemplate { source: h1, selector: SourceSelector::Port(0) };
    let tspec = TokenBucket {
        rate: 250_000.0,
        depth: 10_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };
    let path = Path {
        session: Session { destination: h2, protocol: UDP, flags: 0, port: 5_001 },
        hop: RsvpHop { address: h1, lih: 7 },
        refresh_ms: 1_000,
        carried: Carried::Objects(&[]),
        sender: SenderDescriptor { template, tspec, adspec: None },
    };
    let message = Message::new(64, Body::Path(path));
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).context("a Path that cannot be")?;
    let mut packet = header(h1, h2, octets.len())?;
    packet.extend(octets);
    let raw = || Socket::new(Domain::for_address((h2, 0).into()), Type::RAW, Some(RAW.into()));
    let socket = testbed.namespace(0).run_in(raw)??;
    socket.send_to(&packet, &SocketAddr::new(h2, 0).into())?;
    Ok(())
}

/// Returns an IP header with router alert for a payload of this length.
fn header(source: IpAddr, destination: IpAddr, payload_len: usize) -> Result<Vec<u8>> {
    let mut octets = Vec::new();
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = ipv4::Repr {
                tos: 0xc0,
                identification: 0,
                dont_fragment: false,
                ttl: 64,
                protocol: RSVP,
                source,
                destination,
                router_alert: Some(0),
                payload_len,
            };
            octets.resize(header.header_len(), 0);
            header.emit(&mut octets).context("a header that cannot be")?;
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = ipv6::Repr {
                traffic_class: 0xc0,
                flow_label: 0,
                hop_limit: 64,
                source,
                destination,
                router_alert: Some(earmark_wire::rsvp::iana::ROUTER_ALERT),
                next_header: RSVP,
                payload_len,
            };
            octets.resize(header.header_len(), 0);
            header.emit(&mut octets).context("a header that cannot be")?;
        }
        _ => bail!("{source} and {destination} are of two families"),
    }
    Ok(octets)
}
