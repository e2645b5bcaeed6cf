//! Messages of NATFW NSLP in datagrams of GIST: a session opens the path of a flow out of the network, through the router as its
//! firewall.
//!
//! ```text
//! near                         router                          far
//!   Query ---------------------->
//!   <--------------------- Response
//!   Confirm, CREATE ------------>   Query ---------------------->
//!                                   <------------------- Response
//!                                   Confirm, CREATE ------------>
//!   <--------------------- RESPONSE <------------------- RESPONSE
//! ```

use earmark_nsis::natfw::{Config, Rule};
use earmark_nsis::nslp::Attributes;
use earmark_wire::gist::{Direction, Mri, SessionId};
use earmark_wire::natfw_nslp::iana::{NSLPID, Success};
use earmark_wire::natfw_nslp::{
    Create, ExtendedFlow, Extra, Info, Message as NatfwNslp, Outcome, ProxyMode, Response,
    RuleAction,
};

use super::nsis::{NEXT, Neighbor, PREVIOUS, Signalling, mri, session};
use super::{Arrival, FAR, Message, Router, Step, name_of};

/// Kinds of messages.
pub(super) const MESSAGES: [Message; 7] = [
    Message { name: "Query, new", step: Step::SetUp, goal: None, write: query },
    Message { name: "Confirm with CREATE, new", step: Step::SetUp, goal: None, write: confirm },
    Message { name: "Response, new", step: Step::SetUp, goal: None, write: response },
    Message { name: "RESPONSE", step: Step::SetUp, goal: None, write: grant },
    Message { name: "Query, refresh", step: Step::Refresh, goal: None, write: known_query },
    Message { name: "CREATE, refresh", step: Step::Refresh, goal: None, write: refresh },
    Message { name: "CREATE, deletion", step: Step::Release, goal: None, write: delete },
];

/// Lifetime of a session, seconds.
const LIFETIME: u32 = 90;

/// GIST for this application.
const SIGNALLING: Signalling = Signalling { nslpid: NSLPID };

/// Settings of a firewall that lets all hosts ask, without limits on sessions a second.
pub(super) fn firewall() -> Config {
    let mut config = Config {
        enabled: true,
        firewall: true,
        external: vec![name_of(FAR)],
        attributes: Attributes::default(),
        rules: vec![Rule::default()],
        ..Config::default()
    };
    let limits = &mut config.limits;
    (limits.sessions, limits.sessions_per_peer) = (u32::MAX, u32::MAX);
    (limits.changes_per_second, limits.share_of_interface) = (u32::MAX, 100);
    config
}

fn query(_: &Router, number: u32, round: u32) -> Arrival {
    SIGNALLING.ask(number, session(number, round))
}

fn known_query(_: &Router, number: u32, _: u32) -> Arrival {
    SIGNALLING.ask(number, session(number, 0))
}

fn confirm(router: &Router, number: u32, round: u32) -> Arrival {
    SIGNALLING.confirm(router, number, round, &create(0, LIFETIME))
}

fn response(router: &Router, number: u32, round: u32) -> Arrival {
    SIGNALLING.response(router, number, round)
}

fn grant(_: &Router, number: u32, round: u32) -> Arrival {
    let granted = octets(&NatfwNslp::Response(Response {
        lifetime: Some(LIFETIME),
        external_address: None,
        external_binding: None,
        msn: 0,
        info: Info::new(Outcome::Success(Success::Processed)),
        extra: Extra::NONE,
    }));
    send(&NEXT, number, (mri(number, Direction::Upstream), session(number, round)), &granted)
}

fn refresh(_: &Router, number: u32, round: u32) -> Arrival {
    goes_on(number, session(number, 0), &create(round, LIFETIME))
}

fn delete(_: &Router, number: u32, round: u32) -> Arrival {
    goes_on(number, session(number, round), &create(1 << 30, 0))
}

/// Returns a CREATE of the initiator about an existing session.
fn goes_on(number: u32, session: SessionId, octets: &[u8]) -> Arrival {
    send(&PREVIOUS, number, (mri(number, Direction::Downstream), session), octets)
}

fn send(from: &Neighbor, number: u32, (mri, session): (Mri, SessionId), octets: &[u8]) -> Arrival {
    SIGNALLING.data(from, number, (mri, session), octets)
}

/// Encodes a CREATE.
fn create(msn: u32, lifetime: u32) -> Vec<u8> {
    octets(&NatfwNslp::Create(Create {
        proxy: ProxyMode::Off,
        lifetime,
        extended_flow: ExtendedFlow { action: RuleAction::Allow, next_port: false },
        msn,
        nonce: None,
        icmp_types: None,
        extra: Extra::NONE,
    }))
}

fn octets(message: &NatfwNslp<'_>) -> Vec<u8> {
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("the buffer is long enough");
    octets
}
