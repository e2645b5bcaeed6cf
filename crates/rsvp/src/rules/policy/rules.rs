//! Rules for reservations and senders. The first rule that matches a request decides.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::Priority;
use earmark_core::{Prefix, Rate};
use earmark_token::Pattern;
use earmark_wire::rsvp::iana::PolicyControlError;
use serde::{Deserialize, Serialize};

use super::evidence::Evidence;

/// One rule. Conditions that are missing match everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Kind of request that the rule is about.
    pub about: About,
    /// Matches requests with one of these user names.
    pub users: Vec<Pattern>,
    /// Whether only names that a token proves match; without [`Rule::users`], every one of them.
    pub verified: bool,
    /// Matches requests with one of these application names.
    pub applications: Vec<Pattern>,
    /// Matches flows from these addresses: an allowing rule if all senders match, a refusing one if any does.
    pub sources: Vec<Prefix>,
    /// Matches sessions with these destinations.
    pub destinations: Vec<Prefix>,
    /// Matches reservations on, and senders through, these interfaces, by name.
    pub interfaces: Vec<String>,
    /// Action for matching requests.
    pub action: Action,
    /// Limit of one reservation.
    pub flow: Option<Rate>,
    /// Limit of all reservations under one name, on all interfaces together; requests without a name share one limit.
    pub total: Option<Rate>,
    /// Limit of all reservations of the rule on one interface.
    pub interface_total: Option<Rate>,
    /// Priority of matching requests. A request that signals a priority has its own, if [`Rule::highest_priority`]
    /// permits it or no priority is set here.
    pub priority: Option<Priority>,
    /// Highest priority that a request can signal.
    pub highest_priority: Option<u16>,
}

/// Kind of request that a rule is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Reservations: Resv messages.
    #[default]
    Reservations,
    /// Senders: Path messages.
    Senders,
}

/// Action of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The request proceeds to admission control, if it is within the limits.
    #[default]
    Allow,
    /// The request is refused.
    Refuse,
}

/// A request with the properties that rules examine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyRequest<'a> {
    pub(crate) about: About,
    pub(crate) evidence: &'a Evidence<'a>,
    pub(crate) sources: &'a [IpAddr],
    pub(crate) destination: IpAddr,
    /// Name of the interface: the outgoing one of a reservation, the incoming one of a sender; empty without one.
    pub(crate) interface: &'a str,
    pub(crate) rate: Rate,
}

/// Bandwidth reserved under a rule, without what the request would replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Reserved under the same name.
    pub(crate) by_name: Rate,
    /// Reserved on the same interface.
    pub(crate) on_interface: Rate,
}

impl Rule {
    /// Returns whether a request matches the rule.
    pub(crate) fn matches(&self, ask: &PolicyRequest<'_>) -> bool {
        let from_here = |source: &IpAddr| covers(&self.sources, *source);
        let sources = match self.action {
            _ if self.sources.is_empty() => true,
            Action::Allow => !ask.sources.is_empty() && ask.sources.iter().all(from_here),
            Action::Refuse => ask.sources.iter().any(from_here),
        };
        self.about == ask.about
            && sources
            && (self.destinations.is_empty() || covers(&self.destinations, ask.destination))
            && (self.interfaces.is_empty() || self.interfaces.iter().any(|i| i == ask.interface))
            && self.matches_user(ask.evidence)
            && is_named(&self.applications, &ask.evidence.applications)
    }

    fn matches_user(&self, evidence: &Evidence<'_>) -> bool {
        let verified = evidence.verified.as_ref().map(|verified| verified.name.as_str());
        let proven = verified.is_some_and(|name| is_named(&self.users, &[name]));
        proven || (!self.verified && is_named(&self.users, &evidence.users))
    }

    /// Returns whether two rules match the same requests, whatever their actions are.
    pub(crate) fn has_same_conditions(&self, other: &Rule) -> bool {
        let conditions = |rule: &Rule| Rule {
            action: Action::default(),
            flow: None,
            total: None,
            interface_total: None,
            priority: None,
            highest_priority: None,
            ..rule.clone()
        };
        conditions(self) == conditions(other)
    }

    /// Checks a matching request against the limits; returns the error value of "policy control failure" if it is
    /// refused.
    pub(crate) fn check_limits(
        &self,
        ask: &PolicyRequest<'_>,
        used: Used,
    ) -> Result<(), PolicyControlError> {
        if self.action == Action::Refuse {
            return Err(PolicyControlError::Rejected);
        }
        if self.flow.is_some_and(|most| ask.rate > most) {
            return Err(PolicyControlError::FlowSpecRejected);
        }
        let exceeds =
            |most: Option<Rate>, used: Rate| most.is_some_and(|most| used + ask.rate > most);
        if exceeds(self.total, used.by_name) || exceeds(self.interface_total, used.on_interface) {
            return Err(PolicyControlError::QuotaExceeded);
        }
        Ok(())
    }

    /// Returns the priority of a request that signals `signalled`.
    pub(crate) fn priority(&self, signalled: Option<Priority>) -> Priority {
        match (self.highest_priority, self.priority, signalled) {
            (Some(highest), _, Some(stated)) => {
                Priority::new(stated.preemption.min(highest), stated.defending.min(highest))
            }
            (None, None, Some(stated)) => stated,
            (_, priority, _) => priority.unwrap_or_default(),
        }
    }
}

fn covers(ranges: &[Prefix], address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(address))
}

fn is_named(patterns: &[Pattern], names: &[&str]) -> bool {
    patterns.is_empty()
        || patterns.iter().any(|pattern| names.iter().any(|name| pattern.fits(name)))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use earmark_token::Verified;

    use super::*;

    const ANY: IpAddr = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| text.parse().expect("a pattern")).collect()
    }

    fn ranges(texts: &[&str]) -> Vec<Prefix> {
        texts.iter().map(|text| text.parse().expect("a range")).collect()
    }

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn rule_matches_if_all_conditions_match() {
        let evidence = Evidence {
            users: vec!["CN=Alice, O=Example"],
            applications: vec!["APP=voice"],
            ..Evidence::default()
        };
        let sources = addresses(&["10.0.0.1"]);
        let ask = PolicyRequest {
            about: About::Reservations,
            evidence: &evidence,
            sources: &sources,
            destination: addresses(&["10.9.0.1"])[0],
            interface: "eth1",
            rate: Rate::ZERO,
        };
        let nobody = Evidence::default();
        let rule = Rule::default();
        for (rule, fits, anonymous) in [
            (rule.clone(), true, true),
            (Rule { users: patterns(&["CN=Bob", "O=Example"]), ..rule.clone() }, true, false),
            (Rule { users: patterns(&["CN=Bob"]), ..rule.clone() }, false, false),
            (Rule { applications: patterns(&["APP=v*"]), ..rule.clone() }, true, false),
            (Rule { applications: patterns(&["CN=Alice"]), ..rule.clone() }, false, false),
            (Rule { sources: ranges(&["10.0.0.0/24"]), ..rule.clone() }, true, true),
            (Rule { sources: ranges(&["10.9.0.0/24"]), ..rule.clone() }, false, false),
            (Rule { destinations: ranges(&["10.9.0.0/24"]), ..rule.clone() }, true, true),
            (Rule { destinations: ranges(&["10.0.0.0/24"]), ..rule.clone() }, false, false),
            (Rule { interfaces: vec!["eth0".into(), "eth1".into()], ..rule.clone() }, true, true),
            (Rule { interfaces: vec!["eth0".into()], ..rule.clone() }, false, false),
            (Rule { about: About::Senders, ..rule.clone() }, false, false),
            (
                Rule { users: patterns(&["*"]), interfaces: vec!["eth0".into()], ..rule.clone() },
                false,
                false,
            ),
        ] {
            assert_eq!(rule.matches(&ask), fits, "{rule:?}");
            assert_eq!(
                rule.matches(&PolicyRequest { evidence: &nobody, ..ask }),
                anonymous,
                "{rule:?}"
            );
        }
    }

    /// A claimed name is no verified one, but a verified name may also match as a claimed one.
    #[test]
    fn verified_rule_matches_proven_names_only() {
        let verified = |name: &str| Some(Verified { name: name.into(), until: 1 });
        let claimed = Evidence { users: vec!["alice@example.org"], ..Evidence::default() };
        let proven = Evidence { verified: verified("alice@example.org"), ..Evidence::default() };
        let other = Evidence { verified: verified("bob@example.org"), ..claimed.clone() };
        let nobody = Evidence::default();
        let alice = || patterns(&["alice@*"]);
        for (users, verified, matching) in [
            (alice(), true, [false, true, false, false]),
            (alice(), false, [true, true, true, false]),
            (vec![], true, [false, true, true, false]),
            (vec![], false, [true; 4]),
        ] {
            let rule = Rule { users, verified, ..Rule::default() };
            let found = [&claimed, &proven, &other, &nobody].map(|e| rule.matches_user(e));
            assert_eq!(found, matching, "{rule:?}");
        }
    }

    /// A shared reservation has several senders: an allowing rule needs all of them, a refusing rule any.
    #[test]
    fn all_senders_must_be_allowed_and_none_refused() {
        let evidence = Evidence::default();
        for (sources, allowed, refused) in [
            (&["10.0.0.1", "10.0.0.2"][..], true, true),
            (&["10.0.0.1", "10.1.0.2"], false, true),
            (&["10.1.0.1", "10.1.0.2"], false, false),
            (&[], false, false),
        ] {
            let sources = addresses(sources);
            let ask = PolicyRequest {
                about: About::Reservations,
                evidence: &evidence,
                sources: &sources,
                destination: ANY,
                interface: "",
                rate: Rate::ZERO,
            };
            for (action, fits) in [(Action::Allow, allowed), (Action::Refuse, refused)] {
                let rule = Rule { action, sources: ranges(&["10.0.0.0/24"]), ..Rule::default() };
                assert_eq!(rule.matches(&ask), fits, "{action:?} {sources:?}");
            }
        }
    }

    #[test]
    fn limits_are_exact() {
        let rate = |mbps| Some(Rate::from_mbps(mbps));
        let rule =
            Rule { flow: rate(4), total: rate(10), interface_total: rate(8), ..Rule::default() };
        let evidence = Evidence::default();
        for (requested, by_name, on_interface, verdict) in [
            (4, 0, 0, Ok(())),
            (5, 0, 0, Err(PolicyControlError::FlowSpecRejected)),
            (4, 6, 4, Ok(())),
            (4, 7, 4, Err(PolicyControlError::QuotaExceeded)),
            (4, 6, 5, Err(PolicyControlError::QuotaExceeded)),
        ] {
            let ask = PolicyRequest {
                about: About::Reservations,
                evidence: &evidence,
                sources: &[],
                destination: ANY,
                interface: "eth1",
                rate: Rate::from_mbps(requested),
            };
            let used = Used {
                by_name: Rate::from_mbps(by_name),
                on_interface: Rate::from_mbps(on_interface),
            };
            assert_eq!(rule.check_limits(&ask, used), verdict, "{requested} {used:?}");
            let refuse = Rule { action: Action::Refuse, ..rule.clone() };
            assert_eq!(refuse.check_limits(&ask, used), Err(PolicyControlError::Rejected));
        }
    }

    #[test]
    fn signalled_priority_is_limited_by_rule() {
        let stated = Priority::new(5, 9);
        let given = Priority::new(1, 2);
        for (priority, highest, expected, unsaid) in [
            (None, None, stated, Priority::default()),
            (None, Some(7), Priority::new(5, 7), Priority::default()),
            (None, Some(3), Priority::new(3, 3), Priority::default()),
            (Some(given), None, given, given),
            (Some(given), Some(3), Priority::new(3, 3), given),
        ] {
            let rule = Rule { priority, highest_priority: highest, ..Rule::default() };
            assert_eq!(rule.priority(Some(stated)), expected, "{rule:?}");
            assert_eq!(rule.priority(None), unsaid, "{rule:?}");
        }
    }
}
