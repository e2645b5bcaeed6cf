//! RSVP's code points, from the registry "Resource Reservation Protocol (RSVP) Parameters"
//! (<https://www.iana.org/assignments/rsvp-parameters>).

code_points! {
    /// Message types (registry "Message Types"; RFC 2205 section 3.1.1, RFC 2961, RFC 3097, RFC 3209 section 7.1).
    pub enum MessageType: u8 {
        Path = 1 "Path",
        Resv = 2 "Resv",
        PathErr = 3 "PathErr",
        ResvErr = 4 "ResvErr",
        PathTear = 5 "PathTear",
        ResvTear = 6 "ResvTear",
        ResvConf = 7 "ResvConf",
        Bundle = 12 "Bundle",
        Ack = 13 "Ack",
        Srefresh = 15 "Srefresh",
        Hello = 20 "Hello",
        IntegrityChallenge = 25 "Integrity Challenge",
        IntegrityResponse = 26 "Integrity Response",
    }
}

code_points! {
    /// Object classes (registry "Class Names, Class Numbers, and Class Types"; RFC 2205 appendix A, RFC 2747, RFC 2961,
    /// RFC 3209 section 7.2).
    pub enum ObjectClass: u8 {
        Null = 0 "NULL",
        Session = 1 "SESSION",
        RsvpHop = 3 "RSVP_HOP",
        Integrity = 4 "INTEGRITY",
        TimeValues = 5 "TIME_VALUES",
        ErrorSpec = 6 "ERROR_SPEC",
        Scope = 7 "SCOPE",
        Style = 8 "STYLE",
        FlowSpec = 9 "FLOWSPEC",
        FilterSpec = 10 "FILTER_SPEC",
        SenderTemplate = 11 "SENDER_TEMPLATE",
        SenderTspec = 12 "SENDER_TSPEC",
        Adspec = 13 "ADSPEC",
        PolicyData = 14 "POLICY_DATA",
        ResvConfirm = 15 "RESV_CONFIRM",
        Hello = 22 "HELLO",
        MessageId = 23 "MESSAGE_ID",
        MessageIdAck = 24 "MESSAGE_ID_ACK",
        MessageIdList = 25 "MESSAGE_ID_LIST",
        Challenge = 64 "CHALLENGE",
    }
}

code_points! {
    /// Error codes of ERROR_SPEC (registry "Error Codes and Globally-Defined Error Value Sub-Codes"; RFC 2205
    /// appendix B).
    pub enum ErrorCode: u8 {
        Confirmation = 0 "Confirmation",
        AdmissionControlFailure = 1 "Admission Control Failure",
        PolicyControlFailure = 2 "Policy Control Failure",
        NoPathInformation = 3 "No path information for this Resv message",
        NoSenderInformation = 4 "No sender information for this Resv message",
        ConflictingStyle = 5 "Conflicting reservation style",
        UnknownStyle = 6 "Unknown reservation style",
        ConflictingDestPorts = 7 "Conflicting dest ports",
        ConflictingSenderPorts = 8 "Conflicting sender ports",
        ServicePreempted = 12 "Service preempted",
        UnknownObjectClass = 13 "Unknown object class",
        UnknownObjectCType = 14 "Unknown object C-Type",
        ReservedForApi = 20 "Reserved for API",
        TrafficControlError = 21 "Traffic Control Error",
        TrafficControlSystemError = 22 "Traffic Control System error",
        RsvpSystemError = 23 "RSVP System error",
    }
}

/// C-Types (registry "Class Names, Class Numbers, and Class Types"; RFC 2205 appendix A).
pub mod c_type {
    /// Every object that holds IPv4 addresses.
    pub const IPV4: u8 = 1;
    /// Every object that holds IPv6 addresses.
    pub const IPV6: u8 = 2;
    /// FILTER_SPEC and SENDER_TEMPLATE with a flow label instead of a port.
    pub const IPV6_FLOW_LABEL: u8 = 3;
    /// INTEGRITY with a keyed message digest.
    pub const INTEGRITY: u8 = 1;
    /// TIME_VALUES.
    pub const TIME_VALUES: u8 = 1;
    /// STYLE.
    pub const STYLE: u8 = 1;
    /// FLOWSPEC, SENDER_TSPEC and ADSPEC as RFC 2210 fills them.
    pub const INTSERV: u8 = 2;
    /// HELLO REQUEST.
    pub const HELLO_REQUEST: u8 = 1;
    /// HELLO ACK.
    pub const HELLO_ACK: u8 = 2;
    /// MESSAGE_ID.
    pub const MESSAGE_ID: u8 = 1;
    /// MESSAGE_ID_ACK.
    pub const MESSAGE_ID_ACK: u8 = 1;
    /// MESSAGE_ID_NACK, of the same class.
    pub const MESSAGE_ID_NACK: u8 = 2;
    /// MESSAGE_ID LIST.
    pub const MESSAGE_ID_LIST: u8 = 1;
    /// IPv4/MESSAGE_ID SRC_LIST.
    pub const SRC_LIST_IPV4: u8 = 2;
    /// IPv6/MESSAGE_ID SRC_LIST.
    pub const SRC_LIST_IPV6: u8 = 3;
    /// IPv4/MESSAGE_ID MCAST_LIST.
    pub const MCAST_LIST_IPV4: u8 = 4;
    /// IPv6/MESSAGE_ID MCAST_LIST.
    pub const MCAST_LIST_IPV6: u8 = 5;
    /// CHALLENGE.
    pub const CHALLENGE: u8 = 1;
}

code_points! {
    /// Error values of [`ErrorCode::AdmissionControlFailure`], globally defined ones (RFC 2205 appendix B).
    pub enum AdmissionControlError: u16 {
        DelayBoundCannotBeMet = 1 "Delay bound cannot be met",
        BandwidthUnavailable = 2 "Requested bandwidth unavailable",
        MtuTooLarge = 3 "MTU in flowspec larger than interface MTU",
    }
}

code_points! {
    /// Error values of [`ErrorCode::TrafficControlError`], globally defined ones (RFC 2205 appendix B).
    pub enum TrafficControlError: u16 {
        ServiceConflict = 1 "Service conflict",
        ServiceUnsupported = 2 "Service unsupported",
        BadFlowspec = 3 "Bad Flowspec value",
        BadTspec = 4 "Bad Tspec value",
        BadAdspec = 5 "Bad Adspec value",
    }
}

/// The bits of error values of [`ErrorCode::AdmissionControlFailure`], [`ErrorCode::ServicePreempted`] and
/// [`ErrorCode::TrafficControlError`]: `ssur cccc cccc cccc` (RFC 2205 appendix B).
pub mod error_value {
    /// ss: who defined the sub-code; zero for a global one.
    pub const DEFINED_BY: u16 = 0xc000;
    /// ss of an organization's own sub-code.
    pub const BY_ORGANIZATION: u16 = 0x8000;
    /// ss of a service's own sub-code.
    pub const BY_SERVICE: u16 = 0xc000;
    /// u: the message only informs; state may be updated and the message forwarded.
    pub const INFORMATIONAL: u16 = 0x2000;
    /// c: the sub-code itself.
    pub const SUB_CODE: u16 = 0x0fff;
}
