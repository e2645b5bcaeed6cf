//! Reservations set up one after the other: from the command at the first host until all of the path has reserved.
//!
//! ```text
//!   h1 --Query--> r1 ..        for each flow, hop by hop: who is next?
//!     <-Response--
//!     --Confirm + RESERVE-->   r1 ..., and so on to h2
//!     <-------- RESPONSE ----------  back along the path
//! ```
//!
//! With connections, a hop makes an association first where there is none: [`Associations::New`] has all hops do that for
//! each set-up, after those before have ended for want of use.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::super::Supervision;
use super::chain::Losses;
use super::sender::Sender;
use super::{Chain, Set, Times, Transport};

/// Sessions that are set up before any is counted, so that nobody does something for the first time.
const FIRST: u32 = 20;
/// How long associations may take to end that nobody uses; asked for is one second.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// How long nodes hold an association that is to end.
const SHORT_HOLD: Duration = Duration::from_secs(1);
/// How often it is looked whether they have ended.
const LOOK: Duration = Duration::from_millis(100);

/// Whether the connections that messages travel by are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Associations {
    /// There are none: messages travel in datagrams.
    None,
    /// Each hop makes one.
    New,
    /// Each hop has one.
    Existing,
}

/// One measurement to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// From host to host.
    pub hops: usize,
    /// By what messages travel.
    pub transport: Transport,
    /// Whether associations are there already.
    pub associations: Associations,
    /// Sessions.
    pub count: u32,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetUps {
    /// From host to host.
    pub hops: usize,
    /// By what messages travelled.
    pub transport: Transport,
    /// Whether associations were there already.
    pub associations: Associations,
    /// From the command to the answer.
    pub times: Times,
    /// Set-ups a second, one after the other; `None` where there were pauses between.
    pub rate: Option<f64>,
    /// Processor time of the first router's daemon, microseconds a set-up; of the last host's where there is no router. `None`
    /// where it did other things between.
    pub processor_us: Option<f64>,
    /// What was lost and repeated.
    pub losses: Losses,
}

/// The measurements of these transports: associations that are new are measured fewer times, since each waits for the
/// ones before to end.
pub fn plans(hops: usize, transports: &[Transport], count: u32, new: u32) -> Vec<Plan> {
    let kinds = |transport| match transport {
        Transport::Datagram => vec![(Associations::None, count)],
        Transport::Tcp | Transport::Tls => {
            vec![(Associations::New, new), (Associations::Existing, count)]
        }
    };
    let plan = |transport, (associations, count)| Plan { hops, transport, associations, count };
    transports
        .iter()
        .flat_map(|&transport| kinds(transport).into_iter().map(move |kind| plan(transport, kind)))
        .filter(|plan| plan.count > 0)
        .collect()
}

/// Makes a measurement on a chain of its own, of this program.
///
/// # Errors
/// The chain cannot be built, something in it ends, or a session cannot be set up.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<SetUps> {
    supervision.watcher.begin("the network starts", 1);
    let set = Set::new(plan.hops, plan.transport);
    let chain = Chain::up(&match plan.associations {
        Associations::New => Set { hold: SHORT_HOLD, ..set },
        Associations::None | Associations::Existing => set,
    })?;
    measure_on(&chain, plan, supervision)
}

/// Makes a measurement on a chain that is set for it.
///
/// # Errors
/// As of [`measure`].
pub fn measure_on(chain: &Chain, plan: &Plan, supervision: &Supervision<'_>) -> Result<SetUps> {
    let before = chain.losses()?;
    let course = chain.in_first_host(|sender| match plan.associations {
        Associations::New => with_new(chain, sender, plan, supervision),
        Associations::None | Associations::Existing => in_a_row(chain, sender, plan, supervision),
    })?;
    Ok(SetUps {
        hops: plan.hops,
        transport: plan.transport,
        associations: plan.associations,
        rate: course.whole.map(|whole| f64::from(plan.count) / whole.as_secs_f64().max(1e-9)),
        processor_us: course
            .processor
            .map(|processor| processor.as_secs_f64() * 1e6 / f64::from(plan.count.max(1))),
        times: Times::of(course.times),
        losses: chain.losses()?.since(before),
    })
}

struct Course {
    times: Vec<Duration>,
    whole: Option<Duration>,
    processor: Option<Duration>,
}

/// One after the other; all stay until the last is done.
fn in_a_row(
    chain: &Chain,
    sender: &mut Sender,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<Course> {
    for number in 0..FIRST {
        sender.set_up(number)?;
    }
    let what = format!("{} set-ups, {}", plan.count, plan.transport.name());
    supervision.watcher.begin(&what, plan.count.into());
    let (before, start) = (chain.sample(1)?, sender.now());
    let mut times = Vec::with_capacity(plan.count as usize);
    for number in FIRST..FIRST + plan.count {
        times.push(sender.set_up(number)?);
        supervision.go_on()?;
    }
    let whole = sender.now().since(start);
    let processor = chain.sample(1)?.processor.saturating_sub(before.processor);
    supervision.watcher.reached(plan.count.into());
    sender.release_all(0..FIRST + plan.count, supervision)?;
    Ok(Course { times, whole: Some(whole), processor: Some(processor) })
}

/// Each when the associations of the one before have ended.
fn with_new(
    chain: &Chain,
    sender: &mut Sender,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<Course> {
    let what = format!("{} set-ups, {}, new associations", plan.count, plan.transport.name());
    supervision.watcher.begin(&what, plan.count.into());
    let mut times = Vec::with_capacity(plan.count as usize);
    for number in 0..plan.count {
        times.push(sender.set_up(number)?);
        sender.release(number)?;
        let give_up = sender.now() + ENDS_WITHIN;
        while chain.associations()? > 0 {
            ensure!(sender.now() < give_up, "associations without use do not end");
            sender.go_on_until(sender.now() + LOOK, &mut |_| {})?;
            supervision.go_on()?;
        }
        supervision.watcher.reached(u64::from(number) + 1);
    }
    Ok(Course { times, whole: None, processor: None })
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
