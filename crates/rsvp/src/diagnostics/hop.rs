//! What a trace tells its user: one entry a node, and why there are no more.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{DiagResponse, FilterSpec, Object, Style, objects_in};
use serde::{Deserialize, Serialize};

/// What one node on the way said (RFC 2745 section 3.6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceHop {
    /// Its address towards the sender; `None` at the sender, and where it knows nothing of the session.
    pub incoming: Option<IpAddr>,
    /// Its address towards the receivers; `None` where the data ends.
    pub outgoing: Option<IpAddr>,
    /// The RSVP node before it, as the data flows; `None` at the sender.
    pub previous_hop: Option<IpAddr>,
    /// When the question came: the middle 32 bits of an NTP time, units of 2^-16 s.
    pub arrival: u32,
    /// IP hops that the question took from the node before it in this list: 1 between neighbours, more where routers in
    /// between speak no RSVP, 0 where it started here.
    pub ip_hops: u8,
    /// Whether it knows nothing of the sender.
    pub no_path_state: bool,
    /// Whether what it has reserved on this way is merged with other ways.
    pub merged: bool,
    /// Refresh period R, seconds.
    pub refresh_s: u16,
    /// K.
    pub refresh_multiple: u8,
    /// What the sender announces.
    pub tspec: Option<SenderTspec>,
    /// In which style something is reserved; `None` where nothing is.
    pub style: Option<Style>,
    /// What is reserved.
    pub flowspec: Option<FlowSpec>,
    /// For whom; none named for WF.
    pub filters: Vec<FilterSpec>,
}

impl TraceHop {
    /// What an object says. Objects that cannot be read, or were not asked for, are passed over.
    pub(super) fn of(response: &DiagResponse<'_>) -> TraceHop {
        let known = |address: IpAddr| Some(address).filter(|address| !address.is_unspecified());
        let mut hop = TraceHop {
            incoming: known(response.incoming),
            outgoing: known(response.outgoing),
            previous_hop: known(response.previous_hop),
            arrival: response.arrival,
            ip_hops: response.ip_hops,
            no_path_state: response.error & DiagResponse::NO_PATH_STATE != 0,
            merged: response.merged,
            refresh_s: response.refresh_s,
            refresh_multiple: response.refresh_multiple,
            tspec: None,
            style: None,
            flowspec: None,
            filters: Vec::new(),
        };
        for object in objects_in(response.objects).filter_map(Result::ok) {
            match object.object {
                Object::SenderTspec(tspec) => hop.tspec = Some(tspec),
                Object::Style(style) => hop.style = Some(style),
                Object::FlowSpec(flowspec) => hop.flowspec = Some(flowspec),
                Object::FilterSpec(filter) => hop.filters.push(filter),
                _ => {}
            }
        }
        hop
    }
}

/// Why a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceEnd {
    /// It reached the sender.
    Sender,
    /// The last node knows nothing of the sender: its state ended, or the way has changed.
    NoPathState,
    /// As many nodes were asked as were wanted.
    HopLimit,
    /// The last node gave its answer back although nothing stood in the way.
    GaveUp,
    /// This node does not answer, nor does what is behind it.
    Silent {
        /// The previous hop of the last node that answered, or the node where the trace was to start.
        node: IpAddr,
    },
    /// Parts of the answer are missing.
    Incomplete,
}
