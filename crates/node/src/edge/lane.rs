//! One aggregate: when it grows and shrinks, who waits for that, and what it says to Boomerang.
//!
//! ```text
//!   need        what the flows hold, and what those want that wait
//!   granted     what the core has given
//!
//!   grows       when need + margin > granted, to the next whole step that has room for both
//!   shrinks     when need + margin + step <= granted has held for `shrink_after`, likewise; to `lowest`, or nothing
//! ```
//!
//! So between growing and shrinking again there is a whole step at least, and some time. One question is on its way at a
//! time; what comes up meanwhile goes into the next one. A shrinking aggregate gives up what it has before the core knows, so
//! that no flow gets in that the core has no room for.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_boomerang as boomerang;
use earmark_boomerang::{Application, Command, OnRefusal, Request, ReservationRequest, Selector};
use earmark_core::{Datagram, Flow, InterfaceId, Rate, Time};
use earmark_wire::rsvp::Session;

use super::{Across, AggregateChange};

/// An aggregate, and those that wait for it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) number: u32,
    /// Name of the interface.
    pub(super) border: String,
    pub(super) interface: InterfaceId,
    /// Its link in the ledger: numbers that no interface has.
    pub(super) link: InterfaceId,
    pub(super) across: Across,
    /// What the flows may have.
    pub(super) granted: Rate,
    /// What Boomerang was asked for and has not answered yet.
    asked: Option<Rate>,
    session: SessionState,
    /// First come, first in front.
    parked: VecDeque<Parked>,
    /// Since when less would be enough.
    spare_since: Option<Time>,
    /// Since when the core has not what was granted.
    failing_since: Option<Time>,
    /// The core has refused: nobody asks before this.
    pause_until: Time,
}

/// What Boomerang knows of the aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    None,
    Open,
    /// It was asked to end.
    Ending,
}

/// A message that waits for room.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) session: Session,
    interface: InterfaceId,
    source: IpAddr,
    destination: IpAddr,
    ttl: u8,
    router_alert: bool,
    encapsulated: bool,
    payload: Vec<u8>,
    /// What it needs beside what is held.
    extra: Rate,
    until: Time,
}

impl Parked {
    pub(super) fn datagram(&self) -> Datagram<'_> {
        Datagram {
            interface: self.interface,
            source: self.source,
            destination: self.destination,
            ttl: self.ttl,
            router_alert: self.router_alert,
            encapsulated: self.encapsulated,
            payload: &self.payload,
        }
    }
}

/// What is to be done for an aggregate.
#[derive(Debug)]
pub(super) enum Step {
    /// Say this to Boomerang.
    Command(Command),
    /// A lane has so much from now on.
    Narrow(InterfaceId, Rate),
    /// RSVP gets a message that has waited.
    Replay(Parked),
    /// Watchers want to know.
    Tell(u32, AggregateChange),
    /// The flows of this aggregate have lost their reservations.
    Lose(u32),
}

impl Lane {
    pub(super) fn new(number: u32, border: &str, interface: InterfaceId, across: Across) -> Lane {
        Lane {
            number,
            border: border.to_string(),
            interface,
            link: InterfaceId(u32::MAX - number),
            across,
            granted: Rate::ZERO,
            asked: None,
            session: SessionState::None,
            parked: VecDeque::new(),
            spare_since: None,
            failing_since: None,
            pause_until: Time::ZERO,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.parked.len()
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing_since.is_some()
    }

    /// When [`Lane::plan`] has something to do without anything new.
    pub(super) fn deadline(&self) -> Option<Time> {
        let parked = self.parked.iter().map(|parked| parked.until).min();
        let shrinks = self.spare_since.map(|since| since + self.across.shrink_after);
        let lost = self.failing_since.map(|since| since + self.across.recover);
        let waits = self.asked.is_none() && self.session != SessionState::Ending;
        let wants = self.is_failing() || self.granted < self.across.lowest;
        let asks = (waits && wants && self.pause_until > Time::ZERO).then_some(self.pause_until);
        [parked, shrinks, lost, asks].into_iter().flatten().min()
    }

    /// Whether a request for `extra` may wait for the aggregate to grow.
    pub(super) fn may_wait(&self, now: Time, held: Rate, extra: Rate) -> bool {
        let all = held + self.wanted() + extra;
        all <= self.across.highest
            && self.parked.len() < self.across.waiting as usize
            && now >= self.pause_until
    }

    /// Lets a message wait.
    pub(super) fn park(
        &mut self,
        now: Time,
        session: Session,
        datagram: &Datagram<'_>,
        extra: Rate,
    ) {
        let Datagram { interface, source, destination, ttl, router_alert, encapsulated, payload } =
            *datagram;
        let (payload, until) = (payload.to_vec(), now + self.across.patience);
        self.parked.push_back(Parked {
            session,
            interface,
            source,
            destination,
            ttl,
            router_alert,
            encapsulated,
            payload,
            extra,
            until,
        });
    }

    /// Somebody gives back what he may be waiting for.
    pub(super) fn forget(&mut self, session: &Session, source: IpAddr) {
        self.parked.retain(|parked| parked.session != *session || parked.source != source);
    }

    /// What those want that wait.
    fn wanted(&self) -> Rate {
        self.parked.iter().fold(Rate::ZERO, |sum, parked| sum + parked.extra)
    }

    /// What is to be done now that the flows hold `held`.
    pub(super) fn plan(&mut self, now: Time, held: Rate, steps: &mut Vec<Step>) {
        self.let_in(now, held, steps);
        if now >= self.pause_until {
            self.pause_until = Time::ZERO; // and no deadline any more
        }
        if self.failing_since.is_some_and(|since| now >= since + self.across.recover) {
            self.failing_since = None;
            self.granted = Rate::ZERO;
            self.pause_until = now + self.across.pause;
            steps.push(Step::Lose(self.number));
            if self.session == SessionState::Open {
                self.session = SessionState::Ending;
                self.asked = None;
                steps.push(Step::Command(Command::Release { application: self.application() }));
            }
            return;
        }
        if self.asked.is_some() || self.session == SessionState::Ending {
            return;
        }
        let need = held + self.wanted();
        let nobody = need == Rate::ZERO;
        if nobody && self.is_failing() && self.session == SessionState::None {
            // Nobody misses it.
            self.failing_since = None;
            self.granted = Rate::ZERO;
            steps.push(Step::Narrow(self.link, Rate::ZERO));
        }
        let floor = if nobody { self.across.lowest } else { self.steps_for(need) };
        let too_little =
            need + self.margin(need) > self.granted || self.granted < floor.min(self.across.lowest);
        if self.is_failing() && self.session == SessionState::None
            || too_little && floor > self.granted
        {
            self.spare_since = None;
            if now >= self.pause_until && floor > Rate::ZERO {
                self.ask(floor, steps);
            }
        } else if floor < self.granted
            && (nobody || need + self.margin(need) + self.across.step <= self.granted)
        {
            let since = *self.spare_since.get_or_insert(now);
            if now >= since + self.across.shrink_after {
                self.shrink(floor, steps);
            }
        } else {
            self.spare_since = None;
        }
    }

    /// Messages for which there is room now, or no hope any more, go on.
    fn let_in(&mut self, now: Time, held: Rate, steps: &mut Vec<Step>) {
        let mut left = self.granted.saturating_sub(held);
        let hopeless = now < self.pause_until;
        self.parked.retain(|parked| {
            let fits = parked.extra <= left;
            if fits {
                left = left - parked.extra;
            }
            let goes = fits || hopeless || now >= parked.until;
            if goes {
                steps.push(Step::Replay(parked.clone()));
            }
            !goes
        });
    }

    /// What is kept free beside a need; nothing where nobody needs anything.
    fn margin(&self, need: Rate) -> Rate {
        if need == Rate::ZERO { Rate::ZERO } else { self.across.margin }
    }

    /// The whole steps that have room for a need, and the margin if the highest rate allows it.
    fn steps_for(&self, need: Rate) -> Rate {
        let step = self.across.step.as_bps().max(1);
        let wanted = (need + self.margin(need)).as_bps().div_ceil(step).saturating_mul(step);
        let most = self.across.highest.as_bps().min(u32::MAX.into());
        Rate::from_bps(wanted.max(self.across.lowest.as_bps()).min(most))
    }

    fn ask(&mut self, rate: Rate, steps: &mut Vec<Step>) {
        let (application, wish) =
            (self.application(), ReservationRequest { forward: rate, reverse: Rate::ZERO });
        self.asked = Some(rate);
        steps.push(Step::Command(match self.session {
            SessionState::Open => Command::Modify { application, wishes: [wish].into() },
            _ => {
                self.session = SessionState::Open;
                let selector = Selector::of_flow(&Flow::to_range(self.across.range));
                let request = Request::new(self.across.to, selector, wish);
                let request = Request { on_refusal: OnRefusal::Release, ..request };
                Command::Reserve { application, request }
            }
        }));
    }

    fn shrink(&mut self, floor: Rate, steps: &mut Vec<Step>) {
        self.spare_since = None;
        self.granted = floor;
        steps.push(Step::Narrow(self.link, floor));
        if floor == Rate::ZERO {
            self.session = SessionState::Ending;
            steps.push(Step::Command(Command::Release { application: self.application() }));
            steps.push(Step::Tell(self.number, AggregateChange::Released));
        } else {
            self.ask(floor, steps);
            steps.push(Step::Tell(self.number, AggregateChange::Shrunk));
        }
    }

    /// Boomerang has told something; what became of the aggregate.
    pub(super) fn hears(&mut self, now: Time, event: &boomerang::Event) -> Option<AggregateChange> {
        use boomerang::Event::*;
        match event {
            Established { rates, .. } | Changed { rates, .. } => {
                let before = self.granted;
                self.granted = Rate::from_bps(rates.forward.into());
                self.asked = None;
                self.failing_since = None;
                self.pause_until = Time::ZERO;
                (self.granted > before).then_some(AggregateChange::Grown)
            }
            Refused { .. } if self.asked.is_some() => {
                self.asked = None;
                self.pause_until = now + self.across.pause;
                Some(AggregateChange::Refused)
            }
            Refused { .. } | Lost { .. } => self.fails(now),
            Released { .. } => {
                let wanted = self.session == SessionState::Ending;
                self.session = SessionState::None;
                self.asked = None;
                if wanted || self.granted == Rate::ZERO { None } else { self.fails(now) }
            }
            Rejected { .. } => {
                self.session = SessionState::None;
                self.asked = None;
                self.pause_until = now + self.across.pause;
                if self.granted == Rate::ZERO { None } else { self.fails(now) }
            }
            _ => None,
        }
    }

    /// The core has not any more what it has granted.
    fn fails(&mut self, now: Time) -> Option<AggregateChange> {
        let news = self.failing_since.is_none();
        self.failing_since.get_or_insert(now);
        news.then_some(AggregateChange::Failing)
    }

    /// Applications of users have low numbers.
    fn application(&self) -> Application {
        Application(u64::MAX - u64::from(self.number))
    }
}
