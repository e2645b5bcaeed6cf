//! Numbers of RTCP: <https://www.iana.org/assignments/rtp-parameters>.

code_points! {
    /// RTCP control packet types (RFC 3550 section 12.1).
    pub enum PacketType: u8 {
        SenderReport = 200 "SR",
        ReceiverReport = 201 "RR",
        SourceDescription = 202 "SDES",
        Goodbye = 203 "BYE",
        Application = 204 "APP",
    }
}

code_points! {
    /// SDES item types (RFC 3550 section 12.2). 0 ends the items of a chunk and is not an item.
    pub enum ItemType: u8 {
        CanonicalName = 1 "CNAME",
        Name = 2 "NAME",
        Email = 3 "EMAIL",
        Phone = 4 "PHONE",
        Location = 5 "LOC",
        Tool = 6 "TOOL",
        Note = 7 "NOTE",
        Private = 8 "PRIV",
    }
}
