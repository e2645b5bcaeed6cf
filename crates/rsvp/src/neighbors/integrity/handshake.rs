//! Associations with neighbours: sequence numbers received from each, and challenges to unknown ones (RFC 2747 section
//! 4.3).

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

/// Key Identifier and sending system of an association (RFC 2747 section 2.2).
pub(super) type Peer = (u64, IpAddr);

/// Limit of challenges to a neighbour that no key names; its next message starts a new handshake.
const TRIES: u8 = 5;
/// Limit of doublings of the interval between challenges.
const DOUBLINGS: u8 = 6;

/// Associations by key and neighbour. An entry requires a message with a valid digest, or a key that names the
/// neighbour, so an ordered map with a limit is enough.
#[derive(Debug)]
pub(super) struct Handshakes {
    associations: BTreeMap<Peer, Association>,
    /// Due times of challenges.
    due: BTreeSet<(Time, Peer)>,
    /// Secret hash key of cookies.
    cookie_key: (u64, u64),
    cookies: u64,
    mode: HandshakeMode,
    window: usize,
    interval: Duration,
    limit: usize,
}

#[derive(Debug)]
enum Association {
    /// The neighbour has answered a challenge.
    Open(Window),
    /// The neighbour was challenged and has not answered yet.
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
        }
    }

    /// Checks the sequence number of a message with a valid digest. `answers` is the flag HF: the sender would answer a
    /// challenge.
    ///
    /// # Errors
    ///
    /// The reason for dropping the message. After [`DropReason::HandshakePending`], [`next_challenge`] may return a
    /// challenge for its sender.
    ///
    /// [`next_challenge`]: Handshakes::next_challenge
    pub(super) fn check_sequence(
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

    /// Challenges a neighbour that a key names, if there is no association.
    pub(super) fn challenge_in_advance(&mut self, now: Time, peer: Peer) {
        let known = self.associations.contains_key(&peer);
        if self.mode != HandshakeMode::Off && !known && self.associations.len() < self.limit {
            self.challenge(now, peer, true);
        }
    }

    /// Handles an Integrity Response with a valid digest: opens the association if it answers the last challenge.
    pub(super) fn accept_response(
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

    /// Removes and returns a challenge that is due, with its destination. Call it until it returns `None`.
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
            // Each challenge has a new cookie, so answers to older ones are rejected.
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

    /// Removes the associations of these keys.
    pub(super) fn forget(&mut self, gone: impl Fn(u64) -> bool) {
        self.associations.retain(|peer, _| !gone(peer.0));
        self.due.retain(|(_, peer)| !gone(peer.0));
    }

    /// Returns the time of the next challenge from [`next_challenge`](Handshakes::next_challenge).
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|&(at, _)| at)
    }

    fn challenge(&mut self, now: Time, peer: Peer, configured: bool) {
        let challenged = Association::Challenged { cookie: 0, tries: 0, due: now, configured };
        self.associations.insert(peer, challenged);
        self.due.insert((now, peer));
    }

    fn open(&mut self, peer: Peer, sequence: u64) {
        self.associations.insert(peer, Association::Open(Window::starting_at(sequence)));
    }

    /// Returns a number that never repeats and cannot be predicted without the hash key.
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
