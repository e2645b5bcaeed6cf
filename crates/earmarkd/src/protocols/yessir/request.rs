//! Requests of YESSIR.

use earmark_control::protocols::yessir::{ListenOptions, ReserveOptions};
use earmark_control::{
    ApplicationRow, ListenRequest, Problem, ProblemCode, ReservationRequest, Role, Statistics,
};
use earmark_core::Rate;
use earmark_node::Command;
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::udp::PROTOCOL as UDP;
use earmark_wire::yessir::{Flowspec, OctetRate, Style};
use earmark_yessir as yessir;

use super::Yessir;
use crate::protocol::{
    Action, Host, Opening, check_arrival, check_destination, named, options, row, source, token,
};

/// Longest canonical name, octets: RFC 3550 section 6.5 has one octet for the length.
const MAX_CNAME: usize = 255;

/// Announces a stream.
pub(super) fn reserve(
    mut request: ReservationRequest,
    host: &dyn Host,
) -> Result<Opening, Problem> {
    let of: ReserveOptions = options(&Yessir, std::mem::take(&mut request.options))?;
    let (to, from) = (request.to, source(request.from, request.to)?);
    check_destination(to, UDP, host)?;
    let attachment = yessir::Attachment {
        stream: yessir::Stream {
            source: from.ip(),
            destination: to.ip(),
            source_port: from.port(),
            destination_port: to.port(),
        },
        ssrc: of.ssrc,
        flowspec: flowspec(&request, &of)?,
        cname: of.cname.unwrap_or_else(|| cname(host)),
        multiplexed: of.multiplexed,
        style: if of.shared { Style::Shared } else { Style::Individual },
        passive: request.query,
        interval: of.interval_s.unwrap_or(0),
        ttl: request.ttl,
        token: token(&request.identity)?,
    };
    let row = row(&Yessir, Role::Sender, to, UDP, request.hold);
    Ok(Opening {
        row: ApplicationRow { senders: named(from), ..row },
        sender: None,
        follow: request.follow,
        commands: Box::new(move |application| {
            vec![Command::Yessir(yessir::Command::Attach { application, attachment })]
        }),
    })
}

/// Returns the bandwidth of a stream: the rate of the request, of a payload format, or measured.
fn flowspec(request: &ReservationRequest, of: &ReserveOptions) -> Result<Flowspec, Problem> {
    match (request.rate_bps, of.class, of.codec, of.measured) {
        (Some(rate), Some(dscp), ..) => {
            Ok(Flowspec::Class { dscp, rate: OctetRate(rate.as_octets_per_second()) })
        }
        (Some(rate), None, ..) => {
            let bucket = TokenBucket {
                rate: rate.as_octets_per_second(),
                depth: request.burst_octets as f32,
                peak: request.peak_bps.map_or(f32::INFINITY, Rate::as_octets_per_second),
                min_policed_unit: request.min_packet,
                max_packet_size: request.max_packet,
            };
            Ok(Flowspec::Intserv(match of.guaranteed {
                None => FlowSpec::ControlledLoad(bucket),
                Some(of) => {
                    let rate = of.rate_bps.as_octets_per_second();
                    FlowSpec::Guaranteed(bucket, Rspec { rate, slack_us: of.slack_us })
                }
            }))
        }
        (None, _, Some(codec), _) => {
            Ok(Flowspec::Codec { payload_type: codec.payload_type, frames: codec.frames })
        }
        (None, _, None, Some(measured)) => {
            Ok(Flowspec::Measured { window: measured.window, headroom: measured.headroom })
        }
        (None, _, None, None) => Err(Problem::new(
            ProblemCode::BadRequest,
            "invalid request: a stream without a rate",
            "give rate_bps, or the option codec or measured",
        )),
    }
}

/// Answers streams.
pub(super) fn listen(mut request: ListenRequest, host: &dyn Host) -> Result<Opening, Problem> {
    let ListenOptions { cname: named } = options(&Yessir, std::mem::take(&mut request.options))?;
    let (destination, port) = (request.on.ip(), request.on.port());
    if !destination.is_unspecified() {
        check_arrival(destination, host)?;
    }
    let cname = named.unwrap_or_else(|| cname(host));
    Ok(Opening {
        row: row(&Yessir, Role::Receiver, request.on, UDP, request.hold),
        sender: None,
        follow: request.follow,
        commands: Box::new(move |application| {
            vec![Command::Yessir(yessir::Command::Listen { application, destination, port, cname })]
        }),
    })
}

/// Returns the default canonical name of streams.
fn cname(host: &dyn Host) -> String {
    let mut name = format!("earmark@{}", host.name());
    while name.len() > MAX_CNAME {
        name.pop();
    }
    name
}

/// Returns the command that passes the amount of data that an application has sent, with the answer.
pub(super) fn statistics(request: Statistics) -> Action {
    let Statistics { application, packets, octets, rtp_timestamp } = request;
    let command = yessir::Command::Statistics { application, packets, octets, rtp_timestamp };
    let answer = serde_json::to_value(request).unwrap_or_default();
    Action::Command(application, Command::Yessir(command), answer)
}
