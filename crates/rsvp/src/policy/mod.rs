//! Policy: who may reserve how much and where, and who gives way to whom (RFC 2750).
//!
//! # The story
//!
//! POLICY_DATA says in whose name a request is made (AUTH_USER and AUTH_APP, RFC 3182 and 2872) and how important it is
//! (PREEMPTION_PRI, RFC 3181); see [`evidence`]. Before a request goes to the ledger, the first of the configured
//! [`rules`] that fits it allows it, with a limit and a priority, or refuses it, which is answered by "policy control
//! failure" (code 2) with a value that says why. What each name has reserved under a rule is kept in [`accounts`].
//!
//! Where preemption is on, the ledger lets important requests displace others. Whose reservation was displaced is told
//! so, with the priority that it would have taken ([`preemption`]).
//!
//! Where nothing is configured nobody reads POLICY_DATA; it is carried on as it came.
//!
//! # Odd cases
//!
//! - **A refresh** that says nothing new is not judged again: what was allowed stands as long as it is refreshed.
//! - **Requests that are merged** each have a grant of their own, so each counts in full under its name, although they
//!   share what is reserved. Their priorities merge as RFC 3181 section 5.1 has it ([`merge`]).
//! - **Applications of this host** that receive are not judged: nothing of a link is reserved for them here, and the
//!   previous hop will judge.
//!
//! # Limits
//!
//! Names are taken at their word: credentials are not verified, and encrypted or non-ASCII names are nobody's. That a
//! request with the strategy "force error" met a different one is not told to its receiver; its priority does not count.

mod accounts;
mod control;
mod evidence;
mod identity;
mod merge;
mod pattern;
mod preemption;
mod rules;

use alloc::vec::Vec;

use earmark_core::admission::PreemptionPolicy;
use serde::{Deserialize, Serialize};

use self::accounts::Accounts;

pub(crate) use self::accounts::Grant;
pub use self::identity::{BadName, Identity};
pub use self::pattern::{EmptyPattern, Pattern};
pub(crate) use self::preemption::explanation;
pub use self::rules::{About, Action, Rule};

/// Settings of policy. By default everything is allowed and nothing is preempted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whether important reservations displace others, and how; `None`: they do not.
    pub preemption: Option<PreemptionPolicy>,
    /// The rules, the first that fits decides.
    pub rules: Vec<Rule>,
    /// What happens to what no rule fits.
    pub otherwise: Action,
}

/// The rules, and what is reserved under them.
#[derive(Debug)]
pub(crate) struct Policy {
    settings: Settings,
    /// The number under which each rule has its account; no two rules of this node's life have the same.
    numbers: Vec<usize>,
    next_number: usize,
    accounts: Accounts,
}

impl Policy {
    /// `None` where nothing is configured.
    pub(crate) fn new(settings: &Settings) -> Option<Policy> {
        (*settings != Settings::default()).then(|| {
            let (numbers, next_number) = Default::default();
            let (empty, accounts) = (Settings::default(), Accounts::default());
            let mut policy = Policy { settings: empty, numbers, next_number, accounts };
            policy.renew(settings);
            policy
        })
    }

    /// Takes other settings. What was granted under a rule counts on under the one that fits the same requests.
    pub(crate) fn renew(&mut self, settings: &Settings) {
        let mut before: Vec<(usize, &Rule)> =
            self.numbers.iter().copied().zip(&self.settings.rules).collect();
        let mut numbers = Vec::with_capacity(settings.rules.len());
        for rule in &settings.rules {
            let same = before.iter().position(|(_, old)| old.fits_the_same(rule));
            numbers.push(match same {
                Some(found) => before.remove(found).0,
                None => {
                    self.next_number += 1;
                    self.next_number - 1
                }
            });
        }
        self.numbers = numbers;
        self.settings = settings.clone();
    }
}
