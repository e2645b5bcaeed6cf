//! One request that deletes several sessions (RFC 5973 section 3.7.4), over GIST: explicitly routed, without routing state of
//! its own, its flow a wildcard. The initiator is an application of the test.

use std::time::Duration;

use earmark_core::Transport;
use earmark_nsis::Config;
use earmark_nsis::natfw::{self, Responder, Rule};
use earmark_nsis::nslp::{Attributes, SendMessage};
use earmark_testkit::messages::gist::udp_flow;
use earmark_testkit::messages::natfw_nslp::{CREATE, emit};
use earmark_wire::gist::{Mri, PathCoupled, SessionId};
use earmark_wire::natfw_nslp::iana::NSLPID;
use earmark_wire::natfw_nslp::{Create, Message};

use crate::common::application::{Call, Handle, Task, message};
use crate::common::{Network, Place, session};

/// Port of GIST.
const PORT: u16 = 270;
const SECOND: Duration = Duration::from_secs(1);

fn create(lifetime: u32, msn: u32) -> Vec<u8> {
    emit(&Message::Create(Create { lifetime, msn, ..CREATE }))
}

#[test]
fn deletion_of_several_sessions_crosses_gist() {
    let off = natfw::Config::default();
    let on = natfw::Config { enabled: true, responder: Responder::Any, ..natfw::Config::default() };
    let firewall = natfw::Config { firewall: true, rules: vec![Rule::default()], ..on.clone() };
    let place = |natfw| Place::Aware(Config { natfw, ..Config::default() });
    let mut network = Network::line(&[place(off), place(firewall), place(on)]);
    for node in 0..3 {
        network.nodes[node].listens = vec![(PORT, Transport::Tcp)];
    }
    let initiator = Handle::default();
    network.engine_mut(0).add(initiator.application_as(NSLPID));
    let reliable = Attributes { reliable: true, secure: false };
    let (inside, server) = network.flow().addresses();
    for number in 1..4 {
        let to = (server, 5_000 + u16::from(number));
        let mri = Mri::PathCoupled(udp_flow((inside, 700), to));
        initiator.send_with(mri, session(number), &create(60, 1), reliable);
    }
    network.run(SECOND);
    assert_eq!(network.engine(1).natfw().pinholes().count(), 3);
    let peer = initiator.calls().into_iter().find_map(|call| match call {
        Call::Received { peer, .. } => peer,
        _ => None,
    });
    assert!(peer.is_some(), "the RESPONSEs have arrived");

    let Mri::PathCoupled(flow) = network.flow() else { panic!("a flow") };
    let all = PathCoupled {
        destination: [0, 0, 0, 0].into(),
        destination_prefix: 0,
        protocol: None,
        source_port: None,
        destination_port: None,
        ..flow
    };
    let all = message(Mri::PathCoupled(all), SessionId([0; SessionId::LEN]));
    let message = SendMessage { to: peer, attributes: reliable, ..all };
    initiator.task(Task::Send(message, create(0, 2)));
    network.run(SECOND);
    for node in [1, 2] {
        assert_eq!(network.engine(node).natfw().session_count(), 0, "node {node}");
    }
    assert_eq!(network.engine(1).natfw().pinholes().count(), 0);
}
