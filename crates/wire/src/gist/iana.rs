//! Numbers of GIST: <https://www.iana.org/assignments/gist-parameters>.

/// Magic number at the start of every D-mode datagram (RFC 5971 section 5.3.1).
pub const MAGIC: u32 = 0x4e04_bda5;

/// The supported version.
pub const VERSION: u8 = 1;

/// UDP port of Queries and other Q-mode messages (RFC 5971 section 9).
pub const PORT: u16 = 270;

code_points! {
    /// GIST message types, seven bits (RFC 5971 section 9).
    pub enum MessageType: u8 {
        Query = 0 "Query",
        Response = 1 "Response",
        Confirm = 2 "Confirm",
        Data = 3 "Data",
        Error = 4 "Error",
        Hello = 5 "MA-Hello",
    }
}

code_points! {
    /// Object types, twelve bits (RFC 5971 section 9).
    pub enum ObjectType: u16 {
        MessageRoutingInformation = 0 "Message-Routing-Information",
        SessionId = 1 "Session-Identifier",
        NetworkLayerInformation = 2 "Network-Layer-Information",
        StackProposal = 3 "Stack-Proposal",
        StackConfigurationData = 4 "Stack-Configuration-Data",
        QueryCookie = 5 "Query-Cookie",
        ResponderCookie = 6 "Responder-Cookie",
        NatTraversal = 7 "NAT-Traversal",
        NslpData = 8 "NSLP-Data",
        Error = 9 "Error",
        HelloId = 10 "Hello-ID",
    }
}

/// Object type, one for private use, with which Earmark continues NSLP-Data that are longer than one object; see
/// [`Continuation`](super::Continuation).
pub const NSLP_DATA_CONTINUATION: u16 = 2000;

code_points! {
    /// Message routing methods (RFC 5971 section 9).
    pub enum RoutingMethod: u8 {
        PathCoupled = 0 "Path-Coupled MRM",
        LooseEnd = 1 "Loose-End MRM",
    }
}

code_points! {
    /// Protocols of messaging associations, MA-Protocol-IDs (RFC 5971 section 9, RFC 6084 section 7).
    pub enum ProtocolId: u8 {
        ForwardsTcp = 1 "Forwards-TCP",
        Tls = 2 "TLS",
        ForwardsSctp = 3 "Forwards-SCTP",
        Dtls = 4 "DTLS",
    }
}

code_points! {
    /// Error classes, by severity (RFC 5971 A.4.3).
    pub enum ErrorClass: u8 {
        Informational = 0 "Informational",
        Success = 1 "Success",
        ProtocolError = 2 "Protocol-Error",
        TransientFailure = 3 "Transient-Failure",
        PermanentFailure = 4 "Permanent-Failure",
    }
}

code_points! {
    /// Error codes (RFC 5971 A.4.4).
    pub enum ErrorCode: u16 {
        CommonHeaderParse = 1 "Common Header Parse Error",
        HopLimitExceeded = 2 "Hop Limit Exceeded",
        IncorrectEncapsulation = 3 "Incorrect Encapsulation",
        IncorrectlyDelivered = 4 "Incorrectly Delivered Message",
        NoRoutingState = 5 "No Routing State",
        UnknownNslpid = 6 "Unknown NSLPID",
        EndpointFound = 7 "Endpoint Found",
        MessageTooLarge = 8 "Message Too Large",
        ObjectType = 9 "Object Type Error",
        ObjectValue = 10 "Object Value Error",
        InvalidTtl = 11 "Invalid IP-Layer TTL",
        MriValidation = 12 "MRI Validation Failure",
    }
}

code_points! {
    /// Types of additional information in an error (RFC 5971 A.4.2).
    pub enum InfoType: u16 {
        MessageLength = 1 "Message Length Info",
        Mtu = 2 "MTU Info",
        ObjectType = 3 "Object Type Info",
        ObjectValue = 4 "Object Value Info",
    }
}

/// Error subcodes (RFC 5971 A.4.4). Codes that are not listed have the subcode 0 only.
pub mod subcode {
    /// Subcodes of [`CommonHeaderParse`](super::ErrorCode::CommonHeaderParse).
    pub mod header {
        /// Unknown Version.
        pub const UNKNOWN_VERSION: u8 = 0;
        /// Unknown Type.
        pub const UNKNOWN_TYPE: u8 = 1;
        /// Invalid R-flag.
        pub const INVALID_R_FLAG: u8 = 2;
        /// Incorrect Message Length; the additional information is the total length of the objects.
        pub const INCORRECT_MESSAGE_LENGTH: u8 = 3;
        /// Invalid E-flag.
        pub const INVALID_E_FLAG: u8 = 4;
        /// Invalid C-flag.
        pub const INVALID_C_FLAG: u8 = 5;
    }
    /// Subcodes of [`ObjectType`](super::ErrorCode::ObjectType).
    pub mod object_type {
        /// Duplicate Object.
        pub const DUPLICATE: u8 = 0;
        /// Unrecognised Object.
        pub const UNRECOGNISED: u8 = 1;
        /// Missing Object.
        pub const MISSING: u8 = 2;
        /// Invalid Object Type.
        pub const INVALID: u8 = 3;
        /// Untranslated Object.
        pub const UNTRANSLATED: u8 = 4;
        /// Invalid Extensibility Flags.
        pub const INVALID_EXTENSIBILITY_FLAGS: u8 = 5;
    }
    /// Subcodes of [`ObjectValue`](super::ErrorCode::ObjectValue).
    pub mod object_value {
        /// Incorrect Length.
        pub const INCORRECT_LENGTH: u8 = 0;
        /// Value Not Supported.
        pub const NOT_SUPPORTED: u8 = 1;
        /// Invalid Flag-Field Combination.
        pub const INVALID_COMBINATION: u8 = 2;
        /// Empty List.
        pub const EMPTY_LIST: u8 = 3;
        /// Invalid Cookie.
        pub const INVALID_COOKIE: u8 = 4;
        /// Stack-Proposal - Stack-Configuration-Data Mismatch; the additional information is both objects.
        pub const STACK_MISMATCH: u8 = 5;
    }
    /// Subcodes of [`MriValidation`](super::ErrorCode::MriValidation).
    pub mod mri {
        /// MRI Too Wild.
        pub const TOO_WILD: u8 = 0;
        /// IP Version Mismatch.
        pub const IP_VERSION_MISMATCH: u8 = 1;
        /// Ingress Filter Failure.
        pub const INGRESS_FILTER: u8 = 2;
    }
}

impl ErrorCode {
    /// Returns the class of the code (RFC 5971 A.4.4). Unknown codes are protocol errors.
    pub const fn class(self) -> ErrorClass {
        match self {
            ErrorCode::HopLimitExceeded
            | ErrorCode::UnknownNslpid
            | ErrorCode::EndpointFound
            | ErrorCode::MessageTooLarge
            | ErrorCode::InvalidTtl
            | ErrorCode::MriValidation => ErrorClass::PermanentFailure,
            _ => ErrorClass::ProtocolError,
        }
    }
}

/// Signalling applications: <https://www.iana.org/assignments/nsis-nslp-ids>.
pub mod nslpid {
    use core::ops::RangeInclusive;

    /// GIST's own messages.
    pub const GIST: u16 = 0;
    /// QoS NSLP, one number for each level of aggregation (RFC 5974 section 6).
    pub const QOS: RangeInclusive<u16> = 1..=32;
    /// NAT/firewall NSLP (RFC 5973).
    pub const NATFW: u16 = 33;
    /// Range for private use and experiments (RFC 5971 section 9).
    pub const EXPERIMENTAL: RangeInclusive<u16> = 32704..=32767;
}
