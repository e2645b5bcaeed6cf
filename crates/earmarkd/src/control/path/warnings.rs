//! Warnings about the path of a flow, for operators.

use earmark_core::Rate;
use earmark_linux::{FlowOnLink, FlowPath, PathQuestion};

use crate::describe;
use crate::driver::LinkView;
use earmark_control::ElsewhereRow;

/// Most claims on other interfaces that a warning names.
const NAMED_ELSEWHERE: usize = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A claim on another interface: protocol, rate and interface.
fn named(other: &ElsewhereRow) -> String {
    let by = other.protocol.as_deref().unwrap_or("an earlier daemon");
    format!("{by} {} on {}", Rate::from_bps(other.rate_bps), other.interface)
}

/// Input of the warnings.
pub(super) struct Warnings<'a> {
    pub(super) asked: &'a PathQuestion,
    pub(super) path: &'a FlowPath,
    /// Name of the interface that the packets leave by; empty if they do not leave.
    pub(super) on: &'a str,
    pub(super) view: Option<&'a LinkView>,
    pub(super) elsewhere: &'a [ElsewhereRow],
}

impl Warnings<'_> {
    pub(super) fn list(&self) -> Vec<String> {
        let Warnings { asked, path, on, view, elsewhere } = *self;
        let mut list = Vec::new();
        if !elsewhere.is_empty() {
            let leave = match view {
                Some(_) => format!("they leave through {on}"),
                None => "they do not leave".to_owned(),
            };
            let named: Vec<String> = elsewhere.iter().take(NAMED_ELSEWHERE).map(named).collect();
            let more = match elsewhere.len().saturating_sub(NAMED_ELSEWHERE) {
                0 => "",
                _ => " and others",
            };
            list.push(format!(
                "this flow is reserved on a link that its packets do not use: {}{more}; {leave}",
                named.join(", ")
            ));
        }
        if matches!(view, Some(LinkView::LeftAlone)) {
            list.push(format!(
                "{on} has no queues (queues = \"none\"): reservations there are counted but not \
                 enforced, and cannot be looked up by flow; `earmark show reservations` lists them"
            ));
        }
        if let Some(LinkView::Planned(FlowOnLink { fault: Some(fault), count, .. })) = view {
            list.push(match count {
                0 => format!("traffic control of {on} is damaged: {fault}"),
                _ => format!("the reservation is not enforced: {fault}"),
            });
        }
        let route = path.route.as_ref();
        let policy = route.and_then(|route| route.hash_policy);
        let is_asked_whole = matches!(path.flow.protocol, TCP | UDP);
        let has_ports = path.flow.destination_port != 0 && path.flow.source_port != 0;
        let depends_on_ports = path.rules_match_ports || matches!(policy, Some(1 | 3));
        if !is_asked_whole && depends_on_ports {
            list.push(format!(
                "the kernel answers route queries for TCP and UDP only: policy rules and hashes \
                 by IP protocol {} or its ports may choose another route",
                describe::ip_protocol(path.flow.protocol)
            ));
        } else if depends_on_ports && !has_ports {
            list.push(
                "the route may depend on the ports: name both (--sport N, --dport N)".to_owned(),
            );
        } else if is_asked_whole && path.flow.destination_port == 0 {
            list.push(
                "without a destination port, reservations for ports are not shown".to_owned(),
            );
        }
        if policy.is_some() && asked.flow.source.is_none() {
            list.push(
                "the next hop depends on the source, to which a socket of this host may be bound \
                 or not: name it (--from ADDRESS)"
                    .to_owned(),
            );
        }
        if policy == Some(3) && path.flow.destination.is_ipv6() {
            list.push(
                "with fib_multipath_hash_policy 3 the kernel tells another next hop of IPv6 than \
                 its packets may take"
                    .to_owned(),
            );
        }
        if path.rule.as_ref().is_some_and(|rule| !rule.is_certain) {
            list.push(
                "another policy rule may apply: it uses a condition that cannot be evaluated here"
                    .to_owned(),
            );
        }
        list
    }
}
