//! Laws of movement: how long a host stays at a router, and where it goes next.

use std::fmt::Debug;
use std::time::Duration;

use earmark_core::random::Stream;
use earmark_sim::distributions;
use serde::Deserialize;

use crate::lifetime::{Lifetime, LifetimeLaw};

/// Law of the movement of a host among its routers, which have numbers from 0. A visit is the router, and how long the host
/// stays there: forever without a time.
pub trait MobilityLaw: Debug + Send + Sync {
    /// Draws the visit that is in progress at the start, and how long it lasts from then on.
    fn first(&self, routers: usize, dice: &mut Stream) -> (usize, Option<Duration>);

    /// Draws the visit after one at this router.
    fn next(&self, from: usize, routers: usize, dice: &mut Stream) -> (usize, Option<Duration>);
}

/// Where hosts go next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// To any other router with the same probability.
    #[default]
    Random,
    /// To the next one in the order of the host's links, and from the last to the first.
    Cycle,
}

/// Stays of independent duration.
#[derive(Clone, Debug)]
pub struct Walk {
    /// Law of the stays.
    pub stays: Lifetime,
    /// Where the host goes next.
    pub next: Order,
}

impl MobilityLaw for Walk {
    fn first(&self, routers: usize, dice: &mut Stream) -> (usize, Option<Duration>) {
        // Both orders visit all routers equally often.
        let at = distributions::below(dice, routers as u64) as usize;
        (at, self.stays.draw_remaining(dice))
    }

    fn next(&self, from: usize, routers: usize, dice: &mut Stream) -> (usize, Option<Duration>) {
        let on = match self.next {
            Order::Cycle => 1,
            Order::Random => 1 + distributions::below(dice, routers as u64 - 1) as usize,
        };
        ((from + on) % routers, self.stays.draw(dice))
    }
}
