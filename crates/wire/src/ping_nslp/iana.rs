//! Code points of Ping NSLP. No registry exists: the numbers are those of the 2005 draft; where it has none, our own.

/// NSLPID, from the range for private use (RFC 5971 section 9).
pub const NSLPID: u16 = 32_704;

code_points! {
    /// Types of the objects in a record.
    pub enum ObjectType: u16 {
        Address = 1 "IP address",
        Timestamp = 2 "timestamp",
        Bandwidth = 0xff01 "available bandwidth",
    }
}

impl ObjectType {
    /// Length of an object in a record, octets; `None` if it is not fixed.
    pub const fn fixed_len(self) -> Option<u16> {
        match self {
            ObjectType::Address => Some(16),
            ObjectType::Timestamp | ObjectType::Bandwidth => Some(8),
            ObjectType::Unknown(_) => None,
        }
    }
}
