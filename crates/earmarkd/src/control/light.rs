//! Requests of Boomerang and YESSIR.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use earmark_boomerang as boomerang;
use earmark_core::Prefix;
use earmark_core::outcome::Outcome;
use earmark_node::{Command, Input, SenderName};
use earmark_wire::yessir::Style;
use earmark_yessir as yessir;
use serde_json::Value;

use super::requests::{Desk, Tie, no_such_application, rejected, value};
use crate::driver::Kernel;
use earmark_control::{
    Answer, ApplicationRow, Attach, Loop, OnRefusal, Problem, RatePair, Role, Signalling,
    Statistics,
};

impl<K: Kernel> Desk<'_, K> {
    /// Opens a loop of Boomerang.
    pub(super) fn loop_round(&mut self, request: Loop) -> Result<Value, Problem> {
        let (to, from) = (request.to, source(request.from, request.to)?);
        self.session(to, request.ip_protocol)?;
        let port = |port: u16| (port != 0).then_some(port);
        let selector = boomerang::Selector {
            source: Prefix::host(from.ip()),
            destination: Prefix::host(to.ip()),
            protocol: Some(request.ip_protocol),
            source_port: port(from.port()),
            destination_port: port(to.port()),
        };
        let user = request.user.map(|account| {
            let secret = boomerang::Secret::from(account.secret.0);
            let account = boomerang::Account { name: account.name, secret };
            let Some(id) = account.id() else {
                return Err(rejected(
                    format!("the name {:?} is longer than eight octets", account.name),
                    "Boomerang has eight octets for it; use a shorter name",
                ));
            };
            Ok(boomerang::User { id, secret: account.secret })
        });
        let loop_request = boomerang::Request {
            destination: to.ip(),
            selector,
            wishes: request.wishes.into_iter().map(rate_pair).collect(),
            interval: request.interval_s,
            on_refusal: on_refusal(request.on_refusal),
            user: user.transpose()?,
            count_nodes: true,
        };
        let row = self.row(Signalling::Boomerang, Role::Initiator, to, request.ip_protocol);
        let row = ApplicationRow { senders: named(from), held: request.hold, ..row };
        let tie = Tie { hold: request.hold, follow: request.follow };
        let query = request.query;
        self.enter(row, None, tie, |number| {
            let application = boomerang::Application(number);
            let request = loop_request;
            vec![Command::Boomerang(match query {
                true => boomerang::Command::Query { application, request },
                false => boomerang::Command::Reserve { application, request },
            })]
        })
    }

    /// Announces a stream with YESSIR.
    pub(super) fn attach(&mut self, request: Attach) -> Result<Value, Problem> {
        let (to, from) = (request.to, source(Some(request.from), request.to)?);
        self.session(to, UDP)?;
        let attachment = yessir::Attachment {
            stream: yessir::Stream {
                source: from.ip(),
                destination: to.ip(),
                source_port: from.port(),
                destination_port: to.port(),
            },
            ssrc: request.ssrc,
            cname: request.cname.unwrap_or_else(|| self.cname()),
            multiplexed: request.multiplexed,
            flowspec: request.flowspec,
            style: if request.shared { Style::Shared } else { Style::Individual },
            passive: request.query,
            interval: request.interval_s.unwrap_or(0),
            ttl: request.ttl,
            key: request.key,
        };
        let row = self.row(Signalling::Yessir, Role::Sender, to, UDP);
        let row = ApplicationRow { senders: named(from), held: request.hold, ..row };
        let tie = Tie { hold: request.hold, follow: request.follow };
        self.enter(row, None, tie, |number| {
            let application = yessir::Application(number);
            vec![Command::Yessir(yessir::Command::Attach { application, attachment })]
        })
    }

    /// Answers streams with YESSIR.
    pub(super) fn answer_streams(&mut self, request: &Answer) -> Result<Value, Problem> {
        let on = request.on;
        let anywhere = on.ip().is_unspecified();
        if !anywhere && !on.ip().is_multicast() && !self.driver.is_local(on.ip()) {
            return Err(rejected(
                format!("{} is none of this host's addresses, so nothing arrives there", on.ip()),
                "listen on an address of this host (`ip address` lists them), or run this on the receiver",
            ));
        }
        let cname = request.cname.clone().unwrap_or_else(|| self.cname());
        let row = self.row(Signalling::Yessir, Role::Receiver, on, UDP);
        let row = ApplicationRow { held: request.hold, ..row };
        let tie = Tie { hold: request.hold, follow: request.follow };
        self.enter(row, None, tie, |number| {
            let application = yessir::Application(number);
            let (destination, port) = (on.ip(), on.port());
            vec![Command::Yessir(yessir::Command::Listen { application, destination, port, cname })]
        })
    }

    /// Passes the amount of data that an application has sent to YESSIR.
    pub(super) fn statistics(&mut self, request: Statistics) -> Result<Value, Problem> {
        let Statistics { application: number, packets, octets, rtp_timestamp } = request;
        let known = self.hub.applications.get(&number);
        known
            .filter(|application| application.row.protocol == Signalling::Yessir)
            .ok_or_else(|| no_such_application(number))?;
        let application = yessir::Application(number);
        let command = yessir::Command::Statistics { application, packets, octets, rtp_timestamp };
        self.driver.handle(self.now, Input::Command(Command::Yessir(command)));
        Ok(value(request))
    }

    pub(super) fn row(
        &self,
        protocol: Signalling,
        role: Role,
        destination: SocketAddr,
        ip_protocol: u8,
    ) -> ApplicationRow {
        ApplicationRow {
            application: 0, // the number is assigned by `enter`
            protocol,
            role,
            destination: destination.ip(),
            destination_port: destination.port(),
            ip_protocol,
            style: None,
            senders: Vec::new(),
            held: false,
            outcome: Outcome::default(),
            last: None,
        }
    }

    /// Default canonical name for streams.
    fn cname(&self) -> String {
        let mut name = format!("earmark@{}", self.hub.node);
        while name.len() > LONGEST_CNAME {
            name.pop();
        }
        name
    }
}

fn rate_pair(pair: RatePair) -> boomerang::ReservationRequest {
    boomerang::ReservationRequest { forward: pair.forward, reverse: pair.reverse }
}

fn on_refusal(reaction: OnRefusal) -> boomerang::OnRefusal {
    match reaction {
        OnRefusal::Retry => boomerang::OnRefusal::Retry,
        OnRefusal::TakeOffer => boomerang::OnRefusal::TakeOffer,
        OnRefusal::Release => boomerang::OnRefusal::Release,
    }
}

/// IP protocol number of UDP, which carries RTP.
const UDP: u8 = 17;
/// Longest canonical name, octets: RFC 3550 section 6.5 has one octet for the length.
const LONGEST_CNAME: usize = 255;

/// The source of a flow to `to`; its address may be chosen by the node.
pub(super) fn source(from: Option<SocketAddr>, to: SocketAddr) -> Result<SocketAddr, Problem> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = from.unwrap_or(SocketAddr::new(any, 0));
    if from.ip().is_unspecified() {
        return Ok(SocketAddr::new(any, from.port()));
    }
    if from.is_ipv4() != to.is_ipv4() {
        return Err(rejected(
            format!("{} and {} are of different IP versions", from.ip(), to.ip()),
            "both IPv4 or both IPv6",
        ));
    }
    Ok(from)
}

/// Name of a sender; empty if the node chooses its address.
pub(super) fn named(from: SocketAddr) -> Vec<SenderName> {
    let name = SenderName { address: from.ip(), port: from.port(), flow_label: None };
    if from.ip().is_unspecified() { Vec::new() } else { vec![name] }
}
