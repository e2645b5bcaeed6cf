//! The rules of sessions in the packet filter.
//!
//! Several sessions may have the same packets: the CREATE of a data sender, and that of an edge which did not know that the
//! data sender has NSIS (RFC 5973 section 3.7.6.1). Their rule is installed once, until the end of the last of them. Two
//! sessions with different rules for the same packets are a policy conflict, and the second one is refused.

use alloc::vec::Vec;

use earmark_core::{Endpoint, FilterAction, FilterChange, FilterRule, FilteredPackets, Time};
use earmark_wire::gist::PathCoupled;
use earmark_wire::natfw_nslp::iana::SignalingSessionFailure as Failure;

use super::api::{Change, Event, RuleChange};
use super::binding::following;
use super::external::data_of;
use super::flow::{endpoints, known_packets_of, packets_of};
use super::instance::NatfwNslp;
use super::state::{Flags, Index, Kind, Role, Session};
use super::store::Store;
use crate::nslp::HandlerContext;

/// Limit of the sessions with the same packets.
const SAME_PACKETS: usize = 8;

/// The rules of a session: one for its packets, or for each of its ICMP types, and one for the next port.
#[derive(Clone, Debug)]
pub(super) struct Rules<'a> {
    rule: Option<FilterRule>,
    icmp_types: core::slice::Iter<'a, u8>,
    next_port: Option<FilterRule>,
}

impl Iterator for Rules<'_> {
    type Item = FilterRule;

    fn next(&mut self) -> Option<FilterRule> {
        let Some(rule) = self.rule else { return self.next_port.take() };
        let kind = self.icmp_types.next().copied();
        if self.icmp_types.len() == 0 {
            self.rule = None;
        }
        let packets = FilteredPackets { icmp_type: kind, ..rule.packets };
        Some(FilterRule { packets, ..rule })
    }
}

impl Session {
    /// Checks that the packet filter can keep the rules of the session.
    ///
    /// # Errors
    /// The packets cannot be matched, or not be translated.
    pub(super) fn check_rules(&self) -> Result<(), Failure> {
        let Some(rule) = self.rules().next() else { return Ok(()) };
        if let Some((near, _)) = self.data_flow() {
            packets_of(&near)?;
        }
        rule.check().map_err(|_| Failure::PolicyConflict)
    }

    /// Returns the rules of the session.
    pub(super) fn rules(&self) -> Rules<'_> {
        let icmp_types = self.icmp_types().iter();
        let none = Rules { rule: None, icmp_types: [].iter(), next_port: None };
        if !self.flags.has(Flags::PASSES) {
            return none;
        }
        let action = self.action();
        // A reservation opens nothing; the CREATE of the data sender does (section 3.2.2).
        let is_reservation = self.kind == Kind::External
            && (action == FilterAction::Allow || self.role != Role::Responder);
        let flow = self.data_flow().filter(|_| !is_reservation);
        let Some((near, far)) = flow else { return none };
        let packets = known_packets_of(&near);
        let ((near_source, near_destination), (far_source, far_destination)) =
            (endpoints(&near), endpoints(&far));
        let source = (near_source != far_source).then_some(far_source);
        let destination = (near_destination != far_destination).then_some(far_destination);
        let rule = FilterRule { packets, action, source, destination };
        let next_port = self.extended_flow.next_port.then(|| for_next_port(&rule));
        Rules { rule: Some(rule), icmp_types, next_port }
    }

    /// Returns the data of the session on both sides of this node.
    fn data_flow(&self) -> Option<(PathCoupled, PathCoupled)> {
        match self.kind {
            Kind::Create => Some((*self.near_flow()?, *self.far_flow()?)),
            Kind::External => {
                let terminal = self.extra.as_ref()?.terminal?;
                let flow = data_of(&self.near, &terminal);
                Some((flow, flow))
            }
        }
    }
}

/// Returns the rule for the ports after those of a rule (sub_ports).
fn for_next_port(rule: &FilterRule) -> FilterRule {
    let next = |port: u16| if port == 0 { 0 } else { port.wrapping_add(1) };
    let mut rule = *rule;
    let flow = &mut rule.packets.flow;
    flow.destination_port = next(flow.destination_port);
    flow.source_port = next(flow.source_port);
    let next = |to: Endpoint| if to.port == 0 { to } else { following(to) };
    FilterRule { source: rule.source.map(next), destination: rule.destination.map(next), ..rule }
}

impl Store {
    /// Returns whether another session has a different rule for the packets of one of these, or too many have the same.
    pub(super) fn conflicts(&self, own: Option<Index>, mut rules: Rules<'_>) -> bool {
        rules.any(|rule| {
            let others = || self.holders(rule.packets).filter(|other| Some(*other) != own);
            let differs = |other: Index| {
                let mut theirs = self.session(other).rules();
                theirs.all(|theirs| theirs != rule)
            };
            others().any(differs) || others().count() >= SAME_PACKETS
        })
    }

    /// Returns the end of the rule for these packets: that of the last session that has it installed.
    fn end_of(&self, packets: FilteredPackets) -> Option<Time> {
        let sessions = self.holders(packets).map(|index| self.session(index));
        sessions.filter(|s| s.flags.has(Flags::INSTALLED)).map(|s| s.expires_at).max()
    }
}

impl NatfwNslp {
    /// Remembers the rules of a session, so that no other one gets their packets.
    pub(super) fn hold_rules(&mut self, index: Index) {
        let rules: Vec<FilterRule> = self.store.session(index).rules().collect();
        rules.iter().for_each(|rule| self.store.hold(&rule.packets, index));
    }

    /// Installs the remembered rules of a session until its end, or until its new end.
    pub(super) fn install_rules(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = &mut self.store.sessions[index as usize];
        let was_installed = session.flags.has(Flags::INSTALLED);
        session.flags.set(Flags::INSTALLED, true);
        let session = self.store.session(index);
        let mut rules = session.rules();
        let Some(first) = rules.next() else {
            return self.store.session_mut(index).flags.set(Flags::INSTALLED, false);
        };
        for rule in core::iter::once(first).chain(rules) {
            let until = self.store.end_of(rule.packets).unwrap_or(cx.now);
            cx.out.filter(FilterChange::Install(rule, until));
            if !was_installed {
                let change = RuleChange::Installed;
                cx.report(Event::Rule { session: session.id, rule, change });
            }
        }
    }

    /// Removes the rules of a session, unless other sessions have the same.
    pub(super) fn drop_rules(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        why: Change,
    ) {
        let session = self.store.session_mut(index);
        let was_installed = session.flags.has(Flags::INSTALLED);
        session.flags.set(Flags::INSTALLED, false);
        let id = session.id;
        let rules: Vec<FilterRule> = session.rules().collect();
        for rule in rules {
            // A rule that the packet filter has refused is not held any more.
            if !self.store.unhold(&rule.packets, index) || !was_installed {
                continue;
            }
            match self.store.end_of(rule.packets) {
                Some(until) => cx.out.filter(FilterChange::Install(rule, until)),
                None => cx.out.filter(FilterChange::Remove(rule.packets)),
            }
            cx.report(Event::Rule { session: id, rule, change: RuleChange::Removed(why) });
        }
    }

    /// Ends the sessions whose rule the packet filter has refused.
    pub(super) fn rule_refused(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        packets: FilteredPackets,
        errno: u16,
    ) {
        self.counters.filter_refused += 1;
        let holders: Vec<Index> = self.store.holders(packets).collect();
        for index in holders {
            let session = self.store.session(index);
            let rule = session.rules().find(|rule| rule.packets == packets);
            if let Some(rule) = rule.filter(|_| session.flags.has(Flags::INSTALLED)) {
                let (session, change) = (session.id, RuleChange::Refused(errno));
                cx.report(Event::Rule { session, rule, change });
                self.store.unhold(&packets, index);
                self.terminate(cx, index);
            }
        }
    }
}
