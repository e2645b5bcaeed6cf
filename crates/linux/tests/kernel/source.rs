//! The packet source and sink for measurements of routers.

use std::time::Duration;

use earmark_linux::link::{self, Feature};
use earmark_linux::packets::{MeasuredFlow, Mix, Route, Sink, Source, ports};

use crate::support::{Line, RECEIVER, SENDER};

/// The flow with a socket, and one without.
const FLOW: u32 = 2_050;
const OTHER: u32 = 7;
const COUNT: u32 = 200;

fn source(line: &Line) -> Source {
    link::set_feature(&line.router, "left", Feature::ReceiveJoining, true).expect("switched on");
    let next_hop = link::hardware_address(&line.router, "left").expect("an address");
    let route = Route { next_hop, source: SENDER, destination: RECEIVER, length: 78 };
    let near = link::index(&line.sender, "right").expect("an answer").expect("there");
    line.sender.run_in(|| Source::open(near, route)).expect("inside").expect("a source")
}

/// Packets are forwarded and reach a socket, with the ports of their flow and their numbers; a sink passes the watched
/// flow and drops the others.
pub(crate) fn packet_reaches_a_socket_unless_a_sink_drops_it() {
    let line = Line::new();
    let source = source(&line);
    let socket = line.sink(ports(FLOW).1);
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let send = |measured: u32| {
        let measured = MeasuredFlow { every: 2, flow: measured, service: 0x10 };
        let mix = Mix { flows: 1, first: OTHER, measured: Some(measured) };
        line.sender.run_in(|| source.send(COUNT, &mix)).expect("inside").expect("sent");
        let (mut numbers, mut octets) = (Vec::new(), [0; 100]);
        while let Ok((length, from)) = socket.recv_from(&mut octets) {
            assert_eq!((length, from.port()), (50, ports(FLOW).0));
            numbers.push(u32::from_be_bytes(*octets.first_chunk().expect("four octets")));
        }
        numbers
    };
    let all: Vec<u32> = (0..COUNT / 2).collect();
    // The first packet may be lost during address resolution.
    send(FLOW);
    assert_eq!(send(FLOW), all);
    assert!(send(FLOW + (1 << 10)).is_empty(), "another destination port");
    let far = link::index(&line.receiver, "left").expect("an answer").expect("there");
    let sink = |measured| {
        let open = || Sink::open(far, Duration::from_micros(1), measured);
        line.receiver.run_in(open).expect("inside").expect("a sink")
    };
    let attached = sink(Some(FLOW));
    assert_eq!(send(FLOW), all, "the watched flow passes");
    drop(attached);
    let attached = sink(None);
    assert!(send(FLOW).is_empty(), "dropped");
    drop(attached);
    assert_eq!(send(FLOW), all, "as before");
}

/// The kernel thread that receives for an interface is found, and receives.
pub(crate) fn interface_receives_by_a_thread() {
    let line = Line::new();
    link::set_feature(&line.receiver, "left", Feature::ReceiveJoining, true).expect("switched on");
    let thread = link::receive_by_thread(&line.receiver, "left").expect("a thread");
    let name = std::fs::read_to_string(format!("/proc/{thread}/comm")).expect("it runs");
    assert!(name.starts_with("napi/left-"), "{name}");
    let socket = line.sink(5_000);
    line.source(6_000).send_to(b"hello", (RECEIVER, 5_000)).expect("sent");
    assert_eq!(socket.recv(&mut [0; 16]).expect("received"), 5);
}
