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
pub(crate) struct Writer<'b> {
    buffer: &'b mut [u8],
    at: usize,
}

impl<'b> Writer<'b> {
    #[inline]
    pub(crate) fn new(buffer: &'b mut [u8]) -> Self {
        Writer { buffer, at: 0 }
    }

    /// Appends `octets`.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, octets: [u8; N]) -> Result<(), EmitError> {
        let rest = self.buffer.get_mut(self.at..).ok_or(EmitError::BufferTooShort)?;
        *rest.first_chunk_mut().ok_or(EmitError::BufferTooShort)? = octets;
        self.at += N;
        Ok(())
    }

    /// Appends `octets`.
    #[inline]
    pub(crate) fn put_slice(&mut self, octets: &[u8]) -> Result<(), EmitError> {
        let rest = self.buffer.get_mut(self.at..).ok_or(EmitError::BufferTooShort)?;
        rest.get_mut(..octets.len()).ok_or(EmitError::BufferTooShort)?.copy_from_slice(octets);
        self.at += octets.len();
        Ok(())
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
        self.at
    }

    /// Octets written so far.
    #[inline]
    pub(crate) fn written(&self) -> &[u8] {
        self.buffer.get(..self.at).unwrap_or_default()
    }
}
