//! Events of NATFW NSLP as text, and advice about its rejections.

use core::fmt;

use earmark_core::{Endpoint, FilterAction, FilterRule};
use earmark_nsis::natfw::{Change, Event, Refusal, Rejection, RuleChange};

/// Describes an event in one line.
pub(crate) fn describe(event: &Event, on: &str) -> String {
    match event {
        Event::Granted { external: Some(external), lifetime, .. } => {
            format!("reachable from outside at {external} for {lifetime} s")
        }
        Event::Granted { external: None, lifetime, .. } => {
            format!("granted along the path for {lifetime} s")
        }
        Event::Refused { refusal: Refusal::Answered(info), .. } => format!("refused: {info}"),
        Event::Refused { refusal: Refusal::Unsent(failure), .. } => {
            format!("the request could not be sent: {failure}")
        }
        Event::Refused { refusal: Refusal::Unanswered, .. } => {
            "nobody has answered the request".to_owned()
        }
        Event::Ended { info: Some(info), .. } => format!("ended by a node on the path: {info}"),
        Event::Ended { info: None, .. } => "ended".to_owned(),
        Event::Notified { info, .. } => format!("a node on the path reports: {info}"),
        Event::Admitted { from, port, .. } => {
            let from = from.map_or("any host".to_owned(), |from| from.to_string());
            format!("data from {from} may arrive at port {port}")
        }
        Event::Rule { rule, change, .. } => {
            let what = match change {
                RuleChange::Installed => "installed",
                RuleChange::Removed(Change::Released) => "removed, released",
                RuleChange::Removed(Change::Expired) => "removed, expired",
                RuleChange::Removed(Change::Ended) => "removed, ended by a node on the path",
                RuleChange::Removed(Change::Updated) => "replaced",
                RuleChange::Refused(errno) => {
                    return format!(
                        "rule refused by the packet filter (errno {errno}): {}",
                        Shown(rule)
                    );
                }
            };
            format!("rule {what}: {}", Shown(rule))
        }
        Event::Denied { info, .. } => format!("request through {on} refused: {info}"),
        Event::Dropped { reason, .. } => {
            format!("message through {on} dropped: {}", reason.name().replace('_', " "))
        }
        Event::Rejected { reason, .. } => format!("not carried out: {reason}"),
    }
}

/// Advice about a command that NATFW NSLP rejected.
pub(crate) fn rejection_hint(reason: Rejection) -> &'static str {
    use Rejection::*;
    match reason {
        Off => "then restart the daemon; `earmarkd config example` shows the table",
        InUse | NotInUse => "this is a defect of earmark's; please report it",
        NoRoute => {
            "is the outgoing interface up, and in the daemon's configuration? `earmark show \
             links` lists those that are"
        }
        Destination => "give the address of another host, not of a group",
        NotLocal => {
            "`ip address` lists the addresses of this host; leave the address out to use that of the route"
        }
        Packets => {
            "ports need UDP, TCP or another protocol that has them, and an SPI needs ESP or AH without ports; addresses are \
             of one IP version"
        }
        NoIpv4 => "give an IPv4 address, or open the path from the data sender: `earmark open`",
        NoSender => {
            "--from names the data sender; an address beyond the edge of the network serves as signaling_destination"
        }
        Lifetime => {
            "--lifetime lies between shortest_lifetime and longest_lifetime of the table [natfw]"
        }
        NoTransport => {
            "associations need [nsis] tcp or [nsis.tls], secured ones [nsis.tls]; or give --datagrams, or leave --secure out"
        }
        TooMany => {
            "release sessions that are no longer needed (`earmark show applications`), or raise max_sessions of the table [natfw]"
        }
    }
}

/// A rule as text: `allow 10.0.0.1 to 192.0.2.1:5000, protocol 17, as 203.0.113.1:40000`.
pub(super) struct Shown<'a>(pub(super) &'a FilterRule);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow = &self.0.packets.flow;
        f.write_str(match self.0.action {
            FilterAction::Allow => "allow ",
            FilterAction::Deny => "deny ",
        })?;
        match flow.source {
            Some(address) => write!(f, "{}", Endpoint { address, port: flow.source_port })?,
            None => f.write_str("any host")?,
        }
        let to = Endpoint { address: flow.destination, port: flow.destination_port };
        write!(f, " to {to}")?;
        if flow.protocol != 0 {
            write!(f, ", protocol {}", flow.protocol)?;
        }
        if let Some(kind) = self.0.packets.icmp_type {
            write!(f, ", type {kind}")?;
        }
        if let Some(source) = self.0.source {
            write!(f, ", as {source}")?;
        }
        self.0.destination.map_or(Ok(()), |to| write!(f, ", forwarded to {to}"))
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::{FilteredPackets, Flow, Prefix};

    use super::*;

    /// The client reads each refusal from the event, and has advice.
    #[test]
    fn every_refusal_is_read_by_clients_and_has_advice() {
        use earmark_control::protocols::nsis::natfw;
        use earmark_nsis::nslp::SendFailure::*;
        use earmark_wire::natfw_nslp::{Info, Outcome};
        let unsent = [
            NoRoute,
            NoNextNode,
            NoSuchPeer,
            NoUpstreamState,
            TooLarge,
            NoAssociation,
            TimedOut,
            Limit,
            Refused,
        ];
        let classes =
            (1..=7).map(|class| Refusal::Answered(Info::new(Outcome::from_codes(class, 1))));
        let all = unsent.map(Refusal::Unsent).into_iter().chain(classes);
        for refusal in all.chain([Refusal::Unanswered]) {
            let text = serde_json::to_string(&refusal).expect("JSON");
            let read: natfw::Refusal = serde_json::from_str(&text).expect(&text);
            assert!(!read.reason().is_empty() && !read.advice().is_empty(), "{text}");
            if let (Refusal::Answered(info), natfw::Refusal::Answered(answer)) = (refusal, &read) {
                assert!(
                    answer.outcome() == Some(info.outcome) || answer.severity == "unknown",
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn rules_are_told_as_users_write_them() {
        let flow = Flow {
            source: Some([10, 0, 0, 1].into()),
            protocol: 17,
            destination_port: 5_000,
            ..Flow::to_range(Prefix::host([192, 0, 2, 1].into()))
        };
        let rule = FilterRule {
            packets: FilteredPackets { flow, icmp_type: None },
            action: FilterAction::Allow,
            source: Some(Endpoint { address: [203, 0, 113, 1].into(), port: 40_000 }),
            destination: None,
        };
        let expected = "allow 10.0.0.1 to 192.0.2.1:5000, protocol 17, as 203.0.113.1:40000";
        assert_eq!(Shown(&rule).to_string(), expected);
        let deny = FilterRule { action: FilterAction::Deny, source: None, ..rule };
        let any = Flow { source: None, protocol: 1, destination_port: 0, ..flow };
        let packets = FilteredPackets { flow: any, icmp_type: Some(8) };
        let text = Shown(&FilterRule { packets, ..deny }).to_string();
        assert_eq!(text, "deny any host to 192.0.2.1, protocol 1, type 8");
    }
}
