//! A cursor over the buffer of a message. Lack of room is an error, never a panic.

/// Reasons why a value cannot be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The buffer is shorter than `buffer_len()`.
    #[error("the buffer is too short for the message")]
    BufferTooShort,
    /// The length exceeds its length field.
    #[error("the message exceeds its length field")]
    TooLong,
    /// Parts of the value contradict each other, so that receivers would refuse it.
    #[error("parts of the message contradict each other")]
    Contradiction,
}

/// Writer from front to back. Every written octet comes from the caller: old contents of the buffer do not remain in
/// it.
///
/// Positions have 32 bits, more than any message needs. They therefore cannot overflow, and one comparison checks for
/// room.
pub(crate) struct Writer<'b> {
    buffer: &'b mut [u8],
    at: u32,
}

impl<'b> Writer<'b> {
    #[inline]
    pub(crate) fn new(buffer: &'b mut [u8]) -> Self {
        let most = buffer.len().min(u32::MAX as usize);
        Writer { buffer: &mut buffer[..most], at: 0 }
    }

    /// Appends `octets`.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, octets: [u8; N]) -> Result<(), EmitError> {
        self.reserve(N)?.copy_from_slice(&octets);
        Ok(())
    }

    /// Appends numbers in network byte order.
    #[inline]
    pub(crate) fn put_numbers<const N: usize>(
        &mut self,
        numbers: [u32; N],
    ) -> Result<(), EmitError> {
        let room = self.reserve(N * size_of::<u32>())?.as_chunks_mut().0;
        for (octets, number) in room.iter_mut().zip(numbers) {
            *octets = number.to_be_bytes();
        }
        Ok(())
    }

    /// Appends `octets`.
    #[inline]
    pub(crate) fn put_slice(&mut self, octets: &[u8]) -> Result<(), EmitError> {
        self.reserve(octets.len())?.copy_from_slice(octets);
        Ok(())
    }

    /// Reserves the next `len` octets.
    #[inline]
    fn reserve(&mut self, len: usize) -> Result<&mut [u8], EmitError> {
        let start = self.at as usize;
        let end = start.wrapping_add(len);
        let room = self.buffer.get_mut(start..end).ok_or(EmitError::BufferTooShort)?;
        self.at = end as u32; // the end of a buffer, at most
        Ok(room)
    }

    /// Overwrites octets written before, from position `at`.
    #[inline]
    pub(crate) fn patch<const N: usize>(
        &mut self,
        at: usize,
        octets: [u8; N],
    ) -> Result<(), EmitError> {
        let target = self.buffer.get_mut(at..).ok_or(EmitError::BufferTooShort)?;
        *target.first_chunk_mut().ok_or(EmitError::BufferTooShort)? = octets;
        Ok(())
    }

    /// Number of octets written so far.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.at as usize
    }

    /// Returns the octets written so far.
    #[inline]
    pub(crate) fn written(&self) -> &[u8] {
        self.buffer.get(..self.at as usize).unwrap_or_default()
    }
}
