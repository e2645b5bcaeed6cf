//! Receiving segments: their octets are put in order, and read in order.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use earmark_core::{CloseReason, Time, Transport};

use super::super::segment::{Segment, flag};
use super::{
    ALERT, CLIENT_FINISHED, CLIENT_HELLO, Endpoint, HANDSHAKE, SERVER_HELLO, Stage, Told, WINDOW,
    Wanted, Welcome,
};

impl Endpoint {
    /// Returns the free octets of the receive buffer.
    pub(crate) fn room(&self) -> usize {
        WINDOW - self.unread.len().min(WINDOW)
    }

    /// Handles a segment. `reads`: whether the daemon reads; `welcome`: the callers that are accepted.
    pub(crate) fn hear(
        &mut self,
        segment: Segment,
        now: Time,
        reads: bool,
        welcome: Welcome,
    ) -> Wanted {
        let mut wanted = Wanted::default();
        if segment.has(flag::RST) {
            let reason = match self.stage {
                Stage::Calling => CloseReason::Unreachable,
                _ => CloseReason::Broken,
            };
            if self.is_told() {
                wanted.told.push(Told::Closed(reason));
            }
            self.fall_silent();
            return wanted;
        }
        if segment.has(flag::SYN) {
            self.hear_call(&segment, now, &mut wanted);
            return wanted;
        }
        self.hear_acknowledgement(&segment, now);
        if self.stage == Stage::Called && self.called {
            self.stage = Stage::Silent;
        }
        let is_old = self.expected.wrapping_sub(segment.sequence) as i32 > 0;
        let asks = !segment.payload.is_empty() || segment.has(flag::FIN) || is_old;
        self.take(segment);
        if reads {
            self.read(now, welcome, &mut wanted);
        }
        self.transmit(now, &mut wanted);
        if asks {
            self.acknowledge(&mut wanted);
        }
        wanted
    }

    /// Handles the answer to a SYN, or a repeated SYN.
    fn hear_call(&mut self, segment: &Segment, now: Time, wanted: &mut Wanted) {
        if self.stage == Stage::Calling && segment.has(flag::ACK) {
            self.expected = segment.sequence.wrapping_add(1);
            self.hear_acknowledgement(segment, now);
            if self.transport == Transport::Tls {
                self.stage = Stage::Hello;
                self.outgoing.extend(record(HANDSHAKE, CLIENT_HELLO));
            } else {
                self.open(wanted);
            }
            self.acknowledge(wanted);
            self.transmit(now, wanted);
        } else if self.stage == Stage::Called {
            self.next = self.acknowledged;
            self.transmit(now, wanted);
        } else {
            self.acknowledge(wanted);
        }
    }

    /// Stores the octets of a segment in order.
    fn take(&mut self, segment: Segment) {
        let Segment { sequence, flags, mut payload, .. } = segment;
        if flags & flag::FIN != 0 {
            self.ends_at = Some(sequence.wrapping_add(payload.len() as u32));
        }
        let had = self.expected.wrapping_sub(sequence) as i32;
        if had >= 0 {
            payload.drain(..payload.len().min(had as usize));
        }
        let start = if had >= 0 { self.expected } else { sequence };
        let ahead = start.wrapping_sub(self.expected) as usize;
        if !payload.is_empty() && ahead + payload.len() <= self.room() {
            self.early.insert(start, payload);
        }
        while let Some(octets) = self.next_in_order() {
            self.expected = self.expected.wrapping_add(octets.len() as u32);
            self.unread.extend(octets);
        }
    }

    /// Returns the next octets in order, if they have arrived.
    fn next_in_order(&mut self) -> Option<Vec<u8>> {
        let expected = self.expected;
        // There are few: a window holds some dozens of segments.
        let starts = self.early.keys().copied();
        let start = starts.into_iter().find(|start| expected.wrapping_sub(*start) as i32 >= 0)?;
        let mut octets = self.early.remove(&start)?;
        let had = expected.wrapping_sub(start) as usize;
        octets.drain(..octets.len().min(had));
        Some(octets)
    }

    /// Reads the received octets for the daemon.
    pub(crate) fn read_on(&mut self, now: Time, welcome: Welcome) -> Wanted {
        let mut wanted = Wanted::default();
        self.read(now, welcome, &mut wanted);
        self.transmit(now, &mut wanted);
        // The window is open again.
        self.acknowledge(&mut wanted);
        wanted
    }

    fn read(&mut self, now: Time, welcome: Welcome, wanted: &mut Wanted) {
        while self.read_one(now, welcome, wanted) {}
        if self.ends_at == Some(self.expected) {
            self.expected = self.expected.wrapping_add(1);
            if self.is_told() {
                let reason = match self.stage {
                    Stage::Open => CloseReason::Ended,
                    _ => CloseReason::Broken,
                };
                wanted.told.push(Told::Closed(reason));
            }
            self.say_goodbye(now, wanted);
        }
    }

    /// Reads the next item that the stage expects; `false` if it is incomplete.
    fn read_one(&mut self, now: Time, welcome: Welcome, wanted: &mut Wanted) -> bool {
        let first = self.unread.first().copied();
        match (self.stage, first) {
            (_, None) | (Stage::Calling | Stage::Called, _) => false,
            (Stage::Silent, Some(HANDSHAKE)) => {
                self.read_record(CLIENT_HELLO) && {
                    self.transport = Transport::Tls;
                    self.be_greeted(now, welcome, wanted);
                    true
                }
            }
            (Stage::Silent, Some(_)) => {
                self.open(wanted);
                true
            }
            (Stage::Hello, Some(ALERT)) => {
                wanted.told.push(Told::Closed(CloseReason::NotAuthenticated));
                self.abort(wanted);
                false
            }
            (Stage::Hello, Some(_)) => {
                self.read_record(SERVER_HELLO) && {
                    self.outgoing.extend(record(HANDSHAKE, CLIENT_FINISHED));
                    self.open(wanted);
                    true
                }
            }
            (Stage::Greeted, Some(_)) => {
                self.read_record(CLIENT_FINISHED) && {
                    self.open(wanted);
                    true
                }
            }
            (Stage::Open, Some(_)) => {
                wanted.told.push(Told::Data(mem::take(&mut self.unread)));
                false
            }
            (Stage::Over, Some(_)) => {
                self.unread.clear();
                false
            }
        }
    }

    /// Reads a TLS record, if it is complete.
    fn read_record(&mut self, length: usize) -> bool {
        let whole = self.unread.len() >= length;
        if whole {
            self.unread.drain(..length);
        }
        whole
    }

    /// Handles the start of TLS by the other end.
    fn be_greeted(&mut self, now: Time, welcome: Welcome, wanted: &mut Wanted) {
        if welcome == Welcome::Everybody {
            self.stage = Stage::Greeted;
            self.outgoing.extend(record(HANDSHAKE, SERVER_HELLO));
        } else {
            self.outgoing.extend(record(ALERT, 7));
            self.say_goodbye(now, wanted);
        }
    }

    fn open(&mut self, wanted: &mut Wanted) {
        self.stage = Stage::Open;
        self.outgoing.extend(mem::take(&mut self.waiting));
        wanted.told.push(Told::Open(self.transport));
    }
}

/// Returns a record of TLS 1.2 or 1.3 with `length` octets, the header included.
fn record(content: u8, length: usize) -> Vec<u8> {
    let mut octets = vec![0; length];
    let [high, low] = ((length - 5) as u16).to_be_bytes();
    for (octet, value) in octets.iter_mut().zip([content, 3, 3, high, low]) {
        *octet = value;
    }
    octets
}
