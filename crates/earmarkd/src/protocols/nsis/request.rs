//! Requests of NSIS.

use std::net::SocketAddr;
use std::time::Duration;

use earmark_core::Flow;
use earmark_core::admission::Priority;
use earmark_node::{Command, SenderName};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::{self as nsis, ping, qos};
use serde_json::Value;

use crate::control::requests::{Lifetime, RequestHandler, named, rejected, source};
use crate::driver::Kernel;
use earmark_control::{ApplicationRow, Establish, Expect, Ping, Problem, Role, Signalling};

impl<K: Kernel> RequestHandler<'_, K> {
    /// Sends Ping messages.
    pub(crate) fn ping(&mut self, request: &Ping) -> Result<Value, Problem> {
        // GIST ignores the port of the data.
        let to = SocketAddr::new(request.to, 0);
        let row = self.row(Signalling::Ping, Role::Initiator, to, 0);
        let row = ApplicationRow { held: request.hold, ..row };
        let lifetime = Lifetime { hold: request.hold, follow: request.follow };
        let span = |milliseconds: u32| Duration::from_millis(milliseconds.into());
        let asked = ping::Request {
            attributes: attributes(request.reliable, request.secure),
            bandwidth: request.qos,
            count: Some(request.count),
            interval: span(request.interval_ms),
            timeout: request.timeout_ms.map(span),
            ..ping::Request::new(request.to)
        };
        self.enter(row, None, lifetime, |number| {
            let application = ping::Application(number);
            let command = ping::Command::Ping { application, request: asked };
            vec![Command::Nsis(nsis::Command::Ping(command))]
        })
    }

    /// Opens a session of QoS NSLP as the sender.
    pub(crate) fn establish(&mut self, request: &Establish) -> Result<Value, Problem> {
        let (to, from) = (request.to, source(request.from, request.to)?);
        self.session(to, request.ip_protocol)?;
        if request.flow_label.is_some() && to.is_ipv4() {
            return Err(rejected(
                "only IPv6 has flow labels".to_owned(),
                "leave the label out, or give an IPv6 destination",
            ));
        }
        let flow = Flow {
            destination: to.ip(),
            source: (!from.ip().is_unspecified()).then_some(from.ip()),
            protocol: request.ip_protocol,
            destination_port: to.port(),
            source_port: from.port(),
            flow_label: request.flow_label.unwrap_or(0),
            destination_open: 0,
            source_open: 0,
        };
        let wish = qos::ReservationRequest {
            burst: request.burst_octets,
            peak: request.peak_bps,
            max_packet: request.max_packet,
            minimum: request.minimum_bps,
            priority: request
                .priority
                .map(|priority| Priority { preemption: priority, defending: priority }),
            ..qos::ReservationRequest::of(request.rate_bps)
        };
        let wanted = qos::Request {
            attributes: (request.reliable || request.secure)
                .then(|| attributes(request.reliable, request.secure)),
            ..qos::Request::new(flow, wish)
        };
        let row = self.row(Signalling::Nsis, Role::Sender, to, request.ip_protocol);
        let senders = match request.flow_label {
            Some(label) => {
                vec![SenderName { address: from.ip(), port: 0, flow_label: Some(label) }]
            }
            None => named(from),
        };
        let row = ApplicationRow { senders, held: request.hold, ..row };
        let lifetime = Lifetime { hold: request.hold, follow: request.follow };
        let (query, by_receiver) = (request.query, request.by_receiver);
        self.enter(row, None, lifetime, |number| {
            let (application, request) = (qos::Application(number), wanted);
            let command = match (query, by_receiver) {
                (true, _) => qos::Command::Query { application, request },
                (false, true) => qos::Command::Invite { application, request },
                (false, false) => qos::Command::Reserve { application, request },
            };
            vec![Command::Nsis(nsis::Command::Qos(command))]
        })
    }

    /// Opens an application of QoS NSLP as the receiver.
    pub(crate) fn expect(&mut self, request: &Expect) -> Result<Value, Problem> {
        let on = request.on;
        let anywhere = on.ip().is_unspecified();
        if !anywhere && !self.driver.is_local(on.ip()) {
            return Err(rejected(
                format!("{} is none of this host's addresses, so nothing arrives there", on.ip()),
                "listen on an address of this host (`ip address` lists them), or run this on the receiver",
            ));
        }
        let listen = qos::Listen {
            destination: (!anywhere).then_some(on.ip()),
            protocol: Some(request.ip_protocol),
            port: (on.port() != 0).then_some(on.port()),
            most: request.most_bps,
            reverse: request.reverse_bps.map(qos::ReservationRequest::of),
        };
        let row = self.row(Signalling::Nsis, Role::Receiver, on, request.ip_protocol);
        let row = ApplicationRow { held: request.hold, ..row };
        let lifetime = Lifetime { hold: request.hold, follow: request.follow };
        self.enter(row, None, lifetime, |number| {
            let application = qos::Application(number);
            let command = qos::Command::Listen { application, listen };
            vec![Command::Nsis(nsis::Command::Qos(command))]
        })
    }
}

/// Transport attributes; a secure transport is also reliable.
fn attributes(reliable: bool, secure: bool) -> Attributes {
    Attributes { reliable: reliable || secure, secure }
}
