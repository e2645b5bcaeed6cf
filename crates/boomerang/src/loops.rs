//! This host's own sessions: a [`Loop`] for each, found by application and by transaction id.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::Time;
use earmark_core::random::Stream;
use earmark_core::timer::TimerId;
use earmark_token::Token;
use earmark_wire::boomerang::{Keys, Rates, Shape};
use slab::Slab;

use crate::api::{Application, OnRefusal, User};
use crate::state::Index;

/// This host's own sessions.
#[derive(Debug)]
pub(crate) struct Loops {
    pub(crate) list: Slab<Loop>,
    /// Ordered map, since the driver chooses the key.
    pub(crate) by_application: BTreeMap<Application, Index>,
    /// Ordered map, since this node chooses the key.
    pub(crate) by_transaction: BTreeMap<u32, Index>,
    /// Source of transaction ids.
    pub(crate) transaction_ids: Stream,
    /// Source of nonces.
    pub(crate) nonces: Stream,
}

/// One session of this host's own.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) application: Application,
    /// Address of this host at the start and end of the loop.
    pub(crate) source: IpAddr,
    /// The far end, or a group.
    pub(crate) destination: IpAddr,
    pub(crate) keys: Keys,
    pub(crate) shape: Shape,
    pub(crate) transaction_id: u32,
    pub(crate) user: Option<User>,
    /// Token of its messages.
    pub(crate) token: Option<Token>,
    pub(crate) on_refusal: OnRefusal,
    /// Requested rates in order of preference; one pair of zeros for a session that is being released.
    pub(crate) requested: Vec<Rates>,
    /// Whether the rates are sent as a list of downgrades, even if one pair is left.
    pub(crate) is_vector: bool,
    /// Rates that all nodes have granted, if any.
    pub(crate) granted: Option<Rates>,
    /// Whether the application has been told of a refusal since, so that the next grant is news, whatever it is.
    pub(crate) is_refused: bool,
    pub(crate) phase: Phase,
    /// Interval that the application requests, seconds.
    pub(crate) requested_interval: u8,
    /// Interval that the nodes on the path require, seconds.
    pub(crate) interval: u8,
    /// Product of the primes of the nodes that have locked the session.
    pub(crate) key: u64,
    /// Sequence number of the last message, which a credential covers.
    pub(crate) sequence: u16,
    /// Nonces of the current request's last transmissions; a reply repeats one of them.
    pub(crate) nonces: Nonces,
    /// Whether the request was repeated since it was granted, which proves to the nodes on the path that this node
    /// continues to ask.
    pub(crate) repeated: bool,
    /// Number of transmissions without a reply; zero while no reply is awaited.
    pub(crate) attempts: u8,
    /// Time of the last reply, or of the start of the loop.
    pub(crate) last_reply_at: Time,
    /// Whether the application was notified that no reply arrives.
    pub(crate) lost: bool,
    /// Whether nodes are to count themselves.
    pub(crate) counts_nodes: bool,
    /// Whether the next message carries the record in which nodes count themselves.
    pub(crate) has_record: bool,
    pub(crate) timer: Option<TimerId>,
}

/// Nonces of transmissions without a reply: unpredictable ICMP sequence numbers, which whoever has not seen the message
/// cannot repeat.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nonces {
    /// The last nonces, the latest first.
    last: [u16; Nonces::MAX],
    outstanding: u8,
}

impl Nonces {
    /// Maximum number of outstanding nonces.
    const MAX: usize = 8;

    /// Draws the nonce of one more transmission.
    pub(crate) fn draw(&mut self, stream: &mut Stream) -> u16 {
        let nonce = stream.next_u64() as u16;
        self.last.rotate_right(1);
        self.last[0] = nonce;
        self.outstanding = (self.outstanding + 1).min(Nonces::MAX as u8);
        nonce
    }

    /// Returns whether a nonce is outstanding.
    pub(crate) fn contains(&self, nonce: u16) -> bool {
        self.last.iter().take(self.outstanding.into()).any(|&other| other == nonce)
    }

    /// Invalidates all nonces: the request was answered, or another one follows.
    pub(crate) fn clear(&mut self) {
        self.outstanding = 0;
    }
}

/// Purpose of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reserves and refreshes.
    Reserve,
    /// Queries the available rates.
    Query,
    /// Releases everything.
    Release,
}

impl Loops {
    pub(crate) fn new(transaction_ids: Stream, nonces: Stream) -> Loops {
        Loops {
            list: Slab::new(),
            by_application: BTreeMap::new(),
            by_transaction: BTreeMap::new(),
            transaction_ids,
            nonces,
        }
    }

    /// Returns a transaction id that no other loop has.
    pub(crate) fn new_transaction_id(&mut self) -> u32 {
        loop {
            let name = self.transaction_ids.next_u64() as u32;
            if !self.by_transaction.contains_key(&name) {
                return name;
            }
        }
    }

    pub(crate) fn insert(&mut self, state: Loop) -> Index {
        let (application, transaction_id) = (state.application, state.transaction_id);
        let index = self.list.insert(state) as Index;
        self.by_application.insert(application, index);
        self.by_transaction.insert(transaction_id, index);
        index
    }

    pub(crate) fn remove(&mut self, index: Index) -> Loop {
        let gone = self.list.remove(index as usize);
        self.by_application.remove(&gone.application);
        self.by_transaction.remove(&gone.transaction_id);
        gone
    }

    pub(crate) fn get(&self, index: Index) -> &Loop {
        &self.list[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> &mut Loop {
        &mut self.list[index as usize]
    }
}

impl Loop {
    /// Returns the ICMP identifier of its messages.
    pub(crate) fn identifier(&self) -> u16 {
        self.transaction_id as u16
    }
}
