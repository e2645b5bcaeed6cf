//! IPsec: protocols whose packets are found by their SPI (Security Parameters Index).

/// Protocol number of ESP, whose packets begin with the SPI (RFC 4303 section 2).
pub const ESP: u8 = 50;
/// Protocol number of AH, where the SPI follows four other octets (RFC 4302 section 2).
pub const AH: u8 = 51;

/// Returns whether the packets of a protocol have an SPI.
pub const fn has_spi(protocol: u8) -> bool {
    matches!(protocol, ESP | AH)
}
