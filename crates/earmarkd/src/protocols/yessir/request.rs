//! Requests of YESSIR.

use earmark_control::{Answer, ApplicationRow, Attach, Problem, Role, Signalling, Statistics};
use earmark_node::{Command, Input};
use earmark_wire::yessir::Style;
use earmark_yessir as yessir;
use serde_json::Value;

use crate::control::requests::{
    Lifetime, RequestHandler, named, no_such_application, rejected, source, value,
};
use crate::driver::Kernel;

impl<K: Kernel> RequestHandler<'_, K> {
    /// Announces a stream with YESSIR.
    pub(crate) fn attach(&mut self, request: Attach) -> Result<Value, Problem> {
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
        let lifetime = Lifetime { hold: request.hold, follow: request.follow };
        self.enter(row, None, lifetime, |number| {
            let application = yessir::Application(number);
            vec![Command::Yessir(yessir::Command::Attach { application, attachment })]
        })
    }

    /// Answers streams with YESSIR.
    pub(crate) fn answer_streams(&mut self, request: &Answer) -> Result<Value, Problem> {
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
        let lifetime = Lifetime { hold: request.hold, follow: request.follow };
        self.enter(row, None, lifetime, |number| {
            let application = yessir::Application(number);
            let (destination, port) = (on.ip(), on.port());
            vec![Command::Yessir(yessir::Command::Listen { application, destination, port, cname })]
        })
    }

    /// Passes the amount of data that an application has sent to YESSIR.
    pub(crate) fn statistics(&mut self, request: Statistics) -> Result<Value, Problem> {
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

    /// Default canonical name for streams.
    fn cname(&self) -> String {
        let mut name = format!("earmark@{}", self.hub.node);
        while name.len() > MAX_CNAME {
            name.pop();
        }
        name
    }
}

/// IP protocol number of UDP, which carries RTP.
const UDP: u8 = 17;
/// Longest canonical name, octets: RFC 3550 section 6.5 has one octet for the length.
const MAX_CNAME: usize = 255;
