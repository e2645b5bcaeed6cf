//! Code points of Boomerang. No registry exists: the numbers are those of the 1999 specification draft; where it has
//! none, our own.

/// The first four octets of every message.
pub const MAGIC: u32 = 0x4711_4711;

/// Version of the reservation header.
pub const VERSION: u8 = 1;

code_points! {
    /// Message types.
    pub enum MessageType: u8 {
        Reservation = 0x10 "reservation",
        DsMarker = 0x20 "DS marker set-up",
    }
}

code_points! {
    /// Low nibble of the format: the address family of classifier and mask.
    pub enum AddressFamily: u8 {
        Ipv4 = 0x2 "IPv4",
        Ipv6 = 0xa "IPv6",
    }
}

code_points! {
    /// High nibble of the format: the QoS format.
    pub enum QosFormat: u8 {
        Bitrate = 0x10 "bitrate",
        IntServ = 0x20 "IntServ",
        Downgrade = 0x30 "downgrade",
    }
}

code_points! {
    /// Option types.
    pub enum OptionType: u16 {
        UserId = 0x01 "user id and credential",
        Aggregation = 0x02 "aggregation",
        Participation = 0x03 "participation record",
        Token = 0x04 "token",
    }
}

/// Flag bits of the container header.
pub mod flag {
    /// A node refused the request. From there on the message requests nothing and only finds out what is available.
    pub const NACK: u16 = 1 << 0;
    /// The message must not be answered. The drafts name the flag for groups; the bit is Earmark's.
    pub const NO_ECHO: u16 = 1 << 1;
}

/// Flag bits of the aggregation option, all of them extensions of Earmark.
pub mod aggregation_flag {
    /// The flow leaves the aggregate and needs a reservation of its own again.
    pub const LEAVES: u16 = 1 << 0;
    /// This message enlarges the aggregate, so that a refusal applies to it.
    pub const RAISES: u16 = 1 << 1;
}

/// Flag bits of the participation record; the option is an extension of Earmark.
pub mod participation_flag {
    /// The last node that has reserved on the outward pass is the far end, or has the far end on a link of its own.
    pub const FORWARD_ENDS: u16 = 1 << 0;
    /// The far end has reserved on its outgoing interface.
    pub const FAR_END: u16 = 1 << 1;
}
