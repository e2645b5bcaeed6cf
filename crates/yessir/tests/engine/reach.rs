//! Extent of a stream's reservation according to its receiver's answer: a host, routers with and without YESSIR, and
//! a host.

use std::net::IpAddr;

use earmark_core::Rate;
use earmark_core::outcome::{Kind, Message, NodeName, Outcome, OutcomeSource};
use earmark_yessir::{Application, Attachment, Command, Event};

use crate::common::{Ask, DOWN, Node, UP, address, announcement};

const SENDER: Application = Application(1);
const RECEIVER: Application = Application(2);

/// A sender, routers, and a receiver.
struct Path {
    nodes: Vec<Node>,
    /// Number of routers without YESSIR behind each node.
    gaps: Vec<u8>,
}

fn far() -> IpAddr {
    address("10.9.9.2")
}

impl Path {
    /// Creates a path of nodes with so many routers without YESSIR between them.
    fn new(gaps: &[u8]) -> Path {
        let mut nodes: Vec<Node> =
            (0..=gaps.len() as u64).map(|seed| Node::seeded(Default::default(), seed)).collect();
        nodes[0].set_link(UP, &["10.0.6.1"], 5);
        nodes[0].set_link(DOWN, &["10.0.7.1"], 5);
        let last = nodes.len() - 1;
        nodes[last].set_link(UP, &["10.9.9.2"], 5);
        Path { nodes, gaps: gaps.to_vec() }
    }

    fn run(&mut self) {
        let mut idle = false;
        while !idle {
            idle = true;
            for at in 0..self.nodes.len() {
                for mut sent in std::mem::take(&mut self.nodes[at].sent) {
                    idle = false;
                    let down = sent.how.destination == far();
                    let (next, interface) = if down { (at + 1, UP) } else { (at - 1, DOWN) };
                    sent.how.ttl -= self.gaps[at.min(next)];
                    self.nodes[next].arrive(&sent.arrival(interface));
                }
            }
        }
    }

    /// Returns the last outcomes reported to the sender and to the receiver, if any.
    fn reach(&mut self, passive: bool) -> [Option<Outcome>; 2] {
        let last = self.nodes.len() - 1;
        self.nodes[last].command(Command::Listen {
            application: RECEIVER,
            destination: address("0.0.0.0"),
            port: 5_000,
            cname: "receiver@h2".into(),
        });
        let attachment = Attachment { passive, ..announcement(far()) };
        self.nodes[0].command(Command::Attach { application: SENDER, attachment });
        self.run();
        [0, last].map(|node| {
            self.nodes[node].take_events().into_iter().rev().find_map(|event| match event {
                Event::Answered { application: SENDER, reach, .. }
                | Event::Announced { application: RECEIVER, reach, .. } => Some(*reach),
                _ => None,
            })
        })
    }

    fn kinds(&mut self) -> [Option<Kind>; 2] {
        self.reach(false).map(|reach| reach.map(|reach| reach.kind))
    }
}

#[test]
fn routers_that_all_speak_yessir_are_the_whole_path() {
    let mut path = Path::new(&[0, 0, 0]);
    let [Some(sender), Some(receiver)] = path.reach(false) else { panic!("both are told") };
    assert_eq!((sender.kind, sender.nodes, sender.hops_without), (Kind::Whole, Some(2), Some(0)));
    let by = OutcomeSource {
        node: Some(NodeName::Address(far())),
        message: Message::new("receiver report"),
    };
    assert_eq!((sender.by, sender.offer), (Some(by), false));
    let by = OutcomeSource {
        node: Some(NodeName::Address(address("10.0.7.1"))),
        message: Message::new("sender report"),
    };
    assert_eq!((receiver.kind, receiver.by), (Kind::Whole, Some(by)));
    assert_eq!(Path::new(&[0]).kinds(), [Some(Kind::Whole); 2], "one link and no router");
}

#[test]
fn routers_without_yessir_make_it_part_of_the_path() {
    for gaps in [[1, 0], [0, 1], [2, 3]] {
        let mut path = Path::new(&gaps);
        let [Some(sender), Some(receiver)] = path.reach(false) else { panic!("both are told") };
        assert_eq!((sender.kind, receiver.kind), (Kind::Part, Kind::Part), "{gaps:?}");
        assert_eq!(
            (sender.nodes, sender.hops_without),
            (Some(1), None),
            "nobody counts the others"
        );
    }
}

#[test]
fn path_on_which_no_router_speaks_yessir_is_this_node_only() {
    let mut path = Path::new(&[2]);
    assert_eq!(path.kinds(), [Some(Kind::OnlyHere); 2]);
    assert_eq!(path.nodes[0].held(DOWN), 1_000_000, "this node has reserved its link");
}

#[test]
fn node_that_refuses_is_named_with_the_available_rate() {
    let mut path = Path::new(&[0, 0]);
    path.nodes[1].pass(&Ask::rate(9, 4.5).arrival());
    let [Some(sender), _] = path.reach(false) else { panic!("the sender is told") };
    assert_eq!((sender.kind, sender.hops_without), (Kind::Part, Some(0)));
    assert_eq!(sender.refused_by, Some(address("10.0.9.1")));
    assert_eq!(sender.available_bps, Some(Rate::from_bps(500_000)));
}

#[test]
fn path_on_which_every_node_refuses_is_refused() {
    let mut path = Path::new(&[0]);
    path.nodes[0].set_link(DOWN, &["10.0.7.1"], 0);
    let [Some(sender), _] = path.reach(false) else { panic!("the sender is told") };
    assert_eq!((sender.kind, sender.refused_by), (Kind::Refused, Some(address("10.0.7.1"))));
}

#[test]
fn query_is_an_offer() {
    let mut path = Path::new(&[0, 1]);
    let [Some(sender), Some(receiver)] = path.reach(true) else { panic!("both are told") };
    assert_eq!((sender.kind, sender.offer, receiver.offer), (Kind::Part, true, true));
    assert_eq!(path.nodes[0].held(DOWN), 0);
}
