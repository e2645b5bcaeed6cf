//! Other settings, while reservations stand. None is given up for them: what a new rule or limit would refuse stays, and
//! counts under the rule that it falls under now.

use earmark_core::Rate;
use earmark_core::admission::Ledger;

use super::QosNslp;
use super::admission::flow_of;
use super::config::{Config, Rule};
use super::policy::Policy;
use super::state::Flags;

impl QosNslp {
    /// Takes other settings: see [`Config::renewed`].
    pub(crate) fn renew(&mut self, ledger: &Ledger, new: Config) {
        let new = self.config.renewed(new);
        if self.config.policy != new.policy {
            self.judge_anew(ledger, &new.policy);
        }
        if self.config.refresh != new.refresh {
            // A summary says nothing of how long the sessions live that it lists, so each says once more what it is.
            for (_, session) in &mut self.store.sessions {
                session.flags.set(Flags::CONFIRMED, false);
            }
        }
        self.config = new;
    }

    /// Counts all reservations under other rules.
    fn judge_anew(&mut self, ledger: &Ledger, rules: &[Rule]) {
        self.policy = Policy::new(rules.to_vec());
        for (_, session) in &mut self.store.sessions {
            session.rule = None;
            let demand = session.claim.and_then(|claim| ledger.demand(claim));
            let flow = flow_of(&session.mri, session.classifier);
            let Some((demand, flow)) = demand.zip(flow) else { continue };
            session.rule = self.policy.rule_of(&flow, session.attributes);
            self.policy.account(session.rule, Rate::ZERO, demand.rate);
        }
    }
}
