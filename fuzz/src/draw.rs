//! Values drawn from the octets of the fuzzer, front to back; behind their end everything is zero.

/// The octets that are left.
#[derive(Debug)]
pub struct Draw<'a>(&'a [u8]);

impl<'a> Draw<'a> {
    pub fn new(octets: &'a [u8]) -> Draw<'a> {
        Draw(octets)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes up to `count` octets.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn octet(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    pub fn flag(&mut self) -> bool {
        self.octet() & 1 == 1
    }

    /// Draws a number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.octet()) % end
    }

    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    pub fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| value(self))
    }

    /// Draws a list of up to `most` values.
    pub fn list<T>(&mut self, most: usize, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| value(self)).collect()
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes([self.octet(), self.octet(), self.octet(), self.octet()])
    }
}
