//! Numbers of NATFW NSLP: <https://www.iana.org/assignments/nslp-parameters>, and the NSLPID of
//! <https://www.iana.org/assignments/gist-parameters>.

/// The NSLPID (RFC 5973 section 7.5).
pub const NSLPID: u16 = crate::gist::iana::nslpid::NATFW;

/// Value of the router alert option of IPv4 (RFC 5973 section 7.5).
pub const ROUTER_ALERT_V4: u16 = 65;

/// Value of the router alert option of IPv6 (RFC 5973 section 7.5).
pub const ROUTER_ALERT_V6: u16 = 68;

code_points! {
    /// Message types (RFC 5973 section 7.1).
    pub enum MessageType: u8 {
        Create = 1 "CREATE",
        External = 2 "EXTERNAL",
        Response = 3 "RESPONSE",
        Notify = 4 "NOTIFY",
    }
}

code_points! {
    /// Object types, shared by all NSLPs (RFC 5973 section 4.2); twelve bits.
    pub enum ObjectType: u16 {
        Lifetime = 0x00c "NATFW_LT",
        ExternalAddress = 0x00d "NATFW_EXTERNAL_IP",
        ExternalBinding = 0x00e "NATFW_EXTERNAL_BINDING",
        ExtendedFlow = 0x00f "NATFW_EFI",
        Info = 0x010 "NATFW_INFO",
        Nonce = 0x011 "NATFW_NONCE",
        Msn = 0x012 "NATFW_MSN",
        DataTerminal = 0x013 "NATFW_DTINFO",
        IcmpTypes = 0x014 "NATFW_ICMP_TYPES",
        SessionAuth = 0x016 "SESSION_AUTH",
    }
}

code_points! {
    /// Error classes of NATFW_INFO (RFC 5973 section 4.2.5); four bits. 0 is reserved, and 6 belongs to QoS NSLP.
    pub enum ErrorClass: u8 {
        Informational = 1 "informational",
        Success = 2 "success",
        ProtocolError = 3 "protocol error",
        TransientFailure = 4 "transient failure",
        PermanentFailure = 5 "permanent failure",
        SignalingSessionFailure = 7 "signaling session failure",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::Informational`] (RFC 5973 section 4.2.5).
    pub enum Informational: u8 {
        RouteChange = 0x01 "possible route change on the outbound path",
        ReauthenticationRequired = 0x02 "re-authentication required",
        GoingDown = 0x03 "NATFW node is going down soon",
        LifetimeExpired = 0x04 "NATFW signaling session lifetime expired",
        Terminated = 0x05 "NATFW signaling session terminated",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::Success`] (RFC 5973 section 4.2.5).
    pub enum Success: u8 {
        Processed = 0x01 "all successfully processed",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::ProtocolError`] (RFC 5973 section 4.2.5).
    pub enum ProtocolError: u8 {
        IllegalMessageType = 0x01 "illegal message type",
        WrongMessageLength = 0x02 "wrong message length",
        BadFlags = 0x03 "bad flags value",
        MandatoryObjectMissing = 0x04 "mandatory object missing",
        IllegalObjectPresent = 0x05 "illegal object present",
        UnknownObjectPresent = 0x06 "unknown object present",
        WrongObjectLength = 0x07 "wrong object length",
        UnknownFieldValue = 0x08 "unknown object field value",
        InvalidCombination = 0x09 "invalid flag-field combination",
        DuplicateObjectPresent = 0x0a "duplicate object present",
        ExternalOnExternalSide = 0x0b "received EXTERNAL request message on external side",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::TransientFailure`] (RFC 5973 section 4.2.5).
    pub enum TransientFailure: u8 {
        ResourcesUnavailable = 0x01 "requested resources temporarily not available",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::PermanentFailure`] (RFC 5973 section 4.2.5).
    pub enum PermanentFailure: u8 {
        Authentication = 0x01 "authentication failed",
        Authorization = 0x02 "authorization failed",
        System = 0x04 "internal or system error",
        NoEdgeDevice = 0x06 "no edge-device here",
        ResponderNotReached = 0x07 "did not reach the NR",
    }
}

code_points! {
    /// Codes of the class [`ErrorClass::SignalingSessionFailure`] (RFC 5973 section 4.2.5).
    pub enum SignalingSessionFailure: u8 {
        Terminated = 0x01 "session terminated asynchronously",
        LifetimeTooBig = 0x02 "requested lifetime is too big",
        NoReservation = 0x03 "no reservation found matching the MRI of the CREATE request",
        PolicyConflict = 0x04 "requested policy rule denied due to policy conflict",
        UnknownRuleAction = 0x05 "unknown policy rule action",
        RuleActionNotApplicable = 0x06 "requested rule action not applicable",
        DataTerminalRequired = 0x07 "NATFW_DTINFO object is required",
        SubPortsNotPermitted = 0x08 "requested value in sub_ports field in NATFW_EFI not permitted",
        ProtocolNotSupported = 0x09 "requested IP protocol not supported",
        PlainIpNotPermitted = 0x0a "plain IP policy rules not permitted -- need transport layer information",
        IcmpTypeNotPermitted = 0x0b "ICMP type value not permitted",
        SourceRangeTooLarge = 0x0c "source IP address range is too large",
        DestinationRangeTooLarge = 0x0d "destination IP address range is too large",
        SourcePortRangeTooLarge = 0x0e "source L4-port range is too large",
        DestinationPortRangeTooLarge = 0x0f "destination L4-port range is too large",
        LifetimeTooSmall = 0x10 "requested lifetime is too small",
        ModifiedLifetimeTooBig = 0x11 "modified lifetime is too big",
        ModifiedLifetimeTooSmall = 0x12 "modified lifetime is too small",
    }
}

/// Bits of the flags in the header.
pub mod flag {
    /// P: proxy mode (bit 8 of the header).
    pub const PROXY: u8 = 1 << 7;
    /// E: in proxy mode, the edge continues to send the message (bit 9 of the header).
    pub const END_TO_END: u8 = 1 << 6;
}
