//! `trace` through real daemons, with a router in the middle that speaks no RSVP; and what is said of one that is silent.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use earmark::client::Client;
use earmark::control::protocol::{Listen, Send, Trace};
use earmark::decode::{Format, decode};
use earmark_core::Rate;
use earmark_lab::capture::Capture;
use earmark_lab::testbed::{Options, Testbed};
use earmark_lab::topology::Topology;
use earmark_node::Event;
use earmark_rsvp as rsvp;
use earmark_rsvp::diagnostics::{TraceEnd, TraceHop};
use libtest_mimic::Failed;

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

/// So long that no refresh tells r2 of r1's death while a trace looks for it.
const REFRESH: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(10);

/// Asked from any node, the answer is the same: x is passed over and counted. When r1's daemon has died, the trace says so.
/// The questions and answers that passed r2 can be read by others.
pub(crate) fn a_trace_shows_hops_without_rsvp_and_silent_ones() -> Outcome {
    let mut topology = Topology::parse(CHAIN)?;
    topology.name = format!("earmark-test-{}", std::process::id());
    let options = Options { bound: true, ..Options::new(PathBuf::from(LAB), REFRESH) };
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
        // The way of the question to h2 is not the data's; from h2 itself there is none.
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
        // Every node has the same clock here.
        let arrivals: Vec<u32> = hops.iter().map(|hop| hop.arrival).collect();
        let spread = arrivals[arrivals.len() - 1].wrapping_sub(arrivals[0]);
        assert!(spread < 65_536, "within a second: {arrivals:?}");
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

/// 2 Mbit/s from h1 to h2, and waits until they are reserved.
fn reserve(testbed: &Testbed) -> Outcome {
    let to: SocketAddr = "10.0.3.2:5001".parse()?;
    Client::connect(testbed.control(H2))?.listen(Listen::new(to))?;
    let mut h1 = Client::connect(testbed.control(H1))?;
    h1.sender(Send { follow: true, ..Send::new(to, Rate::from_mbps(2)) })?;
    let deadline = Some(Instant::now() + PATIENCE);
    while let Some(notice) = h1.next_event(deadline)? {
        if matches!(notice.event, Event::Rsvp(rsvp::Event::Resv { .. })) {
            return Ok(());
        }
    }
    Err("no reservation has come up the path".into())
}

fn trace(testbed: &Testbed, node: usize) -> Result<(Vec<TraceHop>, TraceEnd), Failed> {
    let mut client = Client::connect(testbed.control(node))?;
    client.trace(Trace::new("10.0.3.2:5001".parse()?))?;
    let deadline = Some(Instant::now() + 2 * PATIENCE);
    while let Some(notice) = client.next_event(deadline)? {
        if let Event::Rsvp(rsvp::Event::Traced { hops, end, .. }) = notice.event {
            return Ok((hops, end));
        }
    }
    Err("the trace does not end".into())
}

/// Our decoder and tshark, where there is one, find questions and answers and nothing wrong with them.
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

/// What tshark may find wrong.
const COMPLAINTS: &str = "_ws.malformed or _ws.expert or _ws.short or not rsvp";
