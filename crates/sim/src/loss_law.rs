//! Laws by which a link loses signalling messages, one after the other.
//!
//! Independent losses are a share in [`Faults`](crate::Faults). A [`LossLaw`] has a state, so that the loss of a message may
//! depend on those before it: [`Bursts`], a [`LossTrace`], or a law of a program. Each direction of a link has a state and a
//! random stream of its own for each law ([`Network::add_loss_law`](crate::Network::add_loss_law)).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt::Debug;

use earmark_core::random::Stream;

use crate::distributions::happens;
use crate::packet::{Body, Packet};

/// Law of the losses of one direction of a link, with its state.
pub trait LossLaw: Debug + Send + Sync {
    /// Returns whether the next message is lost, and advances the state.
    fn loses(&mut self, dice: &mut Stream) -> bool;

    /// Returns the law in its initial state.
    fn begin(&self) -> Box<dyn LossLaw>;
}

/// Bursts of losses: a Markov chain with two states, good and bad, that advances with each message (Gilbert, Bell System
/// Technical Journal 39(5), 1960). In the good state no message is lost; in the bad one all are, or a share (Elliott's
/// extension). The first message finds the chain in its stationary distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Stationary probability of the bad state.
    bad_share: f64,
    /// Probability that the bad state ends before the next message.
    recovery: f64,
    /// Probability that a message is lost in the bad state.
    bad_loss: f64,
    /// Whether the last message found the bad state; `None` before the first message.
    is_bad: Option<bool>,
}

/// Reason why no chain has such bursts.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BurstError {
    /// The share of lost messages is out of range.
    #[error("a share of lost messages is above 0 and below 1, not {0}")]
    Share(f64),
    /// The mean length is out of range.
    #[error("a mean length of bursts is a number of messages, 1 or more, not {0}")]
    Length(f64),
    /// The loss within bursts is out of range.
    #[error(
        "a share of lost messages within bursts is above that of all messages and at most 1, not {0}"
    )]
    BadLoss(f64),
    /// Bursts would have to follow each other without a message between them.
    #[error(
        "so many messages are lost in longer bursts only: give a mean length of {0:.2} or more, or a smaller share"
    )]
    TooShort(f64),
}

impl Bursts {
    /// Creates bursts by the share of all messages that are lost, the mean length of a burst in messages, and the share of
    /// messages that are lost within bursts, which is 1 if each message of a burst is lost.
    ///
    /// # Errors
    /// A parameter is out of range, or no bursts of this length are frequent enough.
    pub fn new(loss: f64, length: f64, bad_loss: f64) -> Result<Bursts, BurstError> {
        // Written so that NaN fails, too.
        if !(loss > 0.0 && loss < 1.0) {
            return Err(BurstError::Share(loss));
        }
        if !(length >= 1.0 && length.is_finite()) {
            return Err(BurstError::Length(length));
        }
        if !(bad_loss > 0.0 && bad_loss <= 1.0) {
            return Err(BurstError::BadLoss(bad_loss));
        }
        let bad_share = loss / bad_loss;
        if bad_share >= 1.0 {
            return Err(BurstError::BadLoss(bad_loss));
        }
        let bursts = Bursts { bad_share, recovery: 1.0 / length, bad_loss, is_bad: None };
        match bursts.failure() <= 1.0 {
            true => Ok(bursts),
            false => Err(BurstError::TooShort(bad_share / (1.0 - bad_share))),
        }
    }

    /// Returns the probability that the good state ends before the next message: as many bursts begin as end.
    fn failure(&self) -> f64 {
        self.recovery * self.bad_share / (1.0 - self.bad_share)
    }
}

impl LossLaw for Bursts {
    fn loses(&mut self, dice: &mut Stream) -> bool {
        let is_bad = match self.is_bad {
            None => happens(dice, self.bad_share),
            Some(true) => !happens(dice, self.recovery),
            Some(false) => happens(dice, self.failure()),
        };
        self.is_bad = Some(is_bad);
        is_bad && happens(dice, self.bad_loss)
    }

    fn begin(&self) -> Box<dyn LossLaw> {
        Box::new(Bursts { is_bad: None, ..*self })
    }
}

/// Losses of a trace: for each message in turn whether it is lost, repeated from the start at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossTrace {
    lost: Arc<[bool]>,
    next: usize,
}

impl LossTrace {
    /// Creates the losses of a trace. Without entries no message is lost.
    pub fn new(lost: impl Into<Arc<[bool]>>) -> LossTrace {
        LossTrace { lost: lost.into(), next: 0 }
    }
}

impl LossLaw for LossTrace {
    fn loses(&mut self, _: &mut Stream) -> bool {
        let is_lost = self.lost.get(self.next).copied().unwrap_or_default();
        self.next = (self.next + 1).checked_rem(self.lost.len()).unwrap_or_default();
        is_lost
    }

    fn begin(&self) -> Box<dyn LossLaw> {
        Box::new(LossTrace { next: 0, ..self.clone() })
    }
}

/// Loss laws of one direction of a link, by number, each with its random stream.
#[derive(Debug, Default)]
pub(crate) struct LossLaws {
    laws: BTreeMap<usize, (Box<dyn LossLaw>, Stream)>,
}

impl LossLaws {
    pub(crate) fn add(&mut self, number: usize, law: Box<dyn LossLaw>, dice: Stream) {
        self.laws.insert(number, (law, dice));
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.laws.remove(&number);
    }

    /// Returns whether a packet is lost. Each law meets each message, whatever the others say.
    pub(crate) fn lose(&mut self, packet: &Packet) -> bool {
        matches!(packet.body, Body::Signalling(_))
            && self.laws.values_mut().fold(false, |is_lost, (law, dice)| law.loses(dice) | is_lost)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use earmark_core::random::RandomStreams;

    use super::*;

    const MESSAGES: usize = 400_000;

    fn losses(mut law: Box<dyn LossLaw>, seed: u64) -> Vec<bool> {
        let mut dice = RandomStreams::new(seed).stream("losses");
        (0..MESSAGES).map(|_| law.loses(&mut dice)).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|is_lost| **is_lost).count() as f64 / lost.len() as f64
    }

    /// A chain of correlation c between neighbours has a variance of the share of (1 + c) / (1 - c) times the independent
    /// one: at most 16 times here, so that the share of 5 % has a standard deviation of 0.14 %. There are more than 2 000
    /// bursts, whose mean has one of 2.2 %.
    #[test]
    fn bursts_have_their_share_and_mean_length() {
        for (loss, length) in [(0.05, 8.0), (0.2, 1.25), (0.5, 1.0), (0.9, 9.5)] {
            let law = Bursts::new(loss, length, 1.0).expect("valid").begin();
            let lost = losses(law, 1);
            assert!((share(&lost) - loss).abs() < 0.006, "{loss} {length}: {}", share(&lost));
            let bursts = lost.split(|is_lost| !is_lost).filter(|burst| !burst.is_empty());
            let lengths: Vec<f64> = bursts.map(|burst| burst.len() as f64).collect();
            let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
            assert!((mean / length - 1.0).abs() < 0.07, "{loss} {length}: {mean}");
        }
    }

    /// After a lost message the bad state goes on with the probability 7/8, and loses a half.
    #[test]
    fn elliotts_bursts_lose_a_share_of_their_messages() {
        let lost = losses(Bursts::new(0.05, 8.0, 0.5).expect("valid").begin(), 2);
        assert!((share(&lost) - 0.05).abs() < 0.004, "{}", share(&lost));
        let after: Vec<bool> = lost.windows(2).filter(|two| two[0]).map(|two| two[1]).collect();
        assert!((share(&after) - 7.0 / 16.0).abs() < 0.015, "{}", share(&after));
    }

    /// Of 20 000 chains a quarter begins in the bad state; the standard deviation is 0.3 %.
    #[test]
    fn bursts_begin_in_their_stationary_distribution() {
        let law = Bursts::new(0.25, 50.0, 1.0).expect("valid");
        let first = |seed| {
            let mut dice = RandomStreams::new(seed).stream("losses");
            let mut law = law.begin();
            (0..5).map(|_| law.loses(&mut dice)).last() == Some(true)
        };
        let lost: Vec<bool> = (0..20_000).map(first).collect();
        assert!((share(&lost) - 0.25).abs() < 0.013, "{}", share(&lost));
    }

    #[test]
    fn impossible_bursts_are_refused() {
        use BurstError::{BadLoss, Length, Share, TooShort};
        for (parameters, why) in [
            ((0.0, 8.0, 1.0), Share(0.0)),
            ((1.0, 8.0, 1.0), Share(1.0)),
            ((0.05, 0.9, 1.0), Length(0.9)),
            ((0.05, f64::INFINITY, 1.0), Length(f64::INFINITY)),
            ((0.05, 8.0, 0.0), BadLoss(0.0)),
            ((0.05, 8.0, 1.1), BadLoss(1.1)),
            ((0.5, 8.0, 0.4), BadLoss(0.4)),
            ((0.75, 2.9, 1.0), TooShort(3.0)),
        ] {
            let (loss, length, bad_loss) = parameters;
            assert_eq!(Bursts::new(loss, length, bad_loss), Err(why), "{parameters:?}");
        }
        for (loss, length, bad_loss) in
            [(f64::NAN, 8.0, 1.0), (0.1, f64::NAN, 1.0), (0.1, 8.0, f64::NAN)]
        {
            assert!(Bursts::new(loss, length, bad_loss).is_err());
        }
    }

    #[test]
    fn trace_is_repeated_from_its_start() {
        let mut dice = RandomStreams::new(1).stream("losses");
        let mut law = LossTrace::new([false, true, true]);
        let mut lost: Vec<bool> = (0..4).map(|_| law.loses(&mut dice)).collect();
        let mut again = law.begin();
        lost.extend((0..3).map(|_| again.loses(&mut dice)));
        assert_eq!(lost, [false, true, true, false, false, true, true]);
        assert_eq!(dice, RandomStreams::new(1).stream("losses"), "no random numbers");
        assert!(!LossTrace::new([]).loses(&mut dice));
    }
}
