//! Honest requests in a network without faults: each is answered in time, and what is reserved stays reserved.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_core::outcome::Kind;
use earmark_core::{Flow, Time};
use earmark_node::outcome;
use earmark_sim::{LogEntry, LogEvent};

use crate::reservation::ReservationRequest;

/// Time in which a request is reserved on its whole path, or answered otherwise: some refreshes, since messages may be
/// lost in full queues.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);

/// Requests whose answers are awaited.
#[derive(Debug, Default)]
pub(super) struct HonestRequests {
    /// Flow and time of each request that was not answered yet, by the number of the flow, which is that of its
    /// application.
    open: BTreeMap<u64, (Flow, Time)>,
}

impl HonestRequests {
    /// Records a request.
    pub(super) fn request(&mut self, request: &ReservationRequest, at: Time) {
        self.open.insert(request.application(), (request.flow(), at));
    }

    /// Records the answers in the log: an outcome that the application gets, or a refusal for want of bandwidth.
    pub(super) fn process(&mut self, log: &[LogEntry]) {
        for LogEntry { what, .. } in log {
            match what {
                LogEvent::Attempt(attempt) if !attempt.granted => {
                    self.open.retain(|_, (flow, _)| Some(*flow) != attempt.flow);
                }
                LogEvent::Event(event) => {
                    let kind = outcome::outcome_of(event).map(|outcome| outcome.kind);
                    if !matches!(kind, None | Some(Kind::Pending | Kind::Unanswered))
                        && let Some(application) = outcome::application_of(event)
                    {
                        self.open.remove(&application);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the numbers of the flows whose requests should have been answered by now; `is_reserved` says which flows
    /// are reserved.
    pub(super) fn overdue(&mut self, now: Time, is_reserved: impl Fn(&Flow) -> bool) -> Vec<u64> {
        self.open.retain(|_, (flow, _)| !is_reserved(flow));
        let is_late = |(_, since): &(Flow, Time)| now.since(*since) > ANSWERED_WITHIN;
        let late =
            self.open.iter().filter(|(_, request)| is_late(request)).map(|(number, _)| *number);
        let late: Vec<u64> = late.collect();
        self.open.retain(|_, request| !is_late(request));
        late
    }

    /// Ends the wait for a flow that has ended.
    pub(super) fn end(&mut self, request: &ReservationRequest) {
        self.open.remove(&request.application());
    }
}
