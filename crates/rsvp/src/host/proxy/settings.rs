//! Settings of proxies.

use alloc::string::String;
use alloc::vec::Vec;

use earmark_core::ApplicationId as Application;
use earmark_core::{Prefix, Rate};
use earmark_wire::intserv::{FlowSpec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{SenderTemplate, Session};
use serde::{Deserialize, Serialize};

use crate::state::applications::PROXY;

/// Proxies of this node. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Sender proxies.
    pub senders: Vec<SenderProxy>,
    /// Receiver proxies; the first that matches a flow and an interface is used.
    pub receivers: Vec<ReceiverProxy>,
}

/// Flow announced for another host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SenderProxy {
    /// Destination of the data.
    pub session: Session,
    /// Source of the data.
    pub template: SenderTemplate,
    /// Traffic of the data.
    pub tspec: SenderTspec,
    /// TTL of the data packets at this node.
    pub ttl: u8,
}

/// Receiver proxy. Conditions that are missing match everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiverProxy {
    /// Names of the interfaces towards the receivers; any if empty.
    pub interfaces: Vec<String>,
    /// Addresses or groups of the receivers; any if empty.
    pub destinations: Vec<Prefix>,
    /// Addresses of the senders; any if empty.
    pub sources: Vec<Prefix>,
    /// IP protocol of the data.
    pub protocol: Option<u8>,
    /// Destination port of the data.
    pub port: Option<u16>,
    /// Rate to reserve (controlled load); the sender's Tspec if missing.
    pub rate: Option<Rate>,
    /// Limit of the sender's rate; senders with more get no reservation.
    pub largest: Option<Rate>,
    /// Whether only flows are served whose Path asks for it (Receiver-Proxy-Needed, RFC 5946 section 4.2).
    pub on_request: bool,
    /// Whether Path messages end here, so that no RSVP node behind the proxy is discovered (RFC 5946 section 4.1).
    pub sinks_path: bool,
    /// Whether a failure removes the path state, which the PathErr says by Path_State_Removed (RFC 5946 section 3.1.3).
    pub path_state_removed: bool,
    /// How the sender is told of failures by Notify, if its Path asks for that (RFC 5946 section 3.2); `None` for not at
    /// all.
    pub notify: Option<SenderNotification>,
    /// Whether a sender that gets a Notify gets no PathErr.
    pub notify_only: bool,
}

/// How a sender is told of the failure of a proxied reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SenderNotification {
    /// The node with the failure notifies the sender, and so does the proxy, because that node may not support Notify.
    Direct,
    /// The node with the failure notifies the sender; the proxy does so for its own failures only.
    DirectOnly,
    /// The node with the failure notifies the proxy, and the proxy the sender.
    Indirect,
}

/// Returns the application of the sender proxy at an index of the list.
pub(crate) fn sender_proxy(place: usize) -> Application {
    Application(PROXY.0 - 1 - place as u64)
}

impl SenderProxy {
    /// Returns whether another proxy announces the same sender of the same session.
    pub(crate) fn is_of_the_same_flow(&self, other: &SenderProxy) -> bool {
        (self.session, self.template) == (other.session, other.template)
    }
}

impl ReceiverProxy {
    /// Returns the flowspec to reserve for a sender of a session on an interface; `None` if the proxy does not match.
    pub(super) fn flowspec_for(
        &self,
        interface: &str,
        session: &Session,
        template: &SenderTemplate,
        tspec: &SenderTspec,
    ) -> Option<FlowSpec> {
        let covers = |ranges: &[Prefix], address| {
            ranges.is_empty() || ranges.iter().any(|range| range.contains(address))
        };
        let announced = Rate::from_octets_per_second(tspec.rate);
        let fits = (self.interfaces.is_empty() || self.interfaces.iter().any(|i| i == interface))
            && covers(&self.destinations, session.destination)
            && covers(&self.sources, template.source)
            && self.protocol.is_none_or(|protocol| protocol == session.protocol)
            && self.port.is_none_or(|port| port == session.port)
            && self.largest.is_none_or(|largest| announced <= largest);
        let rate = self.rate.map_or(tspec.rate, Rate::as_octets_per_second);
        let bucket = TokenBucket { rate, peak: tspec.peak.max(rate), ..*tspec };
        fits.then_some(FlowSpec::ControlledLoad(bucket))
    }
}

#[cfg(test)]
mod tests {
    use earmark_wire::rsvp::{FilterSpec, SourceSelector};

    use super::*;

    #[test]
    fn receiver_proxy_matches_all_conditions() {
        let address = |text: &str| text.parse().expect("an address");
        let range = |text: &str| alloc::vec![text.parse().expect("a range")];
        let session =
            Session { destination: address("10.9.0.1"), protocol: 17, flags: 0, port: 5004 };
        let template =
            FilterSpec { source: address("10.0.0.1"), selector: SourceSelector::Port(4000) };
        let tspec = TokenBucket { rate: 250_000.0, peak: 250_000.0, ..TokenBucket::default() };
        let mbps = |mbps| Some(Rate::from_mbps(mbps));
        let any = ReceiverProxy::default();
        for (proxy, rate) in [
            (any.clone(), Some(250_000.0)),
            (
                ReceiverProxy { interfaces: alloc::vec!["eth1".into()], ..any.clone() },
                Some(250_000.0),
            ),
            (ReceiverProxy { interfaces: alloc::vec!["eth0".into()], ..any.clone() }, None),
            (ReceiverProxy { destinations: range("10.9.0.0/16"), ..any.clone() }, Some(250_000.0)),
            (ReceiverProxy { destinations: range("10.8.0.0/16"), ..any.clone() }, None),
            (ReceiverProxy { sources: range("10.9.0.0/16"), ..any.clone() }, None),
            (ReceiverProxy { protocol: Some(6), ..any.clone() }, None),
            (ReceiverProxy { port: Some(5004), ..any.clone() }, Some(250_000.0)),
            (ReceiverProxy { port: Some(5006), ..any.clone() }, None),
            (ReceiverProxy { rate: mbps(4), ..any.clone() }, Some(500_000.0)),
            (ReceiverProxy { largest: mbps(2), ..any.clone() }, Some(250_000.0)),
            (ReceiverProxy { largest: mbps(1), ..any.clone() }, None),
        ] {
            let answer = proxy.flowspec_for("eth1", &session, &template, &tspec);
            let bucket = answer.map(|flowspec| *flowspec.token_bucket());
            assert_eq!(bucket.map(|bucket| bucket.rate), rate, "{proxy:?}");
            assert!(bucket.is_none_or(|bucket| bucket.peak >= bucket.rate), "{proxy:?}");
        }
    }
}
