//! An aggregate: its growth and shrinking, the requests that wait for it, and its reservation in the core.
//!
//! ```text
//!   need        what the flows hold, and what waiting requests demand
//!   granted     what the core has granted
//!
//!   grows       when need + margin > granted, to the next whole step that has room for both
//!   shrinks     when need + margin + step <= granted has held for `shrink_after`, likewise; to `lowest`, or nothing
//! ```
//!
//! Between growth and shrinking there is therefore at least one step, and some time. One request to the core is
//! outstanding at a time; later demand is part of the next one. A shrinking aggregate reduces its rate before the core
//! knows, so that no flow is admitted without bandwidth in the core.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::Ledger;
use earmark_core::{Datagram, InterfaceId, Rate, Time};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::Session;

use super::core_packets::CorePackets;
use super::settings::Across;
use crate::change::AggregateChange;
use crate::edge::CoreEvent;
use crate::edge::{AggregateNotice, EdgeAction, Lane, StoredDatagram};

/// An aggregate with its waiting requests.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) number: u32,
    /// Name of the border's interface.
    pub(super) border: String,
    pub(super) interface: InterfaceId,
    /// Link of the aggregate in the ledger, with a number that no interface has.
    pub(super) link: InterfaceId,
    pub(super) across: Across,
    /// Rate available to the flows.
    pub(super) granted: Rate,
    /// Limit of what flows may have of it.
    pub(super) limit: Rate,
    /// Rate of the outstanding request to the core.
    requested: Option<Rate>,
    /// Rate of the last request to the core.
    asked: Rate,
    /// Time at which the outstanding request counts as refused, if the core does not tell.
    answer_until: Option<Time>,
    /// Whether a refused request must be undone.
    is_excessive: bool,
    session: SessionState,
    /// Requests in the order of arrival.
    waiting_requests: VecDeque<WaitingRequest>,
    /// Time since which a lower rate has been sufficient.
    spare_since: Option<Time>,
    /// Time since which the core does not provide the granted rate.
    failing_since: Option<Time>,
    /// Time before which nothing is requested, after a refusal by the core.
    pause_until: Time,
}

/// State of the aggregate's session across the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    None,
    Open,
    /// The session is being released.
    Ending,
}

/// A request that waits for room.
#[derive(Debug)]
struct WaitingRequest {
    session: Session,
    message: StoredDatagram,
    /// Demand beyond the present claim.
    extra: Rate,
    until: Time,
}

impl Aggregate {
    pub(super) fn new(
        number: u32,
        border: &str,
        interface: InterfaceId,
        across: Across,
    ) -> Aggregate {
        Aggregate {
            number,
            border: border.to_string(),
            interface,
            link: InterfaceId(u32::MAX - number),
            across,
            granted: Rate::ZERO,
            limit: Rate::MAX,
            requested: None,
            asked: Rate::ZERO,
            answer_until: None,
            is_excessive: false,
            session: SessionState::None,
            waiting_requests: VecDeque::new(),
            spare_since: None,
            failing_since: None,
            pause_until: Time::ZERO,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting_requests.len()
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing_since.is_some()
    }

    /// Time at which [`Aggregate::next_actions`] has actions without any event before.
    pub(super) fn deadline(&self) -> Option<Time> {
        let timeout = self.waiting_requests.iter().map(|request| request.until).min();
        let shrinks = self.spare_since.map(|since| since + self.across.shrink_after);
        let lost = self.failing_since.map(|since| since + self.across.recover);
        let waits = self.requested.is_none() && self.session != SessionState::Ending;
        let wants = self.is_failing() || self.granted < self.across.lowest;
        let retry = (waits && wants && self.pause_until > Time::ZERO).then_some(self.pause_until);
        let unanswered = self.answer_until.filter(|_| self.requested.is_some());
        [timeout, shrinks, lost, retry, unanswered].into_iter().flatten().min()
    }

    /// Whether a request for `extra` may wait for the aggregate to grow.
    pub(super) fn may_wait(&self, now: Time, held: Rate, extra: Rate) -> bool {
        let all = held + self.waiting_demand() + extra;
        all <= self.across.highest.min(self.limit)
            && self.waiting_requests.len() < self.across.waiting as usize
            && now >= self.pause_until
    }

    /// Adds a waiting request.
    pub(super) fn add_waiting(
        &mut self,
        now: Time,
        session: Session,
        datagram: &Datagram<'_>,
        extra: Rate,
    ) {
        let (message, until) = (StoredDatagram::new(datagram), now + self.across.patience);
        self.waiting_requests.push_back(WaitingRequest { session, message, extra, until });
    }

    /// Removes the waiting requests for a session from this source, which has torn the reservation down.
    pub(super) fn remove_waiting(&mut self, session: &Session, source: IpAddr) {
        self.waiting_requests
            .retain(|request| request.session != *session || request.message.source() != source);
    }

    /// Total demand of the waiting requests.
    fn waiting_demand(&self) -> Rate {
        self.waiting_requests.iter().fold(Rate::ZERO, |sum, request| sum + request.extra)
    }

    /// Adds the actions that follow from the flows' reserved rate `held`.
    pub(super) fn next_actions(&mut self, now: Time, held: Rate, actions: &mut Vec<EdgeAction>) {
        let is_unanswered = self.answer_until.is_some_and(|until| now >= until);
        if self.requested.is_some() && is_unanswered {
            let change = self.handle_event(now, CoreEvent::Refused);
            actions.extend(change.map(|change| EdgeAction::Notify(self.notice(change))));
        }
        self.undo_refused(actions);
        self.deliver_waiting(now, held, actions);
        if now >= self.pause_until {
            self.pause_until = Time::ZERO; // removes the deadline
        }
        if self.failing_since.is_some_and(|since| now >= since + self.across.recover) {
            self.failing_since = None;
            self.granted = Rate::ZERO;
            self.pause_until = now + self.across.pause;
            actions.push(EdgeAction::Reopen(self.lane()));
            actions.push(EdgeAction::Notify(self.notice(AggregateChange::Lost)));
            if self.session == SessionState::Open {
                self.end_session(actions);
            }
            return;
        }
        if self.requested.is_some() || self.session == SessionState::Ending {
            return;
        }
        let need = held + self.waiting_demand();
        let is_unused = need == Rate::ZERO;
        if is_unused && self.is_failing() && self.session == SessionState::None {
            // No flow needs the aggregate.
            self.failing_since = None;
            self.granted = Rate::ZERO;
            actions.push(EdgeAction::SetRate(self.link, Rate::ZERO));
        }
        let floor = if is_unused { self.across.lowest } else { self.rate_in_steps(need) };
        let too_little =
            need + self.margin(need) > self.granted || self.granted < floor.min(self.across.lowest);
        if self.is_failing() && self.session == SessionState::None
            || too_little && floor > self.granted
        {
            self.spare_since = None;
            if now >= self.pause_until && floor > Rate::ZERO {
                self.request_rate(now, floor, actions);
            }
        } else if floor < self.granted
            && (is_unused || need + self.margin(need) + self.across.step <= self.granted)
        {
            let since = *self.spare_since.get_or_insert(now);
            if now >= since + self.across.shrink_after {
                self.shrink(now, floor, actions);
            }
        } else {
            self.spare_since = None;
        }
    }

    /// Delivers waiting requests that fit, and those that need not wait any longer.
    fn deliver_waiting(&mut self, now: Time, held: Rate, actions: &mut Vec<EdgeAction>) {
        let mut left = self.available().saturating_sub(held);
        let is_paused = now < self.pause_until;
        self.waiting_requests.retain(|request| {
            let fits = request.extra <= left;
            if fits {
                left = left - request.extra;
            }
            let is_done = fits || is_paused || now >= request.until;
            if is_done {
                let message = request.message.clone();
                actions.push(EdgeAction::Deliver(rsvp::PROTOCOL, message));
            }
            !is_done
        });
    }

    /// Returns the rate for the flows.
    pub(super) fn available(&self) -> Rate {
        self.granted.min(self.limit)
    }

    /// Returns the margin for a demand; zero for no demand.
    fn margin(&self, need: Rate) -> Rate {
        if need == Rate::ZERO { Rate::ZERO } else { self.across.margin }
    }

    /// Returns the whole steps for a demand, with the margin if the highest rate permits.
    fn rate_in_steps(&self, need: Rate) -> Rate {
        let step = self.across.step.as_bps().max(1);
        let wanted = (need + self.margin(need)).as_bps().div_ceil(step).saturating_mul(step);
        let most = self.across.highest.as_bps().min(u32::MAX.into());
        Rate::from_bps(wanted.max(self.across.lowest.as_bps()).min(most))
    }

    fn request_rate(&mut self, now: Time, rate: Rate, actions: &mut Vec<EdgeAction>) {
        let Across { to, range, by, patience, .. } = self.across;
        self.requested = Some(rate);
        self.asked = rate;
        self.answer_until = (!by.answers_all()).then_some(now + patience);
        let commands = match self.session {
            SessionState::Open => vec![by.modify(self.number, to, rate)],
            _ => by.reserve(self.number, to, range, rate),
        };
        self.session = SessionState::Open;
        actions.extend(commands.into_iter().map(EdgeAction::Command));
    }

    /// Asks for no more than the core has granted, after a refusal that only its routers know of.
    fn undo_refused(&mut self, actions: &mut Vec<EdgeAction>) {
        if !core::mem::take(&mut self.is_excessive) || self.session != SessionState::Open {
            return;
        }
        let Across { to, by, .. } = self.across;
        self.asked = self.granted;
        match self.granted {
            Rate::ZERO => self.end_session(actions),
            granted => actions.push(EdgeAction::Command(by.modify(self.number, to, granted))),
        }
    }

    /// Releases the session across the core.
    fn end_session(&mut self, actions: &mut Vec<EdgeAction>) {
        let by = self.across.by;
        self.requested = None;
        self.session = if by.answers_all() { SessionState::Ending } else { SessionState::None };
        actions.push(EdgeAction::Command(by.release(self.number)));
    }

    fn shrink(&mut self, now: Time, floor: Rate, actions: &mut Vec<EdgeAction>) {
        self.spare_since = None;
        self.granted = floor;
        actions.push(EdgeAction::SetRate(self.link, self.available()));
        if floor == Rate::ZERO {
            self.end_session(actions);
            actions.push(EdgeAction::Notify(self.notice(AggregateChange::Released)));
        } else {
            self.request_rate(now, floor, actions);
            actions.push(EdgeAction::Notify(self.notice(AggregateChange::Shrunk)));
        }
    }

    /// Processes an event of the reservation in the core; returns the change of the aggregate.
    pub(super) fn handle_event(&mut self, now: Time, event: CoreEvent) -> Option<AggregateChange> {
        match event {
            CoreEvent::Granted(rate) => {
                let before = self.granted;
                self.granted = rate.min(self.asked);
                self.failing_since = None;
                // State that is refreshed may tell of the earlier grant again.
                if !self.across.by.answers_all() && self.requested.is_some_and(|r| self.granted < r)
                {
                    return None;
                }
                self.requested = None;
                self.pause_until = Time::ZERO;
                (self.granted > before).then_some(AggregateChange::Grown)
            }
            CoreEvent::Refused if self.requested.is_some() => {
                self.requested = None;
                self.is_excessive = !self.across.by.answers_all();
                self.pause_until = now + self.across.pause;
                Some(AggregateChange::Refused)
            }
            // An error about a Path does not end the reservation, and may be forged.
            CoreEvent::Refused if !self.across.by.answers_all() => None,
            CoreEvent::Refused | CoreEvent::Lost => self.set_failing(now),
            CoreEvent::Released => {
                let wanted = self.session == SessionState::Ending;
                self.session = SessionState::None;
                self.requested = None;
                if wanted || self.granted == Rate::ZERO { None } else { self.set_failing(now) }
            }
            CoreEvent::Rejected => {
                self.session = SessionState::None;
                self.requested = None;
                self.pause_until = now + self.across.pause;
                if self.granted == Rate::ZERO { None } else { self.set_failing(now) }
            }
            CoreEvent::Offered => None,
        }
    }

    /// Marks that the core no longer provides the granted rate; returns the change if this is new.
    fn set_failing(&mut self, now: Time) -> Option<AggregateChange> {
        let is_new = self.failing_since.is_none();
        self.failing_since.get_or_insert(now);
        is_new.then_some(AggregateChange::Failing)
    }

    /// Returns the lane of the flows.
    pub(super) fn lane(&self) -> Lane {
        Lane {
            interface: self.interface,
            range: self.across.range,
            protocol: rsvp::ID,
            lane: self.link,
            highest: self.across.highest,
            has_overhead: self.across.by.packets().is_some_and(CorePackets::is_tunnel),
        }
    }

    /// Follows the settings of the interface. In a tunnel the flows have what is reservable there, with the outer headers: the rest
    /// of the session is for the other packets of the tunnel.
    pub(super) fn adjust_to_interface(&mut self, ledger: &mut Ledger) {
        let lane = self.lane();
        lane.set_overhead(ledger);
        if lane.has_overhead {
            let link = ledger.link(self.interface);
            self.limit = link.map_or(Rate::ZERO, |status| status.reservable);
            ledger.set_lane_rate(self.link, self.available());
        }
    }

    /// Returns the notice of a change.
    pub(super) fn notice(&self, change: AggregateChange) -> AggregateNotice {
        let Across { to, range, .. } = self.across;
        AggregateNotice { change, to, range, granted: self.granted, lane: self.link }
    }
}
