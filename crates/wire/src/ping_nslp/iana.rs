//! Numbers of Ping NSLP. There is no registry: they are those of the 2005 draft, and ours where it has none.

/// The application, from the range for private use (RFC 5971 section 9).
pub const NSLPID: u16 = 32_704;

code_points! {
    /// What nodes append.
    pub enum ObjectType: u16 {
        Address = 1 "IP address",
        Timestamp = 2 "timestamp",
        Bandwidth = 0xff01 "available bandwidth",
    }
}

impl ObjectType {
    /// Octets of one in a record; `None` where that is not fixed.
    pub const fn fixed_len(self) -> Option<u16> {
        match self {
            ObjectType::Address => Some(16),
            ObjectType::Timestamp | ObjectType::Bandwidth => Some(8),
            ObjectType::Unknown(_) => None,
        }
    }
}
