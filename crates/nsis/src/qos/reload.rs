//! Replacement of settings while reservations exist. Existing reservations stay even if a new rule or limit would
//! refuse them, and count under the rule that now matches.

use earmark_core::Rate;
use earmark_core::admission::Ledger;

use super::QosNslp;
use super::config::{Config, Rule};
use super::flow::flow_of;
use super::policy::{Policy, Requester};
use super::state::Flags;

impl QosNslp {
    /// Replaces the settings: see [`Config::renewed`].
    pub(crate) fn reload(&mut self, ledger: &Ledger, new: Config) {
        let new = self.config.renewed(new);
        if self.config.policy != new.policy {
            self.reaccount(ledger, &new.policy);
        }
        if self.config.refresh != new.refresh {
            // A summary has no lifetimes of the listed sessions, so each session sends a full RESERVE once.
            for (_, session) in &mut self.store.sessions {
                session.flags.set(Flags::CONFIRMED, false);
            }
        }
        self.tokens.reload(new.tokens.clone());
        self.config = new;
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
