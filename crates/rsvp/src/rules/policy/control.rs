//! Policy control: decisions on requests and senders by the rules.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{Demand, Priority};
use earmark_core::{Context, InterfaceId, Rate};
use earmark_token::{Entrance, Verified};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::iana::{MergeStrategy, PolicyControlError};
use earmark_wire::rsvp::{Carried, ErrorCode, FilterSpec, ParseError, Path};

use super::evidence::Evidence;
use super::merge::{RequestPriority, merge_priorities};
use super::rules::{About, Action, PolicyRequest, Rule, Used};
use super::{Grant, Policy};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::rules::fault::ResvFault;
use crate::rules::request::Request;
use crate::state::{Extra, Holder, Index, Origin};

impl Policy {
    /// Returns the rule that matches a request, with its number. Returns `Err` if none matches and the default action
    /// refuses.
    fn rule_for(
        &self,
        ask: &PolicyRequest<'_>,
    ) -> Result<Option<(usize, &Rule)>, PolicyControlError> {
        let mut rules = self.account_numbers.iter().copied().zip(&self.settings.rules);
        match (rules.find(|(_, rule)| rule.matches(ask)), self.settings.otherwise) {
            (Some(found), _) => Ok(Some(found)),
            (None, Action::Allow) => Ok(None),
            // A name might have matched a rule.
            (None, Action::Refuse) if ask.evidence.account().is_empty() => {
                Err(PolicyControlError::MissingPolicyElement)
            }
            (None, Action::Refuse) => Err(PolicyControlError::Rejected),
        }
    }

    /// Returns whether rules admit some senders of a session and not others.
    pub(crate) fn tells_senders_apart(&self) -> bool {
        self.settings
            .rules
            .iter()
            .any(|rule| rule.about == About::Senders || !rule.sources.is_empty())
    }

    /// Returns whether the rules refuse a request, whatever its limits are.
    fn refuses(&self, ask: &PolicyRequest<'_>) -> bool {
        let is_refusing = |(_, rule): (usize, &Rule)| rule.action == Action::Refuse;
        self.rule_for(ask).map_or(true, |found| found.is_some_and(is_refusing))
    }

    /// Decides on a reservation that would replace `replaced`.
    fn grant(
        &self,
        ask: &PolicyRequest<'_>,
        interface: InterfaceId,
        replaced: Option<&Grant>,
    ) -> Result<Grant, PolicyControlError> {
        let account = ask.evidence.account();
        let stated = ask.evidence.priority;
        let signalled = stated.map(|stated| Priority::new(stated.preemption, stated.defending));
        let found = self.rule_for(ask)?;
        if let Some((number, rule)) = found {
            rule.check_limits(ask, self.accounts.used(number, &account, interface, replaced))?;
        }
        let priority = match found {
            Some((_, rule)) => rule.priority(signalled),
            None => signalled.unwrap_or_default(),
        };
        let strategy =
            stated.map_or(MergeStrategy::HighestQos.code(), |stated| stated.merge_strategy);
        let rule = found.map(|(number, _)| number);
        let token_until = ask.evidence.verified.as_ref().map(|verified| verified.until);
        Ok(Grant { rule, account, interface, rate: ask.rate, priority, strategy, token_until })
    }
}

impl Rsvp {
    /// Decides on a request for a reservation on a link, which would replace `replaced`, and stores the grant in the
    /// request.
    #[cold]
    pub(crate) fn check_request<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        holder: Holder,
        replaced: Option<Index>,
        request: &mut Request,
    ) -> Result<(), ResvFault> {
        let (Some(_), Some(outgoing)) = (&self.policy, request.outgoing) else {
            return Ok(());
        };
        if matches!(request.origin, Origin::Local(_)) {
            return Ok(());
        }
        let carried = request.extra.as_deref().map_or(&[][..], |extra| extra.carried.octets());
        let evidence = Evidence::read(Carried::Objects(carried));
        let evidence = evidence.map_err(|error| malformed_policy_data(&error))?;
        let grant = self.grant_for(cx, holder, replaced, request, outgoing, evidence)?;
        request.extra.get_or_insert_default().grant = Some(Box::new(grant));
        Ok(())
    }

    /// Returns the grant for a request of the network on a link.
    fn grant_for<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        holder: Holder,
        replaced: Option<Index>,
        request: &Request,
        outgoing: InterfaceId,
        mut evidence: Evidence<'_>,
    ) -> Result<Grant, ResvFault> {
        let sources = self.sources(holder, outgoing, request.extra.as_deref());
        let rate = Demand::from_flowspec(&request.flowspec).rate;
        let session = self.store.session_key(holder);
        let entrance = Entrance::of(cx.context, outgoing);
        self.verify_token(cx.now, &mut evidence, &session, &sources, rate, entrance)?;
        let ask = PolicyRequest {
            about: About::Reservations,
            evidence: &evidence,
            sources: &sources,
            destination: session.destination,
            interface: entrance.name,
            rate,
        };
        let replaced = replaced.and_then(|rsb| self.store.rsb(rsb).grant());
        let policy = self.policy.as_ref().ok_or(PolicyControlError::Rejected);
        policy.and_then(|policy| policy.grant(&ask, outgoing, replaced)).map_err(refused)
    }

    /// Decides on a new or changed sender.
    #[cold]
    pub(crate) fn check_sender<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        incoming: InterfaceId,
        path: &Path<'_>,
    ) -> Result<(), ResvFault> {
        let Some(policy) = &self.policy else { return Ok(()) };
        let mut evidence =
            Evidence::read(path.carried).map_err(|error| malformed_policy_data(&error))?;
        // Without rules about senders all senders are allowed, whatever the default action is.
        if !policy.settings.rules.iter().any(|rule| rule.about == About::Senders) {
            return Ok(());
        }
        let sources = [path.sender.template.source];
        let rate = Demand::from_flowspec(&FlowSpec::ControlledLoad(path.sender.tspec)).rate;
        let entrance = Entrance::of(cx.context, incoming);
        self.verify_token(cx.now, &mut evidence, &path.session, &sources, rate, entrance)?;
        let ask = PolicyRequest {
            about: About::Senders,
            evidence: &evidence,
            sources: &sources,
            destination: path.session.destination,
            interface: entrance.name,
            rate,
        };
        let Some(policy) = &self.policy else { return Ok(()) };
        let verdict = policy.rule_for(&ask).and_then(|found| match found {
            Some((_, rule)) => rule.check_limits(&ask, Used::default()),
            None => Ok(()),
        });
        verdict.map_err(refused)
    }

    /// Returns the senders, in ascending order, that a wildcard reservation on an interface is for by the rules about
    /// reservations: each is admitted to one of the requests.
    pub(crate) fn admitted_senders(
        &self,
        context: &Context<'_>,
        pool: Index,
        tcsb: Option<Index>,
        outgoing: InterfaceId,
    ) -> Vec<FilterSpec> {
        let session = self.store.session_key(Holder::Pool(pool));
        // The request for a new one was checked for all senders.
        let requests: Option<Vec<_>> = tcsb
            .map(|tcsb| self.store.rsbs_of(tcsb).filter_map(|rsb| self.evidence_of(rsb)).collect());
        let is_admitted = |source: IpAddr| {
            let Some(policy) = self.policy.as_ref() else { return true };
            requests.as_ref().is_none_or(|requests| {
                requests.iter().any(|(evidence, rate)| {
                    !policy.refuses(&PolicyRequest {
                        about: About::Reservations,
                        evidence,
                        sources: &[source],
                        destination: session.destination,
                        interface: Entrance::of(context, outgoing).name,
                        rate: *rate,
                    })
                })
            })
        };
        let senders = self.store.senders_of(self.store.pool(pool).session);
        let senders = senders.map(|psb| self.store.psb(psb));
        let senders = senders.filter(|psb| psb.leaves_through(Some(outgoing)));
        let senders = senders.map(|psb| psb.template);
        let mut admitted: Vec<FilterSpec> =
            senders.filter(|sender| is_admitted(sender.source)).collect();
        admitted.sort_unstable();
        admitted
    }

    /// Returns the identity behind a request, with the name that its token has proved, and its rate.
    fn evidence_of(&self, rsb: Index) -> Option<(Evidence<'_>, Rate)> {
        let rsb = self.store.rsb(rsb);
        let mut evidence = Evidence::read(Carried::Objects(rsb.carried())).ok()?;
        if let Some(grant) = rsb.grant()
            && let Some(until) = grant.token_until
        {
            evidence.verified = Some(Verified { name: grant.account.clone(), until });
        }
        Some((evidence, Demand::from_flowspec(&rsb.flowspec).rate))
    }

    /// Returns the senders of a request.
    fn sources(&self, holder: Holder, outgoing: InterfaceId, extra: Option<&Extra>) -> Vec<IpAddr> {
        match holder {
            Holder::Sender(psb) => [self.store.psb(psb).template.source].into(),
            Holder::Pool(pool) => {
                let filters = extra.map_or(&[][..], |extra| &extra.filters);
                if !filters.is_empty() {
                    return filters.iter().map(|filter| filter.spec.source).collect();
                }
                let senders = self.store.senders_of(self.store.pool(pool).session);
                let senders = senders.map(|psb| self.store.psb(psb));
                let senders = senders.filter(|psb| psb.leaves_through(Some(outgoing)));
                senders.map(|psb| psb.template.source).collect()
            }
        }
    }

    /// Returns the merged priority of all requests in a block, with `new` in place of `replaced`. Returns `None` without
    /// preemption.
    #[inline]
    pub(crate) fn priority(
        &self,
        tcsb: Option<Index>,
        replaced: Option<Index>,
        new: Option<&Request>,
    ) -> Option<Priority> {
        let policy = self.policy.as_ref()?;
        policy.settings.preemption?;
        let others = tcsb.into_iter().flat_map(|tcsb| self.store.rsbs_of(tcsb));
        let others = others.filter(|&rsb| Some(rsb) != replaced);
        let grants = others.filter_map(|rsb| self.store.rsb(rsb).grant());
        let new = new.and_then(|request| request.extra.as_deref()?.grant.as_deref());
        let priorities: Vec<RequestPriority> =
            grants.chain(new).map(Grant::request_priority).collect();
        Some(merge_priorities(&priorities))
    }

    /// Updates the accounts after a request has changed.
    #[inline]
    pub(crate) fn update_accounts(&mut self, before: Option<&Extra>, after: Option<&Extra>) {
        let Some(policy) = &mut self.policy else { return };
        if let Some(grant) = before.and_then(|extra| extra.grant.as_deref()) {
            policy.accounts.subtract(grant);
        }
        if let Some(grant) = after.and_then(|extra| extra.grant.as_deref()) {
            policy.accounts.add(grant);
        }
    }
}

/// Returns the error for malformed POLICY_DATA.
fn malformed_policy_data(error: &ParseError) -> ResvFault {
    let unknown = (ErrorCode::PolicyControlFailure, PolicyControlError::BadPolicyData.code());
    let (code, value) = error.report().unwrap_or(unknown);
    ResvFault::new(code, value)
}

fn refused(value: PolicyControlError) -> ResvFault {
    ResvFault::new(ErrorCode::PolicyControlFailure, value.code())
}
