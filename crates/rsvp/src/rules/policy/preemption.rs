//! Reservations that were preempted: in whole (RFC 3181), or in part (RFC 4495).

use alloc::string::ToString;
use alloc::vec::Vec;

use earmark_core::Rate;
use earmark_core::admission::{ClaimId, Owner, Priority};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::iana::{AttributeType, MergeStrategy, PolicyControlError, PreemptionError};
use earmark_wire::rsvp::{
    Attribute, ErrorCode, List, PolicyData, PolicyElement, PreemptionPriority,
};

use super::tokens::identity_error;
use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::rules::fault::ResvFault;
use crate::state::{Holder, Index};

impl Rsvp {
    /// Handles a preemption: the ledger has reduced the claim of a reservation to `kept` in favour of one with priority
    /// `by`.
    ///
    /// If nothing is left the reservation ends: next hops get a ResvErr (code 12), the previous hop a ResvTear.
    /// Otherwise it is reduced: next hops get a ResvErr (code 2, value 102) with the remaining flowspec, and the
    /// previous hop gets it with the next refresh, or earlier if the next hops answer with a smaller request (RFC 4495
    /// sections 5.1 to 5.3).
    pub(crate) fn reservation_preempted<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
        kept: Rate,
        by: Priority,
    ) {
        let Some(tcsb) = self.block_of(claim, owner) else { return };
        self.counters.preempted += 1;
        if kept > Rate::ZERO && self.reduce(cx, tcsb) {
            let value = PolicyControlError::PartiallyPreempted.code();
            let fault = ResvFault::new(ErrorCode::PolicyControlFailure, value);
            let fault = ResvFault { in_place: true, preempted_by: Some(by), ..fault };
            let left = self.store.tcsb(tcsb).flowspec;
            return self.report_refusal(cx, tcsb, &fault, Some(left));
        }
        let fault = ResvFault::new(ErrorCode::ServicePreempted, 0);
        let fault = ResvFault { preempted_by: Some(by), ..fault };
        self.report_refusal(cx, tcsb, &fault, None);
        self.lose_reservation(cx, tcsb, Change::Preempted);
    }

    /// Reduces a reservation to what its claim has left. Returns `false` if this is less than any reservation needs.
    fn reduce<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, tcsb: Index) -> bool {
        let whole = self.store.tcsb(tcsb).flowspec;
        let Some(part) = self.part_of(&whole, |part| self.is_within_claim(cx.context, tcsb, part))
        else {
            return false;
        };
        self.store.tcsb_mut(tcsb).flowspec = part;
        // A summary refresh would confirm the old request upstream; a refresh message has the new one.
        match self.store.tcsb(tcsb).holder {
            Holder::Sender(psb) => self.refresh_resv_by_message(cx.now, psb),
            Holder::Pool(pool) => self.forget_shared_message_ids(pool),
        }
        self.reinstall(cx, tcsb);
        self.notify_reservation(cx, tcsb, Change::Preempted);
        true
    }

    /// Returns the largest fraction of a flowspec that fits, to about one in a million; `None` if no valid one fits.
    fn part_of(&self, whole: &FlowSpec, fits: impl Fn(&FlowSpec) -> bool) -> Option<FlowSpec> {
        let (mut low, mut high) = (0.0_f32, 1.0_f32);
        for _ in 0..20 {
            let middle = (low + high) / 2.0;
            if fits(&scaled(whole, middle)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(scaled(whole, low)).filter(|part| part.validate().is_ok())
    }
}

/// Returns a flowspec with its rates scaled. The peak rate stays, because links do not account for it.
fn scaled(whole: &FlowSpec, share: f32) -> FlowSpec {
    let bucket = |bucket: &TokenBucket| TokenBucket { rate: bucket.rate * share, ..*bucket };
    match whole {
        FlowSpec::ControlledLoad(b) => FlowSpec::ControlledLoad(bucket(b)),
        FlowSpec::Guaranteed(b, rspec) => {
            let mut rspec = *rspec;
            rspec.rate *= share;
            FlowSpec::Guaranteed(bucket(b), rspec)
        }
    }
}

/// Returns the POLICY_DATA that an error about policy must contain (RFC 2750 section 4.3): for preempted requests the
/// priority that preempted them (RFC 3181 section 6), for others the reason of the refusal (RFC 3182 section 3.3.4).
/// Empty for other errors.
pub(crate) fn explanation(fault: &ResvFault) -> Vec<u8> {
    let [e0, e1] = identity_error(fault.token).code().to_be_bytes();
    let mut value = alloc::vec![0, 0, e0, e1];
    if let Some(error) = fault.token {
        value.extend_from_slice(error.to_string().as_bytes());
    }
    let attributes =
        [Attribute { a_type: AttributeType::PolicyErrorObject, sub_type: 0, value: &value }];
    let element = match (fault.preempted_by, fault.code) {
        (Some(by), _) => PolicyElement::Preemption(PreemptionPriority {
            merge_strategy: MergeStrategy::HighestQos.code(),
            error: PreemptionError::Preemption.code(),
            preemption: by.preemption,
            defending: by.defending,
        }),
        (None, ErrorCode::PolicyControlFailure) => PolicyElement::User(List::Items(&attributes)),
        (None, _) => return Vec::new(),
    };
    let elements = [element];
    let data = PolicyData { options: List::Items(&[]), elements: List::Items(&elements) };
    let mut octets = alloc::vec![0; data.buffer_len()];
    let written = data.emit(&mut octets);
    debug_assert!(written.is_ok(), "it is short and made here");
    octets
}
