//! `[policy]` and `[[policy.rule]]`: who may reserve how much and where, and which reservations may be preempted.

use earmark_core::Rate;
use earmark_core::admission::{PreemptionPolicy, Priority};
use earmark_rsvp::policy::{About, Action, Rule, Settings};
use earmark_token::Pattern;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{ConfigError, InterfaceConfig, IssuerTable, Source, USER_NAME};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyTable {
    #[serde(default)]
    preemption: PreemptionName,
    #[serde(default)]
    default: Action,
    #[serde(default)]
    rule: Vec<RuleTable>,
    #[serde(default)]
    pub(super) issuer: Vec<IssuerTable>,
    pub(super) verifications_per_second: Option<Spanned<u32>>,
}

/// Names of [`PreemptionPolicy`] in the file.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PreemptionName {
    #[default]
    Off,
    Whole,
    Partial,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    #[serde(default)]
    about: About,
    #[serde(default)]
    users: Vec<Spanned<String>>,
    #[serde(default)]
    verified: bool,
    #[serde(default)]
    applications: Vec<Spanned<String>>,
    #[serde(default)]
    sources: Vec<Spanned<String>>,
    #[serde(default)]
    destinations: Vec<Spanned<String>>,
    #[serde(default)]
    interfaces: Vec<Spanned<String>>,
    #[serde(default)]
    action: Action,
    flow: Option<Spanned<String>>,
    total: Option<Spanned<String>>,
    interface_total: Option<Spanned<String>>,
    priority: Option<Spanned<u16>>,
    defending: Option<Spanned<u16>>,
    highest_priority: Option<Spanned<u16>>,
}

const RATE: &str = "a rate such as \"2Mbit\"";

impl Source<'_> {
    pub(crate) fn policy(
        &self,
        table: PolicyTable,
        interfaces: &[InterfaceConfig],
    ) -> Result<Settings, ConfigError> {
        let preemption = match table.preemption {
            PreemptionName::Off => None,
            PreemptionName::Whole => Some(PreemptionPolicy { partial: false }),
            PreemptionName::Partial => Some(PreemptionPolicy { partial: true }),
        };
        let rules = table.rule.into_iter().map(|rule| self.rule(rule, interfaces));
        Ok(Settings {
            preemption,
            rules: rules.collect::<Result<_, _>>()?,
            otherwise: table.default,
        })
    }

    fn rule(&self, table: RuleTable, known: &[InterfaceConfig]) -> Result<Rule, ConfigError> {
        if let Some(defending) = &table.defending
            && table
                .priority
                .as_ref()
                .is_none_or(|priority| defending.get_ref() < priority.get_ref())
        {
            return Err(self.error(
                defending.span(),
                "a defending priority below the priority would be displaced by equals",
                "at least as high as priority, which must be there (RFC 3181 section 4)",
            ));
        }
        if table.about == About::Senders {
            self.check_sender_rule(&table)?;
        }
        let defending = table.defending.map(Spanned::into_inner);
        Ok(Rule {
            about: table.about,
            users: self.all::<Pattern>(&table.users, USER_NAME)?,
            verified: table.verified,
            applications: self.all::<Pattern>(&table.applications, USER_NAME)?,
            sources: self.ranges(&table.sources)?,
            destinations: self.ranges(&table.destinations)?,
            interfaces: self.interface_names(&table.interfaces, known)?,
            action: table.action,
            flow: self.rate(table.flow.as_ref())?,
            total: self.rate(table.total.as_ref())?,
            interface_total: self.rate(table.interface_total.as_ref())?,
            priority: table.priority.map(|priority| {
                let level = priority.into_inner();
                Priority::new(level, defending.unwrap_or(level))
            }),
            highest_priority: table.highest_priority.map(Spanned::into_inner),
        })
    }

    /// Checks that a rule about senders has no limit of what only reservations use up.
    fn check_sender_rule(&self, table: &RuleTable) -> Result<(), ConfigError> {
        let sums =
            [&table.total, &table.interface_total].map(|sum| sum.as_ref().map(Spanned::span));
        let priorities = [&table.priority, &table.highest_priority]
            .map(|level| level.as_ref().map(Spanned::span));
        match sums.into_iter().chain(priorities).flatten().next() {
            None => Ok(()),
            Some(at) => Err(self.error(
                at,
                "a sender reserves nothing, so that it has no priority and adds to no total",
                "flow, for the most that one sender announces, or a rule about reservations",
            )),
        }
    }

    fn rate(&self, text: Option<&Spanned<String>>) -> Result<Option<Rate>, ConfigError> {
        text.map(|text| self.read(text, RATE)).transpose()
    }

    /// Reads names of interfaces that take part.
    pub(crate) fn interface_names(
        &self,
        names: &[Spanned<String>],
        known: &[InterfaceConfig],
    ) -> Result<Vec<String>, ConfigError> {
        let name = |name: &Spanned<String>| {
            if self.has_interface(name.get_ref(), known) {
                return Ok(name.get_ref().clone());
            }
            let message = format!("there is no [[interface]] {}", name.get_ref());
            Err(self.error(name.span(), message, "name interfaces that take part"))
        };
        names.iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::protocols::rsvp::RsvpConfig;

    #[test]
    fn policy_rule_is_parsed() {
        let text = "[[interface]]\nname = 'a'\nbandwidth = '10Mbit'\n[policy]\npreemption = \
            'partial'\n\
            [[policy.rule]]\nusers = ['CN=Alice']\nsources = ['10.0.0.1', '2001:db8::/32']\n\
            interfaces = ['a']\nflow = '2Mbit'\npriority = 5\n[[policy.rule]]\naction = 'refuse'\n";
        let policy =
            Config::parse(text, Path::new("r1.toml")).unwrap().settings.get::<RsvpConfig>().policy;
        assert_eq!(policy.preemption, Some(PreemptionPolicy { partial: true }));
        let [first, second] = &policy.rules[..] else { panic!("{policy:?}") };
        assert_eq!(first.sources[0].to_string(), "10.0.0.1/32");
        assert_eq!(first.flow, Some(Rate::from_mbps(2)));
        assert_eq!(first.priority.map(|priority| priority.defending), Some(5));
        assert!(first.users[0].fits("CN=Alice, O=Example"));
        assert_eq!(second.action, Action::Refuse);
    }
}
