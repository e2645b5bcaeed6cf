//! Code points of our encoding of YESSIR. No registry exists: no public document has YESSIR's packet format, and no
//! other program uses this one.

code_points! {
    /// Types of the fragments in the APP packet.
    pub enum FragmentType: u8 {
        Generic = 1 "GENERIC",
        FlowspecIntserv = 2 "FLOWSPEC_INTSERV",
        FlowspecCodec = 3 "FLOWSPEC_CODEC",
        FlowspecClass = 4 "FLOWSPEC_CLASS",
        FlowspecMeasured = 5 "FLOWSPEC_MEASURED",
        LinkInfo = 6 "LINK_INFO",
        Failure = 7 "FAILURE",
        Auth = 8 "AUTH",
        Token = 9 "TOKEN",
    }
}

code_points! {
    /// Commands of a sender to the routers on the path.
    pub enum Command: u8 {
        Active = 1 "active: reserve",
        Passive = 2 "passive: report only",
        Release = 3 "release: remove the reservation",
    }
}

code_points! {
    /// Sharing among the senders of an RTP session.
    pub enum Style: u8 {
        Individual = 1 "individual: each sender for itself",
        Shared = 2 "shared: all senders of the session together",
    }
}

code_points! {
    /// Reasons why a hop has not reserved.
    pub enum FailureReason: u8 {
        Bandwidth = 1 "not enough bandwidth is left",
        PacketSize = 2 "packets exceed the MTU of the link",
        NotReservable = 3 "the link takes no reservations",
        Limit = 4 "a limit of the node is reached",
        TrafficControl = 5 "traffic control failed",
        Flowspec = 6 "the flowspec has no rate to reserve",
        Preempted = 7 "preempted by a reservation of higher priority",
        Authorization = 8 "no valid token proves a name that may reserve",
    }
}

code_points! {
    /// Address families, from <https://www.iana.org/assignments/address-family-numbers>.
    pub enum AddressFamily: u8 {
        Ipv4 = 1 "IPv4",
        Ipv6 = 2 "IPv6",
    }
}
