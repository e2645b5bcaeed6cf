//! Messages of a call: a session that is set up, refreshed for the length of the call, and released.
//!
//! With RSVP the receiver requests a confirmation, the ResvConf passes the router too, and both ends tear down. The
//! other protocols use their ordinary messages.

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
    /// Returns the messages of a call: those of the set-up, those repeated every 30 s, those of the release.
    pub fn call(self) -> &'static [Message] {
        match self {
            Protocol::Rsvp => &RSVP,
            Protocol::Boomerang | Protocol::Yessir | Protocol::Nsis | Protocol::Natfw => {
                self.messages()
            }
        }
    }

    /// Returns whether the messages of a set-up are spread over time, so that messages of other calls come in
    /// between. This is not possible if a message repeats what the router has sent about the previous one.
    pub fn is_written_ahead(self) -> bool {
        !self.repeats_answers()
    }
}

fn asking_resv(router: &Router, number: u32, _: u32) -> Arrival {
    request(router, number, Some(names(number).0.destination))
}

/// ResvConf from the sender's node to the receiver.
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
