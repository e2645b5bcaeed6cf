//! Policy: limits of reservations by a list of rules, of which the first match decides.

use alloc::vec::Vec;

use earmark_core::{Flow, Rate};

use super::config::Rule;

/// The rules, and the rate reserved under each.
#[derive(Debug, Default)]
pub(super) struct Policy {
    rules: Vec<Rule>,
    /// Reserved rates, in the order of the rules.
    used: Vec<Rate>,
}

/// What rules examine of the requester.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requester<'a> {
    /// Whether an authenticated peer has sent the request over an association.
    pub(super) secure: bool,
    /// Name of the user, proven by a token.
    pub(super) verified: Option<&'a str>,
}

/// Decision of policy about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The matching rule; `None` if none matches.
    pub(super) rule: Option<u16>,
    /// Limit of the rate.
    pub(super) most: Rate,
}

impl Policy {
    pub(super) fn new(rules: Vec<Rule>) -> Policy {
        let used = rules.iter().map(|_| Rate::ZERO).collect();
        Policy { rules, used }
    }

    /// Returns the limit of a flow that already holds `held` under `rule`; `None` to refuse it.
    pub(super) fn evaluate(
        &self,
        flow: &Flow,
        requester: Requester<'_>,
        (rule, held): (Option<u16>, Rate),
    ) -> Option<Verdict> {
        let Some(place) = self.place(flow, requester) else {
            return Some(Verdict { rule: None, most: Rate::MAX });
        };
        let (found, used) = (&self.rules[place], self.used[place]);
        if found.refuse {
            return None;
        }
        let number = u16::try_from(place).ok();
        let others = if rule == number { used.saturating_sub(held) } else { used };
        let left = found.total.map_or(Rate::MAX, |total| total.saturating_sub(others));
        Some(Verdict { rule: number, most: left.min(found.largest.unwrap_or(Rate::MAX)) })
    }

    /// Returns the rule that matches a flow; `None` if none matches.
    pub(super) fn rule_of(&self, flow: &Flow, requester: Requester<'_>) -> Option<u16> {
        self.place(flow, requester).and_then(|place| u16::try_from(place).ok())
    }

    fn place(&self, flow: &Flow, requester: Requester<'_>) -> Option<usize> {
        self.rules.iter().position(|rule| fits(rule, flow, requester))
    }

    /// Accounts a change of a reservation under a rule from `before` to `now`.
    pub(super) fn account(&mut self, rule: Option<u16>, before: Rate, now: Rate) {
        if let Some(used) = rule.and_then(|rule| self.used.get_mut(usize::from(rule))) {
            *used = used.saturating_sub(before).saturating_add(now);
        }
    }
}

fn fits(rule: &Rule, flow: &Flow, requester: Requester<'_>) -> bool {
    let from = rule.from.is_none_or(|range| {
        flow.sources().map_or(range.length() == 0, |sources| range.covers(sources))
    });
    let to = rule.to.is_none_or(|range| range.covers(flow.destinations()));
    from && to && (!rule.secure || requester.secure) && rule.required.allows(requester.verified)
}

#[cfg(test)]
mod tests {
    use earmark_token::Required;

    use super::*;

    fn flow(source: &str) -> Flow {
        Flow {
            destination: "10.0.0.9".parse().expect("an address"),
            source: Some(source.parse().expect("an address")),
            protocol: 17,
            destination_port: 5_000,
            source_port: 0,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        }
    }

    #[test]
    fn first_matching_rule_decides_and_shares_its_total() {
        let mbps = Rate::from_mbps;
        let from = |range: &str| Some(range.parse().expect("a range"));
        let mut policy = Policy::new(
            [
                Rule { from: from("10.1.0.0/16"), refuse: true, ..Rule::default() },
                Rule {
                    from: from("10.0.0.0/8"),
                    largest: Some(mbps(4)),
                    total: Some(mbps(6)),
                    ..Rule::default()
                },
                Rule { secure: true, ..Rule::default() },
                Rule { refuse: true, ..Rule::default() },
            ]
            .into(),
        );
        let plain = Requester::default();
        let secure = Requester { secure: true, ..plain };
        let none = (None, Rate::ZERO);
        assert_eq!(policy.evaluate(&flow("10.1.2.3"), secure, none), None);
        let verdict = |most| Some(Verdict { rule: Some(1), most });
        assert_eq!(policy.evaluate(&flow("10.2.2.3"), plain, none), verdict(mbps(4)));
        policy.account(Some(1), Rate::ZERO, mbps(4));
        assert_eq!(policy.evaluate(&flow("10.2.2.4"), plain, none), verdict(mbps(2)));
        assert_eq!(policy.evaluate(&flow("10.2.2.3"), plain, (Some(1), mbps(4))), verdict(mbps(4)));
        policy.account(Some(1), mbps(4), Rate::ZERO);
        assert_eq!(policy.evaluate(&flow("10.2.2.4"), plain, none), verdict(mbps(4)));
        let most = Rate::MAX;
        let third = Some(Verdict { rule: Some(2), most });
        assert_eq!(policy.evaluate(&flow("192.0.2.1"), secure, none), third);
        assert_eq!(policy.evaluate(&flow("192.0.2.1"), plain, none), None);
        assert_eq!(
            Policy::default().evaluate(&flow("192.0.2.1"), plain, none),
            Some(Verdict { rule: None, most })
        );
    }

    /// Nothing but a token names a user to QoS NSLP.
    #[test]
    fn rule_about_names_matches_verified_ones_only() {
        let users = || ["alice@*".parse().expect("a pattern")].into();
        for (users, verified, matching) in [
            (users(), true, [false, true, false]),
            (users(), false, [false, true, false]),
            (Vec::new(), true, [false, true, true]),
            (Vec::new(), false, [true; 3]),
        ] {
            let required = Required { users, verified };
            let rule = Rule { required, ..Rule::default() };
            let policy = Policy::new([rule].into());
            let names = [None, Some("alice@example.org"), Some("bob@example.org")];
            let found = names.map(|verified| {
                let requester = Requester { secure: true, verified };
                policy.rule_of(&flow("10.0.0.1"), requester).is_some()
            });
            assert_eq!(found, matching, "{policy:?}");
        }
    }
}
