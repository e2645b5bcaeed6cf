//! Numbers of QoS NSLP: <https://www.iana.org/assignments/nslp-parameters>, and the NSLPIDs of
//! <https://www.iana.org/assignments/gist-parameters>.

/// The NSLPID of aggregation level 0; the levels to 31 follow it (RFC 5974 section 6.6).
pub const NSLPID: u16 = 1;

/// Number of aggregation levels, each with its own NSLPID.
pub const AGGREGATION_LEVELS: u16 = 32;

code_points! {
    /// Message types (RFC 5974 section 6.1).
    pub enum MessageType: u8 {
        Reserve = 1 "RESERVE",
        Query = 2 "QUERY",
        Response = 3 "RESPONSE",
        Notify = 4 "NOTIFY",
    }
}

code_points! {
    /// Object types, shared by all NSLPs (RFC 5974 section 6.2); twelve bits.
    pub enum ObjectType: u16 {
        Rii = 0x001 "RII",
        Rsn = 0x002 "RSN",
        RefreshPeriod = 0x003 "REFRESH-PERIOD",
        BoundSessionId = 0x004 "BOUND-SESSION-ID",
        PacketClassifier = 0x005 "PACKET-CLASSIFIER",
        InfoSpec = 0x006 "INFO-SPEC",
        SessionIdList = 0x007 "SESSION-ID-LIST",
        RsnList = 0x008 "RSN-LIST",
        MessageId = 0x009 "MSG-ID",
        BoundMessageId = 0x00a "BOUND-MSG-ID",
        Qspec = 0x00b "QSPEC",
        SessionAuth = 0x016 "SESSION_AUTH",
    }
}

code_points! {
    /// Reasons for a binding of two sessions (RFC 5974 section 5.1.3.4).
    pub enum BindingCode: u8 {
        Tunnel = 0x01 "tunnel and end-to-end sessions",
        Bidirectional = 0x02 "bidirectional sessions",
        Aggregate = 0x03 "aggregate sessions",
        Dependent = 0x04 "dependent sessions",
        Preempted = 0x05 "indicated session caused preemption",
    }
}

code_points! {
    /// Severity classes of INFO-SPEC (RFC 5974 section 6.4); four bits.
    pub enum ErrorClass: u8 {
        Informational = 1 "informational",
        Success = 2 "success",
        ProtocolError = 3 "protocol error",
        TransientFailure = 4 "transient failure",
        PermanentFailure = 5 "permanent failure",
        QosModelError = 6 "QoS model error",
        SignalingSessionFailure = 7 "signaling session failure",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::Informational`] (RFC 5974 section 5.1.3.6).
    pub enum Informational: u8 {
        UnknownBoundSessionId = 0x01 "unknown BOUND-SESSION-ID",
        RouteChange = 0x02 "route change",
        ReducedRefreshesNotSupported = 0x03 "reduced refreshes not supported",
        Congestion = 0x04 "congestion situation",
        UnknownSessionId = 0x05 "unknown SESSION-ID in SESSION-ID-LIST",
        MismatchingRsn = 0x06 "mismatching RSN in RSN-LIST",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::Success`] (RFC 5974 section 5.1.3.6).
    pub enum Success: u8 {
        Reservation = 0x01 "reservation successful",
        Teardown = 0x02 "teardown successful",
        Acknowledgement = 0x03 "acknowledgement",
        Refresh = 0x04 "refresh successful",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::ProtocolError`] (RFC 5974 section 5.1.3.6).
    pub enum ProtocolError: u8 {
        IllegalMessageType = 0x01 "illegal message type",
        WrongMessageLength = 0x02 "wrong message length",
        BadGenericFlags = 0x03 "bad flags value in the generic flags",
        BadMessageFlags = 0x04 "bad flags value in the message-specific flags",
        MandatoryObjectMissing = 0x05 "mandatory object missing",
        IllegalObjectPresent = 0x06 "illegal object present",
        UnknownObjectPresent = 0x07 "unknown object present",
        WrongObjectLength = 0x08 "wrong object length",
        WrongDirection = 0x09 "RESERVE received from wrong direction",
        UnknownFieldValue = 0x0a "unknown object field value",
        DuplicateObjectPresent = 0x0b "duplicate object present",
        MalformedQspec = 0x0c "malformed QSPEC",
        UnknownMri = 0x0d "unknown MRI",
        ErroneousValue = 0x0e "erroneous value in the TLV object's value field",
        IncompatibleQspec = 0x0f "incompatible QSPEC",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::TransientFailure`] (RFC 5974 section 5.1.3.6). Preemption is 0x06 as in the
    /// list of codes, and not 0x07 as in section 5.4.4.
    pub enum TransientFailure: u8 {
        NoReversePath = 0x01 "no GIST reverse-path forwarding state",
        NoPathState = 0x02 "no path state for RESERVE",
        RiiConflict = 0x03 "RII conflict",
        FullQspecRequired = 0x04 "full QSPEC required",
        MismatchedSynchronization = 0x05 "mismatch between end-to-end and intra-domain RESERVE",
        Preempted = 0x06 "reservation preempted",
        ReservationFailure = 0x07 "reservation failure",
        PathTruncated = 0x08 "path truncated, next peer dead",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::PermanentFailure`] (RFC 5974 section 5.1.3.6).
    pub enum PermanentFailure: u8 {
        System = 0x01 "internal or system error",
        Authorization = 0x02 "authorization failure",
    }
}

code_points! {
    /// Types of error source identifiers (RFC 5974 section 6.5); four bits. 0 means no identifier.
    pub enum SourceType: u8 {
        Ipv4 = 0x1 "IPv4",
        Ipv6 = 0x2 "IPv6",
        Fqdn = 0x3 "FQDN",
    }
}

/// Bits of the flags in the common header.
pub mod flag {
    /// S: the message is for the next node only.
    pub const SCOPING: u16 = 1 << 0;
    /// P: the message travels as far as the proxy.
    pub const PROXY: u16 = 1 << 1;
    /// A: the peer must acknowledge the message.
    pub const ACK_REQ: u16 = 1 << 2;
    /// B: routers on the path cannot provide QoS.
    pub const BREAK: u16 = 1 << 3;

    /// R of a RESERVE: it replaces the state on the old branch.
    pub const REPLACE: u8 = 1 << 0;
    /// T of a RESERVE: state is removed.
    pub const TEAR: u8 = 1 << 1;
    /// R of a QUERY: the recipient answers with a RESERVE.
    pub const RESERVE_INIT: u8 = 1 << 0;
}
