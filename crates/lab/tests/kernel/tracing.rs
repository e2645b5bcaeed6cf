//! Command `trace` through real daemons, with a router without RSVP in the middle, and with a silent one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use earmark_control::Client;
use earmark_control::{ListenRequest, ReservationRequest, Trace};
use earmark_core::Rate;
use earmark_decode::{Format, decode};
use earmark_lab::capture::Capture;
use earmark_lab::testbed::{Options, Settings, Testbed};
use earmark_node::Event;
use earmark_rsvp as rsvp;
use earmark_rsvp::diagnostics::{TraceEnd, TraceHop};
use earmark_scenario::topology::Topology;
use earmark_wire::rsvp::{
    Body, Carried, Diagnosis, Diagnostic, FilterSpec, List, Message, Route, RsvpHop, Session,
    SourceSelector,
};
use libtest_mimic::Failed;
use socket2::{Domain, Protocol, Socket, Type};

use crate::engine_event::engine_event;
use crate::{LAB, Outcome};

/// h1 - r1 - x - r2 - h2: addresses 10.0.N.1 and 10.0.N.2 on the Nth link, from 0.
const CHAIN: &str = r#"
name = "chain"
node = [{ name = "h1" }, { name = "r1" }, { name = "x" }, { name = "r2" }, { name = "h2" }]
[[link]]
ends = ["h1", "r1"]
bandwidth = "100Mbit"
[[link]]
ends = ["r1", "x"]
bandwidth = "100Mbit"
[[link]]
ends = ["x", "r2"]
bandwidth = "100Mbit"
[[link]]
ends = ["r2", "h2"]
bandwidth = "100Mbit"
"#;
const H1: usize = 0;
const R1: usize = 1;
const X: usize = 2;
const R2: usize = 3;
const H2: usize = 4;

/// Refresh period so long that no refresh reveals r1's death to r2 during a trace.
const REFRESH: Duration = Duration::from_secs(60);
/// Timeout of a step.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The answer is the same from any node: x is skipped and counted. A program on x, which has no daemon, gets the
/// answer inside UDP. After the death of r1's daemon the trace reports it. Decoders can read the queries and replies
/// that passed r2.
pub(crate) fn a_trace_shows_hops_without_rsvp_and_silent_ones() -> Outcome {
    let mut topology = Topology::parse(CHAIN)?;
    topology.name = format!("earmark-test-{}", std::process::id());
    // r1 and x ask h2 about a flow that is not theirs, and x has no daemon between its neighbours.
    let interface = "neighbors = [\"10.0.0.0/8\"]\n".to_owned();
    let settings = Settings { all_core: true, interface, ..Settings::default() };
    let options = Options { bound: true, settings, ..Options::new(PathBuf::from(LAB), REFRESH) };
    let mut testbed = Testbed::up(topology, options)?;
    testbed.kill_daemon(X)?;
    let file = std::env::temp_dir().join(format!("earmark-trace-{}.pcap", std::process::id()));
    let capture = Capture::start(testbed.namespace(R2), &file)?;
    reserve(&testbed)?;

    for node in [H2, H1, R1] {
        let began = Instant::now();
        let (hops, end) = trace(&testbed, node)?;
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(end, TraceEnd::Sender, "{hops:?}");
        let nodes: Vec<_> = hops.iter().map(|hop| (hop.incoming, hop.ip_hops)).collect();
        let at = |text: &str| -> Option<IpAddr> { text.parse().ok() };
        // The path of the query to h2 differs from that of the data; from h2 itself there is none.
        let first = (at("10.0.3.2"), nodes[0].1);
        assert_eq!(
            nodes,
            [first, (at("10.0.2.2"), 1), (at("10.0.0.2"), 2), (None, 1)],
            "h2, r2, r1 past x, and h1"
        );
        for hop in &hops {
            let flowspec = hop.flowspec.ok_or("nothing is reserved")?;
            assert_eq!(flowspec.token_bucket().rate, 250_000.0, "{hop:?}");
            assert_eq!((hop.refresh_s, hop.refresh_multiple), (60, 3));
        }
        // All nodes have the same clock here.
        let arrivals: Vec<u32> = hops.iter().map(|hop| hop.arrival).collect();
        let spread = arrivals[arrivals.len() - 1].wrapping_sub(arrivals[0]);
        assert!(spread < 65_536, "within a second: {arrivals:?}");
    }

    for by_route in [false, true] {
        ask_without_daemon(&testbed, by_route)?;
    }

    testbed.kill_daemon(R1)?;
    let (hops, end) = trace(&testbed, H2)?;
    assert_eq!(hops.len(), 2, "{hops:?}");
    assert_eq!(end, TraceEnd::Silent { node: "10.0.1.1".parse()? });
    let frames = capture.stop()?;
    let read = check_capture(&file, frames);
    std::fs::remove_file(&file)?;
    read
}

/// Requests 2 Mbit/s from h1 to h2, and waits until they are reserved.
fn reserve(testbed: &Testbed) -> Outcome {
    let to: SocketAddr = "10.0.3.2:5001".parse()?;
    Client::connect(testbed.control(H2))?.listen(ListenRequest::new(to))?;
    let mut h1 = Client::connect(testbed.control(H1))?;
    h1.sender(ReservationRequest {
        follow: true,
        ..ReservationRequest::new(to, Rate::from_mbps(2))
    })?;
    let deadline = Some(Instant::now() + TIMEOUT);
    while let Some(notice) = h1.next_event(deadline)? {
        if notice.is("rsvp", "resv") {
            return Ok(());
        }
    }
    Err("no reservation has arrived".into())
}

fn trace(testbed: &Testbed, node: usize) -> Result<(Vec<TraceHop>, TraceEnd), Failed> {
    let mut client = Client::connect(testbed.control(node))?;
    client.trace(Trace::new("10.0.3.2:5001".parse()?))?;
    let deadline = Some(Instant::now() + 2 * TIMEOUT);
    while let Some(notice) = client.next_event(deadline)? {
        if let Some(Event::Rsvp(rsvp::Event::Traced { hops, end, .. })) = engine_event(&notice) {
            return Ok((hops, end));
        }
    }
    Err("the trace does not end".into())
}

/// Sends a handmade query from x about the path from r2 on; its reply comes to a UDP socket (RFC 2745 section 6),
/// from the sender's host directly, or along the ROUTE and from r2.
fn ask_without_daemon(testbed: &Testbed, by_route: bool) -> Outcome {
    let (own, r2) = (Ipv4Addr::new(10, 0, 2, 1), Ipv4Addr::new(10, 0, 2, 2));
    let socket = testbed.namespace(X).run_in(|| UdpSocket::bind((own, 0)))??;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let filter = |source: Ipv4Addr, port| FilterSpec {
        source: source.into(),
        selector: SourceSelector::Port(port),
    };
    let destination = "10.0.3.2".parse()?;
    let question = Diagnosis {
        session: Session { destination, protocol: 17, flags: 0, port: 5001 },
        hop: RsvpHop { address: own.into(), lih: 0 },
        diagnostic: Diagnostic {
            max_hops: 0,
            hop_count: 0,
            more_fragments: false,
            request_id: 7,
            path_mtu: 1_400,
            fragment_offset: 0,
            last_hop: r2.into(),
            sender: filter(Ipv4Addr::new(10, 0, 0, 1), 0),
            requester: filter(own, socket.local_addr()?.port()),
        },
        select: None,
        route: by_route.then_some(Route { pointer: 0, nodes: List::EMPTY }),
        responses: List::EMPTY,
        carried: Carried::Objects(&[]),
    };
    let message = Message::new(64, Body::Dreq(question));
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets)?;
    let raw = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(46)));
    let sender = testbed.namespace(X).run_in(raw)??;
    sender.bind(&SocketAddr::from((own, 0)).into())?;
    sender.set_ttl_v4(64)?;
    sender.send_to(&octets, &SocketAddr::from((r2, 0)).into())?;
    let mut packet = [0; 2_048];
    let (length, from) = socket.recv_from(&mut packet)?;
    let expected = if by_route { r2 } else { Ipv4Addr::new(10, 0, 0, 1) };
    assert_eq!(from.ip(), expected);
    let Body::Drep(answer) = Message::parse(&packet[..length])?.body else {
        return Err("not an answer".into());
    };
    assert_eq!(answer.diagnostic.request_id, 7);
    let hops: Vec<u8> = answer.responses.iter().map(|response| response.ip_hops).collect();
    assert_eq!(hops, [1, 2, 1], "r2, r1 past x, and h1");
    Ok(())
}

/// Our decoder and, if available, tshark find all queries and replies well-formed.
fn check_capture(file: &Path, frames: u64) -> Outcome {
    let mut lines = Vec::new();
    let summary = decode(std::fs::File::open(file)?, &mut lines, Format::Json)?;
    assert_eq!((summary.messages, summary.malformed), (frames, 0));
    let text = String::from_utf8(lines)?;
    for kind in ["\"DREQ\"", "\"DREP\""] {
        assert!(text.matches(kind).count() >= 6, "{kind}: {text}");
    }
    let Ok(output) = Command::new("tshark").arg("-r").arg(file).args(["-Y", COMPLAINTS]).output()
    else {
        return Ok(());
    };
    let complaints = String::from_utf8_lossy(&output.stdout);
    if complaints.is_empty() { Ok(()) } else { Err(format!("tshark: {complaints}").into()) }
}

/// Filter of tshark for malformed frames.
const COMPLAINTS: &str = "_ws.malformed or _ws.expert or _ws.short or not rsvp";
