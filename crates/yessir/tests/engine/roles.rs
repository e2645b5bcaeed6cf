//! Roles of hosts: senders that announce their streams, receivers that answer, and the events of both. Two hosts with
//! a router between them, if more than one is needed.

use earmark_core::HostEvent;
use earmark_wire::rtcp::{Compound, ItemType, Packet};
use earmark_wire::udp;
use earmark_wire::yessir::{Command as Wire, FailureReason, Flowspec, Style};
use earmark_yessir::{
    Answer, Application, ApplicationView, Attachment, Change, Command, Event, Rejection,
};

use crate::common::{Ask, DOWN, Node, SIDE, Sent, UP, address, announcement, mbps};

const SENDER: Application = Application(1);
const RECEIVER: Application = Application(2);

/// Returns an announcement of a stream from the first node to the listener of the last one.
fn attachment() -> Attachment {
    announcement(address("10.9.9.2"))
}

fn attach(attachment: Attachment) -> Command {
    Command::Attach { application: SENDER, attachment }
}

fn listen() -> Command {
    Command::Listen {
        application: RECEIVER,
        destination: address("0.0.0.0"),
        port: 5_000,
        cname: "receiver@h2".into(),
    }
}

/// Host, router, host. Messages sent downstream arrive at the next node, and answers upstream.
struct Path {
    nodes: [Node; 3],
}

impl Path {
    fn new() -> Path {
        let mut nodes = [1, 2, 3].map(|seed| Node::seeded(Default::default(), seed));
        nodes[0].set_link(UP, &["10.0.6.1"], 5);
        nodes[0].set_link(DOWN, &["10.0.7.1"], 5);
        nodes[2].set_link(UP, &["10.9.9.2"], 5);
        Path { nodes }
    }

    /// Carries messages until none is left.
    fn run(&mut self) {
        loop {
            let mut idle = true;
            for at in 0..3 {
                for sent in std::mem::take(&mut self.nodes[at].sent) {
                    idle = false;
                    let down = sent.how.destination == address("10.9.9.2");
                    let (next, interface) = if down { (at + 1, UP) } else { (at - 1, DOWN) };
                    self.nodes[next].arrive(&sent.arrival(interface));
                }
            }
            if idle {
                return;
            }
        }
    }

    fn advance(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.nodes.iter_mut().for_each(|node| node.advance(1.0));
            self.run();
        }
    }

    fn answers(&mut self) -> Vec<Answer> {
        let told = self.nodes[0].take_events();
        told.into_iter()
            .filter_map(|event| match event {
                Event::Answered { application: SENDER, receiver, answer, .. } => {
                    assert_eq!(receiver, address("10.9.9.2"));
                    Some(answer)
                }
                _ => None,
            })
            .collect()
    }
}

#[test]
fn announced_stream_is_reserved_and_answered() {
    let mut path = Path::new();
    path.nodes[2].command(listen());
    path.nodes[0].command(attach(attachment()));
    path.run();
    assert_eq!(path.nodes[0].held(DOWN), 1_000_000, "the sender's own first link");
    assert_eq!(path.nodes[1].held(DOWN), 1_000_000);
    let answers = path.answers();
    let [Answer { path: Some(info), failures }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(failures, &[]);
    assert_eq!((info.hops, info.other_hops, info.latency_us), (1, false, 200));
    let told = path.nodes[2].take_events();
    let [Event::Announced { application: RECEIVER, stream, flowspec, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((stream.source, stream.source_port), (address("10.0.7.1"), 4_000));
    assert_eq!(*flowspec, Some(mbps(1.0)));
    path.advance(600);
    assert_eq!(path.nodes[1].held(DOWN), 1_000_000, "it is kept up");
    assert_eq!(path.answers(), [], "nothing new");
    assert_eq!(path.nodes[2].take_events(), []);
    path.nodes[0].command(Command::Release { application: SENDER });
    path.run();
    assert_eq!((path.nodes[0].held(DOWN), path.nodes[1].held(DOWN)), (0, 0));
    let told = path.nodes[2].take_events();
    assert!(matches!(told[..], [Event::AnnouncementGone { .. }]), "{told:?}");
    path.advance(60);
    assert_eq!(path.nodes[1].engine.session_count(), 0);
}

#[test]
fn sender_receives_failures_and_their_end() {
    let mut path = Path::new();
    path.nodes[2].command(listen());
    let other = Ask::rate(9, 4.5);
    path.nodes[1].pass(&other.arrival());
    path.nodes[0].command(attach(attachment()));
    path.run();
    let answers = path.answers();
    let [Answer { failures, .. }] = &answers[..] else { panic!("{answers:?}") };
    let [note] = failures[..] else { panic!("{failures:?}") };
    assert_eq!((note.reason, note.hop), (FailureReason::Bandwidth, 1));
    assert_eq!(note.node, address("10.0.9.1"));
    path.nodes[1].pass(&other.release().arrival());
    assert_eq!(path.nodes[1].held(DOWN), 1_000_000, "it was waited for");
    path.advance(13);
    let answers = path.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].failures, []);
}

/// The sender's own link is hop 0.
#[test]
fn first_link_without_room_is_hop_zero() {
    let mut path = Path::new();
    path.nodes[2].command(listen());
    path.nodes[0].set_link(DOWN, &["10.0.9.7"], 0);
    path.nodes[0].command(attach(attachment()));
    path.run();
    let answers = path.answers();
    let note = answers[0].failures[0];
    assert_eq!((note.hop, note.reason), (0, FailureReason::NotReservable));
    assert_eq!(path.nodes[1].held(DOWN), 1_000_000, "others have it");
}

/// The packets of a report, one by one.
#[test]
fn reports_are_compounds_with_source_description() {
    let mut node = Node::new();
    let attachment = Attachment { ssrc: Some(77), ..attachment() };
    node.command(attach(attachment));
    node.command(Command::Statistics {
        application: SENDER,
        packets: 5,
        octets: 800,
        rtp_timestamp: 9,
    });
    node.command(Command::Release { application: SENDER });
    let [first, last] = &node.sent[..] else { panic!("{:?}", node.sent) };
    assert_eq!((first.how.ttl, first.how.router_alert, first.how.protocol), (64, true, 17));
    let packet = udp::Packet::parse(&last.octets).expect("UDP");
    assert_eq!((packet.source_port, packet.destination_port), (4_001, 5_001));
    let compound = Compound::parse(packet.payload).expect("RTCP");
    let packets: Vec<Packet<'_>> = compound.packets().collect();
    let [
        Packet::SenderReport(report),
        Packet::SourceDescription(chunks),
        Packet::Application(_),
        Packet::Goodbye(bye),
    ] = packets[..]
    else {
        panic!("{packets:?}")
    };
    assert_eq!((report.ssrc, report.sender.packets, report.sender.octets), (77, 5, 800));
    assert_eq!(report.sender.rtp_timestamp, 9);
    let chunk = chunks.iter().next().expect("one");
    let items: Vec<_> = chunk.items().collect();
    assert_eq!(items, [(ItemType::CanonicalName, &b"sender@h1"[..])]);
    assert_eq!(bye.sources, [77_u32.to_be_bytes()]);
    assert_eq!(last.message().generic.command, Wire::Release);
}

/// Intervals of 0.7 to 1.3, each drawn anew.
#[test]
fn report_interval_is_jittered() {
    let mut node = Node::new();
    node.command(attach(attachment()));
    let mut times = Vec::new();
    for tenth in 0..20_000 {
        node.sent.clear();
        node.advance(0.1);
        if !node.sent.is_empty() {
            assert_eq!(node.sent.len(), 1);
            times.push(tenth);
        }
    }
    let gaps: Vec<u32> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (70..=131).contains(gap)), "{gaps:?}");
    let (least, most) = (gaps.iter().min(), gaps.iter().max());
    assert!(least < Some(&75) && most > Some(&125), "the whole range is used: {gaps:?}");
}

#[test]
fn second_attach_changes_request() {
    let mut path = Path::new();
    path.nodes[2].command(listen());
    path.nodes[0].command(attach(attachment()));
    path.run();
    path.answers();
    let larger = Attachment { flowspec: mbps(2.0), ..attachment() };
    path.nodes[0].command(attach(larger.clone()));
    path.run();
    assert_eq!(path.nodes[1].held(DOWN), 2_000_000);
    assert_eq!(path.answers().len(), 1, "the same answer is news about another request");
    path.nodes[0].command(attach(larger));
    path.run();
    assert_eq!(path.answers(), [], "but not about the same one");
    // Another stream: the old one is released.
    let mut elsewhere = attachment();
    elsewhere.stream.source_port = 4_010;
    path.nodes[0].command(attach(elsewhere));
    path.run();
    assert_eq!((path.nodes[1].held(DOWN), path.nodes[1].engine.session_count()), (1_000_000, 1));
}

#[test]
fn query_collects_link_info_without_reserving() {
    let mut path = Path::new();
    path.nodes[2].command(listen());
    path.nodes[1].set_link(DOWN, &["10.0.9.1"], 3);
    path.nodes[0].command(attach(Attachment { passive: true, ..attachment() }));
    path.run();
    let answers = path.answers();
    let info = answers[0].path.expect("it was asked for");
    assert_eq!((info.available.0, info.path_mtu), (375_000.0, 1_500));
    assert_eq!((path.nodes[0].held(DOWN), path.nodes[1].held(DOWN)), (0, 0));
}

/// The rate of a measured stream follows the statistics that the application gives.
#[test]
fn statistics_set_measured_rate() {
    let mut path = Path::new();
    let flowspec = Flowspec::Measured { window: 60, headroom: 0 };
    path.nodes[0].command(attach(Attachment { flowspec, interval: 5, ..attachment() }));
    path.run();
    for second in 1..=20 {
        // 100 packets of 210 octets of payload: 200 kbit/s with headers.
        let (packets, octets) = (second * 100, second * 21_000);
        path.nodes[0].command(Command::Statistics {
            application: SENDER,
            packets,
            octets,
            rtp_timestamp: 0,
        });
        path.advance(1);
    }
    let held = path.nodes[1].held(DOWN);
    assert!((170_000..=260_000).contains(&held), "{held}");
    assert_eq!(path.nodes[0].held(DOWN), held);
}

#[test]
fn route_change_is_announced_at_once() {
    let mut node = Node::new();
    node.command(attach(attachment()));
    node.sent.clear();
    node.set_route("10.9.0.0/16", SIDE, 1);
    node.host(HostEvent::RouteChanged("10.9.0.0/16".parse().expect("a prefix")));
    let ways: Vec<_> = node.sent.iter().map(|sent| sent.how.interface).collect();
    assert_eq!(ways, [Some(SIDE)]);
    assert_eq!((node.held(DOWN), node.held(SIDE)), (0, 1_000_000));
    node.host(HostEvent::RouteChanged("192.0.2.0/24".parse().expect("a prefix")));
    assert_eq!(node.sent.len(), 1, "that is no concern of ours");
}

#[test]
fn invalid_command_is_rejected() {
    let with = |change: fn(&mut Attachment)| {
        let mut attachment = attachment();
        change(&mut attachment);
        attach(attachment)
    };
    let cases = [
        (with(|a| a.stream.destination_port = 5_001), Rejection::Ports),
        (with(|a| a.stream.source_port = 0), Rejection::Ports),
        (with(|a| a.stream.source = address("10.1.2.3")), Rejection::NotOurAddress),
        (with(|a| a.stream.destination = address("192.0.2.1")), Rejection::NoRoute),
        (with(|a| a.stream.source = address("fd00::1")), Rejection::NoRoute),
        (with(|a| a.cname = String::new()), Rejection::Name),
        (with(|a| a.cname = "x".repeat(256)), Rejection::Name),
        (with(|a| a.flowspec = mbps(-1.0)), Rejection::Flowspec),
        (with(|a| a.style = Style::Unknown(7)), Rejection::Flowspec),
        (Command::Release { application: SENDER }, Rejection::NoApplication),
        (
            Command::Statistics { application: SENDER, packets: 0, octets: 0, rtp_timestamp: 0 },
            Rejection::NoApplication,
        ),
    ];
    for (command, expected) in cases {
        let mut node = Node::new();
        node.command(command.clone());
        let told = node.take_events();
        let rejected = matches!(told[..], [Event::Rejected { reason, .. }] if reason == expected);
        assert!(rejected, "{command:?}: {told:?}");
        assert_eq!((node.sent.len(), node.engine.session_count()), (0, 0));
    }
    let mut node = Node::new();
    node.command(attach(attachment()));
    node.command(listen());
    node.take_events();
    for (command, expected) in [
        (
            Command::Attach { application: Application(3), attachment: attachment() },
            Rejection::Taken,
        ),
        (Command::Attach { application: RECEIVER, attachment: attachment() }, Rejection::Busy),
        (
            Command::Listen {
                application: Application(3),
                destination: address("0.0.0.0"),
                port: 5_000,
                cname: "x".into(),
            },
            Rejection::Taken,
        ),
        (
            Command::Listen {
                application: SENDER,
                destination: address("0.0.0.0"),
                port: 6_000,
                cname: "x".into(),
            },
            Rejection::Busy,
        ),
    ] {
        node.command(command);
        let told = node.take_events();
        assert!(matches!(told[..], [Event::Rejected { reason, .. }] if reason == expected));
    }
}

/// A receiver drops a sender whose reports stop, and reports it anew later.
#[test]
fn announcement_without_reports_ends() {
    let mut node = Node::new();
    node.command(listen());
    let ask = Ask { destination: address("10.0.9.1"), ..Ask::new(1) };
    node.arrive(&ask.arrival());
    node.advance(100.0);
    node.arrive(&ask.arrival());
    node.advance(116.0);
    assert_eq!(node.take_events().len(), 1);
    node.advance(2.0);
    assert!(matches!(node.take_events()[..], [Event::AnnouncementGone { .. }]));
    node.arrive(&ask.arrival());
    assert_eq!(node.take_events().len(), 1);
    node.command(Command::Release { application: RECEIVER });
    node.advance(200.0);
    assert_eq!(node.take_events(), []);
}

/// A sender that has sent no data of late leaves with a receiver report (RFC 3550 section 6.4). Nobody else ends its stream.
#[test]
fn announcement_ends_with_goodbye_of_paused_sender() {
    let mut node = Node::new();
    node.command(listen());
    let ask = Ask { destination: address("10.0.9.1"), ..Ask::new(1) };
    node.arrive(&ask.arrival());
    assert_eq!(node.take_events().len(), 1);
    let leaving = Ask { paused: true, goodbye: true, ..ask };
    node.arrive(&Ask { ssrc: leaving.ssrc + 1, ..leaving.clone() }.arrival());
    let gone =
        |events: &[Event]| events.iter().any(|e| matches!(e, Event::AnnouncementGone { .. }));
    assert!(!gone(&node.take_events()), "another source");
    node.arrive(&leaving.arrival());
    assert!(gone(&node.take_events()));
}

/// Members of a group answer the sender on a change, and repeat an answer that may be lost after 1, 2, 4, ... announcements.
#[test]
fn unchanged_answer_of_group_member_is_repeated_with_growing_pauses() {
    let mut node = Node::new();
    node.command(Command::Listen {
        application: RECEIVER,
        destination: address("239.1.1.1"),
        port: 5_000,
        cname: "receiver@h2".into(),
    });
    let ask = Ask { destination: address("239.1.1.1"), ..Ask::new(1) };
    let to_sender = |sent: &&Sent| sent.how.destination == ask.source;
    let mut answered = Vec::new();
    for announcement in 0..100 {
        let before = node.sent.iter().filter(to_sender).count();
        node.arrive(&ask.arrival());
        if node.sent.iter().filter(to_sender).count() > before {
            answered.push(announcement);
        }
    }
    assert_eq!(answered, [0, 1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(node.take_events().len(), 1);
    let answer = node.sent.iter().find(to_sender).expect("one");
    assert_eq!(answer.how.source, address("10.0.0.1"));
    let packet = udp::Packet::parse(&answer.octets).expect("UDP");
    assert_eq!((packet.source_port, packet.destination_port), (5_001, 4_001));
    assert_eq!(answer.message().generic.reservation, ask.generic.reservation);
}

/// Answers with another number belong to others.
#[test]
fn answer_with_foreign_number_is_ignored() {
    let mut path = Path::new();
    path.nodes[2].command(listen());
    path.nodes[0].command(attach(Attachment { ssrc: Some(1), ..attachment() }));
    let request = path.nodes[0].sent.pop().expect("a report");
    path.nodes[2].arrive(&request.arrival(UP));
    let mut answer = path.nodes[2].sent.pop().expect("an answer").arrival(DOWN);
    path.nodes[0].take_events();
    path.nodes[0].arrive(&answer);
    assert_eq!(path.answers().len(), 1);
    path.nodes[0].command(attach(Attachment { ssrc: Some(2), ..attachment() }));
    path.nodes[0].take_events();
    path.nodes[0].arrive(&answer);
    assert_eq!(path.answers(), []);
    answer.octets[6] ^= 1;
    path.nodes[0].arrive(&answer);
    assert_eq!(path.answers(), [], "its checksum is wrong");
}

#[test]
fn applications_are_listed() {
    let mut path = Path::new();
    path.nodes[2].command(listen());
    path.nodes[0].command(attach(attachment()));
    path.run();
    let senders: Vec<_> = path.nodes[0].engine.applications().collect();
    let [ApplicationView::Sender { application: SENDER, answers, .. }] = &senders[..] else {
        panic!("{senders:?}")
    };
    assert_eq!(answers.len(), 1);
    let listeners: Vec<_> = path.nodes[2].engine.applications().collect();
    let [ApplicationView::Listener { application: RECEIVER, port: 5_000, streams }] =
        &listeners[..]
    else {
        panic!("{listeners:?}")
    };
    assert_eq!(streams.len(), 1);
    let listed: Vec<_> = path.nodes[1].engine.sessions().collect();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].stream.source, address("10.0.7.1"));
    let changes = path.nodes[1].take_events();
    assert!(matches!(changes[..], [Event::Reservation { change: Change::Created, .. }]));
}
