//! Messages written in advance, so that a sender only has to send them.

use std::ops::Range;

use earmark_core::Outgoing;

use super::speaker::{SESSIONS, Speaker, Step};

/// Messages by session and step, each written at its first use, and kept from then on.
#[derive(Default)]
pub(super) struct Prepared {
    octets: Vec<u8>,
    /// Index of each message, by session and step.
    places: Vec<Option<Place>>,
    /// Envelopes: few, each shared by many messages.
    ways: Vec<Outgoing>,
    room: Vec<u8>,
}

/// Octet range of a message, and index of its envelope.
#[derive(Clone, Copy)]
struct Place {
    start: u32,
    length: u16,
    way: u16,
}

impl Prepared {
    /// Writes those of these messages that are not written yet.
    pub(super) fn prepare(
        &mut self,
        speaker: &Speaker,
        numbers: impl Iterator<Item = u32>,
        steps: &[Step],
    ) {
        for number in numbers {
            for &step in steps {
                self.obtain(number, step, |octets| speaker.write(number, step, octets));
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
        if self.places.len() <= slot {
            self.places.resize((slot + 1).next_multiple_of(1 << 16), None);
        }
        let place = match self.places[slot] {
            Some(place) => place,
            None => {
                let way = write(&mut self.room);
                let way = self.ways.iter().position(|known| *known == way).unwrap_or_else(|| {
                    self.ways.push(way);
                    self.ways.len() - 1
                });
                let place = Place {
                    start: self.octets.len() as u32,
                    length: self.room.len() as u16,
                    way: way as u16,
                };
                self.octets.extend_from_slice(&self.room);
                self.places[slot] = Some(place);
                place
            }
        };
        (&self.ways[usize::from(place.way)], &self.octets[place.range()])
    }

    /// Returns a message that was written before.
    pub(super) fn message(&self, number: u32, step: Step) -> (&Outgoing, &[u8]) {
        let place = self.places.get(slot(number, step)).copied().flatten();
        let place = place.expect("whoever sends a message has prepared it");
        (&self.ways[usize::from(place.way)], &self.octets[place.range()])
    }
}

impl Place {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.length)
    }
}

fn slot(number: u32, step: Step) -> usize {
    debug_assert!(number < SESSIONS);
    number as usize * Step::COUNT + step as usize
}

#[cfg(test)]
mod tests {
    use super::super::speaker::{Protocol, tests::speaker};
    use super::*;

    #[test]
    fn prepared_message_equals_the_written_one_and_is_written_once() {
        for protocol in Protocol::ALL {
            let speaker = speaker(protocol);
            let (first, last) = (70_000, SESSIONS - 1);
            let steps = [Step::SetUp, Step::Release];
            let mut prepared = Prepared::default();
            prepared.prepare(&speaker, [first, last].into_iter(), &steps);
            for (number, step) in [(first, steps[0]), (last, steps[1]), (first, steps[1])] {
                let mut octets = Vec::new();
                let way = speaker.write(number, step, &mut octets);
                assert_eq!(prepared.message(number, step), (&way, &octets[..]));
            }
            let length = prepared.octets.len();
            prepared.prepare(&speaker, [first].into_iter(), &steps);
            let (_, kept) = prepared.obtain(last, Step::SetUp, |_| panic!("it was written"));
            assert!(!kept.is_empty());
            assert_eq!(prepared.octets.len(), length);
            assert!(prepared.ways.len() <= 4, "{protocol:?}: {:?}", prepared.ways);
        }
    }
}
