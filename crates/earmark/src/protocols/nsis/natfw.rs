//! `earmark open` and `earmark expose`: sessions of NATFW NSLP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use earmark_control::command::{Failure, Output};
use earmark_control::protocols::nsis::natfw::{Answer, MessageTransport, Proxy, Refusal};
use earmark_control::text::{ip_protocol_number, with_port};
use earmark_control::{Client, Event, Expose, Open, Opened, Request};
use earmark_core::Endpoint;
use earmark_core::amounts::{parse_duration, show_duration};
use earmark_core::outcome::{Kind, Outcome as Reach};
use serde::Deserialize;
use serde_json::json;

use crate::cli::arguments::values::{endpoint, host, spi};
use crate::cli::outcome::{Outcome, wrong_usage};
use crate::cli::token::read_token;
use crate::cli::wait::{next_event, reach_of, release};
use crate::cli::watch;

/// Open the firewalls and address translators on the path of a flow from this host (NATFW NSLP), and wait for the answer.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  earmark open --to 198.51.100.7:5001                                # UDP from any port of this host
  earmark open --to 198.51.100.7:5001 --from :4000 --next-port       # RTP from port 4000, and RTCP beside it
  earmark open --to 198.51.100.7:443 --ip-protocol tcp --lifetime 30min --hold
  earmark open --to 198.51.100.7 --icmp-type 8                       # echo requests
  earmark open --to 198.51.100.7 --ip-protocol esp --spi 0x1000
  earmark open --to 198.51.100.7:5001 --proxy                        # the receiver does not support NSIS

The request follows the path of the data; each firewall and translator with NSIS prepares a rule, and installs it when the
receiver agrees: its daemon does if an application has exposed the port (`earmark expose`). With --proxy the edge of this
network answers instead, and nothing is opened behind it.

The daemon refreshes the session until `earmark release`; with --hold, until this command ends. Then the path closes again, at
the latest after its lifetime.
Exit status: 0 opened, 3 refused, 4 nobody answered in time.")]
pub(crate) struct OpenOptions {
    /// Destination of the data. Without a port: of protocols without ports, or all ports.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = endpoint)]
    pub(crate) to: SocketAddr,
    /// Source of the data: an address of this host, a port, or both [default: the address of the route, any port].
    #[arg(long, value_name = "[ADDR][:PORT]", value_parser = source)]
    pub(crate) from: Option<SocketAddr>,
    /// IP protocol of the data: udp, tcp, sctp, icmp, icmpv6, esp, ah, a number, or any [default: udp].
    #[arg(long, value_name = "NAME", value_parser = ip_protocol_or_any)]
    pub(crate) ip_protocol: Option<u8>,
    /// ICMP type of the data; may be given several times.
    #[arg(long = "icmp-type", value_name = "N", conflicts_with = "spi")]
    pub(crate) icmp_types: Vec<u8>,
    /// SPI of the data, with --ip-protocol esp or ah.
    #[arg(long, value_name = "SPI", value_parser = spi)]
    pub(crate) spi: Option<u32>,
    /// Open the port after the destination port, too: RTCP beside RTP.
    #[arg(long)]
    pub(crate) next_port: bool,
    /// Let the edge of this network answer for a receiver without NSIS.
    #[arg(long)]
    pub(crate) proxy: bool,
    /// Let the edge answer, and send the request on: the receiver may support NSIS.
    #[arg(long, conflicts_with = "proxy")]
    pub(crate) probe: bool,
    #[command(flatten)]
    pub(crate) session: SessionOptions,
}

/// Make a port of this host reachable from outside its network (NATFW NSLP), and print the external address and port.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  earmark expose 5001                                     # a UDP port, for any data sender
  earmark expose 5001 --from 198.51.100.7 --next-port     # RTP and RTCP from one sender
  earmark expose 22 --ip-protocol tcp --behind-firewall   # no translator: senders use this host's own address
  earmark expose 5001 --proxy                             # the senders do not support NSIS
  earmark expose 5001 --deny --from 198.51.100.7          # block data of this sender at the edge

The request travels to the edge of the network, which reserves an external address and port. Without --from it travels towards
the address that the daemon's configuration names: signaling_destination in [natfw]. Nothing is open yet: data passes when its
sender has opened the path (`earmark open`), or if the edge does so for it (--proxy).

The daemon refreshes the session until `earmark release`; with --hold, until this command ends.
Exit status: 0 granted, 3 refused, 4 nobody answered in time.")]
pub(crate) struct ExposeOptions {
    /// Port of this host.
    #[arg(value_name = "PORT")]
    pub(crate) port: u16,
    /// IP protocol of the data: udp, tcp, sctp or a number.
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ip_protocol_or_any)]
    pub(crate) ip_protocol: u8,
    /// Address of this host [default: that of the route].
    #[arg(long, value_name = "ADDR", value_parser = host)]
    pub(crate) address: Option<IpAddr>,
    /// Data sender, and its port if only that is meant [default: any].
    #[arg(long, value_name = "HOST[:PORT]", value_parser = endpoint)]
    pub(crate) from: Option<SocketAddr>,
    /// Request the next port, too: RTCP beside RTP.
    #[arg(long)]
    pub(crate) next_port: bool,
    /// Block the data instead.
    #[arg(long, conflicts_with = "proxy")]
    pub(crate) deny: bool,
    /// This host is behind firewalls only, and data senders use its own address.
    #[arg(long)]
    pub(crate) behind_firewall: bool,
    /// Let the edge of the network open the path for data senders without NSIS.
    #[arg(long)]
    pub(crate) proxy: bool,
    #[command(flatten)]
    pub(crate) session: SessionOptions,
}

/// What sessions of both kinds have.
#[derive(Args, Clone, Debug)]
pub(crate) struct SessionOptions {
    /// Lifetime to request: 90s, 30min. The daemon refreshes the session within [default: as configured in the daemon].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) lifetime: Option<Duration>,
    /// Over connections by TLS only, on the whole path.
    #[arg(long)]
    pub(crate) secure: bool,
    /// In datagrams, without connections.
    #[arg(long, conflicts_with = "secure")]
    pub(crate) datagrams: bool,
    /// Prove the name of the user by the token in this file (`earmark token issue` makes one).
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Keep running and print events; the session ends with this command.
    #[arg(long)]
    pub(crate) hold: bool,
    /// Timeout of the answer: 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

pub(crate) const PINHOLES: &str =
    "What firewalls and translators let through this node, or block, on request of hosts";
pub(crate) const TRANSLATIONS: &str =
    "Addresses and ports that are reserved at this node for data from outside";

impl SessionOptions {
    fn lifetime_s(&self) -> Option<u32> {
        let seconds = |lifetime: Duration| u32::try_from(lifetime.as_millis().div_ceil(1_000));
        self.lifetime.map(|lifetime| seconds(lifetime).unwrap_or(u32::MAX))
    }

    fn transport(&self) -> Option<MessageTransport> {
        match (self.secure, self.datagrams) {
            (true, _) => Some(MessageTransport::Secure),
            (false, true) => Some(MessageTransport::Datagrams),
            (false, false) => None,
        }
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let token = self.token.as_deref().map(read_token).transpose()?;
        Ok(token.map(|token| token.to_string()))
    }
}

/// Reads an IP protocol; `any` is 0.
fn ip_protocol_or_any(text: &str) -> Result<u8, String> {
    match text {
        "any" => Ok(0),
        _ => ip_protocol_number(text).ok_or_else(|| {
            "an IP protocol is udp, tcp, sctp, icmp, icmpv6, esp, ah, any, or a number from 1 to 255"
                .to_owned()
        }),
    }
}

/// Reads `10.0.1.2:4000`, an address alone (port 0), or `:4000` (the address of the route).
fn source(text: &str) -> Result<SocketAddr, String> {
    match text.strip_prefix(':').map(str::parse) {
        Some(Ok(port)) => Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)),
        _ => endpoint(text),
    }
}

impl OpenOptions {
    /// Returns the request, tied to the connection and followed.
    ///
    /// # Errors
    /// Options contradict each other.
    pub(crate) fn request(&self) -> Result<Open, Failure> {
        let icmp = if self.to.is_ipv4() { 1 } else { 58 };
        let ip_protocol = match self.ip_protocol {
            None if !self.icmp_types.is_empty() => icmp,
            None => 17,
            Some(number) => number,
        };
        if !self.icmp_types.is_empty() && ip_protocol != icmp {
            return Err(wrong_usage("--icmp-type requires --ip-protocol icmp, with IPv6 icmpv6"));
        }
        if self.spi.is_some() && !matches!(ip_protocol, 50 | 51) {
            return Err(wrong_usage("--spi requires --ip-protocol esp or ah"));
        }
        if self.next_port && self.to.port() == 0 {
            return Err(wrong_usage("--next-port requires a port in --to"));
        }
        let session = &self.session;
        Ok(Open {
            from: self.from,
            ip_protocol,
            spi: self.spi,
            next_port: self.next_port,
            icmp_types: self.icmp_types.clone(),
            proxy: match (self.proxy, self.probe) {
                (true, _) => Proxy::Edge,
                (false, true) => Proxy::EdgeAndOnward,
                (false, false) => Proxy::Off,
            },
            lifetime_s: session.lifetime_s(),
            transport: session.transport(),
            token: session.token()?,
            hold: true,
            follow: true,
            ..Open::new(self.to)
        })
    }
}

impl ExposeOptions {
    /// Returns the request, tied to the connection and followed.
    ///
    /// # Errors
    /// The token cannot be read.
    pub(crate) fn request(&self) -> Result<Expose, Failure> {
        let session = &self.session;
        Ok(Expose {
            ip_protocol: self.ip_protocol,
            address: self.address,
            from: self.from.map(|from| from.ip()),
            from_port: self.from.map(|from| from.port()).filter(|port| *port != 0),
            next_port: self.next_port,
            deny: self.deny,
            behind_firewall: self.behind_firewall,
            proxy: if self.proxy { Proxy::Edge } else { Proxy::Off },
            lifetime_s: session.lifetime_s(),
            transport: session.transport(),
            token: session.token()?,
            hold: true,
            follow: true,
            ..Expose::new(self.port)
        })
    }

    /// Describes what the network has granted.
    fn granted(&self, granted: &Granted) -> String {
        let port = self.port;
        let sender = self.from.map_or("any host".to_owned(), |from| from.ip().to_string());
        if self.deny {
            return format!("blocked for data from {sender}: port {port}");
        }
        let at = match granted.external {
            Some(external) => format!("at {external}"),
            None => "at its own address".to_owned(),
        };
        format!("port {port} may be reached {at} from {sender}")
    }

    /// Returns what has to happen before data arrives; `None` if nothing is missing.
    fn next_step(&self, granted: &Granted) -> Option<String> {
        if self.deny || self.proxy {
            return None;
        }
        let to = match granted.external {
            Some(external) => external.to_string(),
            None => with_port_of(self.address, self.port),
        };
        Some(format!("data passes once its sender has opened the path: `earmark open --to {to}`"))
    }
}

fn with_port_of(address: Option<IpAddr>, port: u16) -> String {
    address.map_or_else(|| format!("ADDRESS:{port}"), |address| with_port(address, port))
}

/// Opens the path of a flow, and waits for the answer.
pub(crate) fn open(
    client: &mut Client,
    options: &OpenOptions,
    request: Open,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let to = with_port(request.to.ip(), request.to.port());
    let opened = client.call(&Request::Open(request))?;
    let wait = Wait { client, opened, session: &options.session, out };
    wait.run(|_| (format!("opened the path to {to}"), None))
}

/// Exposes a port, and waits for the answer.
pub(crate) fn expose(
    client: &mut Client,
    options: &ExposeOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let opened = client.call(&Request::Expose(options.request()?))?;
    let wait = Wait { client, opened, session: &options.session, out };
    wait.run(|granted| (options.granted(granted), options.next_step(granted)))
}

/// Event `granted`.
#[derive(Deserialize)]
struct Granted {
    external: Option<Endpoint>,
    #[serde(default)]
    bindings: Vec<Endpoint>,
    lifetime: u32,
}

#[derive(Deserialize)]
struct Refused {
    refusal: Refusal,
}

#[derive(Deserialize)]
struct Ended {
    info: Option<Answer>,
}

/// A session whose answer is awaited. Until it is granted it is tied to the connection, so that nothing is left behind however
/// this command ends.
struct Wait<'a> {
    client: &'a mut Client,
    opened: Opened,
    session: &'a SessionOptions,
    out: &'a mut Output,
}

impl Wait<'_> {
    /// Waits for the answer and reports it: `describe` returns what was granted, and what is still missing.
    fn run(
        mut self,
        describe: impl Fn(&Granted) -> (String, Option<String>),
    ) -> Result<Outcome, Failure> {
        let deadline = Some(Instant::now() + self.session.timeout);
        while let Some(event) = self.next(deadline)? {
            if let Some(refused) = self.refusal(&event) {
                return self.refused(&event, refused);
            }
            let granted = (event.event == "granted").then(|| event.details()).flatten();
            if let Some(granted) = granted {
                let (text, missing) = describe(&granted);
                return self.granted(&event, &granted, &text, missing);
            }
        }
        release(self.client, self.opened.application)?;
        let (reason, hint) = (Refusal::Unanswered.reason(), Refusal::Unanswered.advice());
        let json = json!({
            "outcome": Reach::of(Kind::Unanswered),
            "role": self.opened.role,
            "reason": reason,
            "hint": hint,
        });
        let within = show_duration(self.session.timeout);
        self.out.line(&format!("no answer within {within}: {reason}\n  help: {hint}"), &json)?;
        Ok(Outcome::TimedOut)
    }

    fn next(&mut self, deadline: Option<Instant>) -> Result<Option<Event>, Failure> {
        next_event(self.client, "nsis", self.opened.application, deadline)
    }

    /// Returns the reason of an event that ends the session, with advice, and its exit status.
    fn refusal(&self, event: &Event) -> Option<(String, &'static str, Outcome)> {
        match event.event.as_str() {
            "refused" => {
                let Refused { refusal } = event.details()?;
                let outcome = match refusal {
                    Refusal::Answered(_) => Outcome::Refused,
                    Refusal::Unsent(_) | Refusal::Unanswered => Outcome::TimedOut,
                };
                Some((refusal.reason(), refusal.advice(), outcome))
            }
            "ended" => {
                let Ended { info } = event.details()?;
                let info = info?;
                Some((info.reason(), info.advice(), Outcome::Refused))
            }
            _ => None,
        }
    }

    /// Reports a grant, and keeps the session.
    fn granted(
        mut self,
        event: &Event,
        granted: &Granted,
        text: &str,
        missing: Option<String>,
    ) -> Result<Outcome, Failure> {
        let application = self.opened.application;
        let hold = self.session.hold;
        if !hold {
            self.client.keep(application)?;
        }
        let (setup, lifetime) = (event.since(self.opened.at_s), granted.lifetime);
        let json = json!({
            "outcome": reach_of(event),
            "application": application,
            "role": self.opened.role,
            "setup_ms": setup.as_secs_f64() * 1e3,
            "lifetime_s": lifetime,
            "external": granted.external,
            "bindings": granted.bindings,
        });
        let end = match hold {
            true => "it ends with this command".to_owned(),
            false => format!("`earmark release {application}` ends it"),
        };
        let time = show_duration(setup);
        let mut text =
            format!("{text} in {time}; {end}\n  granted for {lifetime} s, and refreshed");
        if let Some(missing) = missing {
            text += &format!("\n  {missing}");
        }
        self.out.line(&text, &json)?;
        if hold { self.follow() } else { Ok(Outcome::Done) }
    }

    /// Prints the events of the session until it ends, a signal arrives or the daemon stops.
    fn follow(&mut self) -> Result<Outcome, Failure> {
        while let Some(event) = self.next(None)? {
            watch::print(&event, self.out)?;
            if let Some((_, hint, outcome)) = self.refusal(&event) {
                release(self.client, self.opened.application)?;
                if !self.out.json {
                    eprintln!("  help: {hint}");
                }
                return Ok(outcome);
            }
        }
        Ok(Outcome::Done)
    }

    fn refused(
        self,
        event: &Event,
        (reason, hint, outcome): (String, &str, Outcome),
    ) -> Result<Outcome, Failure> {
        let after = event.since(self.opened.at_s);
        release(self.client, self.opened.application)?;
        let json = json!({
            "outcome": reach_of(event),
            "role": self.opened.role,
            "reason": reason,
            "hint": hint,
            "after_ms": after.as_secs_f64() * 1e3,
        });
        let after = show_duration(after);
        self.out.line(&format!("refused after {after}: {reason}\n  help: {hint}"), &json)?;
        Ok(outcome)
    }
}
