//! Plays a case: applies its steps to the network and to the model, and compares both.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use earmark_core::{CloseReason, Flow, HostEvent, Rate, Time};
use earmark_nsis::Config;
use earmark_nsis::nslp::Attributes;
use earmark_nsis::qos::{Application, Command, Event, Listen, Request, RequestedQos};
use earmark_wire::gist::SessionId;

use super::case::{Case, Dice, Disturbance, SLOTS, Step};
use super::expectation::{Invited, Model, Standing};
use super::log;
use crate::common::ladder::{
    DESTINATION, LINKS, NEXT, NODES, RECEIVER, SENDER, engine, interface_on, ladder, prefix,
    route_through,
};
use crate::common::qos::command;
use crate::common::{DELAY, Delivery, Network, Seen, address};

/// Time after which no state remains that nobody refreshes: (3 + 0.5) * 1.5 * 30 s of QoS NSLP, then 120 s of the routing
/// state in GIST, then 300 s of its peers.
const QUIET: Duration = Duration::from_secs(600);
/// Time for which a disturbance may have effects: a lifetime of QoS NSLP, and the retransmissions of a request.
const EFFECT: Duration = Duration::from_secs(400);
/// Limit of the messages in a tick: three sessions, six nodes.
const MAX_MESSAGES: usize = 400;
/// Time in which each session is refreshed once: 1.5 * 30 s.
const REFRESHED: Duration = Duration::from_secs(45);
const TICK: Duration = Duration::from_secs(1);

/// Something that happens later.
enum Later {
    /// The host reports a changed route.
    Report(usize),
    /// A node has a route again.
    Restore(usize),
    /// The process of a node starts.
    Start(usize),
}

/// A disturbance of a link.
struct Disturbed {
    link: usize,
    how: Disturbance,
    until: Time,
}

pub(crate) struct Play<'a> {
    pub(crate) case: &'a Case,
    config: Config,
    pub(crate) network: Network,
    pub(crate) model: Model,
    /// The next node of the flows at each node.
    pub(crate) next: [usize; NODES - 1],
    /// Nodes without a route for the flows.
    withdrawn: [bool; NODES],
    later: Vec<(Time, Later)>,
    disturbed: Rc<RefCell<Vec<Disturbed>>>,
    /// Sessions so far, and processes.
    sessions: u8,
    starts: u64,
    /// The last step that changes what must stand.
    pub(crate) changed_at: Time,
}

/// Plays a case; returns what is wrong.
pub(crate) fn play(case: &Case) -> Result<(), String> {
    let mut play = Play::new(case);
    (0..SLOTS).for_each(|slot| play.listen(slot));
    for step in &case.steps {
        log::line(|| format!("{:9.3} {step:?}", play.network.now.as_secs_f64()));
        play.step(step).map_err(|what| format!("{step:?}: {what}"))?;
    }
    play.disturbed.borrow_mut().clear();
    play.pass(QUIET)?;
    play.check_standing().map_err(|what| format!("after quiet time: {what}"))?;
    play.release_all()?;
    play.pass(QUIET)?;
    play.check_empty().map_err(|what| format!("after the release: {what}"))
}

impl<'a> Play<'a> {
    fn new(case: &'a Case) -> Play<'a> {
        let config = case.variant.config();
        let mut network = ladder(&config, case.seed);
        let disturbed = Rc::new(RefCell::new(Vec::new()));
        network.delivery = Some(delivery(Rc::clone(&disturbed), Dice::new(case.seed, "delivery")));
        Play {
            case,
            config,
            network,
            model: Model::default(),
            next: NEXT.map(|alternatives| alternatives[0]),
            withdrawn: [false; NODES],
            later: Vec::new(),
            disturbed,
            sessions: 0,
            starts: 0,
            changed_at: Time::ZERO,
        }
    }

    /// Checks that messages are few, and forgets them.
    fn count_messages(&mut self) -> Result<(), String> {
        let messages = self.network.seen.len() + self.network.written.len();
        self.network.seen.clear();
        self.network.written.clear();
        match messages <= MAX_MESSAGES {
            true => Ok(()),
            false => Err(format!("{messages} messages in a second")),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let now = self.network.now;
        match *step {
            Step::Reserve { slot, mbps, attributes, keep_old_branch, same_id } => {
                self.reserve(slot, mbps, attributes, keep_old_branch, same_id);
            }
            Step::Invite { slot, mbps, attributes, same_id } => {
                self.invite(slot, mbps, attributes, same_id);
            }
            Step::Modify { slot, mbps } => self.modify(slot, mbps),
            Step::Release { slot } => self.release(slot),
            Step::ReleaseAtReceiver { slot } => self.release_at_receiver(slot),
            Step::Route { node, next, reported_after_ms } => {
                if now < self.changed_at + Duration::from_secs(1) {
                    // Nodes that have just left the path may still be asked, and refuse.
                    self.excuse(now);
                }
                self.next[node] = NEXT[node][next];
                if !self.withdrawn[node] {
                    route_through(&mut self.network, self.case.family, node, self.next[node]);
                    let after = Duration::from_millis(reported_after_ms);
                    self.after(after, Later::Report(node));
                    self.model.rerouted_until = now + after + EFFECT;
                    if !after.is_zero() {
                        // Messages before the report see both routes; the next refresh follows the right one.
                        self.changed_at = now + after + REFRESHED;
                    }
                }
            }
            Step::Withdraw { node, seconds } => self.withdraw(node, Duration::from_secs(seconds)),
            Step::Disturb { link, how, seconds } => {
                let until = now + Duration::from_secs(seconds);
                self.disturbed.borrow_mut().push(Disturbed { link, how, until });
                if step.disturbs() {
                    self.excuse(until);
                }
            }
            Step::Break { node } => {
                self.excuse(now);
                for connection in self.network.connections_of(node) {
                    self.network.break_connection(node, connection, CloseReason::Broken);
                }
            }
            Step::Restart { node, seconds } => self.restart(node, Duration::from_secs(seconds)),
            Step::Pause { node, seconds } => self.pause(node, Duration::from_secs(seconds)),
            Step::Pass { milliseconds } => return self.pass(Duration::from_millis(milliseconds)),
        }
        self.changed_at = self.changed_at.max(now);
        self.run_due();
        self.hear(true)?;
        self.check_always()
    }

    fn is_running(&self, node: usize) -> bool {
        let node = &self.network.nodes[node];
        node.engine.is_some() && node.paused_until.is_none_or(|until| until <= self.network.now)
    }

    fn excuse(&mut self, until: Time) {
        self.model.excuse(until + EFFECT);
    }

    /// Returns the identifier of the next session of a slot.
    fn identify(&mut self, slot: usize, same_id: bool) -> SessionId {
        match self.model.slots[slot].id.filter(|_| same_id) {
            Some(id) => id,
            None => SessionId([self.sessions + 1; 16]),
        }
    }

    fn begin(&mut self, slot: usize, id: SessionId, mbps: u32) {
        self.sessions += u8::from(self.model.slots[slot].id != Some(id));
        self.model.request(self.network.now, id, mbps);
        self.model.slots[slot].id = Some(id);
        self.model.slots[slot].wanted = Some(mbps);
    }

    fn reserve(
        &mut self,
        slot: usize,
        mbps: u32,
        attributes: Attributes,
        keep_old_branch: bool,
        same_id: bool,
    ) {
        let was_by_receiver = self.model.slots[slot].answered_id == self.model.slots[slot].id;
        let id = self.identify(slot, same_id && !was_by_receiver);
        if !self.is_running(SENDER) || !self.model.slots[slot].is_free_for(self.network.now, id) {
            return;
        }
        self.begin(slot, id, mbps);
        self.model.slots[slot].keeps_old_branch = keep_old_branch;
        self.model.slots[slot].initiated = Standing::Requested;
        let request = Request { keep_old_branch, ..self.request(slot, id, mbps, attributes) };
        let application = application_of(slot);
        command(&mut self.network, SENDER, Command::Reserve { application, request });
    }

    fn invite(&mut self, slot: usize, mbps: u32, attributes: Attributes, same_id: bool) {
        let was_by_receiver = self.model.slots[slot].answered_id == self.model.slots[slot].id;
        let id = self.identify(slot, same_id && was_by_receiver);
        if !self.is_running(SENDER) || !self.model.slots[slot].is_free_for(self.network.now, id) {
            return;
        }
        self.begin(slot, id, mbps);
        self.model.slots[slot].keeps_old_branch = false;
        self.model.slots[slot].invited = Invited::Requested;
        self.model.slots[slot].answered_id = Some(id);
        let request = self.request(slot, id, mbps, attributes);
        let application = application_of(slot);
        command(&mut self.network, SENDER, Command::Invite { application, request });
    }

    fn request(&self, slot: usize, id: SessionId, mbps: u32, attributes: Attributes) -> Request {
        let family = self.case.family;
        let flow = Flow {
            source: Some(address(&family.host(0, 1))),
            destination: address(&family.host(DESTINATION as u8, 2)),
            protocol: 17,
            source_port: 6_000 + slot as u16,
            destination_port: 5_000 + slot as u16,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        };
        let qos = RequestedQos::of(Rate::from_mbps(mbps.into()));
        Request { session: Some(id), attributes: Some(attributes), ..Request::new(flow, qos) }
    }

    fn modify(&mut self, slot: usize, mbps: u32) {
        let (initiated, id) = (self.model.slots[slot].initiated, self.model.slots[slot].id);
        let (Standing::Held(_), Some(id), true, false) =
            (initiated, id, self.is_running(SENDER), self.model.slots[slot].keeps_old_branch)
        else {
            return;
        };
        self.model.request(self.network.now, id, mbps);
        let application = application_of(slot);
        let qos = RequestedQos::of(Rate::from_mbps(mbps.into()));
        command(&mut self.network, SENDER, Command::Modify { application, qos });
        let is_refused = self.network.nodes[SENDER]
            .events
            .iter()
            .any(|(_, event)| matches!(event, earmark_nsis::Event::Qos(Event::Refused { .. })));
        if is_refused {
            self.network.nodes[SENDER].events.clear();
        } else {
            self.model.slots[slot].initiated = Standing::Requested;
            self.model.slots[slot].wanted = Some(mbps);
        }
    }

    fn release(&mut self, slot: usize) {
        if !self.is_running(SENDER) {
            return;
        }
        let (now, state) = (self.network.now, &mut self.model.slots[slot]);
        match (state.initiated, state.invited) {
            (Standing::Nothing, Invited::Nothing) | (Standing::Ending, _) => return,
            (Standing::Nothing, _) => state.ended_until = now + EFFECT,
            _ => state.initiated = Standing::Ending,
        }
        let application = application_of(slot);
        command(&mut self.network, SENDER, Command::Release { application });
    }

    fn listen(&mut self, slot: usize) {
        let port = Some(5_000 + slot as u16);
        let listen = Listen { protocol: Some(17), port, ..Listen::default() };
        let application = application_of(slot);
        command(&mut self.network, RECEIVER, Command::Listen { application, listen });
    }

    fn release_at_receiver(&mut self, slot: usize) {
        if !self.is_running(RECEIVER) {
            return;
        }
        let application = application_of(slot);
        command(&mut self.network, RECEIVER, Command::Release { application });
        self.listen(slot);
    }

    fn withdraw(&mut self, node: usize, time: Duration) {
        if self.withdrawn[node] {
            return;
        }
        let prefix = prefix(self.case.family, DESTINATION).parse().expect("a prefix");
        let routes = &mut self.network.nodes[node].routes;
        let route = routes.iter().find(|route| route.prefix == prefix).copied();
        assert!(route.is_some_and(|route| routes.remove(&route)));
        self.withdrawn[node] = true;
        self.after(Duration::ZERO, Later::Report(node));
        self.after(time, Later::Restore(node));
        self.excuse(self.network.now + time);
    }

    fn restart(&mut self, node: usize, time: Duration) {
        if self.network.nodes[node].engine.is_none() {
            return;
        }
        self.network.stop(node);
        match node {
            SENDER => self.model.sender_stops(),
            RECEIVER => self.model.receiver_stops(),
            _ => {}
        }
        self.network.nodes[node].events.clear();
        self.network.nodes[node].installed.clear();
        self.after(time, Later::Start(node));
        self.excuse(self.network.now + time);
    }

    fn pause(&mut self, node: usize, time: Duration) {
        let until = self.network.now + time;
        if self.is_running(node) {
            self.network.nodes[node].paused_until = Some(until);
        }
        self.excuse(until);
    }

    fn after(&mut self, time: Duration, later: Later) {
        self.later.push((self.network.now + time, later));
    }

    /// Does what is due. A paused process handles reports later.
    fn run_due(&mut self) {
        let now = self.network.now;
        let (due, later) =
            std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= now);
        self.later = later;
        let due: Vec<(Time, Later)> = due;
        for (_, later) in due {
            self.changed_at = self.changed_at.max(now);
            match later {
                Later::Report(node) if self.is_running(node) => self.report(node),
                Later::Report(node) if self.network.nodes[node].engine.is_some() => {
                    self.after(TICK, Later::Report(node));
                }
                Later::Report(_) => {}
                Later::Restore(node) => {
                    self.withdrawn[node] = false;
                    route_through(&mut self.network, self.case.family, node, self.next[node]);
                    self.after(Duration::ZERO, Later::Report(node));
                }
                Later::Start(node) => self.start(node),
            }
        }
    }

    fn report(&mut self, node: usize) {
        let prefix = prefix(self.case.family, DESTINATION).parse().expect("a prefix");
        self.network.host(node, HostEvent::RouteChanged(prefix));
    }

    fn start(&mut self, node: usize) {
        self.starts += 1;
        let engine = engine(&self.config, self.case.seed, node, self.starts);
        self.network.start(node, engine);
        if node == RECEIVER {
            (0..SLOTS).for_each(|slot| self.listen(slot));
        }
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) -> Result<(), String> {
        let end = self.network.now + time;
        loop {
            self.run_due();
            let now = self.network.now;
            if now >= end {
                return Ok(());
            }
            let next = self.later.iter().map(|(at, _)| *at).fold(end.min(now + TICK), Time::min);
            self.network.run(next.since(now));
            self.hear(false)?;
            self.check_always()?;
            self.check_settled()?;
        }
    }

    /// Passes the events of both ends to the model.
    fn hear(&mut self, is_local: bool) -> Result<(), String> {
        log::messages(&self.network);
        self.count_messages()?;
        for node in [SENDER, RECEIVER] {
            let events = std::mem::take(&mut self.network.nodes[node].events);
            for (at, event) in events {
                let earmark_nsis::Event::Qos(event) = event else { continue };
                let Some(Application(number)) = application_in(&event) else { continue };
                let slot = number as usize - 1;
                match node {
                    SENDER => self.model.hear_sender(at, slot, &event, is_local),
                    _ => self.model.hear_receiver(at, slot, &event),
                }
                .map_err(|what| format!("at {:.3} s: {what}", at.as_secs_f64()))?;
            }
        }
        (0..NODES).for_each(|node| self.network.nodes[node].events.clear());
        Ok(())
    }

    /// Returns whether something is still to happen.
    pub(crate) fn has_later(&self) -> bool {
        !self.later.is_empty()
    }

    fn release_all(&mut self) -> Result<(), String> {
        for slot in 0..SLOTS {
            self.release(slot);
            self.release_at_receiver(slot);
        }
        self.hear(true)
    }
}

fn application_of(slot: usize) -> Application {
    Application(slot as u64 + 1)
}

/// Returns the application that an event is for.
fn application_in(event: &Event) -> Option<Application> {
    match event {
        Event::Reserved { application, .. }
        | Event::Refused { application, .. }
        | Event::TimedOut { application }
        | Event::Lost { application, .. }
        | Event::Released { application }
        | Event::Incoming { application, .. }
        | Event::Gone { application, .. }
        | Event::Offered { application, .. }
        | Event::Rejected { application, .. } => Some(*application),
        _ => None,
    }
}

/// Returns how links deliver datagrams.
fn delivery(disturbed: Rc<RefCell<Vec<Disturbed>>>, mut dice: Dice) -> Delivery {
    Box::new(move |seen| {
        let mut delays = vec![DELAY];
        let link = link_of(seen);
        for found in disturbed.borrow().iter() {
            if found.link != link || seen.at >= found.until {
                continue;
            }
            let random = Duration::from_micros(dice.below(50_000));
            match found.how {
                Disturbance::Lose(percent) if dice.percent(percent) => delays.clear(),
                Disturbance::Lose(_) => {}
                Disturbance::Duplicate => delays.push(DELAY + random),
                Disturbance::Reorder => delays.iter_mut().for_each(|delay| *delay += random),
            }
        }
        delays
    })
}

fn link_of(seen: &Seen) -> usize {
    let is_link = |&link: &usize| {
        let (left, right) = LINKS[link];
        (left == seen.node || right == seen.node)
            && interface_on(seen.node, link) == seen.interface.0
    };
    (0..LINKS.len()).find(is_link).expect("a link")
}
