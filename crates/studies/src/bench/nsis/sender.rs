//! First host of a chain: a node inside this program, with many applications that request reservations and send
//! pings.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use earmark_core::{ApplicationId, Flow, Rate, Time};
use earmark_node::{Command, Event};
use earmark_nsis::{self as nsis, natfw, ping, qos};
use earmarkd::config::Config;
use earmarkd::embedded::Embedded;
use earmarkd::protocols::nsis::NsisConfig;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::Supervision;
use super::Service;

/// IP protocol number of UDP.
const PROTOCOL: u8 = 17;
/// Flows to one destination port; they differ in the source port.
const FLOWS_PER_PORT: u32 = 50_000;
/// First source port.
const FIRST_SOURCE_PORT: u16 = 10_000;
/// First destination port.
const FIRST_PORT: u16 = 5_000;
/// Rate of every session, bits per second: small enough for 60 000 of them on a link.
const RATE: u64 = 8_000;
/// Timeout of a set-up and of a release.
const TIMEOUT: Duration = Duration::from_secs(35);
/// Longest wait between two checks for an interrupt.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Largest number of applications that ping at a time.
const PINGS: usize = 100_000;
/// First identifier of ping applications, above those of reservations.
const FIRST_PING: u64 = 1 << 32;

/// Node of the first host, with its applications.
pub struct Sender {
    node: Embedded,
    from: Ipv4Addr,
    to: Ipv4Addr,
    service: Service,
    next_ping: u64,
}

/// Event of a ping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PingEvent {
    /// The ping came back.
    Back {
        /// Round-trip time.
        round_trip: Duration,
    },
    /// The ping was lost.
    Lost,
    /// The application has nothing more to send or to await.
    Finished,
}

/// Outcome of a reservation.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Reserved,
    Released,
    /// The reservation failed or was lost, with the reason.
    Failed(String),
}

impl Sender {
    /// Starts a node in the network namespace of the calling thread; its flows go from one address to another.
    pub(super) fn start(
        config: &Config,
        (from, to): (Ipv4Addr, Ipv4Addr),
        service: Service,
    ) -> Result<Sender> {
        let mut config = config.clone();
        config.settings.change(|nsis: &mut NsisConfig| nsis.engine.ping.applications = PINGS);
        let node = Embedded::start(&config).context("the first host's node does not start")?;
        Ok(Sender { node, from, to, service, next_ping: FIRST_PING })
    }

    /// Makes the node serve each timer on time; a daemon serves timers in groups.
    pub(super) fn serve_timers_exactly(&mut self) {
        self.node.set_exact_timers();
    }

    /// Current time of the node.
    pub(super) fn now(&self) -> Time {
        self.node.now()
    }

    /// Sets up a session, and waits until the whole path has reserved; returns the time that took.
    ///
    /// # Errors
    /// The reservation was refused, or there was no answer.
    pub(super) fn set_up(&mut self, number: u32) -> Result<Duration> {
        let begun = self.now();
        self.reserve(number);
        self.await_outcome(number, &Outcome::Reserved)?;
        Ok(self.now().since(begun))
    }

    /// Releases the reservation of a session, and waits for the release.
    pub(super) fn release(&mut self, number: u32) -> Result<()> {
        let application = ApplicationId(number.into());
        self.command(match self.service {
            Service::Qos => nsis::Command::Qos(qos::Command::Release { application }),
            Service::Natfw => nsis::Command::Natfw(natfw::Command::Release { application }),
        });
        self.await_outcome(number, &Outcome::Released)
    }

    /// Sets up many sessions, with at most `unanswered` at a time.
    pub(super) fn set_up_many(
        &mut self,
        count: u32,
        unanswered: u32,
        supervision: &Supervision<'_>,
    ) -> Result<()> {
        supervision.watcher.begin(&format!("{count} sessions are set up"), count.into());
        let (mut begun, mut done) = (0, 0);
        let mut give_up = self.now() + TIMEOUT;
        while done < count {
            while begun < count.min(done + unanswered) {
                self.reserve(begun);
                begun += 1;
            }
            let before = done;
            for (number, outcome) in outcomes(&self.turn(give_up)?) {
                match outcome {
                    Outcome::Reserved => done += 1,
                    Outcome::Released => {}
                    Outcome::Failed(why) => bail!("session {number}: {why}"),
                }
            }
            if done > before {
                give_up = self.now() + TIMEOUT;
                supervision.watcher.reached(done.into());
            } else if self.now() >= give_up {
                bail!("{done} of {count} sessions were set up in time");
            }
            supervision.check_interrupted()?;
        }
        Ok(())
    }

    /// Releases many sessions, one after the other.
    pub(super) fn release_all(
        &mut self,
        numbers: Range<u32>,
        supervision: &Supervision<'_>,
    ) -> Result<()> {
        supervision.watcher.begin("they are given back", numbers.len() as u64);
        for (count, number) in (1..).zip(numbers) {
            self.release(number)?;
            supervision.watcher.reached(count);
            supervision.check_interrupted()?;
        }
        Ok(())
    }

    /// Runs the node for a time; `each` receives the events of pings. Returns the number of reservations lost
    /// meanwhile.
    pub(super) fn run_for(
        &mut self,
        what: &str,
        how_long: Duration,
        supervision: &Supervision<'_>,
        mut each: impl FnMut(PingEvent),
    ) -> Result<u32> {
        let (start, end) = (self.now(), self.now() + how_long);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        supervision.watcher.begin(what, millis(how_long));
        let mut lost = 0;
        while self.now() < end {
            lost += self.run_until(end.min(self.now() + MAX_WAIT), &mut each)?;
            supervision.watcher.reached(millis(self.now().since(start)));
            supervision.check_interrupted()?;
        }
        Ok(lost)
    }

    /// Runs the node until `end`, without progress reports. Returns the number of reservations lost meanwhile.
    pub(super) fn run_until(&mut self, end: Time, each: &mut dyn FnMut(PingEvent)) -> Result<u32> {
        let mut lost = 0;
        while self.now() < end {
            for event in self.turn(end)? {
                lost += u32::from(matches!(outcome(&event), Some((_, Outcome::Failed(_)))));
                if let Some(event) = ping_event(&event) {
                    each(event);
                }
            }
        }
        Ok(lost)
    }

    /// Begins to ping; returns the application.
    pub(super) fn ping(
        &mut self,
        count: Option<u32>,
        interval: Duration,
        timeout: Duration,
    ) -> u64 {
        let number = self.next_ping;
        self.next_ping += 1;
        let request = ping::Request {
            count,
            interval,
            timeout: Some(timeout),
            ..ping::Request::new(self.to.into())
        };
        let application = ping::Application(number);
        self.command(nsis::Command::Ping(ping::Command::Ping { application, request }));
        number
    }

    /// Ends a ping.
    pub(super) fn end_ping(&mut self, number: u64) {
        let application = ping::Application(number);
        self.command(nsis::Command::Ping(ping::Command::Release { application }));
    }

    fn reserve(&mut self, number: u32) {
        let port =
            |first: u16, place: u32| first + u16::try_from(place).unwrap_or(u16::MAX - first);
        let flow = Flow {
            destination: IpAddr::from(self.to),
            source: Some(self.from.into()),
            protocol: PROTOCOL,
            destination_port: port(FIRST_PORT, number / FLOWS_PER_PORT),
            source_port: port(FIRST_SOURCE_PORT, number % FLOWS_PER_PORT),
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        };
        let application = ApplicationId(number.into());
        self.command(match self.service {
            Service::Qos => {
                let request = qos::Request::new(flow, qos::RequestedQos::of(Rate::from_bps(RATE)));
                nsis::Command::Qos(qos::Command::Reserve { application, request })
            }
            Service::Natfw => {
                let request = open_request(&flow);
                nsis::Command::Natfw(natfw::Command::Open { application, request })
            }
        });
    }

    fn command(&mut self, command: nsis::Command) {
        self.node.command(Command::Nsis(command));
    }

    /// Waits until a session has this outcome.
    fn await_outcome(&mut self, number: u32, wanted: &Outcome) -> Result<()> {
        let give_up = self.now() + TIMEOUT;
        while self.now() < give_up {
            for (whose, outcome) in outcomes(&self.turn(give_up)?) {
                match outcome {
                    Outcome::Failed(why) => bail!("session {whose}: {why}"),
                    outcome if whose == number && outcome == *wanted => return Ok(()),
                    _ => {}
                }
            }
        }
        bail!("session {number}: no answer within {TIMEOUT:?}")
    }

    /// Waits for work until `until` at most, does it, and returns its events.
    fn turn(&mut self, until: Time) -> Result<Vec<Event>> {
        let events = self.node.take_events();
        if !events.is_empty() {
            return Ok(events);
        }
        let wait = self.node.next_deadline().min(until) - self.now();
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&self.node.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.node.serve()?;
        Ok(self.node.take_events())
    }
}

fn open_request(flow: &Flow) -> natfw::OpenRequest {
    natfw::OpenRequest {
        source: flow.source,
        source_port: Some(flow.source_port),
        destination_port: Some(flow.destination_port),
        protocol: Some(flow.protocol),
        ..natfw::OpenRequest::new(flow.destination)
    }
}

fn outcomes(events: &[Event]) -> impl Iterator<Item = (u32, Outcome)> {
    events.iter().filter_map(outcome)
}

/// Returns the outcome of a reservation of this host in an event.
fn outcome(event: &Event) -> Option<(u32, Outcome)> {
    let event = match event {
        Event::Nsis(nsis::Event::Qos(event)) => event,
        Event::Nsis(nsis::Event::Natfw(event)) => return outcome_of_natfw(event),
        _ => return None,
    };
    let (application, outcome) = match event {
        qos::Event::Reserved { application, .. } => (application, Outcome::Reserved),
        qos::Event::Released { application } => (application, Outcome::Released),
        qos::Event::Refused { application, outcome, .. } => {
            (application, Outcome::Failed(format!("refused: {outcome:?}")))
        }
        qos::Event::Lost { application, outcome, .. } => {
            (application, Outcome::Failed(format!("lost: {outcome:?}")))
        }
        qos::Event::TimedOut { application } => {
            (application, Outcome::Failed("no answer".to_owned()))
        }
        qos::Event::Rejected { application, reason } => {
            (application, Outcome::Failed(format!("not asked for: {reason:?}")))
        }
        _ => return None,
    };
    Some((u32::try_from(application.0).ok()?, outcome))
}

/// Returns the outcome of a pinhole of this host in an event.
fn outcome_of_natfw(event: &natfw::Event) -> Option<(u32, Outcome)> {
    let (application, outcome) = match event {
        natfw::Event::Granted { application, .. } => (application, Outcome::Reserved),
        natfw::Event::Ended { application, info: None } => (application, Outcome::Released),
        natfw::Event::Ended { application, info: Some(info) } => {
            (application, Outcome::Failed(format!("ended: {info}")))
        }
        natfw::Event::Refused { application, refusal } => {
            (application, Outcome::Failed(format!("refused: {refusal:?}")))
        }
        natfw::Event::Rejected { application, reason } => {
            (application, Outcome::Failed(format!("not asked for: {reason}")))
        }
        _ => return None,
    };
    Some((u32::try_from(application.0).ok()?, outcome))
}

/// Returns the event of a ping in an event of the node.
fn ping_event(event: &Event) -> Option<PingEvent> {
    let Event::Nsis(nsis::Event::Ping(event)) = event else { return None };
    Some(match *event {
        ping::Event::Pong { round_trip, .. } => PingEvent::Back { round_trip },
        ping::Event::Lost { .. } => PingEvent::Lost,
        ping::Event::Finished { .. } | ping::Event::Rejected { .. } => PingEvent::Finished,
    })
}
