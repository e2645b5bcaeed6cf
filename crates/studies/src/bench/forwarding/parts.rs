//! Costs of the parts of forwarding: routers with one step less than others, compared in turn with the one without a
//! daemon.
//!
//! | part | what it has | compared with: cost of |
//! |---|---|---|
//! | `source` | the source, the interface, a drop | everything outside forwarding |
//! | `no queue` | forwarding alone | `none`: `pfifo_fast` |
//! | `queues alone` | HTB, and no program: all is best effort | `none`: HTB |
//! | `classifier alone` | the program, and `pfifo_fast` | `none`: the program, with a bucket (`aggregate`) and without |

use std::rc::Rc;

use anyhow::Result;
use earmark_linux::Queues;

use super::router::{Router, Treatment};
use super::{ComparedRouter, Forwarding, Plan, Reservations, Traffic, fast, run_turns};
use crate::bench::Supervision;

/// The names of the parts.
pub const SOURCE: &str = "source";
const NO_QUEUE: &str = "no queue";
const QUEUES_ALONE: &str = "queues alone";
const NO_BUCKET: &str = "classifier alone, class";
const BUCKET: &str = "classifier alone, bucket";

/// Measures the parts, with the flow counts of a plan; the router without a daemon comes first.
///
/// # Errors
/// The errors of [`super::measure`].
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Vec<Forwarding>> {
    let mut contenders = vec![ComparedRouter::without_daemon(plan.end)?];
    for (name, treatment) in [
        (SOURCE, Treatment::DropOnReceipt),
        (NO_QUEUE, Treatment::NoQueue),
        (QUEUES_ALONE, Treatment::QueuesAlone),
    ] {
        let router = Rc::new(Router::up(treatment, fast(plan.end))?);
        contenders.push(ComparedRouter::new(router, name, 0, Traffic::BestEffort)?);
    }
    supervision.watcher.begin("routers of a part each are set up", plan.reservations.len() as u64);
    for (done, &Reservations { queues, flows }) in plan.reservations.iter().enumerate() {
        supervision.check_interrupted()?;
        let router =
            Rc::new(Router::up(Treatment::ClassifierAlone(queues, flows), fast(plan.end))?);
        let name = match queues {
            Queues::PerFlow => NO_BUCKET,
            Queues::Aggregate | Queues::Priority => BUCKET,
        };
        for traffic in [Traffic::Reserved, Traffic::BestEffort] {
            contenders.push(ComparedRouter::new(Rc::clone(&router), name, flows, traffic)?);
        }
        supervision.watcher.reached(done as u64 + 1);
    }
    run_turns(contenders, plan, supervision)
}
