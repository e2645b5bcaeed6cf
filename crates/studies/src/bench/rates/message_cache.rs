//! Messages written in advance, so that a sender only has to send them.

use std::ops::Range;

use earmark_core::Outgoing;

use super::message_writer::{MessageWriter, SESSIONS};
use crate::bench::router::Step;

/// Messages by session and step, each written at its first use, and kept from then on.
#[derive(Default)]
pub(super) struct MessageCache {
    octets: Vec<u8>,
    /// Index of each message, by session and step.
    cached: Vec<Option<CachedMessage>>,
    /// Envelopes: few, each shared by many messages.
    envelopes: Vec<Outgoing>,
    buffer: Vec<u8>,
}

/// Octet range of a message, and index of its envelope.
#[derive(Clone, Copy)]
struct CachedMessage {
    start: u32,
    length: u16,
    envelope: u16,
}

impl MessageCache {
    /// Writes those of these messages that are not written yet.
    pub(super) fn prepare(
        &mut self,
        writer: &MessageWriter,
        numbers: impl Iterator<Item = u32>,
        steps: &[Step],
    ) {
        for number in numbers {
            for &step in steps {
                self.obtain(number, step, |octets| writer.write(number, step, octets));
            }
        }
    }

    /// Returns a message, and writes it at its first use.
    pub(super) fn obtain(
        &mut self,
        number: u32,
        step: Step,
        write: impl FnOnce(&mut Vec<u8>) -> Outgoing,
    ) -> (&Outgoing, &[u8]) {
        let slot = slot(number, step);
        if self.cached.len() <= slot {
            self.cached.resize((slot + 1).next_multiple_of(1 << 16), None);
        }
        let cached = match self.cached[slot] {
            Some(cached) => cached,
            None => {
                let envelope = write(&mut self.buffer);
                let envelope =
                    self.envelopes.iter().position(|known| *known == envelope).unwrap_or_else(
                        || {
                            self.envelopes.push(envelope);
                            self.envelopes.len() - 1
                        },
                    );
                let cached = CachedMessage {
                    start: self.octets.len() as u32,
                    length: self.buffer.len() as u16,
                    envelope: envelope as u16,
                };
                self.octets.extend_from_slice(&self.buffer);
                self.cached[slot] = Some(cached);
                cached
            }
        };
        (&self.envelopes[usize::from(cached.envelope)], &self.octets[cached.range()])
    }

    /// Returns a message that was written before.
    pub(super) fn message(&self, number: u32, step: Step) -> (&Outgoing, &[u8]) {
        let cached = self.cached.get(slot(number, step)).copied().flatten();
        let cached = cached.expect("whoever sends a message has prepared it");
        (&self.envelopes[usize::from(cached.envelope)], &self.octets[cached.range()])
    }
}

impl CachedMessage {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.length)
    }
}

/// Number of different steps.
const STEPS: usize = 3;

fn slot(number: u32, step: Step) -> usize {
    debug_assert!(number < SESSIONS);
    number as usize * STEPS + step as usize
}

#[cfg(test)]
mod tests {
    use super::super::message_writer::tests::writer;
    use super::*;
    use crate::bench::router::Protocol;

    #[test]
    fn cached_message_equals_the_written_one_and_is_written_once() {
        for protocol in Protocol::RESERVING {
            let writer = writer(protocol);
            let (first, last) = (70_000, SESSIONS - 1);
            let steps = [Step::SetUp, Step::Release];
            let mut cache = MessageCache::default();
            cache.prepare(&writer, [first, last].into_iter(), &steps);
            for (number, step) in [(first, steps[0]), (last, steps[1]), (first, steps[1])] {
                let mut octets = Vec::new();
                let envelope = writer.write(number, step, &mut octets);
                assert_eq!(cache.message(number, step), (&envelope, &octets[..]));
            }
            let length = cache.octets.len();
            cache.prepare(&writer, [first].into_iter(), &steps);
            let (_, kept) = cache.obtain(last, Step::SetUp, |_| panic!("it was written"));
            assert!(!kept.is_empty());
            assert_eq!(cache.octets.len(), length);
            assert!(cache.envelopes.len() <= 4, "{protocol:?}: {:?}", cache.envelopes);
        }
    }
}
