//! The messages of a call: a session that is set up, refreshed for as long as somebody talks, and given back.
//!
//! With RSVP the receiver asks to be told that its reservation stands, the answer passes the router too, and both ends say that
//! it is over. The other protocols say in a call what they say anyway.

use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FixedFilterFlow, FlowDescriptors, List, ResvConf,
};

use super::rsvp::{TSPEC, UPSTREAM, downstream, names, path, path_tear, request, resv, resv_tear};
use super::{Arrival, Message, Protocol, Router, Step};

const RSVP: [Message; 7] = [
    Message { name: "Path", step: Step::SetUp, goal: None, write: path },
    Message { name: "Resv", step: Step::SetUp, goal: None, write: asking_resv },
    Message { name: "ResvConf", step: Step::SetUp, goal: None, write: resv_conf },
    Message { name: "Path", step: Step::Refresh, goal: None, write: path },
    Message { name: "Resv", step: Step::Refresh, goal: None, write: resv },
    Message { name: "ResvTear", step: Step::Release, goal: None, write: resv_tear },
    Message { name: "PathTear", step: Step::Release, goal: None, write: path_tear },
];

impl Protocol {
    /// What is said in a call: what sets it up, what is said every 30 s, what ends it.
    pub fn call(self) -> &'static [Message] {
        match self {
            Protocol::Rsvp => &RSVP,
            Protocol::Boomerang | Protocol::Yessir | Protocol::Nsis => self.messages(),
        }
    }

    /// Whether what sets a call up takes its time on the way, so that messages of other calls come in between. Where a message
    /// repeats what the router has sent about the one before, nothing may.
    pub fn is_spread(self) -> bool {
        !self.converses()
    }
}

fn asking_resv(router: &Router, number: u32, _: u32) -> Arrival {
    request(router, number, Some(names(number).0.destination))
}

/// From the sender's node to the receiver.
fn resv_conf(_: &Router, number: u32, _: u32) -> Arrival {
    let (session, filter) = names(number);
    let flow = FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(TSPEC)), filter };
    let node = UPSTREAM.address;
    let body = Body::ResvConf(ResvConf {
        session,
        error: ErrorSpec { node, flags: 0, code: ErrorCode::Confirmation, value: 0 },
        confirm: session.destination,
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
    });
    downstream(number, node, session.destination, body)
}
