//! Messages that wait for the acknowledgement of the server, at most so many and so large.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::subject::{Prefix, token};

/// Bounds of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most messages.
    pub messages: usize,
    /// Most octets of subjects and payloads.
    pub octets: usize,
}

/// One message as it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Subject.
    pub subject: String,
    /// Identifier, unique for all time, by which the server recognizes a message that is published again.
    pub id: String,
    /// JSON.
    pub payload: Vec<u8>,
}

impl Message {
    /// Returns the octets that the message counts.
    pub fn octets(&self) -> usize {
        self.subject.len() + self.id.len() + self.payload.len()
    }
}

/// What has been dropped since the last `lost` message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lost {
    /// Events of the daemon, and reports of this program other than `disconnected`.
    events: u64,
    /// Reports that the watch was interrupted.
    interruptions: u64,
    /// Of the events, those that were larger than the server accepts.
    too_large: u64,
    /// Number of the first that was dropped.
    first: u64,
}

/// Messages in the order of their events. Each event has a number; the numbers of dropped events are missing in the stream.
#[derive(Debug)]
pub struct Buffer {
    bounds: Bounds,
    prefix: Prefix,
    /// Identifies the run of this program: numbers begin with 1 in each.
    run: String,
    node: String,
    messages: VecDeque<Message>,
    octets: usize,
    /// Number of the last event.
    sequence: u64,
    lost: Option<Lost>,
    /// All events that were dropped in this run.
    dropped: u64,
}

impl Buffer {
    /// Creates an empty buffer.
    pub fn new(bounds: Bounds, prefix: Prefix, run: String) -> Buffer {
        Buffer {
            bounds,
            prefix,
            run,
            node: String::new(),
            messages: VecDeque::new(),
            octets: 0,
            sequence: 0,
            lost: None,
            dropped: 0,
        }
    }

    /// Sets the name of the node for the messages from now on.
    pub fn set_node(&mut self, node: String) {
        self.node = node;
    }

    /// Adds an event, an object with the members `protocol` and `event`. If there is no room, it is dropped and counted.
    pub fn push(&mut self, time: &str, event: &Value) {
        self.add_lost(time);
        self.sequence += 1;
        let message = self.message(self.sequence, time, event);
        if self.lost.is_some() || !self.has_room(&message) {
            let interruption = event["protocol"] == "export" && event["event"] == "disconnected";
            self.count(self.sequence, interruption);
            return;
        }
        self.add(message);
    }

    /// Returns the message at an index; 0 is the oldest.
    pub fn get(&self, index: usize) -> Option<&Message> {
        self.messages.get(index)
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether no message waits, and no loss is to be told.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.lost.is_none()
    }

    /// Returns the number of events that were dropped in this run.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Removes the oldest message, which the server has acknowledged.
    pub fn acknowledge(&mut self, time: &str) {
        if let Some(message) = self.messages.pop_front() {
            self.octets -= message.octets();
        }
        self.add_lost(time);
    }

    /// Removes the message at an index, which is larger than the server accepts, and counts it as lost.
    pub fn drop_too_large(&mut self, index: usize, time: &str) {
        let Some(message) = self.messages.remove(index) else { return };
        self.octets -= message.octets();
        let number = message.id.rsplit('-').next().and_then(|number| number.parse().ok());
        self.count(number.unwrap_or(self.sequence), false);
        if let Some(lost) = &mut self.lost {
            lost.too_large += 1;
        }
        self.add_lost(time);
    }

    fn count(&mut self, number: u64, interruption: bool) {
        let lost = self.lost.get_or_insert(Lost { first: number, ..Lost::default() });
        lost.first = lost.first.min(number);
        match interruption {
            true => lost.interruptions += 1,
            false => lost.events += 1,
        }
        self.dropped += 1;
    }

    fn has_room(&self, message: &Message) -> bool {
        self.messages.len() < self.bounds.messages
            && self.octets + message.octets() <= self.bounds.octets
    }

    /// Adds the `lost` message once a quarter of the buffer is free, so that a loss is one message and not every other one.
    fn add_lost(&mut self, time: &str) {
        let free = |used: usize, bound: usize| used <= bound - bound.div_ceil(4);
        if !free(self.messages.len(), self.bounds.messages)
            || !free(self.octets, self.bounds.octets)
        {
            return;
        }
        let Some(lost) = self.lost.take() else { return };
        self.sequence += 1;
        let text = match lost.events {
            1 => "1 event was lost".to_owned(),
            events => format!("{events} events were lost"),
        };
        let event = json!({
            "protocol": "export",
            "event": "lost",
            "text": text,
            "events": lost.events,
            "too_large": lost.too_large,
            "interruptions": lost.interruptions,
            "first_sequence": lost.first,
        });
        let message = self.message(self.sequence, time, &event);
        self.add(message);
    }

    fn add(&mut self, message: Message) {
        self.octets += message.octets();
        self.messages.push_back(message);
    }

    fn message(&self, sequence: u64, time: &str, event: &Value) -> Message {
        let name = |key: &str| event[key].as_str().unwrap_or_default();
        let subject = self.prefix.subject(&self.node, name("protocol"), name("event"));
        let id = format!("{}-{}-{sequence}", token(&self.node), self.run);
        let payload = json!({
            "node": self.node,
            "time": time,
            "run": self.run,
            "sequence": sequence,
            "event": event,
        });
        Message { subject, id, payload: payload.to_string().into_bytes() }
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
