//! NATFW NSLP: its events as text.

use core::fmt;

use earmark_core::{Endpoint, FilterAction, FilterRule};
use earmark_nsis::natfw::{Change, Event, Refusal, RuleChange};

/// Describes an event in one line.
pub(crate) fn describe(event: &Event, on: &str) -> String {
    match event {
        Event::Granted { external: Some(external), lifetime, .. } => {
            format!("reachable from outside at {external} for {lifetime} s")
        }
        Event::Granted { external: None, lifetime, .. } => {
            format!("opened along the path for {lifetime} s")
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

/// A rule as text: `allow 10.0.0.1 to 192.0.2.1:5000, protocol 17, as 203.0.113.1:40000`.
struct Shown<'a>(&'a FilterRule);

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
    use earmark_core::{FilteredPackets, Flow};

    use super::*;

    #[test]
    fn rules_are_told_as_users_write_them() {
        let flow = Flow {
            destination: [192, 0, 2, 1].into(),
            source: Some([10, 0, 0, 1].into()),
            protocol: 17,
            destination_port: 5_000,
            source_port: 0,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
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
