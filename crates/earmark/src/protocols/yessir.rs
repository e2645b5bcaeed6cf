//! `earmark reserve` and `listen` with YESSIR.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use earmark_control::command::{Failure, Output};
use earmark_control::protocols::yessir::{
    Codec, Measured, ReserveOptions as OwnOptions, failure, listen_request, way,
};
use earmark_control::{Client, Event, ListenRequest, ReservationRequest};
use earmark_core::outcome::{Kind, Message, NodeName, Outcome as Reach, OutcomeSource};
use earmark_wire::yessir::{FailureNote, LinkInfo};
use serde::Deserialize;
use serde_json::json;

use crate::cli::arguments::reservation::{Receiver, Reservation, Traffic};
use crate::cli::outcome::{Outcome, wrong_usage};
use crate::cli::reservations::begun;
use crate::cli::wait::{Awaited, Granted, Refusal, Verdict, Wait, reach_of};

pub(super) const HELP: &str = "RTCP reports of an RTP stream carry the reservation";

/// Window over which the largest rate of a measured stream counts, seconds, and headroom added to it, percent.
const WINDOW: u16 = 60;
const HEADROOM: u16 = 20;

/// What only RTP streams have.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "YESSIR")]
#[group(id = "yessir_options")]
pub(crate) struct Options {
    /// Rate of this RTP payload type (RFC 3551 section 6), such as 0 for PCMU.
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["rate", "measured"])]
    pub(crate) codec: Option<u8>,
    /// With --rate: request a class of service, named by the marking of its packets: ef, cs5, af41, or a code point up to 63.
    #[arg(long, value_name = "DSCP", requires = "rate", value_parser = code_point)]
    pub(crate) class: Option<u8>,
    /// With --codec: frames in one packet.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "codec")]
    pub(crate) frames: u8,
    /// Reserve the measured rate: the application reports to the daemon how much it has sent.
    #[arg(long, conflicts_with = "rate")]
    pub(crate) measured: bool,
    /// Share one reservation with the other senders to this destination.
    #[arg(long)]
    pub(crate) shared: bool,
    /// Reports use the ports of the data (RFC 5761); otherwise the next ones.
    #[arg(long)]
    pub(crate) mux: bool,
    /// Do not wait for a receiver to answer: many RTP applications do not.
    #[arg(long)]
    pub(crate) unconfirmed: bool,
}

pub(super) const RESERVE_EXAMPLES: &str = "  earmark reserve --protocol yessir --from 10.0.1.2:5000 --to 10.0.2.2:5000 --rate 2Mbit
  earmark reserve --protocol yessir --from 10.0.1.2:5000 --to 10.0.2.2:5000 --codec 0 --partial
  earmark reserve --protocol yessir --from 10.0.1.2:5000 --to 10.0.2.2:5000 --rate 2Mbit --class ef";

pub(super) const ABOUT: &str = "\
With YESSIR this host sends RTCP reports for an RTP stream, and the nodes on their path reserve the requested rate. Ports are
those of the RTP data. Run `earmark listen --protocol yessir` on the receiver, so that it reports what was reserved; or give
--unconfirmed.";

pub(super) const LISTEN_EXAMPLES: &str = "  earmark listen --protocol yessir --on 10.0.2.2:5000   # answer RTP streams that are announced by YESSIR";

/// The options of YESSIR.
pub(super) const OPTIONS: &str = "--codec, --class, --measured, --shared, --mux and --unconfirmed";

impl Options {
    /// Returns whether any of these options is given.
    pub(super) fn are_given(&self) -> bool {
        self.codec.is_some()
            || self.class.is_some()
            || self.measured
            || self.shared
            || self.mux
            || self.unconfirmed
    }
}

pub(super) const PARTIAL_NOTE: &str = "With YESSIR those that refuse try again";

/// Refuses options that contradict the protocol.
pub(super) fn check(options: &Reservation, of: &Options) -> Result<(), Failure> {
    if options.rate.is_none() && of.codec.is_none() && !of.measured {
        return Err(wrong_usage("--protocol yessir requires --rate, --codec or --measured"));
    }
    Ok(())
}

/// Announces a stream and waits for the answer of a receiver.
pub(super) fn reserve(
    client: &mut Client,
    options: &Reservation,
    of: &Options,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let Traffic { to, from, hold, .. } = options.traffic;
    let any: IpAddr = match to {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = from.unwrap_or(SocketAddr::new(any, to.port()));
    let own = own_options(of);
    let rate_bps = options.rate;
    let traffic = options.traffic.request("yessir")?.with(&own);
    let request =
        ReservationRequest { from: Some(from), rate_bps, query: options.query, ..traffic };
    let opened = client.reserve(request)?;
    if of.unconfirmed {
        if !hold {
            client.keep(opened.application)?;
        }
        let text = format!(
            "announcing {} to {to} as application {}",
            stream_text(options, of),
            opened.application
        );
        return begun(&text, &opened, hold, client, out);
    }
    Wait::new(client, opened, options, out).run(AwaitedStream { options, of })
}

/// A stream whose outcome is awaited.
struct AwaitedStream<'a> {
    options: &'a Reservation,
    of: &'a Options,
}

#[derive(Deserialize)]
struct Answered {
    answer: PathAnswer,
}

/// Answer of a receiver.
#[derive(Deserialize)]
struct PathAnswer {
    path: Option<LinkInfo>,
    failures: Vec<FailureNote>,
}

impl Awaited for AwaitedStream<'_> {
    fn verdict(&mut self, event: &Event) -> Verdict {
        let answered = event.is("yessir", "answered").then(|| event.details()).flatten();
        match answered {
            Some(Answered { answer }) => self.answered(&answer, reach_of(event)),
            None => Verdict::Open,
        }
    }

    fn timeout_advice(&self) -> (&'static str, &'static str) {
        (
            "no receiver has answered",
            "is `earmark listen --protocol yessir` running on the receiver? Without it, give --unconfirmed",
        )
    }
}

impl AwaitedStream<'_> {
    fn answered(&self, answer: &PathAnswer, reach: Reach) -> Verdict {
        let to = self.options.traffic.to;
        if self.options.query {
            let what = format!("{} to {to}", way(answer.path.as_ref()));
            let more = json!({ "offer": answer.path });
            return Verdict::Offered(Granted { what, reach, more });
        }
        let more = json!({ "path": answer.path, "failures": answer.failures });
        if reach.kind == Kind::Refused || !answer.failures.is_empty() && !self.options.partial {
            let why = answer.failures.first().map(failure).unwrap_or_default();
            let hint = "request less, release other reservations there, or give --partial to keep what was reserved"
                .to_owned();
            let node = answer.failures.first().map(|note| NodeName::Address(note.node));
            let by = Some(OutcomeSource { node, message: Message::new("receiver report") });
            return Verdict::Refused(Refusal { why, hint, reach: Reach { by, ..reach }, more });
        }
        let mut what = format!("{} for {to}", stream_text(self.options, self.of));
        if !answer.failures.is_empty() {
            let notes: Vec<String> = answer.failures.iter().map(failure).collect();
            what.push_str(&format!(", but not everywhere ({}),", notes.join("; ")));
        }
        Verdict::Reserved(Granted { what, reach, more })
    }
}

/// Returns the options of the protocol's own request.
fn own_options(of: &Options) -> OwnOptions {
    OwnOptions {
        class: of.class,
        codec: of.codec.map(|payload_type| Codec { payload_type, frames: of.frames }),
        measured: of.measured.then_some(Measured { window: WINDOW, headroom: HEADROOM }),
        shared: of.shared,
        multiplexed: of.mux,
        ..OwnOptions::default()
    }
}

fn stream_text(options: &Reservation, of: &Options) -> String {
    match (options.rate, of.codec) {
        (Some(rate), _) => rate.to_string(),
        (None, Some(codec)) => format!("RTP payload type {codec}"),
        (None, None) => "the measured rate".to_owned(),
    }
}

/// Answers streams that are announced with YESSIR.
pub(super) fn listen(
    client: &mut Client,
    options: &Receiver,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let says_how_much = options.rate.is_some() || options.delay.is_some();
    if says_how_much || !options.senders.is_empty() || options.wait.is_some() {
        return Err(wrong_usage(
            "with YESSIR the sender sets the rate: --rate, --delay, --sender and --wait are not supported",
        ));
    }
    let (on, hold) = (options.on, options.hold);
    let request = ListenRequest { hold, follow: hold, ..listen_request(on) };
    let opened = client.listen(request)?;
    let text = format!("answering streams to {on} as application {}", opened.application);
    begun(&text, &opened, hold, client, out)
}

/// Reads a code point by its name (RFC 2474, 2597 or 3246) or number.
fn code_point(text: &str) -> Result<u8, String> {
    let digits = |text: &str| text.parse::<u8>().ok();
    let named = match text.to_ascii_lowercase().split_at_checked(2) {
        Some(("ef", "")) => Some(46),
        Some(("cs", class)) => digits(class).filter(|&class| class <= 7).map(|class| class << 3),
        Some(("af", both)) => digits(both)
            .map(|both| (both / 10, both % 10))
            .filter(|&(class, drop)| (1..=4).contains(&class) && (1..=3).contains(&drop))
            .map(|(class, drop)| class << 3 | drop << 1),
        _ => None,
    };
    let number = || digits(text).filter(|&number| number <= 63);
    named.or_else(number).ok_or_else(|| {
        "a class is ef, cs0 to cs7, af11 to af43, or a code point from 0 to 63".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_are_named_as_in_rfcs() {
        for (text, expected) in [
            ("ef", 46),
            ("EF", 46),
            ("cs0", 0),
            ("cs5", 40),
            ("af11", 10),
            ("af43", 38),
            ("46", 46),
        ] {
            assert_eq!(code_point(text), Ok(expected), "{text}");
        }
        for text in ["", "e", "ef1", "cs8", "cs", "af14", "af51", "af1", "64", "-1", "é1"] {
            assert!(code_point(text).is_err(), "{text}");
        }
    }
}
