//! Requests of Boomerang.

use earmark_boomerang as boomerang;
use earmark_control::{ApplicationRow, Loop, OnRefusal, Problem, RatePair, Role, Signalling};
use earmark_core::Prefix;
use earmark_node::Command;
use serde_json::Value;

use crate::control::requests::{Lifetime, RequestHandler, named, rejected, source};
use crate::driver::Kernel;

impl<K: Kernel> RequestHandler<'_, K> {
    /// Opens a loop of Boomerang.
    pub(crate) fn loop_round(&mut self, request: Loop) -> Result<Value, Problem> {
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
        let lifetime = Lifetime { hold: request.hold, follow: request.follow };
        let query = request.query;
        self.enter(row, None, lifetime, |number| {
            let application = boomerang::Application(number);
            let request = loop_request;
            vec![Command::Boomerang(match query {
                true => boomerang::Command::Query { application, request },
                false => boomerang::Command::Reserve { application, request },
            })]
        })
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
