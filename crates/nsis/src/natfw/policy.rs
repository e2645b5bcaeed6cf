//! Policy rules: which requests of other nodes this node grants, and how many.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{FilteredPackets, Prefix};
use earmark_wire::natfw_nslp::Outcome;
use earmark_wire::natfw_nslp::iana::{PermanentFailure, SignalingSessionFailure as Failure};

use super::config::Rule;
use super::flow::{is_icmp, is_plain_ip};
use super::outcome::{FULL, failure, permanent};
use super::state::User;

/// The policy of a node, with the sessions under each rule.
#[derive(Debug, Default)]
pub(super) struct Policy {
    rules: Vec<Rule>,
    /// Number of earlier lists of rules.
    epoch: u32,
    totals: Vec<u32>,
    users: BTreeMap<(u16, User), u32>,
}

/// Rule that counts a session; none for sessions of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    epoch: u32,
    rule: Option<u16>,
}

/// A request to be decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyRequest<'a> {
    /// Name of the interface through which the request arrives.
    pub(super) interface: &'a str,
    pub(super) packets: &'a FilteredPackets,
    /// Whether it arrives over an association with an authenticated peer.
    pub(super) secure: bool,
    /// Proven name.
    pub(super) verified: Option<&'a str>,
    /// Whether the data receiver has a reservation at this node, or the request makes one.
    pub(super) reserved: bool,
    /// Whether packets are to be blocked.
    pub(super) deny: bool,
    pub(super) user: &'a User,
    /// What counts the session so far.
    pub(super) counted: Counted,
}

/// A granted request: what counts it, and the longest lifetime of its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) counted: Counted,
    pub(super) longest_lifetime: Option<Duration>,
}

impl Policy {
    pub(super) fn new(rules: Vec<Rule>) -> Policy {
        Policy { totals: vec![0; rules.len()], rules, ..Policy::default() }
    }

    /// Replaces the rules. Each session is decided again with its next refresh; until then it counts for no rule.
    pub(super) fn replace(&mut self, rules: Vec<Rule>) {
        if rules != self.rules {
            *self = Policy { epoch: self.epoch.wrapping_add(1), ..Policy::new(rules) };
        }
    }

    /// Returns what counts a session of this node, or one that is not decided yet.
    pub(super) fn uncounted(&self) -> Counted {
        Counted { epoch: self.epoch, rule: None }
    }

    /// Returns whether a session was decided by the present rules.
    pub(super) fn is_current(&self, counted: Counted) -> bool {
        counted.epoch == self.epoch
    }

    /// Decides a request of another node.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) fn evaluate(&self, request: &PolicyRequest<'_>) -> Result<Verdict, Outcome> {
        let unauthorized = permanent(PermanentFailure::Authorization);
        let place = self.rules.iter().position(|rule| rule.fits(request)).ok_or(unauthorized)?;
        let rule = &self.rules[place];
        if rule.refuse {
            return Err(unauthorized);
        }
        if request.deny && !rule.deny {
            return Err(failure(Failure::RuleActionNotApplicable));
        }
        if !rule.wildcards {
            check_ranges(request.packets).map_err(failure)?;
        }
        let number = u16::try_from(place).map_err(|_| unauthorized)?;
        let counted = Counted { epoch: self.epoch, rule: Some(number) };
        let own = u32::from(request.counted == counted);
        let of_user = self.users.get(&(number, request.user.clone())).copied().unwrap_or(0);
        let is_full = |limit: Option<u32>, used: u32| {
            limit.is_some_and(|limit| used.saturating_sub(own) >= limit)
        };
        if is_full(rule.total, self.totals[place]) || is_full(rule.per_user, of_user) {
            return Err(FULL);
        }
        Ok(Verdict { counted, longest_lifetime: rule.longest_lifetime })
    }

    /// Returns the longest lifetime that the rule of a session allows.
    pub(super) fn longest_lifetime(&self, counted: Counted) -> Option<Duration> {
        self.rules[usize::from(self.live_rule(counted)?)].longest_lifetime
    }

    /// Counts a session under the rule that has granted it.
    pub(super) fn count(&mut self, counted: Counted, user: &User) {
        if let Some(rule) = self.live_rule(counted) {
            self.totals[usize::from(rule)] += 1;
            *self.users.entry((rule, user.clone())).or_default() += 1;
        }
    }

    /// Counts a session no longer.
    pub(super) fn discount(&mut self, counted: Counted, user: &User) {
        let Some(rule) = self.live_rule(counted) else { return };
        let total = &mut self.totals[usize::from(rule)];
        *total = total.saturating_sub(1);
        let key = (rule, user.clone());
        if let Some(count) = self.users.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn assert_empty(&self) {
        assert!(self.users.is_empty() && self.totals.iter().all(|total| *total == 0), "{self:?}");
    }

    fn live_rule(&self, counted: Counted) -> Option<u16> {
        counted.rule.filter(|_| self.is_current(counted))
    }
}

impl Rule {
    fn fits(&self, request: &PolicyRequest<'_>) -> bool {
        let flow = &request.packets.flow;
        let from = self.from.is_none_or(|range| {
            flow.source.map_or(range.length() == 0, |source| range.covers(Prefix::host(source)))
        });
        let to = self.to.is_none_or(|range| range.contains(flow.destination));
        // Packets without ports have none that is privileged; those of every port are a matter of wildcards.
        let port = flow.destination_port;
        let ports = port == 0 || (self.ports.0..=self.ports.1).contains(&port);
        from && to
            && ports
            && (self.interfaces.is_empty()
                || self.interfaces.iter().any(|i| i == request.interface))
            && (self.protocols.is_empty() || self.protocols.contains(&flow.protocol))
            && (!self.secure || request.secure)
            && (!self.reserved || request.reserved)
            && self.required.allows(request.verified)
    }
}

/// Checks that the packets are those of one source, one protocol and one destination port.
fn check_ranges(packets: &FilteredPackets) -> Result<(), Failure> {
    let flow = &packets.flow;
    if flow.source.is_none() {
        Err(Failure::SourceRangeTooLarge)
    } else if flow.protocol == 0 || is_plain_ip(flow) && flow.source_port == 0 {
        Err(Failure::PlainIpNotPermitted)
    } else if flow.destination_port == 0 && flow.spi == 0 && !is_icmp(flow) {
        Err(Failure::DestinationPortRangeTooLarge)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use earmark_core::Flow;
    use earmark_wire::natfw_nslp::iana::TransientFailure;

    use super::*;

    fn packets(source: Option<[u8; 4]>, protocol: u8, port: u16) -> FilteredPackets {
        let flow = Flow {
            source: source.map(IpAddr::from),
            protocol,
            destination_port: port,
            ..Flow::to_range(Prefix::host([198, 51, 100, 1].into()))
        };
        FilteredPackets { flow, icmp_type: None }
    }

    fn asked<'a>(
        policy: &Policy,
        packets: &'a FilteredPackets,
        user: &'a User,
    ) -> PolicyRequest<'a> {
        let counted = policy.uncounted();
        PolicyRequest {
            interface: "eth0",
            packets,
            secure: false,
            verified: None,
            reserved: false,
            deny: false,
            user,
            counted,
        }
    }

    const HOST: User = User::Host(IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1)));
    const UNAUTHORIZED: Outcome = Outcome::PermanentFailure(PermanentFailure::Authorization);

    #[test]
    fn request_without_a_matching_rule_is_refused() {
        let usual = packets(Some([10, 0, 0, 1]), 17, 5_000);
        let evaluate = |rules: Vec<Rule>, packets: &FilteredPackets| {
            let policy = Policy::new(rules);
            policy.evaluate(&asked(&policy, packets, &HOST)).map(|_| ())
        };
        assert_eq!(evaluate(vec![], &usual), Err(UNAUTHORIZED));
        assert_eq!(evaluate(vec![Rule::default()], &usual), Ok(()));
        for rule in [
            Rule { from: Some("10.1.0.0/16".parse().expect("a range")), ..Rule::default() },
            Rule { to: Some("10.1.0.0/16".parse().expect("a range")), ..Rule::default() },
            Rule { interfaces: vec!["eth1".into()], ..Rule::default() },
            Rule { protocols: vec![6], ..Rule::default() },
            Rule { secure: true, ..Rule::default() },
            Rule { reserved: true, ..Rule::default() },
            Rule { refuse: true, ..Rule::default() },
            Rule { ports: (5_001, 6_000), ..Rule::default() },
        ] {
            assert_eq!(evaluate(vec![rule.clone()], &usual), Err(UNAUTHORIZED), "{rule:?}");
        }
        let privileged = packets(Some([10, 0, 0, 1]), 6, 22);
        assert_eq!(evaluate(vec![Rule::default()], &privileged), Err(UNAUTHORIZED));
        let named = Rule { ports: (22, 22), ..Rule::default() };
        assert_eq!(evaluate(vec![named], &privileged), Ok(()));
    }

    #[test]
    fn wildcards_need_a_rule_that_allows_them() {
        let open = Rule { wildcards: true, ..Rule::default() };
        for (packets, failure) in [
            (packets(None, 17, 5_000), Failure::SourceRangeTooLarge),
            (packets(Some([10, 0, 0, 1]), 0, 0), Failure::PlainIpNotPermitted),
            (packets(Some([10, 0, 0, 1]), 17, 0), Failure::PlainIpNotPermitted),
        ] {
            for (rule, expected) in [
                (Rule::default(), Err(Outcome::SignalingSessionFailure(failure))),
                (open.clone(), Ok(())),
            ] {
                let policy = Policy::new(vec![rule]);
                let verdict = policy.evaluate(&asked(&policy, &packets, &HOST)).map(|_| ());
                assert_eq!(verdict, expected, "{packets:?}");
            }
        }
        let policy = Policy::new(vec![Rule::default()]);
        let icmp = packets(Some([10, 0, 0, 1]), 1, 0);
        assert!(policy.evaluate(&asked(&policy, &icmp, &HOST)).is_ok(), "ICMP has no ports");
    }

    #[test]
    fn quota_is_per_user_and_in_total() {
        let rule = Rule { per_user: Some(1), total: Some(2), ..Rule::default() };
        let mut policy = Policy::new(vec![rule]);
        let usual = packets(Some([10, 0, 0, 1]), 17, 5_000);
        let users = [1, 2, 3].map(|host| User::Host([10, 0, 0, host].into()));
        let full = Err(Outcome::TransientFailure(TransientFailure::ResourcesUnavailable));
        let first = policy.evaluate(&asked(&policy, &usual, &users[0])).expect("there is room");
        policy.count(first.counted, &users[0]);
        assert_eq!(policy.evaluate(&asked(&policy, &usual, &users[0])), full, "one for each");
        let again = PolicyRequest { counted: first.counted, ..asked(&policy, &usual, &users[0]) };
        assert_eq!(policy.evaluate(&again), Ok(first), "the same session");
        let second = policy.evaluate(&asked(&policy, &usual, &users[1])).expect("there is room");
        policy.count(second.counted, &users[1]);
        assert_eq!(policy.evaluate(&asked(&policy, &usual, &users[2])), full, "two in total");
        policy.discount(first.counted, &users[0]);
        assert!(policy.evaluate(&asked(&policy, &usual, &users[2])).is_ok());
        policy.replace(vec![Rule::default()]);
        assert!(!policy.is_current(second.counted));
        policy.discount(second.counted, &users[1]);
        assert!(policy.users.is_empty(), "counts of earlier rules are gone");
    }
}
