//! Replacement of settings while reservations exist. Existing reservations stay even if a new rule or limit would
//! refuse them, and count under the rule that now matches.

use core::time::Duration;

use earmark_core::admission::Ledger;
use earmark_core::{Rate, Time, slew};

use super::QosNslp;
use super::config::{Config, Rule};
use super::flow::flow_of;
use super::instance::RisingPeriod;
use super::policy::{Policy, Requester};
use super::state::Flags;

impl QosNslp {
    /// Replaces the settings: see [`Config::renewed`].
    pub(crate) fn reload(&mut self, now: Time, ledger: &Ledger, new: Config) {
        let (current, wanted) = (self.config.refresh, new.refresh);
        let new = Config { refresh: current, ..self.config.renewed(new) };
        if self.config.policy != new.policy {
            self.reaccount(ledger, &new.policy);
        }
        self.tokens.reload(new.tokens.clone());
        self.config = new;
        self.follow_period(now, wanted);
    }

    /// Brings the refresh period nearer to `wanted`, as far as RFC 2205 section 3.7 permits.
    fn follow_period(&mut self, now: Time, wanted: Duration) {
        let current = self.config.refresh;
        let next_at = self.rising.map(|rising| rising.next_at);
        let (period, next_at) = slew::step(now, current, wanted, slew::DEFAULT_PERCENT, next_at);
        self.rising = next_at.map(|next_at| RisingPeriod { wanted, next_at });
        if period == current {
            return;
        }
        self.config.refresh = period;
        // A summary has no lifetimes of the listed sessions, so each session sends a full RESERVE once.
        for (_, session) in &mut self.store.sessions {
            session.flags.set(Flags::CONFIRMED, false);
        }
    }

    /// Lets the refresh period rise, if it is to rise by now.
    #[inline]
    pub(super) fn let_period_rise(&mut self, now: Time) {
        if let Some(rising) = self.rising
            && rising.next_at <= now
        {
            self.follow_period(now, rising.wanted);
        }
    }

    /// Accounts all reservations under new rules.
    fn reaccount(&mut self, ledger: &Ledger, rules: &[Rule]) {
        self.policy = Policy::new(rules.to_vec());
        for (_, session) in &mut self.store.sessions {
            session.rule = None;
            let demand = session.claim.and_then(|claim| ledger.demand(claim));
            let flow = flow_of(&session.mri, session.classifier);
            let Some((demand, flow)) = demand.zip(flow) else { continue };
            let verified = session.verified().map(|verified| verified.name.as_str());
            let requester = Requester { secure: session.is_secure_request(), verified };
            session.rule = self.policy.rule_of(&flow, requester);
            self.policy.account(session.rule, Rate::ZERO, demand.rate);
        }
    }
}
