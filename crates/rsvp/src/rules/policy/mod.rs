//! Policy: limits, permissions and priorities of reservations (RFC 2750).
//!
//! # Overview
//!
//! POLICY_DATA contains the identity behind a request (AUTH_USER and AUTH_APP, RFC 3182 and 2872) and its priority
//! (PREEMPTION_PRI, RFC 3181); see [`evidence`]. Before admission, the first of the configured [`rules`] that matches a
//! request allows it, with a limit and a priority, or refuses it with "policy control failure" (code 2) and a value for
//! the reason. The bandwidth that each name has reserved under a rule is kept in [`accounts`].
//!
//! A token that one of the configured issuers has signed proves the name of the user, for a flow, a rate and a time
//! ([`tokens`]). A name without token is claimed. With issuers, a token that fails refuses its request.
//!
//! With preemption, the ledger lets requests of higher priority displace others. The owner of a displaced reservation
//! gets an error with the priority that would have been necessary ([`preemption`]).
//!
//! If nothing is configured, POLICY_DATA is not parsed and forwarded unchanged.
//!
//! # Odd cases
//!
//! - **A refresh** without changes is not checked again: a granted request remains as long as it is refreshed, but not
//!   after the end of its token.
//! - **Merged requests** have a grant each, so each is accounted in full under its name although they share one
//!   reservation. Their priorities are merged as in RFC 3181 section 5.1 ([`merge`]).
//! - **Receiving applications of this host** are not checked: no link bandwidth is reserved for them here, and the
//!   previous hop checks the request.
//!
//! # Limits
//!
//! Credentials other than tokens are ignored, and encrypted or non-ASCII names match nothing. An announced sender remains
//! after the end of its token. If a request with
//! the strategy "force error" is merged with a different one, its receiver gets no error; its priority does not count.

mod accounts;
mod control;
mod evidence;
mod identity;
mod merge;
mod preemption;
mod rules;
mod tokens;

use alloc::vec::Vec;

use earmark_core::admission::PreemptionPolicy;
use serde::{Deserialize, Serialize};

use self::accounts::Accounts;

pub(crate) use self::accounts::Grant;
pub use self::identity::{BadName, Identity};
pub(crate) use self::preemption::explanation;
pub use self::rules::{About, Action, Rule};
pub(crate) use self::tokens::{refused_token, stated_reason};
pub use earmark_token as token;
pub use earmark_token::User;

/// Settings of policy. By default everything is allowed and nothing is preempted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Preemption of reservations by more important ones; `None` for no preemption.
    pub preemption: Option<PreemptionPolicy>,
    /// Rules in order; the first that matches decides.
    pub rules: Vec<Rule>,
    /// Action if no rule matches.
    pub otherwise: Action,
}

/// Rules and their accounts.
#[derive(Debug)]
pub(crate) struct Policy {
    settings: Settings,
    /// Account number of each rule; numbers are not reused while the node runs.
    account_numbers: Vec<usize>,
    next_number: usize,
    accounts: Accounts,
}

impl Policy {
    /// Returns `None` if nothing is configured: no rules, and no issuers of tokens.
    pub(crate) fn new(settings: &Settings, reads_tokens: bool) -> Option<Policy> {
        (reads_tokens || *settings != Settings::default()).then(|| {
            let (account_numbers, next_number) = Default::default();
            let mut policy = Policy {
                settings: Settings::default(),
                account_numbers,
                next_number,
                accounts: Accounts::default(),
            };
            policy.reload(settings);
            policy
        })
    }

    /// Replaces the settings. Grants under a rule are accounted under the new rule that matches the same requests.
    pub(crate) fn reload(&mut self, settings: &Settings) {
        let mut before: Vec<(usize, &Rule)> =
            self.account_numbers.iter().copied().zip(&self.settings.rules).collect();
        let mut account_numbers = Vec::with_capacity(settings.rules.len());
        for rule in &settings.rules {
            let same = before.iter().position(|(_, old)| old.has_same_conditions(rule));
            account_numbers.push(match same {
                Some(found) => before.remove(found).0,
                None => {
                    self.next_number += 1;
                    self.next_number - 1
                }
            });
        }
        self.account_numbers = account_numbers;
        self.settings = settings.clone();
    }
}
