//! Figures of the paper: Table I, Figure 5, and the parts of the figures by its appendix.

use serde::Serialize;

use super::{Part, Parts};

/// Octets of the header of QoS NSLP's RESERVE, with its RSN, and of its RESPONSE, with an INFO-SPEC.
pub(super) const QOS_NSLP: u32 = 16;

earmark_core::named_enum! {
    /// IP version.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Version {
        /// IPv4.
        V4 = "IPv4",
        /// IPv6.
        V6 = "IPv6",
    }
}

impl Version {
    /// Selects the value of this version.
    pub(super) const fn pick(self, [v4, v6]: [u32; 2]) -> u32 {
        match self {
            Version::V4 => v4,
            Version::V6 => v6,
        }
    }
}

earmark_core::named_enum! {
    /// The messages of Table I, and two that it does not distinguish: over an existing association, the proposal to set
    /// one up is left out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Message {
        /// Query that proposes no association.
        Query = "Query",
        /// Query that proposes an association.
        QueryWithStack = "Query, stack proposal",
        /// Response in a datagram.
        Response = "Response, D-mode",
        /// Response over TCP, for a new association.
        ResponseOverTcp = "Response, C-mode",
        /// Response over the existing association.
        ResponseOverExisting = "Response, C-mode, association exists",
        /// Confirm in a datagram.
        Confirm = "Confirm, D-mode",
        /// Confirm as the first message of an association.
        ConfirmOverTcp = "Confirm, C-mode",
        /// Confirm over the existing association.
        ConfirmOverExisting = "Confirm, C-mode, association exists",
        /// Data in a datagram.
        Data = "Data, D-mode",
        /// Data over an association.
        DataOverTcp = "Data, C-mode",
        /// SYN or SYN-ACK.
        TcpSyn = "TCP SYN, SYN+ACK",
        /// Acknowledgement alone.
        TcpAck = "TCP ACK",
        /// RSVP's Path.
        RsvpPath = "RSVP Path",
        /// RSVP's Resv.
        RsvpResv = "RSVP Resv",
    }
}

impl Message {
    /// Returns the key of the published figure; `None` for rows that are not in Table I.
    pub(super) const fn key(self) -> Option<&'static str> {
        Some(match self {
            Message::Query => "gist.table1_octets.query",
            Message::QueryWithStack => "gist.table1_octets.query_stack_proposal",
            Message::Response => "gist.table1_octets.response_d",
            Message::ResponseOverTcp => "gist.table1_octets.response_c",
            Message::Confirm => "gist.table1_octets.confirm_d",
            Message::ConfirmOverTcp => "gist.table1_octets.confirm_c",
            Message::Data => "gist.table1_octets.data_d",
            Message::DataOverTcp => "gist.table1_octets.data_c",
            Message::TcpSyn => "gist.table1_octets.tcp_syn",
            Message::TcpAck => "gist.table1_octets.tcp_ack",
            Message::RsvpPath => "gist.table1_octets.rsvp_path",
            Message::RsvpResv => "gist.table1_octets.rsvp_resv",
            Message::ResponseOverExisting | Message::ConfirmOverExisting => return None,
        })
    }

    /// Returns whether the message is one of the three of GIST's handshake.
    pub(super) const fn is_handshake(self) -> bool {
        !matches!(
            self,
            Message::Data
                | Message::DataOverTcp
                | Message::TcpSyn
                | Message::TcpAck
                | Message::RsvpPath
                | Message::RsvpResv
        )
    }
}

/// A row of Table I.
pub(super) struct Row {
    pub(super) message: Message,
    /// Octets by part, from the appendix.
    pub(super) parts: fn(Version) -> Parts,
    /// The overall overhead as printed, in IPv4 and IPv6.
    pub(super) printed: [u32; 2],
}

/// Table I. The figures for an existing association are those that the text adds up beside the table, which are
/// printed for IPv4 alone; in IPv6 they are the sums of their parts.
pub(super) const TABLE: [Row; 14] = [
    Row { message: Message::Query, parts: query, printed: [144, 208] },
    Row { message: Message::QueryWithStack, parts: query_with_stack, printed: [176, 240] },
    Row { message: Message::Response, parts: response, printed: [176, 236] },
    Row { message: Message::ResponseOverTcp, parts: response_over_tcp, printed: [220, 244] },
    Row {
        message: Message::ResponseOverExisting,
        parts: response_over_existing,
        printed: [188, 248],
    },
    Row { message: Message::Confirm, parts: confirm, printed: [136, 196] },
    Row { message: Message::ConfirmOverTcp, parts: confirm_over_tcp, printed: [188, 208] },
    Row { message: Message::ConfirmOverExisting, parts: confirm_over_tcp, printed: [188, 208] },
    Row { message: Message::Data, parts: data, printed: [100, 164] },
    Row { message: Message::DataOverTcp, parts: data_over_tcp, printed: [112, 176] },
    Row { message: Message::TcpSyn, parts: tcp_syn, printed: [44, 64] },
    Row { message: Message::TcpAck, parts: tcp_ack, printed: [40, 60] },
    Row { message: Message::RsvpPath, parts: rsvp_path, printed: [64, 112] },
    Row { message: Message::RsvpResv, parts: rsvp_resv, printed: [72, 108] },
];

/// A bar of Figure 5.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Messages of GIST that the text adds up.
    pub(super) messages: &'static [Message],
    /// Messages of QoS NSLP in them.
    pub(super) nslp: &'static [Nslp],
    /// The printed figure; `None` for our own bars.
    pub(super) printed: Option<u32>,
    /// Key of the published figure; `None` for our own bars.
    pub(super) key: Option<&'static str>,
}

/// Messages of QoS NSLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nslp {
    Reserve,
    Response,
}

const BOTH: &[Nslp] = &[Nslp::Reserve, Nslp::Response];

/// Figure 5, and two bars beside it: a refresh as a RESERVE without a RESPONSE.
pub(super) const SCENARIOS: [Scenario; 8] = [
    Scenario {
        name: "RSVP, set-up",
        messages: &[Message::RsvpPath, Message::RsvpResv],
        nslp: &[],
        printed: Some(136),
        key: Some("gist.figure5_octets.rsvp_setup"),
    },
    Scenario {
        name: "RSVP, refresh",
        messages: &[Message::RsvpPath, Message::RsvpResv],
        nslp: &[],
        printed: Some(136),
        key: Some("gist.figure5_octets.rsvp_refresh"),
    },
    Scenario {
        name: "D-mode, set-up",
        messages: &[Message::Query, Message::Response, Message::Confirm],
        nslp: BOTH,
        printed: Some(488),
        key: Some("gist.figure5_octets.d_mode_setup"),
    },
    Scenario {
        name: "D-mode, refresh as the paper has it",
        messages: &[Message::Data],
        nslp: BOTH,
        printed: Some(132),
        key: Some("gist.figure5_octets.d_mode_refresh"),
    },
    Scenario {
        name: "C-mode, set-up, new association",
        messages: &[
            Message::QueryWithStack,
            Message::TcpSyn,
            Message::TcpSyn,
            Message::ResponseOverTcp,
            Message::ConfirmOverTcp,
        ],
        nslp: BOTH,
        printed: Some(702),
        key: Some("gist.figure5_octets.c_mode_setup_new_ma"),
    },
    Scenario {
        name: "C-mode, set-up, association exists",
        messages: &[Message::Query, Message::ResponseOverExisting, Message::ConfirmOverExisting],
        nslp: BOTH,
        printed: Some(552),
        key: Some("gist.figure5_octets.c_mode_setup_existing_ma"),
    },
    Scenario {
        name: "D-mode, refresh: one RESERVE",
        messages: &[Message::Data],
        nslp: &[Nslp::Reserve],
        printed: None,
        key: None,
    },
    Scenario {
        name: "C-mode, refresh: one RESERVE",
        messages: &[Message::DataOverTcp],
        nslp: &[Nslp::Reserve],
        printed: None,
        key: None,
    },
];

/// Octets of an IP header with the router-alert option, IPv4 and IPv6.
const ALERTED: [u32; 2] = [24, 48];
const PLAIN: [u32; 2] = [20, 40];
const UDP: u32 = 8;
const TCP: u32 = 20;
/// Octets of a TCP header with the option of the maximum segment size.
const TCP_SYN: u32 = 24;
const COOKIE: u32 = 36;
/// Length of Network-Layer-Information; Data in IPv4 has another one.
const NLI: [u32; 2] = [24, 36];
const NLI_IN_DATA: [u32; 2] = [20, 36];

/// Parts of every GIST message: common header, MRI, session, NLI.
fn gist(version: Version, ip: [u32; 2], transport: u32, nli: [u32; 2]) -> Parts {
    Parts::from([
        (Part::Ip, version.pick(ip)),
        (Part::Transport, transport),
        (Part::Header, 8),
        (Part::Mri, version.pick([24, 52])),
        (Part::Session, 20),
        (Part::Nli, version.pick(nli)),
    ])
}

fn with<const N: usize>(mut parts: Parts, more: [(Part, u32); N]) -> Parts {
    parts.extend(more);
    parts
}

const STACK: [(Part, u32); 2] = [(Part::StackProposal, 12), (Part::StackConfiguration, 20)];

fn query(version: Version) -> Parts {
    with(gist(version, ALERTED, UDP, NLI), [(Part::QueryCookie, COOKIE)])
}

fn query_with_stack(version: Version) -> Parts {
    with(query(version), STACK)
}

fn response(version: Version) -> Parts {
    let cookies = [(Part::QueryCookie, COOKIE), (Part::ResponderCookie, COOKIE)];
    with(gist(version, PLAIN, UDP, NLI), cookies)
}

fn response_over_tcp(version: Version) -> Parts {
    with(response_over_existing(version), STACK)
}

fn response_over_existing(version: Version) -> Parts {
    with(response(version), [(Part::Transport, TCP)])
}

fn confirm(version: Version) -> Parts {
    with(gist(version, PLAIN, UDP, NLI), [(Part::ResponderCookie, COOKIE)])
}

fn confirm_over_tcp(version: Version) -> Parts {
    with(confirm(version), [(Part::Transport, TCP)])
}

fn data(version: Version) -> Parts {
    gist(version, PLAIN, UDP, NLI_IN_DATA)
}

fn data_over_tcp(version: Version) -> Parts {
    gist(version, PLAIN, TCP, NLI_IN_DATA)
}

fn tcp_syn(version: Version) -> Parts {
    Parts::from([(Part::Ip, version.pick(PLAIN)), (Part::Transport, TCP_SYN)])
}

fn tcp_ack(version: Version) -> Parts {
    Parts::from([(Part::Ip, version.pick(PLAIN)), (Part::Transport, TCP)])
}

fn rsvp_path(version: Version) -> Parts {
    Parts::from([
        (Part::Ip, version.pick(ALERTED)),
        (Part::Header, 8),
        (Part::Session, version.pick([12, 24])),
        (Part::Hop, version.pick([12, 24])),
        (Part::TimeValues, 8),
    ])
}

fn rsvp_resv(version: Version) -> Parts {
    // The appendix writes the IPv4 header for IPv6, too.
    Parts::from([
        (Part::Ip, 20),
        (Part::Header, 8),
        (Part::Session, version.pick([12, 24])),
        (Part::Hop, version.pick([12, 24])),
        (Part::Style, 8),
        (Part::Sender, version.pick([12, 24])),
    ])
}
