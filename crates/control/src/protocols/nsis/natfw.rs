//! Requests of NATFW NSLP, and its refusals as text with advice.

use std::net::{IpAddr, SocketAddr};

use earmark_wire::natfw_nslp::Outcome;
use earmark_wire::natfw_nslp::iana::{
    ErrorClass, Informational, PermanentFailure, ProtocolError, SignalingSessionFailure,
    TransientFailure,
};
use serde::{Deserialize, Serialize};

use crate::protocols::udp;

/// A request of NATFW NSLP: open the firewalls and address translators on the path of a flow from this host (CREATE).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Destination of the data; port 0 stands for protocols without ports, or for all ports.
    pub to: SocketAddr,
    /// Source of the data; port 0 stands for all ports. An unspecified or absent address means this host's own address
    /// towards the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// IP protocol of the data; 0 for all.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// SPI of the data: ESP and AH only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spi: Option<u32>,
    /// Whether the port after the destination port is opened, too: RTCP beside RTP.
    #[serde(default)]
    pub next_port: bool,
    /// ICMP types; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icmp_types: Vec<u8>,
    /// Node that answers.
    #[serde(default)]
    pub proxy: Proxy,
    /// Lifetime to request, seconds; by default that of the daemon's settings. The daemon refreshes the session until it is
    /// released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_s: Option<u32>,
    /// Transport of the messages; by default that of the daemon's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<MessageTransport>,
    /// Token that proves the name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether the session is released when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Open {
    /// A request for UDP to `to`, with defaults otherwise.
    pub fn new(to: SocketAddr) -> Open {
        Open {
            to,
            from: None,
            ip_protocol: udp(),
            spi: None,
            next_port: false,
            icmp_types: Vec::new(),
            proxy: Proxy::Off,
            lifetime_s: None,
            transport: None,
            token: None,
            hold: false,
            follow: false,
        }
    }
}

/// A request of NATFW NSLP: make a port of this host reachable from outside, or block the data that arrives there (EXTERNAL).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Expose {
    /// Port of this host.
    pub port: u16,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Address of this host; by default its own address towards the data sender or the edge of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Data sender; by default any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// Source port of the data; by default any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_port: Option<u16>,
    /// Whether the request also counts for the next port: RTCP beside RTP.
    #[serde(default)]
    pub next_port: bool,
    /// Whether the data is blocked instead.
    #[serde(default)]
    pub deny: bool,
    /// Whether this host is behind firewalls only, so that data senders use its own address.
    #[serde(default)]
    pub behind_firewall: bool,
    /// Whether the edge of the network opens the path for data senders without NSIS.
    #[serde(default)]
    pub proxy: Proxy,
    /// Lifetime to request, seconds; by default that of the daemon's settings. The daemon refreshes the session until it is
    /// released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_s: Option<u32>,
    /// Transport of the messages; by default that of the daemon's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<MessageTransport>,
    /// Token that proves the name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether the session is released when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Expose {
    /// A request for a UDP port, with defaults otherwise.
    pub fn new(port: u16) -> Expose {
        Expose {
            port,
            ip_protocol: udp(),
            address: None,
            from: None,
            from_port: None,
            next_port: false,
            deny: false,
            behind_firewall: false,
            proxy: Proxy::Off,
            lifetime_s: None,
            transport: None,
            token: None,
            hold: false,
            follow: false,
        }
    }
}

/// Proxy mode (RFC 5973 section 3.7.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Proxy {
    /// The other end of the flow takes part.
    #[default]
    Off,
    /// The edge of the network acts for the other end, and the message ends there.
    Edge,
    /// The edge acts for the other end, and sends the message on towards it.
    EdgeAndOnward,
}

/// Transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessageTransport {
    /// Datagrams.
    Datagrams,
    /// Messaging associations.
    Reliable,
    /// Messaging associations with TLS.
    Secure,
}

/// Why a request was refused, as the event `refused` contains it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A node on the path has answered.
    Answered(Answer),
    /// A message could not be sent; the name of the failure.
    Unsent(String),
    /// No answer has arrived.
    Unanswered,
}

/// What a node says about a session, as events contain it (NATFW_INFO).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Answer {
    /// Class, by name.
    pub severity: String,
    /// Code within the class.
    pub code: u8,
}

impl Answer {
    /// Returns class and code; `None` if no class has this name.
    pub fn outcome(&self) -> Option<Outcome> {
        let classes = 0..=0xf;
        let class = classes
            .into_iter()
            .find(|class| ErrorClass::from_code(*class).name() == self.severity)?;
        Some(Outcome::from_codes(class, self.code))
    }

    /// Describes the answer.
    pub fn reason(&self) -> String {
        match self.outcome() {
            Some(outcome) => outcome.to_string(),
            None => format!("{}: code {}", self.severity, self.code),
        }
    }

    /// Returns what to do about the answer.
    pub fn advice(&self) -> &'static str {
        self.outcome().map_or(UNKNOWN, advice)
    }
}

const UNKNOWN: &str =
    "`earmark ping` shows the nodes on the path; ask the operator of the last one that takes part";

impl Refusal {
    /// Describes the refusal.
    pub fn reason(&self) -> String {
        match self {
            Refusal::Answered(answer) => answer.reason(),
            Refusal::Unsent(failure) => {
                format!("the request could not be sent: {}", failure.replace('_', " "))
            }
            Refusal::Unanswered => "no node has answered".to_owned(),
        }
    }

    /// Returns what to do about the refusal.
    pub fn advice(&self) -> &'static str {
        match self {
            Refusal::Answered(answer) => answer.advice(),
            Refusal::Unsent(failure) => match failure.as_str() {
                "no_route" => {
                    "is the outgoing interface up, and in the daemon's configuration? `earmark show links` lists them"
                }
                "no_next_node" => {
                    "no node on the path supports NSIS; run a daemon at the other end, or let the edge of the network answer: \
                     --proxy"
                }
                "no_upstream_state" => {
                    "the data sender is behind routers: set [nsis] upstream = \"routed\" on the nodes towards it, or leave --from \
                     out and set signaling_destination in [natfw]"
                }
                "no_association" => {
                    "the next node accepts no connection of this kind: set [nsis] tcp or [nsis.tls] there, or leave --secure out"
                }
                "too_large" => "set [nsis] tcp on both nodes, or leave --datagrams out",
                "limit" => {
                    "release sessions that are no longer needed (`earmark show applications`), or raise the limits of [nsis]"
                }
                _ => "`earmark show routing-state` shows the next node of each session; try again",
            },
            Refusal::Unanswered => {
                "is a daemon running at the other end, with NATFW NSLP enabled? `earmark ping` shows the nodes that take part; \
                 --proxy lets the edge of the network answer"
            }
        }
    }
}

/// Returns what to do about what a node says (RFC 5973 section 4.2.5).
pub fn advice(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success(_) => "nothing; the request is granted",
        Outcome::Informational(event) => informational(event),
        Outcome::ProtocolError(ProtocolError::ExternalOnExternalSide) => {
            "the request reached the edge from outside: expose ports from inside the network only"
        }
        Outcome::ProtocolError(_) => {
            "a node on the path reads the message differently; `earmark ping` shows the nodes, and `earmark decode` the messages"
        }
        Outcome::TransientFailure(TransientFailure::ResourcesUnavailable) => {
            "a node on the path has no room or no free port; release other sessions, or try again later"
        }
        Outcome::PermanentFailure(failure) => permanent(failure),
        Outcome::SignalingSessionFailure(failure) => session_failure(failure),
        Outcome::TransientFailure(_) | Outcome::Unknown { .. } => UNKNOWN,
    }
}

fn informational(event: Informational) -> &'static str {
    match event {
        Informational::RouteChange => "the daemon signals along the new path by itself",
        Informational::ReauthenticationRequired => {
            "release the session, and request it again with a new --token"
        }
        Informational::GoingDown | Informational::Terminated | Informational::LifetimeExpired => {
            "request it again; `earmark ping` shows the nodes that take part"
        }
        Informational::Unknown(_) => UNKNOWN,
    }
}

fn permanent(failure: PermanentFailure) -> &'static str {
    match failure {
        PermanentFailure::Authentication => {
            "the token does not prove a name there; `earmark token show FILE` shows who issued it, and until when it is valid"
        }
        PermanentFailure::Authorization => {
            "no [[natfw.rule]] of a node on the path allows it, or the receiver has not run `earmark expose` for this port; \
             --token proves a name"
        }
        PermanentFailure::System => {
            "see the log of the nodes on the path: the packet filter may have refused the rule"
        }
        PermanentFailure::NoEdgeDevice => {
            "no node on the path is the edge of the network: set `external` in [natfw] there, or say --from or --behind-firewall"
        }
        PermanentFailure::ResponderNotReached => {
            "the last node on the path has no route, or no NSIS behind it: run a daemon at the other end, or give --proxy"
        }
        PermanentFailure::Unknown(_) => UNKNOWN,
    }
}

fn session_failure(failure: SignalingSessionFailure) -> &'static str {
    use SignalingSessionFailure::*;
    match failure {
        Terminated => "request it again; the node's log says why it ended the session",
        LifetimeTooBig | ModifiedLifetimeTooBig => "request a shorter --lifetime",
        LifetimeTooSmall | ModifiedLifetimeTooSmall => "request a longer --lifetime",
        NoReservation => {
            "the receiver has not exposed this port: run `earmark expose` there, and send to the address that it prints"
        }
        PolicyConflict => {
            "another session has a different rule for these packets; release that one first"
        }
        UnknownRuleAction => "the node knows neither allow nor deny; ask its operator",
        RuleActionNotApplicable => {
            "leave --deny out: the node translates addresses, or its [[natfw.rule]] does not set deny = true"
        }
        DataTerminalRequired => "this is a defect of earmark's; please report it",
        SubPortsNotPermitted => "leave --next-port out, and request both ports by themselves",
        ProtocolNotSupported => "the node has no rules for this --ip-protocol",
        PlainIpNotPermitted => {
            "name a protocol and a port, or ask the operator for a [[natfw.rule]] with wildcards = true"
        }
        IcmpTypeNotPermitted => "request other ICMP types, or fewer: --icmp-type",
        SourceRangeTooLarge => {
            "name the data sender by --from, or ask the operator for a [[natfw.rule]] with wildcards = true"
        }
        DestinationRangeTooLarge => "name one destination address",
        SourcePortRangeTooLarge => "name the source port by --from",
        DestinationPortRangeTooLarge => {
            "name the destination port, or ask the operator for a [[natfw.rule]] with wildcards = true"
        }
        Unknown(_) => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every class and code of RFC 5973 has an advice of its own, and so has an unknown one.
    #[test]
    fn answer_is_read_from_event_and_has_advice() {
        for class in 1..=0xf {
            for code in 0..=0x20 {
                let outcome = Outcome::from_codes(class, code);
                let severity = outcome.class().name().to_owned();
                let answer = Answer { severity, code };
                assert!(!answer.advice().is_empty() && !answer.reason().is_empty());
                if !matches!(outcome, Outcome::Unknown { .. }) {
                    assert_eq!(answer.outcome(), Some(outcome));
                    assert_eq!(answer.reason(), outcome.to_string());
                }
                let is_named = outcome.name() != "unknown";
                assert_eq!(
                    answer.advice() == UNKNOWN,
                    !is_named && class != 2 && class != 3,
                    "{outcome}"
                );
            }
        }
    }

    #[test]
    fn refusal_is_read_from_event() {
        let read = |text: &str| serde_json::from_str::<Refusal>(text).expect(text);
        let answered = read(
            r#"{"answered":{"severity":"permanent failure","outcome":"authorization failed","code":2}}"#,
        );
        assert_eq!(answered.reason(), "permanent failure: authorization failed");
        assert!(answered.advice().contains("[[natfw.rule]]"));
        assert!(read(r#"{"unsent":"no_next_node"}"#).advice().contains("--proxy"));
        assert!(read(r#""unanswered""#).advice().contains("earmark ping"));
    }
}
