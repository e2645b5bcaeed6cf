//! Boomerang's code points. There is no registry: they are those of the 1999 specification draft, and ours where it has
//! none.

/// The first four octets of every message.
pub const MAGIC: u32 = 0x4711_4711;

/// The version of the reservation header.
pub const VERSION: u8 = 1;

code_points! {
    /// Types of message.
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
    /// High nibble of the format: how quality of service is asked for.
    pub enum QosFormat: u8 {
        Bitrate = 0x10 "bitrate",
        IntServ = 0x20 "IntServ",
        Downgrade = 0x30 "downgrade",
    }
}

code_points! {
    /// Types of option.
    pub enum OptionType: u16 {
        UserId = 0x01 "user id and credential",
        Aggregation = 0x02 "aggregation",
        Participation = 0x03 "participation record",
    }
}

/// Bits of the container's flags.
pub mod flag {
    /// Something was refused; the message asks no more, it only finds out what could be had.
    pub const NACK: u16 = 1 << 0;
    /// Nobody shall answer. Named by the drafts for groups; the bit is ours.
    pub const NO_ECHO: u16 = 1 << 1;
}

/// Bits of the aggregation option's flags, all ours.
pub mod aggregation_flag {
    /// The flow of this message leaves the aggregate and needs a reservation of its own again.
    pub const LEAVES: u16 = 1 << 0;
    /// This message is what makes the aggregate larger, so that it has to bear a refusal.
    pub const RAISES: u16 = 1 << 1;
}

/// Bits of the participation record's flags; the option is ours.
pub mod participation_flag {
    /// The last node that has reserved on the outward pass is the far end, or has it on a link.
    pub const FORWARD_ENDS: u16 = 1 << 0;
    /// The far end itself has reserved where its packets leave.
    pub const FAR_END: u16 = 1 << 1;
}
