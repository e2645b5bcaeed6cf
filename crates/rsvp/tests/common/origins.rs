//! A router with an attacker, and messages in the name of its neighbours.
#![allow(dead_code, unreachable_pub)]

use earmark_core::{Rate, Role, Trust};
use earmark_rsvp::Config;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FlowDescriptors, PathErr, ResvErr, RsvpHop,
};

use crate::common::*;

pub const ATTACKER: &str = "10.0.3.2";

/// Roles of eth1, eth2 and eth3.
pub type Roles = [Role; 3];
pub use Role::{Access, Core};

pub const ROLES: [Roles; 5] = [
    [Access, Access, Access],
    [Core, Core, Access],
    [Access, Core, Core],
    [Core, Access, Core],
    [Core, Core, Core],
];

pub fn set_roles(bench: &mut Bench, roles: Roles) {
    for (id, role) in [ETH1, ETH2, ETH3].into_iter().zip(roles) {
        let mut interface = bench.interfaces.by_id(id).expect("an interface").clone();
        interface.trust = Trust { role, sources: vec![] };
        bench.interfaces.set(interface);
    }
}

/// Returns a router with a reservation of 2 Mbit/s on eth2.
pub fn reserved(config: Config, roles: Roles) -> Bench {
    let mut bench = with_config(config);
    bench.add_interface(ETH3, "10.0.3.1");
    bench.add_route("10.0.3.0/24", ETH3, None);
    set_roles(&mut bench, roles);
    bench.receive(ETH1, Body::Path(path()));
    bench.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(bench.held(), Rate::from_mbps(2));
    bench
}

pub fn error_spec(node: &str) -> ErrorSpec {
    let code = ErrorCode::AdmissionControlFailure;
    ErrorSpec { node: ip(node), flags: 0, code, value: 2 }
}

pub fn path_err() -> PathErr<'static> {
    PathErr {
        session: session(),
        error: error_spec("10.0.9.1"),
        carried: Carried::Objects(&[]),
        sender: Some((template(), Some(tspec(2)))),
    }
}

pub fn resv_err<'a>(hop: &str, flows: FlowDescriptors<'a>) -> ResvErr<'a> {
    ResvErr {
        session: session(),
        hop: RsvpHop { address: ip(hop), lih: 77 },
        error: error_spec("10.0.0.254"),
        scope: None,
        carried: Carried::Objects(&[]),
        flows,
    }
}

pub fn sends(outcomes: &[Outcome]) -> usize {
    sent(outcomes).len()
}
