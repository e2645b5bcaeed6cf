//! A log of a failing case on standard error, if `EARMARK_NSIS_MODEL_LOG` is set: steps, messages and events.

use std::sync::atomic::{AtomicBool, Ordering};

use earmark_wire::gist::{Body, Message, Mode};
use earmark_wire::qos_nslp;

use crate::common::Network;

static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Begins the log.
pub(crate) fn start() {
    IS_WANTED.store(std::env::var_os("EARMARK_NSIS_MODEL_LOG").is_some(), Ordering::Relaxed);
}

/// Ends the log.
pub(crate) fn stop() {
    IS_WANTED.store(false, Ordering::Relaxed);
}

fn is_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

pub(crate) fn line(line: impl FnOnce() -> String) {
    if is_wanted() {
        eprintln!("{}", line());
    }
}

/// Writes the messages and events that the network has collected.
pub(crate) fn messages(network: &Network) {
    if !is_wanted() {
        return;
    }
    let mut lines = Vec::new();
    for seen in &network.seen {
        let lost = if seen.lost { ", lost" } else { "" };
        let text = seen.packet.message().map_or("?".to_owned(), |message| describe(&message));
        let how = &seen.packet.how;
        let line =
            format!("n{}.{} -> {} {text}{lost}", seen.node, seen.interface.0, how.destination);
        lines.push((seen.at, line));
    }
    for (at, node, connection, octets) in &network.written {
        let text = Message::parse(octets, Mode::C).map_or("?".to_owned(), |one| describe(&one));
        lines.push((*at, format!("n{node} {connection:?} {text}")));
    }
    for (number, node) in network.nodes.iter().enumerate() {
        lines.extend(node.events.iter().map(|(at, event)| (*at, format!("n{number} ! {event:?}"))));
    }
    lines.sort_by_key(|(at, _)| *at);
    lines.iter().for_each(|(at, line)| eprintln!("{:9.3} {line}", at.as_secs_f64()));
}

fn describe(message: &Message<'_>) -> String {
    let name = message.body.message_type().name();
    let (session, data) = match &message.body {
        Body::Query(query) => (Some(query.session), query.nslp_data),
        Body::Response(response) => (Some(response.session), response.nslp_data),
        Body::Confirm(confirm) => (Some(confirm.session), confirm.nslp_data),
        Body::Data(data) => (Some(data.session), Some(data.nslp_data)),
        Body::Error(error) => return format!("Error {:?}", error.error),
        Body::Hello(_) => (None, None),
    };
    let session = session.map_or(0, |session| session.0[0]);
    let payload = data.map_or(String::new(), |data| match qos_nslp::Message::parse(data) {
        Ok(qos_nslp::Message::Reserve(one)) => format!(
            "RESERVE{} rsn {} rii {:?}{}",
            if one.tear { " tear" } else { "" },
            one.rsn.number,
            one.rii,
            if one.qspec.is_some() { " full" } else { "" }
        ),
        Ok(qos_nslp::Message::Query(one)) => format!("QUERY init {}", one.reserve_init),
        Ok(qos_nslp::Message::Response(one)) => {
            format!("RESPONSE {:?} {:?}", one.answers, one.info.outcome)
        }
        Ok(qos_nslp::Message::Notify(one)) => format!("NOTIFY {:?}", one.info.outcome),
        Err(error) => format!("{error:?}"),
    });
    format!("{name} s{session} {payload}")
}
