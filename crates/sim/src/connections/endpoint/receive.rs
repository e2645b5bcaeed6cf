//! Receiving segments: their octets are put in order, and read in order.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use earmark_core::{CloseReason, Time, Transport};

use super::super::segment::{Segment, flag};
use super::{
    ALERT, AcceptPolicy, CLIENT_FINISHED, CLIENT_HELLO, ConnectionEvent, Endpoint, EndpointOutput,
    HANDSHAKE, SERVER_HELLO, Stage, WINDOW,
};

impl Endpoint {
    /// Returns the free octets of the receive buffer.
    pub(crate) fn room(&self) -> usize {
        WINDOW - self.unread.len().min(WINDOW)
    }

    /// Handles a segment. `reads`: whether the daemon reads; `accept_policy`: the callers that are accepted.
    pub(crate) fn receive(
        &mut self,
        segment: Segment,
        now: Time,
        reads: bool,
        accept_policy: AcceptPolicy,
    ) -> EndpointOutput {
        let mut output = EndpointOutput::default();
        if segment.has(flag::RST) {
            let reason = match self.stage {
                Stage::SynSent => CloseReason::Unreachable,
                _ => CloseReason::Broken,
            };
            if self.notifies_daemon() {
                output.events.push(ConnectionEvent::Closed(reason));
            }
            self.terminate();
            return output;
        }
        if segment.has(flag::SYN) {
            self.receive_syn(&segment, now, &mut output);
            return output;
        }
        self.receive_acknowledgement(&segment, now);
        if self.stage == Stage::SynReceived && self.syn_acknowledged {
            self.stage = Stage::Accepted;
        }
        let is_old = self.expected.wrapping_sub(segment.sequence) as i32 > 0;
        let asks = !segment.payload.is_empty() || segment.has(flag::FIN) || is_old;
        self.reassemble(segment);
        if reads {
            self.read(now, accept_policy, &mut output);
        }
        self.transmit(now, &mut output);
        if asks {
            self.acknowledge(&mut output);
        }
        output
    }

    /// Handles the answer to a SYN, or a repeated SYN.
    fn receive_syn(&mut self, segment: &Segment, now: Time, output: &mut EndpointOutput) {
        if self.stage == Stage::SynSent && segment.has(flag::ACK) {
            self.expected = segment.sequence.wrapping_add(1);
            self.receive_acknowledgement(segment, now);
            if self.transport == Transport::Tls {
                self.stage = Stage::ClientHelloSent;
                self.outgoing.extend(record(HANDSHAKE, CLIENT_HELLO));
            } else {
                self.open(output);
            }
            self.acknowledge(output);
            self.transmit(now, output);
        } else if self.stage == Stage::SynReceived {
            self.next = self.acknowledged;
            self.transmit(now, output);
        } else {
            self.acknowledge(output);
        }
    }

    /// Stores the octets of a segment in order.
    fn reassemble(&mut self, segment: Segment) {
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
            self.out_of_order.insert(start, payload);
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
        let starts = self.out_of_order.keys().copied();
        let start = starts.into_iter().find(|start| expected.wrapping_sub(*start) as i32 >= 0)?;
        let mut octets = self.out_of_order.remove(&start)?;
        let had = expected.wrapping_sub(start) as usize;
        octets.drain(..octets.len().min(had));
        Some(octets)
    }

    /// Reads the received octets for the daemon.
    pub(crate) fn resume_reading(
        &mut self,
        now: Time,
        accept_policy: AcceptPolicy,
    ) -> EndpointOutput {
        let mut output = EndpointOutput::default();
        self.read(now, accept_policy, &mut output);
        self.transmit(now, &mut output);
        // The window is open again.
        self.acknowledge(&mut output);
        output
    }

    fn read(&mut self, now: Time, accept_policy: AcceptPolicy, output: &mut EndpointOutput) {
        while self.read_one(now, accept_policy, output) {}
        if self.ends_at == Some(self.expected) {
            self.expected = self.expected.wrapping_add(1);
            if self.notifies_daemon() {
                let reason = match self.stage {
                    Stage::Open => CloseReason::Ended,
                    _ => CloseReason::Broken,
                };
                output.events.push(ConnectionEvent::Closed(reason));
            }
            self.finish(now, output);
        }
    }

    /// Reads the next item that the stage expects; `false` if it is incomplete.
    fn read_one(
        &mut self,
        now: Time,
        accept_policy: AcceptPolicy,
        output: &mut EndpointOutput,
    ) -> bool {
        let first = self.unread.first().copied();
        match (self.stage, first) {
            (_, None) | (Stage::SynSent | Stage::SynReceived, _) => false,
            (Stage::Accepted, Some(HANDSHAKE)) => {
                self.read_record(CLIENT_HELLO) && {
                    self.transport = Transport::Tls;
                    self.answer_client_hello(now, accept_policy, output);
                    true
                }
            }
            (Stage::Accepted, Some(_)) => {
                self.open(output);
                true
            }
            (Stage::ClientHelloSent, Some(ALERT)) => {
                output.events.push(ConnectionEvent::Closed(CloseReason::NotAuthenticated));
                self.abort(output);
                false
            }
            (Stage::ClientHelloSent, Some(_)) => {
                self.read_record(SERVER_HELLO) && {
                    self.outgoing.extend(record(HANDSHAKE, CLIENT_FINISHED));
                    self.open(output);
                    true
                }
            }
            (Stage::ServerHelloSent, Some(_)) => {
                self.read_record(CLIENT_FINISHED) && {
                    self.open(output);
                    true
                }
            }
            (Stage::Open, Some(_)) => {
                output.events.push(ConnectionEvent::Data(mem::take(&mut self.unread)));
                false
            }
            (Stage::Closed, Some(_)) => {
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
    fn answer_client_hello(
        &mut self,
        now: Time,
        accept_policy: AcceptPolicy,
        output: &mut EndpointOutput,
    ) {
        if accept_policy == AcceptPolicy::Everyone {
            self.stage = Stage::ServerHelloSent;
            self.outgoing.extend(record(HANDSHAKE, SERVER_HELLO));
        } else {
            self.outgoing.extend(record(ALERT, 7));
            self.finish(now, output);
        }
    }

    fn open(&mut self, output: &mut EndpointOutput) {
        self.stage = Stage::Open;
        self.outgoing.extend(mem::take(&mut self.waiting));
        output.events.push(ConnectionEvent::Open(self.transport));
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
