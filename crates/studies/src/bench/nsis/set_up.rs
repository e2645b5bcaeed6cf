//! Consecutive set-ups: from the command at the first host until the whole path has reserved.
//!
//! ```text
//!   h1 --Query--> r1 ..        for each flow, hop by hop: discovery of the next node
//!     <-Response--
//!     --Confirm + RESERVE-->   r1 ..., and so on to h2
//!     <-------- RESPONSE ----------  back along the path
//! ```
//!
//! With connections, a hop first sets up an association if it has none: with [`Associations::New`] all hops do so for
//! each set-up, after the previous associations have closed as idle.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::super::Supervision;
use super::chain::Losses;
use super::sender::Sender;
use super::{Chain, Service, Set, Times, Transport};

/// Sessions before the first counted one, so that initialization does not count.
const FIRST: u32 = 20;
/// Timeout for idle associations to close; the configured time is one second.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// Time that nodes keep an association that is to close.
const SHORT_HOLD: Duration = Duration::from_secs(1);
/// Interval of checks whether they have closed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// State of the connections before a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Associations {
    /// No connections: messages travel in datagrams.
    None,
    /// Each hop sets up a connection.
    New,
    /// Each hop has a connection.
    Existing,
}

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Hops from host to host.
    pub hops: usize,
    /// Transport of the messages.
    pub transport: Transport,
    /// Application whose sessions are set up.
    pub service: Service,
    /// State of associations before each set-up.
    pub associations: Associations,
    /// Number of sessions.
    pub count: u32,
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetUps {
    /// Hops from host to host.
    pub hops: usize,
    /// Transport of the messages.
    pub transport: Transport,
    /// State of associations before each set-up.
    pub associations: Associations,
    /// Times from the command to the answer.
    pub times: Times,
    /// Consecutive set-ups a second; `None` if there were pauses between them.
    pub rate: Option<f64>,
    /// Processor time of the first router's daemon, or of the last host's if there is no router, microseconds a
    /// set-up; `None` if it had other work between set-ups.
    pub processor_us: Option<f64>,
    /// Losses and retransmissions.
    pub losses: Losses,
}

/// Returns the measurements for these transports: set-ups with new associations are fewer, since each waits for the
/// previous ones to close.
pub fn plans(hops: usize, transports: &[Transport], count: u32, new: u32) -> Vec<Plan> {
    let kinds = |transport| match transport {
        Transport::Datagram => vec![(Associations::None, count)],
        Transport::Tcp | Transport::Tls => {
            vec![(Associations::New, new), (Associations::Existing, count)]
        }
    };
    let service = Service::Qos;
    let plan =
        |transport, (associations, count)| Plan { hops, transport, service, associations, count };
    transports
        .iter()
        .flat_map(|&transport| kinds(transport).into_iter().map(move |kind| plan(transport, kind)))
        .filter(|plan| plan.count > 0)
        .collect()
}

/// Runs a measurement on a chain of its own, with this very program.
///
/// # Errors
/// The chain cannot be built, a process of it ends, or a session cannot be set up.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<SetUps> {
    supervision.watcher.begin("the network starts", 1);
    let set = Set { service: plan.service, ..Set::new(plan.hops, plan.transport) };
    let chain = Chain::up(&match plan.associations {
        Associations::New => Set { hold: SHORT_HOLD, ..set },
        Associations::None | Associations::Existing => set,
    })?;
    measure_on(&chain, plan, supervision)
}

/// Runs a measurement on a chain with these settings.
///
/// # Errors
/// The errors of [`measure`].
pub fn measure_on(chain: &Chain, plan: &Plan, supervision: &Supervision<'_>) -> Result<SetUps> {
    let before = chain.losses()?;
    let times = chain.in_first_host(|sender| match plan.associations {
        Associations::New => with_new(chain, sender, plan, supervision),
        Associations::None | Associations::Existing => in_a_row(chain, sender, plan, supervision),
    })?;
    Ok(SetUps {
        hops: plan.hops,
        transport: plan.transport,
        associations: plan.associations,
        rate: times.whole.map(|whole| f64::from(plan.count) / whole.as_secs_f64().max(1e-9)),
        processor_us: times
            .processor
            .map(|processor| processor.as_secs_f64() * 1e6 / f64::from(plan.count.max(1))),
        times: Times::of(times.times),
        losses: chain.losses()?.since(before),
    })
}

struct SessionTimes {
    times: Vec<Duration>,
    whole: Option<Duration>,
    processor: Option<Duration>,
}

/// Sets up sessions one after the other, and keeps all until the last is done.
fn in_a_row(
    chain: &Chain,
    sender: &mut Sender,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<SessionTimes> {
    for number in 0..FIRST {
        sender.set_up(number)?;
    }
    let what = format!("{} set-ups, {}", plan.count, plan.transport.name());
    supervision.watcher.begin(&what, plan.count.into());
    let (before, start) = (chain.sample(1)?, sender.now());
    let mut times = Vec::with_capacity(plan.count as usize);
    for number in FIRST..FIRST + plan.count {
        times.push(sender.set_up(number)?);
        supervision.check_interrupted()?;
    }
    let whole = sender.now().since(start);
    let processor = chain.sample(1)?.processor.saturating_sub(before.processor);
    supervision.watcher.reached(plan.count.into());
    sender.release_all(0..FIRST + plan.count, supervision)?;
    Ok(SessionTimes { times, whole: Some(whole), processor: Some(processor) })
}

/// Sets up each session after the associations of the previous one have closed.
fn with_new(
    chain: &Chain,
    sender: &mut Sender,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<SessionTimes> {
    let what = format!("{} set-ups, {}, new associations", plan.count, plan.transport.name());
    supervision.watcher.begin(&what, plan.count.into());
    let mut times = Vec::with_capacity(plan.count as usize);
    for number in 0..plan.count {
        times.push(sender.set_up(number)?);
        sender.release(number)?;
        let give_up = sender.now() + ENDS_WITHIN;
        while chain.associations()? > 0 {
            ensure!(sender.now() < give_up, "associations without use do not end");
            sender.run_until(sender.now() + POLL_INTERVAL, &mut |_| {})?;
            supervision.check_interrupted()?;
        }
        supervision.watcher.reached(u64::from(number) + 1);
    }
    Ok(SessionTimes { times, whole: None, processor: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_measured_new_and_existing() {
        let plans = plans(4, &Transport::ALL, 1_000, 5);
        let kinds: Vec<_> =
            plans.iter().map(|plan| (plan.transport, plan.associations, plan.count)).collect();
        assert_eq!(
            kinds,
            [
                (Transport::Datagram, Associations::None, 1_000),
                (Transport::Tcp, Associations::New, 5),
                (Transport::Tcp, Associations::Existing, 1_000),
                (Transport::Tls, Associations::New, 5),
                (Transport::Tls, Associations::Existing, 1_000),
            ]
        );
        assert_eq!(super::plans(4, &[Transport::Tls], 10, 0).len(), 1);
    }
}
