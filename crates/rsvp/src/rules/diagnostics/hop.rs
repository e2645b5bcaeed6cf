//! Result of a trace: one entry for each node, and the reason for its end.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{DiagResponse, FilterSpec, Object, Style, objects_in};
use serde::{Deserialize, Serialize};

/// Response of one node on the path (RFC 2745 section 3.6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceHop {
    /// Address of the incoming interface; `None` at the sender, and without path state.
    pub incoming: Option<IpAddr>,
    /// Address of the outgoing interface; `None` where the data ends.
    pub outgoing: Option<IpAddr>,
    /// Previous RSVP hop of the data; `None` at the sender.
    pub previous_hop: Option<IpAddr>,
    /// Arrival time of the DREQ: the middle 32 bits of an NTP time, units of 2^-16 s.
    pub arrival: u32,
    /// IP hops of the DREQ from the previous node in this list: 1 between neighbours, more with routers without RSVP in
    /// between, 0 if the trace started here.
    pub ip_hops: u8,
    /// Whether the node has no path state for the sender.
    pub no_path_state: bool,
    /// Whether the reservation on this outgoing interface is merged with others.
    pub merged: bool,
    /// Refresh period R, seconds.
    pub refresh_s: u16,
    /// Lifetime factor K.
    pub refresh_multiple: u8,
    /// Tspec of the sender.
    pub tspec: Option<SenderTspec>,
    /// Style of the reservation; `None` without one.
    pub style: Option<Style>,
    /// Flowspec of the reservation.
    pub flowspec: Option<FlowSpec>,
    /// Filter specs of the reservation; empty for WF.
    pub filters: Vec<FilterSpec>,
}

impl TraceHop {
    /// Converts a DIAG_RESPONSE. Objects that are malformed or were not requested are skipped.
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

/// Reason for the end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceEnd {
    /// The trace reached the sender.
    Sender,
    /// The last node has no path state: the state has ended, or the route has changed.
    NoPathState,
    /// The requested number of nodes was reached.
    HopLimit,
    /// The last node returned the DREQ without a reason.
    GaveUp,
    /// A node, and the nodes behind it, do not answer.
    Silent {
        /// Previous hop of the last node that answered, or the node where the trace was to start.
        node: IpAddr,
    },
    /// Fragments of the answer are missing.
    Incomplete,
}
