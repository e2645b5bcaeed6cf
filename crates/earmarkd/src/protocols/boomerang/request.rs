//! Requests of Boomerang.

use earmark_boomerang as boomerang;
use earmark_control::protocols::boomerang::{OnRefusal, RatePair, ReserveOptions};
use earmark_control::{ApplicationId, ApplicationRow, Problem, ReservationRequest, Role};
use earmark_core::{Prefix, Rate, Secret};
use earmark_node::Command;

use serde_json::{Map, Value, json};

use super::Boomerang;
use crate::protocol::{
    Host, Opening, check_destination, named, options, rate, rejected, row, source, token,
};

/// Opens a loop.
pub(super) fn reserve(request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
    let query = request.query;
    opening(request, host, move |application, request| match query {
        true => boomerang::Command::Query { application, request },
        false => boomerang::Command::Reserve { application, request },
    })
}

/// Changes the rates of a loop.
pub(super) fn change(request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
    opening(request, host, |application, request| boomerang::Command::Modify {
        application,
        rates: request.rates,
    })
}

fn opening(
    mut request: ReservationRequest,
    host: &dyn Host,
    command: impl FnOnce(ApplicationId, boomerang::Request) -> boomerang::Command + 'static,
) -> Result<Opening, Problem> {
    let ReserveOptions { mut rates, interval_s, on_refusal: reaction, user } =
        options(&Boomerang, std::mem::take(&mut request.options))?;
    let (to, from) = (request.to, source(request.from, request.to)?);
    check_destination(to, request.ip_protocol, host)?;
    if rates.is_empty() {
        rates.push(RatePair { forward: rate(&request)?, reverse: Rate::ZERO });
    }
    let port = |port: u16| (port != 0).then_some(port);
    let selector = boomerang::Selector {
        source: Prefix::host(from.ip()),
        destination: Prefix::host(to.ip()),
        protocol: Some(request.ip_protocol),
        source_port: port(from.port()),
        destination_port: port(to.port()),
    };
    let user = user.map(|account| {
        let Some(id) = boomerang::credential::user_id(&account.name) else {
            return Err(rejected(
                format!("name {:?} is longer than eight octets", account.name),
                "names of Boomerang have at most eight octets",
            ));
        };
        Ok(boomerang::User { id, secret: Secret::new(account.secret.0) })
    });
    let message = boomerang::Request {
        destination: to.ip(),
        selector,
        rates: rates.into_iter().map(rate_pair).collect(),
        interval: interval_s,
        on_refusal: on_refusal(reaction),
        user: user.transpose()?,
        token: token(&request.identity)?,
        count_nodes: true,
    };
    let row = row(&Boomerang, Role::Initiator, to, request.ip_protocol, request.hold);
    Ok(Opening {
        row: ApplicationRow { senders: named(from), ..row },
        sender: None,
        follow: request.follow,
        commands: Box::new(move |application| {
            vec![Command::Boomerang(command(application, message))]
        }),
    })
}

/// Replaces the list of rates by one pair: this forward rate, and the best reverse rate of the list.
pub(super) fn set_forward_rate(options: &mut Map<String, Value>, forward: Rate) {
    let pairs: Vec<RatePair> = options
        .remove("rates")
        .and_then(|pairs| serde_json::from_value(pairs).ok())
        .unwrap_or_default();
    let pair = pairs.first().map(|best| RatePair { forward, ..*best });
    options.extend(pair.map(|pair| ("rates".to_owned(), json!([pair]))));
}

fn rate_pair(pair: RatePair) -> boomerang::RequestedRates {
    boomerang::RequestedRates { forward: pair.forward, reverse: pair.reverse }
}

fn on_refusal(reaction: OnRefusal) -> boomerang::OnRefusal {
    match reaction {
        OnRefusal::Retry => boomerang::OnRefusal::Retry,
        OnRefusal::TakeOffer => boomerang::OnRefusal::TakeOffer,
        OnRefusal::Release => boomerang::OnRefusal::Release,
    }
}
