//! Reservations that senders share (SE and WF), in traffic control and in the ledger.

mod common;

use common::*;
use earmark_core::{Flow, Rate};
use earmark_wire::rsvp::{
    Body, FilterSpec, FlowDescriptors, List, Path, Resv, SenderDescriptor, SourceSelector,
};

/// A sender of the host `SENDER`, by its port.
fn sender_on(port: u16) -> FilterSpec {
    FilterSpec { selector: SourceSelector::Port(port), ..template() }
}

fn path_of(template: FilterSpec) -> Path<'static> {
    Path { sender: SenderDescriptor { template, ..path().sender }, ..path() }
}

/// The Resv of the downstream neighbour in the shared-explicit style.
fn shared(mbps: u32, filters: &[FilterSpec]) -> Resv<'_> {
    let flows = FlowDescriptors::SharedExplicit(Some(flowspec(mbps)), List::Items(filters));
    Resv { flows, ..resv(&[]) }
}

fn flow_of(template: FilterSpec) -> Flow {
    let SourceSelector::Port(source_port) = template.selector else { panic!("a port") };
    Flow {
        destination: session().destination,
        source: Some(template.source),
        protocol: session().protocol,
        destination_port: session().port,
        source_port,
        flow_label: 0,
    }
}

/// A dead daemon has left a reservation that two flows share. Whoever asks for them again takes over both.
#[test]
fn flows_that_share_are_taken_over_together() {
    let senders = [sender_on(4000), sender_on(4001)];
    let mut router = router();
    for (sender, mbps) in senders.into_iter().zip([2, 0]) {
        router.ledger.adopt(ETH2, flow_of(sender), Rate::from_mbps(mbps)).expect("there is room");
        router.arrives(ETH1, Body::Path(path_of(sender)));
    }
    let outcomes = router.arrives(ETH2, Body::Resv(shared(2, &senders)));
    let [installed, added] = &outcomes[..2] else { panic!("two at least: {outcomes:?}") };
    let Outcome::Installed(installation) = installed else { panic!("{installed:?}") };
    assert_eq!(installation.flow, flow_of(senders[0]));
    assert_eq!(*added, Outcome::Added(installation.claim, flow_of(senders[1])));
    let link = router.ledger.link(ETH2).expect("eth2 is a link");
    assert_eq!((link.held, link.adopted), (Rate::from_mbps(2), 0));
}
