//! The associations with neighbours: which sequence numbers each has used, and the challenges to those of whom nothing is
//! known yet (RFC 2747 section 4.3).

use alloc::collections::{BTreeMap, BTreeSet};
use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::Time;
use earmark_wire::rsvp::Challenge;
use siphasher::sip::SipHasher24;

use super::sequence::Window;
use super::{HandshakeMode, Settings};
use crate::counters::DropReason;

/// The key and the neighbour of an association: Key Identifier and sending system (RFC 2747 section 2.2).
pub(super) type Peer = (u64, IpAddr);

/// How often a neighbour is challenged that the keys do not name; then its next message starts anew.
const TRIES: u8 = 5;
/// How often the time between two challenges doubles.
const DOUBLINGS: u8 = 6;

/// All associations. A peer enters only with a message whose digest is right, or because a key names it, so an ordered
/// map and a limit serve.
#[derive(Debug)]
pub(super) struct Handshakes {
    associations: BTreeMap<Peer, Association>,
    /// When which challenge is to be repeated.
    due: BTreeSet<(Time, Peer)>,
    /// What makes cookies hard to guess.
    cookie_key: (u64, u64),
    cookies: u64,
    mode: HandshakeMode,
    window: usize,
    interval: Duration,
    limit: usize,
    answers: Pace,
}

#[derive(Debug)]
enum Association {
    /// The neighbour has proven itself.
    Open(Window),
    /// It was challenged, and the answer is not there yet.
    Challenged { cookie: u64, tries: u8, due: Time, configured: bool },
}

impl Handshakes {
    pub(super) fn new(cookie_key: (u64, u64), settings: &Settings) -> Handshakes {
        Handshakes {
            associations: BTreeMap::new(),
            due: BTreeSet::new(),
            cookie_key,
            cookies: 0,
            mode: settings.handshake,
            window: usize::from(settings.window.max(1)),
            interval: settings.challenge_interval.max(Duration::from_millis(1)),
            limit: settings.max_associations as usize,
            answers: Pace::new(settings.answers_per_second),
        }
    }

    /// Judges the sequence number of a message whose digest is right. `answers` is its flag HF: its sender would answer
    /// a challenge.
    ///
    /// # Errors
    /// Why the message must be dropped. After [`DropReason::HandshakePending`], [`next_challenge`] may have a challenge
    /// for its sender.
    ///
    /// [`next_challenge`]: Handshakes::next_challenge
    pub(super) fn judge(
        &mut self,
        now: Time,
        peer: Peer,
        sequence: u64,
        answers: bool,
    ) -> Result<(), DropReason> {
        let believed = match self.mode {
            HandshakeMode::Off => true,
            HandshakeMode::Offered => !answers,
            HandshakeMode::Required => false,
        };
        let full = self.associations.len() >= self.limit;
        match self.associations.get_mut(&peer) {
            Some(Association::Open(window)) => {
                return match window.accept(sequence, self.window) {
                    true => Ok(()),
                    false => Err(DropReason::Replayed),
                };
            }
            Some(Association::Challenged { due, .. }) => {
                if !believed {
                    return Err(DropReason::HandshakePending);
                }
                let due = *due;
                self.due.remove(&(due, peer));
            }
            None if full => return Err(DropReason::Limit),
            None => {}
        }
        if !believed {
            if answers {
                self.challenge(now, peer, false);
            }
            return Err(DropReason::HandshakePending);
        }
        self.open(peer, sequence);
        Ok(())
    }

    /// Challenges a neighbour that a key names, if nothing is known of it.
    pub(super) fn greet(&mut self, now: Time, peer: Peer) {
        let known = self.associations.contains_key(&peer);
        if self.mode != HandshakeMode::Off && !known && self.associations.len() < self.limit {
            self.challenge(now, peer, true);
        }
    }

    /// An Integrity Response whose digest is right: opens the association if it answers our last challenge.
    pub(super) fn answered(
        &mut self,
        peer: Peer,
        challenge: Challenge,
        sequence: u64,
    ) -> Result<(), DropReason> {
        match self.associations.get(&peer) {
            Some(&Association::Challenged { cookie, due, .. })
                if challenge == (Challenge { key_id: peer.0, cookie }) =>
            {
                self.due.remove(&(due, peer));
                self.open(peer, sequence);
                Ok(())
            }
            _ => Err(DropReason::UnknownChallenge),
        }
    }

    /// Takes out a challenge that is to be sent now, and to whom. Call it until there is none.
    pub(super) fn next_challenge(&mut self, now: Time) -> Option<(IpAddr, Challenge)> {
        loop {
            let &(at, peer) = self.due.first().filter(|(at, _)| *at <= now)?;
            self.due.pop_first();
            let Some(Association::Challenged { tries, configured, .. }) =
                self.associations.remove(&peer)
            else {
                continue;
            };
            if tries >= TRIES && !configured {
                continue;
            }
            // A cookie of its own each time: an answer to an older one comes too late.
            let cookie = self.cookie(at, peer);
            let wait = self.interval * (1 << tries.min(DOUBLINGS));
            let due = now + wait;
            let tries = tries.saturating_add(1);
            let challenged = Association::Challenged { cookie, tries, due, configured };
            self.associations.insert(peer, challenged);
            self.due.insert((due, peer));
            return Some((peer.1, Challenge { key_id: peer.0, cookie }));
        }
    }

    /// Gives up the associations of these keys.
    pub(super) fn forget(&mut self, gone: impl Fn(u64) -> bool) {
        self.associations.retain(|peer, _| !gone(peer.0));
        self.due.retain(|(_, peer)| !gone(peer.0));
    }

    /// When [`next_challenge`](Handshakes::next_challenge) has one again.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Whether one more challenge of somebody else may be answered.
    pub(super) fn may_answer(&mut self, now: Time) -> bool {
        self.answers.take(now)
    }

    fn challenge(&mut self, now: Time, peer: Peer, configured: bool) {
        let challenged = Association::Challenged { cookie: 0, tries: 0, due: now, configured };
        self.associations.insert(peer, challenged);
        self.due.insert((now, peer));
    }

    fn open(&mut self, peer: Peer, sequence: u64) {
        self.associations.insert(peer, Association::Open(Window::starting_at(sequence)));
    }

    /// A number that never comes twice and that nobody can tell in advance who does not know the key of the hash.
    fn cookie(&mut self, at: Time, peer: Peer) -> u64 {
        self.cookies += 1;
        let (key0, key1) = self.cookie_key;
        let mut hasher = SipHasher24::new_with_keys(key0, key1);
        hasher.write_u64(self.cookies);
        hasher.write_u64(at.as_nanos());
        hasher.write_u64(peer.0);
        hasher.finish()
    }
}

/// How many of something may happen: so many a second, and as many at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    per_second: u32,
    /// What may happen now, in billionths.
    credit: u64,
    since: Time,
}

impl Pace {
    const ONE: u64 = 1_000_000_000;

    pub(crate) fn new(per_second: u32) -> Pace {
        let credit = u64::from(per_second) * Self::ONE;
        Pace { per_second, credit, since: Time::ZERO }
    }

    /// Whether it may happen once more.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let rate = u64::from(self.per_second);
        let gained = (now - self.since).as_nanos().saturating_mul(u128::from(rate));
        let gained = u64::try_from(gained).unwrap_or(u64::MAX);
        self.credit = self.credit.saturating_add(gained).min(rate * Self::ONE);
        self.since = now;
        let allowed = self.credit >= Self::ONE;
        if allowed {
            self.credit -= Self::ONE;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_allows_so_many_a_second() {
        let mut pace = Pace::new(3);
        let burst = |pace: &mut Pace, at| (0..100).filter(|_| pace.take(at)).count();
        assert_eq!(burst(&mut pace, Time::from_secs(5)), 3);
        assert_eq!(burst(&mut pace, Time::from_millis(5_300)), 0);
        assert_eq!(burst(&mut pace, Time::from_millis(5_400)), 1);
        assert_eq!(burst(&mut pace, Time::from_secs(1_000)), 3);
        assert_eq!(burst(&mut Pace::new(0), Time::MAX), 0);
    }
}
