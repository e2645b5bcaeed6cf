//! Shared reservations, a router with multicast branches, and outcomes as short texts.
#![allow(dead_code, unreachable_pub)]

use earmark_core::{Flow, InterfaceId, MulticastRoute};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FlowDescriptors, List, Path, Resv, ResvErr,
    ResvTear, RsvpHop, SenderDescriptor, Session, SourceSelector,
};

use crate::common::*;

/// Error value of [`ErrorCode::AdmissionControlFailure`] for too little bandwidth.
pub const BANDWIDTH: u16 = 2;

/// A sender of the host `SENDER`, by its port.
pub fn sender_on(port: u16) -> FilterSpec {
    FilterSpec { selector: SourceSelector::Port(port), ..template() }
}

/// Path of such a sender from the upstream neighbour.
pub fn path_of(template: FilterSpec) -> Path<'static> {
    Path { sender: SenderDescriptor { template, ..path().sender }, ..path() }
}

/// Resv of the downstream neighbour in the shared-explicit style.
pub fn shared(mbps: u32, filters: &[FilterSpec]) -> Resv<'_> {
    let flows = FlowDescriptors::SharedExplicit(Some(flowspec(mbps)), List::Items(filters));
    Resv { flows, ..resv(&[]) }
}

/// Resv of the downstream neighbour in the wildcard style.
pub fn wildcard(mbps: u32) -> Resv<'static> {
    Resv { flows: FlowDescriptors::Wildcard(Some(flowspec(mbps))), ..resv(&[]) }
}

/// ResvTear for a request.
pub fn tear_of(resv: Resv<'_>) -> ResvTear<'_> {
    let Resv { session, hop, scope, carried, flows, .. } = resv;
    ResvTear { session, hop, scope, carried, flows }
}

/// ResvErr of the upstream neighbour for too little bandwidth.
pub fn failure_of(resv: Resv<'_>) -> ResvErr<'_> {
    let (node, code) = (ip(UPSTREAM), ErrorCode::AdmissionControlFailure);
    ResvErr {
        session: resv.session,
        hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
        error: ErrorSpec { node, flags: 0, code, value: BANDWIDTH },
        scope: resv.scope,
        carried: Carried::NONE,
        flows: resv.flows,
    }
}

/// Flow of a sender of [`session`].
pub fn flow_of(template: FilterSpec) -> Flow {
    Flow {
        destination: session().destination,
        source: Some(template.source),
        protocol: session().protocol,
        destination_port: session().port,
        source_port: port_of(&template),
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    }
}

pub fn group() -> Session {
    Session { destination: ip("239.1.1.1"), ..session() }
}

/// Changes a message about [`session`] into one about [`group`].
pub fn to_group(body: Body<'_>) -> Body<'_> {
    match body {
        Body::Path(path) => Body::Path(Path { session: group(), ..path }),
        Body::Resv(resv) => Body::Resv(Resv { session: group(), ..resv }),
        other => panic!("{other:?}"),
    }
}

/// A router with eth3 as well, without any multicast route.
pub fn fork() -> Bench {
    let mut bench = router();
    bench.add_interface(ETH3, "10.0.3.1");
    bench
}

/// Adds the route from a source to [`group`]: incoming interface and outgoing ones.
pub fn branch(bench: &mut Bench, source: &str, incoming: InterfaceId, outgoing: &[InterfaceId]) {
    bench.routes.insert_multicast(MulticastRoute {
        source: Some(ip(source)),
        group: group().destination,
        incoming: Some(incoming),
        outgoing: outgoing.to_vec(),
    });
}

/// Sent messages among the outcomes as text: `Path through eth2`; `Resv to 10.0.1.1: SE 2 of 4000 4001`, which is the
/// style, Mbit/s, and the senders' ports; `WF 2 scope 10.0.0.1`.
pub fn sent_texts(outcomes: &[Outcome]) -> Vec<String> {
    let say = |(how, message): &(earmark_core::Outgoing, earmark_wire::rsvp::Message<'_>)| {
        let name = message.body.message_type().name();
        let (flows, scope) = match message.body {
            Body::Resv(resv) => (resv.flows, resv.scope),
            Body::ResvTear(tear) => (tear.flows, tear.scope),
            Body::ResvErr(error) => (error.flows, error.scope),
            _ => {
                let through = how.interface.map(|id| format!(" through eth{}", id.0));
                return format!("{name}{}", through.unwrap_or_default());
            }
        };
        let mut text = format!("{name} to {}: {}", how.destination, flows_text(&flows));
        if let Some(scope) = scope {
            let scope: Vec<String> = scope.iter().map(|address| address.to_string()).collect();
            text += &format!(" scope {}", scope.join(" "));
        }
        text
    };
    sent(outcomes).iter().map(say).collect()
}

fn flows_text(flows: &FlowDescriptors<'_>) -> String {
    let (style, flowspec, filters): (_, _, Vec<FilterSpec>) = match flows {
        FlowDescriptors::Wildcard(flowspec) => return format!("WF {}", mbps(flowspec)),
        FlowDescriptors::SharedExplicit(flowspec, filters) => {
            ("SE", *flowspec, filters.iter().collect())
        }
        FlowDescriptors::FixedFilter(flows) => {
            let flowspec = flows.iter().next().and_then(|flow| flow.flowspec);
            ("FF", flowspec, flows.iter().map(|flow| flow.filter).collect())
        }
    };
    let ports: Vec<String> = filters.iter().map(|filter| port_of(filter).to_string()).collect();
    format!("{style} {} of {}", mbps(&flowspec), ports.join(" "))
}

fn mbps(flowspec: &Option<earmark_wire::intserv::FlowSpec>) -> String {
    flowspec.map_or("nothing".into(), |flowspec| {
        format!("{}", flowspec.token_bucket().rate * 8.0 / 1e6)
    })
}

fn port_of(template: &FilterSpec) -> u16 {
    match template.selector {
        SourceSelector::Port(port) => port,
        other => panic!("a port, not {other:?}"),
    }
}
