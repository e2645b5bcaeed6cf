//! Losses of a rule: a share, bursts, a trace, or a law of a program.

use std::str::FromStr;
use std::sync::Arc;

use earmark_sim::{Bursts, LossLaw, LossTrace};
use serde::{Deserialize, Deserializer, de};

/// Losses of the signalling messages on a link, as a rule names them.
#[derive(Clone, Debug)]
pub enum Losses {
    /// `0.1`: the share of lost messages, 0 to 1, each independently of the others.
    Share(f64),
    /// `"bursts 0.05 8"`: the share of lost messages, and the mean length of a burst in messages; or with a third number,
    /// `"bursts 0.05 8 0.5"`, the share of messages that are lost within bursts.
    Bursts(Bursts),
    /// `[false, true, false]`: whether each message is lost, repeated from the start at the end.
    Trace(LossTrace),
    /// Another law, for a scenario that a program builds.
    Law(Arc<dyn LossLaw>),
}

impl Default for Losses {
    fn default() -> Losses {
        Losses::Share(0.0)
    }
}

impl From<f64> for Losses {
    fn from(share: f64) -> Losses {
        Losses::Share(share)
    }
}

impl PartialEq for Losses {
    /// Laws of programs are equal if they are the same object.
    fn eq(&self, other: &Losses) -> bool {
        match (self, other) {
            (Losses::Share(a), Losses::Share(b)) => a == b,
            (Losses::Bursts(a), Losses::Bursts(b)) => a == b,
            (Losses::Trace(a), Losses::Trace(b)) => a == b,
            (Losses::Law(a), Losses::Law(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Losses {
    /// Returns the share of independent losses; 0 with a law.
    pub(crate) fn share(&self) -> f64 {
        match self {
            Losses::Share(share) => *share,
            Losses::Bursts(_) | Losses::Trace(_) | Losses::Law(_) => 0.0,
        }
    }

    /// Returns the law; `None` for independent losses.
    pub(crate) fn law(&self) -> Option<&dyn LossLaw> {
        match self {
            Losses::Share(_) => None,
            Losses::Bursts(bursts) => Some(bursts),
            Losses::Trace(trace) => Some(trace),
            Losses::Law(law) => Some(&**law),
        }
    }
}

impl FromStr for Losses {
    type Err = String;

    fn from_str(text: &str) -> Result<Losses, String> {
        let usage = || {
            format!(
                "invalid loss `{text}`; write a share such as 0.1, \"bursts 0.05 8\" (share, and mean length in messages), \
                 \"bursts 0.05 8 0.5\" (and the share within bursts), or a list such as [false, true]"
            )
        };
        let number = |text: &str| text.parse::<f64>().map_err(|_| usage());
        let (loss, length, bad_loss) = match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["bursts", loss, length] => (number(loss)?, number(length)?, 1.0),
            ["bursts", loss, length, bad_loss] => {
                (number(loss)?, number(length)?, number(bad_loss)?)
            }
            _ => return Err(usage()),
        };
        let bursts = Bursts::new(loss, length, bad_loss);
        bursts.map(Losses::Bursts).map_err(|why| format!("loss `{text}`: {why}"))
    }
}

impl<'de> Deserialize<'de> for Losses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Losses, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a share of lost messages such as 0.1, a text such as \"bursts 0.05 8\", or a list of \
                         true and false"
        )]
        enum Written {
            Share(f64),
            Text(String),
            Trace(Vec<bool>),
        }

        match Written::deserialize(deserializer)? {
            Written::Share(share) => Ok(Losses::Share(share)),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
            Written::Trace(lost) if lost.is_empty() => Err(de::Error::custom(
                "loss: the list is empty; give true or false for each message",
            )),
            Written::Trace(lost) => Ok(Losses::Trace(LossTrace::new(lost))),
        }
    }
}
