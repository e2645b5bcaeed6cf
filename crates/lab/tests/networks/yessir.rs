//! YESSIR between real daemons: sender reports reserve, receivers answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use earmark_control::Client;
use earmark_control::protocols::yessir::{ReserveOptions, listen_request, request};
use earmark_control::{ListenRequest, Opened, ReservationRequest};
use earmark_core::Rate;
use earmark_scenario::topology::DEMO;
use earmark_testkit::wait::wait_for;
use earmark_wire::yessir::{FailureNote, FailureReason, OctetRate};
use earmark_yessir::Event;
use libtest_mimic::Failed;

use crate::Outcome;
use crate::engine_event::engine_event;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{Stream, loss, watch};

/// Port of the data; its reports use the next one.
pub(crate) const DATA_PORT: u16 = 5_006;
/// Timeout of state: three missing reports, each of them 1.3 seconds after the one before.
const SILENCE: Duration = Duration::from_millis(3_900);
/// Topology whose narrowest link is that to the receiver: three of its 4 Mbit/s are reservable.
const NARROW_END: &str = r#"
    node = [{ name = "h1" }, { name = "r1" }, { name = "r2" }, { name = "h2" }]
    link = [
        { ends = ["h1", "r1"], bandwidth = "100Mbit" },
        { ends = ["r1", "r2"], bandwidth = "10Mbit" },
        { ends = ["r2", "h2"], bandwidth = "4Mbit" },
    ]"#;

pub(crate) fn a_stream_over_ipv4() -> Outcome {
    a_stream(true)
}

pub(crate) fn a_stream_over_ipv6() -> Outcome {
    a_stream(false)
}

/// h1 announces a stream of 2 Mbit/s, and h2 answers: the stream is reserved on all three links, and loses nothing
/// beside a flood. It sends BYE at its end, and all reservations are released at once; the receiver is notified, too.
fn a_stream(ipv4: bool) -> Outcome {
    const WINDOW: Duration = Duration::from_secs(1);
    let net = up(&format!("ipv6 = {}\n{DEMO}", !ipv4), "rtp")?;
    let h2 = net.address("h2", ipv4);
    let mut receiver = Receiver::listen(&net, SocketAddr::new(h2, DATA_PORT))?;
    let mut sender = Sender::attach(&net, SocketAddr::new(h2, DATA_PORT), Rate::from_mbps(2))?;
    assert_eq!(sender.answered()?, []);
    assert_eq!(receiver.announced()?, []);
    for at in LINKS {
        net.await_reserved(at, &[2], SLACK)?;
    }
    let rows = net.client("r1")?.show_reservations()?.rows;
    assert_eq!((rows.len(), &*rows[0].protocol, &*rows[0].style), (1, "yessir", "individual"));
    assert_eq!((rows[0].senders[0].port, rows[0].destination_port), (DATA_PORT, DATA_PORT));

    let stream = Stream::between(&net, [DATA_PORT; 2], "h1", h2, &["h2"])?;
    let flood = Stream::flood(&net, "h1", "h2", ipv4)?;
    watch(Duration::from_millis(500));
    let since = watch(WINDOW);
    let heard = stream.stop()?;
    let lost = loss(&flood.stop()?[0], since, WINDOW);
    assert!(lost > 0.3, "the link is not full: the flood lost {lost}");
    assert_eq!(loss(&heard[0], since, WINDOW), 0.0);

    sender.release()?;
    for at in LINKS {
        net.await_reserved(at, &[], SLACK)?;
    }
    receiver.gone()
}

/// There are two streams of 2 Mbit/s, and the last link fits one: the second is reserved on the first two links, and
/// both its ends learn which node refused, and the available rate there. When the first one ends, r2 grants the freed
/// bandwidth to the second, and the next report is answered without a failure note.
pub(crate) fn a_stream_may_be_reserved_on_part_of_its_path() -> Outcome {
    let net = up(NARROW_END, "part")?;
    let h2 = net.address("h2", true);
    let (first, second) = (SocketAddr::new(h2, DATA_PORT), SocketAddr::new(h2, DATA_PORT + 2));
    let _ends = Receiver::listen(&net, first)?;
    let mut receiver = Receiver::listen(&net, second)?;
    let mut whole = Sender::attach(&net, first, Rate::from_mbps(2))?;
    assert_eq!(whole.answered()?, []);
    let mut part = Sender::attach(&net, second, Rate::from_mbps(2))?;
    let note = FailureNote {
        reason: FailureReason::Bandwidth,
        hop: 2, // h1 is hop 0
        available: OctetRate(Rate::from_mbps(1).as_octets_per_second()),
        node: "10.0.2.1".parse()?,
    };
    assert_eq!(part.answered()?, [note]);
    assert_eq!(receiver.announced()?, [note]);
    for (at, rates) in [(LINKS[0], &[2, 2][..]), (LINKS[1], &[2, 2]), (LINKS[2], &[2])] {
        net.await_reserved(at, rates, SLACK)?;
    }
    whole.release()?;
    for at in LINKS {
        net.await_reserved(at, &[2], SLACK)?;
    }
    assert_eq!(part.answered()?, []);
    assert_eq!(receiver.announced()?, []);
    part.release()?;
    net.await_reserved(LINKS[2], &[], SLACK)
}

/// The daemon of the sender is killed and sends no BYE: the routers release the reservation after three missing
/// reports.
pub(crate) fn silence_ends_a_stream() -> Outcome {
    let mut net = up(DEMO, "mute")?;
    let to = SocketAddr::new(net.address("h2", true), DATA_PORT);
    let _receiver = Receiver::listen(&net, to)?;
    Sender::attach(&net, to, Rate::from_mbps(2))?.answered()?;
    std::thread::sleep(SILENCE);
    for at in LINKS {
        net.await_reserved(at, &[2], Duration::ZERO)?;
    }
    net.kill_daemon("h1")?;
    for at in &LINKS[1..] {
        net.await_reserved(*at, &[], SILENCE + SLACK)?;
    }
    wait_for("the receiver forgets it", SLACK, || {
        Ok(net.client("h2")?.show_sessions()?.rows.is_empty().then_some(()))
    })
}

/// Outgoing links on the path of h1's data to h2.
const LINKS: [(&str, &str); 3] = [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1")];

/// Starts daemons that report every second, within a third more or less.
fn up(topology: &str, name: &str) -> Result<Net, Failed> {
    Net::with(topology, name, REFRESH, |options| {
        options.settings.protocols.insert("yessir", "refresh = \"1s\"\n".to_owned());
    })
}

/// A stream that h1 announces.
pub(crate) struct Sender(Client, Opened);

impl Sender {
    pub(crate) fn attach(net: &Net, to: SocketAddr, rate: Rate) -> Result<Sender, Failed> {
        let mut client = net.client("h1")?;
        let from = SocketAddr::new(net.address("h1", to.is_ipv4()), to.port());
        let options = ReserveOptions { class: Some(46), ..ReserveOptions::default() };
        let request = request(from, to, &options);
        let rate_bps = Some(rate);
        let opened = client.reserve(ReservationRequest { rate_bps, follow: true, ..request })?;
        Ok(Sender(client, opened))
    }

    /// Returns the nodes without a reservation, from the next new answer.
    pub(crate) fn answered(&mut self) -> Result<Vec<FailureNote>, Failed> {
        next(&mut self.0, |event| match event {
            Event::Answered { answer, .. } => Some(answer.failures.clone()),
            _ => None,
        })
    }

    pub(crate) fn release(mut self) -> Outcome {
        self.0.release(self.1.application)?;
        Ok(())
    }
}

/// A receiver at h2 that answers.
pub(crate) struct Receiver(Client);

impl Receiver {
    pub(crate) fn listen(net: &Net, on: SocketAddr) -> Result<Receiver, Failed> {
        let mut client = net.client("h2")?;
        client.listen(ListenRequest { follow: true, ..listen_request(on) })?;
        Ok(Receiver(client))
    }

    /// Returns the nodes without a reservation, from the next new announcement.
    fn announced(&mut self) -> Result<Vec<FailureNote>, Failed> {
        self.wait(|event| match event {
            Event::Announced { answer, .. } => Some(answer.failures.clone()),
            _ => None,
        })
    }

    /// Waits until the sender has announced its end.
    pub(crate) fn gone(mut self) -> Outcome {
        self.wait(|event| matches!(event, Event::AnnouncementGone { .. }).then_some(()))
    }

    fn wait<T>(&mut self, find: impl FnMut(&Event) -> Option<T>) -> Result<T, Failed> {
        next(&mut self.0, find)
    }
}

/// Returns the first value that `find` gets from an event.
fn next<T>(client: &mut Client, mut find: impl FnMut(&Event) -> Option<T>) -> Result<T, Failed> {
    let deadline = Instant::now() + SLACK * 2;
    let mut others = Vec::new();
    while let Some(notice) = client.next_event(Some(deadline))? {
        let Some(earmark_node::Event::Yessir(event)) = engine_event(&notice) else {
            continue;
        };
        match find(&event) {
            Some(found) => return Ok(found),
            None => others.push(event),
        }
    }
    Err(format!("it did not come; there were {others:?}").into())
}
