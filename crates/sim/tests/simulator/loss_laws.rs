//! Loss laws on a link: each direction has its own state and random numbers, and a message is lost if any law loses it.

use std::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{InterfaceId, Outgoing, Rate};
use earmark_sim::{Bursts, Faults, LinkEnd, LinkSpec, LossLaw, LossTrace, Network, NodeId};

/// Two nodes, and their link.
struct Link {
    network: Network,
    ends: [(NodeId, InterfaceId); 2],
}

fn link(seed: u64) -> Link {
    let mut network = Network::new(seed);
    let nodes = ["a", "b"].map(|name| network.add_plain_node(name, false));
    let end = |node, address: &str| LinkEnd {
        node,
        interface: "eth0".into(),
        address: address.parse().expect("an address"),
    };
    let interfaces = network.add_link(LinkSpec {
        ends: [end(nodes[0], "10.0.0.1"), end(nodes[1], "10.0.0.2")],
        prefix: "10.0.0.0/30".parse().expect("a prefix"),
        bandwidth: Rate::from_mbps(100),
        reservable: Rate::from_mbps(75),
        delay: Duration::from_millis(1),
        queue_packets: 50,
    });
    Link { network, ends: [0, 1].map(|side| (nodes[side], interfaces[side])) }
}

impl Link {
    fn add(&mut self, number: usize, law: &dyn LossLaw) {
        let (node, interface) = self.ends[0];
        self.network.add_loss_law(node, interface, number, law);
    }

    fn remove(&mut self, number: usize) {
        let (node, interface) = self.ends[1];
        self.network.remove_loss_law(node, interface, number);
    }

    /// Sends messages from one side; returns of each whether it was lost.
    fn lost(&mut self, side: usize, messages: usize) -> Vec<bool> {
        let (node, interface) = self.ends[side];
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
        let how = Outgoing::new(46, addresses[side], addresses[1 - side], 1);
        let is_lost = |_| {
            let before = self.network.faulted_messages(node, interface);
            self.network.send_datagram(node, &how, &[0; 20]);
            self.network.run_until(self.network.now() + Duration::from_millis(5));
            self.network.faulted_messages(node, interface) > before
        };
        (0..messages).map(is_lost).collect()
    }
}

#[test]
fn trace_begins_anew_in_each_direction() {
    let mut link = link(1);
    link.add(0, &LossTrace::new([true, false, false]));
    assert_eq!(link.lost(0, 5), [true, false, false, true, false]);
    assert_eq!(link.lost(1, 4), [true, false, false, true]);
    assert_eq!(link.lost(0, 2), [false, true]);
    link.remove(0);
    assert_eq!(link.lost(0, 3), [false; 3]);
}

/// In 4 000 messages each way some 50 bursts cover a tenth; in independent directions both lose a hundredth.
#[test]
fn directions_have_independent_bursts() {
    let mut link = link(2);
    link.add(0, &Bursts::new(0.1, 8.0, 1.0).expect("valid"));
    let [out, back] = [0, 1].map(|side| link.lost(side, 4_000));
    let share = |lost: &[bool]| lost.iter().filter(|lost| **lost).count() as f64 / 4_000.0;
    for lost in [&out, &back] {
        assert!((0.05..0.15).contains(&share(lost)), "{}", share(lost));
    }
    let both: Vec<bool> = out.iter().zip(&back).map(|(out, back)| *out && *back).collect();
    assert!(share(&both) < 0.035, "{}", share(&both));
}

/// A law of a program: messages of certain numbers.
#[derive(Clone, Debug)]
struct Every {
    number: u32,
    sent: u32,
}

impl LossLaw for Every {
    fn loses(&mut self, _: &mut Stream) -> bool {
        self.sent += 1;
        self.sent.is_multiple_of(self.number)
    }

    fn begin(&self) -> Box<dyn LossLaw> {
        Box::new(Every { sent: 0, ..self.clone() })
    }
}

/// Each law meets each message, also those that another one or a share of the faults has lost.
#[test]
fn message_is_lost_if_any_law_loses_it() {
    let mut link = link(3);
    for number in [2, 3] {
        link.add(number as usize, &Every { number, sent: 0 });
    }
    let is_multiple = |number: usize| number.is_multiple_of(2) || number.is_multiple_of(3);
    let expected: Vec<bool> = (1..=12).map(is_multiple).collect();
    assert_eq!(link.lost(0, 12), expected);
    link.remove(2);
    let (node, interface) = link.ends[0];
    link.network.set_faults(node, interface, Faults { loss: 1.0, ..Faults::default() });
    assert_eq!(link.lost(0, 4), [true; 4]);
    link.network.set_faults(node, interface, Faults::default());
    assert_eq!(link.lost(0, 4), [false, true, false, false], "messages 17 to 20");
}
