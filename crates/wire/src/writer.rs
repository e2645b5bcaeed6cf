//! A cursor over the buffer that a message is written into; what does not fit is an error, never a panic.

/// Why a value could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The buffer is shorter than `buffer_len()` said it must be.
    #[error("the buffer is too short for the message")]
    BufferTooShort,
    /// The length does not fit the length field of its header.
    #[error("the message is longer than its length field can say")]
    TooLong,
    /// Parts of the value do not go together, so that nobody could read it.
    #[error("parts of the message contradict each other")]
    Contradiction,
}

/// Writes front to back. Every octet of what was written comes from the caller: the buffer's old octets never show.
///
/// A position has 32 bits, more than any message needs: so it is plain that it does not overflow when something is put, and
/// one comparison tells whether there is room.
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
        self.room(N)?.copy_from_slice(&octets);
        Ok(())
    }

    /// Appends numbers, each in network order.
    #[inline]
    pub(crate) fn put_numbers<const N: usize>(
        &mut self,
        numbers: [u32; N],
    ) -> Result<(), EmitError> {
        let room = self.room(N * size_of::<u32>())?.as_chunks_mut().0;
        for (octets, number) in room.iter_mut().zip(numbers) {
            *octets = number.to_be_bytes();
        }
        Ok(())
    }

    /// Appends `octets`.
    #[inline]
    pub(crate) fn put_slice(&mut self, octets: &[u8]) -> Result<(), EmitError> {
        self.room(octets.len())?.copy_from_slice(octets);
        Ok(())
    }

    /// The next `len` octets, to be filled.
    #[inline]
    fn room(&mut self, len: usize) -> Result<&mut [u8], EmitError> {
        let start = self.at as usize;
        let end = start.wrapping_add(len);
        let room = self.buffer.get_mut(start..end).ok_or(EmitError::BufferTooShort)?;
        self.at = end as u32; // the end of a buffer, at most
        Ok(room)
    }

    /// Overwrites what was written at `at`.
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

    /// How many octets were written so far.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.at as usize
    }

    /// Octets written so far.
    #[inline]
    pub(crate) fn written(&self) -> &[u8] {
        self.buffer.get(..self.at as usize).unwrap_or_default()
    }
}
