//! Conditions of the comparison: what happens to the network, each for one question.

use super::network::{BANDWIDTH_BPS, BusiestLink, RESERVABLE};

earmark_core::named_enum! {
    /// A condition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Condition {
        /// Every request is granted: what does a reservation cost?
        Light = "light",
        /// As light, and every link between routers loses 5 % of the signalling: how long does a set-up take?
        Loss = "loss",
        /// The flows want 150 % of the busiest link: who is refused, and what is reserved in vain?
        Overload = "overload",
        /// As light, and the busiest link that can fail does so: how long are reservations interrupted?
        Failure = "failure",
        /// All flows want their reservation within a second: do the processors bear it?
        Rush = "rush",
    }
}

/// Share of the signalling that is lost on each link between routers.
const LOSS: &str = "0.05";

impl Condition {
    /// Returns the question in words.
    pub fn question(self) -> &'static str {
        match self {
            Condition::Light => "Light load: what does a reservation cost?",
            Condition::Loss => {
                "5 % of the signalling lost on each link between routers: how long does a set-up take?"
            }
            Condition::Overload => {
                "Demand of 150 % of the busiest link: who is refused, and what is reserved in vain?"
            }
            Condition::Failure => {
                "The busiest link that can fail does: how long are reservations interrupted?"
            }
            Condition::Rush => "All flows within a second: do the processors bear it?",
        }
    }

    /// Returns whether it is played with so many flows: the largest numbers, for their cost, only where processors have to bear them.
    pub(super) fn has(self, flows: u32) -> bool {
        match self {
            Condition::Rush => true,
            Condition::Light => flows <= 100_000,
            Condition::Loss | Condition::Overload | Condition::Failure => flows <= 10_000,
        }
    }

    /// Returns the duration of a run, and its discarded beginning, seconds.
    pub(super) fn times(self) -> [u32; 2] {
        match self {
            Condition::Rush => [60, 0],
            _ => [240, 60],
        }
    }

    /// Returns the rate of each flow, bits per second, so that all of them want a share of the busiest link.
    pub(super) fn rate_bps(self, flows: u32, busiest: &BusiestLink) -> u64 {
        let wanted = match self {
            Condition::Overload => 1.5,
            // The route around a failed link has to carry its flows, too.
            _ => 0.4,
        };
        let crossing = (f64::from(flows) * busiest.share).max(1.0);
        (wanted * RESERVABLE * BANDWIDTH_BPS / crossing).max(8.0) as u64
    }

    /// Returns the keys of the flows.
    pub(super) fn flows(self) -> &'static str {
        match self {
            Condition::Rush => "spread = \"1s\"\n",
            _ => "arrivals = \"poisson\"\nlifetime = \"exponential 120s\"\n",
        }
    }

    /// Returns the faults; `None` if the condition does not exist in the network.
    pub(super) fn faults(self, busiest: &BusiestLink, links: &[[String; 2]]) -> Option<String> {
        let on =
            |[one, other]: &[String; 2]| format!("[[faults]]\nlink = [\"{one}\", \"{other}\"]\n");
        match self {
            Condition::Loss => {
                let lossy = links.iter().map(|ends| format!("{}loss = {LOSS}\n", on(ends)));
                Some(lossy.collect())
            }
            Condition::Failure => {
                let fails = on(busiest.spare.as_ref()?);
                Some(format!("{fails}from = \"120s\"\nuntil = \"180s\"\noutage = true\n"))
            }
            Condition::Light | Condition::Overload | Condition::Rush => Some(String::new()),
        }
    }
}
