//! RSVP's code points, from the registry "Resource Reservation Protocol (RSVP) Parameters"
//! (<https://www.iana.org/assignments/rsvp-parameters>).

/// Value of the IPv6 router-alert option in RSVP messages (RFC 2711 section 2.1).
pub const ROUTER_ALERT: u16 = 1;

code_points! {
    /// Message types (registry "Message Types"; RFC 2205 section 3.1.1, RFC 2745,
    /// RFC 2961, RFC 3097, RFC 3209 section 7.1, RFC 3473 section 13.1, RFC 5063 section 8).
    pub enum MessageType: u8 {
        Path = 1 "Path",
        Resv = 2 "Resv",
        PathErr = 3 "PathErr",
        ResvErr = 4 "ResvErr",
        PathTear = 5 "PathTear",
        ResvTear = 6 "ResvTear",
        ResvConf = 7 "ResvConf",
        Dreq = 8 "DREQ",
        Drep = 9 "DREP",
        Bundle = 12 "Bundle",
        Ack = 13 "Ack",
        Srefresh = 15 "Srefresh",
        Hello = 20 "Hello",
        Notify = 21 "Notify",
        IntegrityChallenge = 25 "Integrity Challenge",
        IntegrityResponse = 26 "Integrity Response",
        RecoveryPath = 30 "RecoveryPath",
    }
}

code_points! {
    /// Object classes (registry "Class Names, Class Numbers, and Class Types"; RFC 2205 appendix A, RFC 2745, RFC 2747,
    /// RFC 2961, RFC 2996, RFC 3209 section 7.2, RFC 3473 section 13.1, RFC 4860 section 7, RFC 5063 section 8).
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
        Diagnostic = 30 "DIAGNOSTIC",
        Route = 31 "ROUTE",
        DiagResponse = 32 "DIAG_RESPONSE",
        DiagSelect = 33 "DIAG_SELECT",
        Challenge = 64 "CHALLENGE",
        RestartCap = 131 "RESTART_CAP",
        SessionOfInterest = 132 "SESSION-OF-INTEREST",
        Capability = 134 "CAPABILITY",
        NotifyRequest = 195 "NOTIFY_REQUEST",
        DClass = 225 "DCLASS",
    }
}

code_points! {
    /// Error codes of ERROR_SPEC (registry "Error Codes and Globally-Defined Error Value Sub-Codes"; RFC 2205
    /// appendix B, RFC 3209 section 7.3, RFC 3175 section 3.2, RFC 5946 section 6.1).
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
        RoutingProblem = 24 "Routing Problem",
        NotifyError = 25 "Notify Error",
        NewAggregateNeeded = 26 "New aggregate needed",
        ReceiverProxyError = 36 "Unrecoverable Receiver Proxy Error",
    }
}

/// C-Types (registry "Class Names, Class Numbers, and Class Types"; RFC 2205 appendix A).
pub mod c_type {
    /// Objects with IPv4 addresses.
    pub const IPV4: u8 = 1;
    /// Objects with IPv6 addresses.
    pub const IPV6: u8 = 2;
    /// FILTER_SPEC and SENDER_TEMPLATE with a flow label instead of a port.
    pub const IPV6_FLOW_LABEL: u8 = 3;
    /// IPv4/GPI SESSION (RFC 2207 section 3.1).
    pub const SESSION_IPV4_GPI: u8 = 3;
    /// IPv6/GPI SESSION.
    pub const SESSION_IPV6_GPI: u8 = 4;
    /// IPv4/GPI FILTER_SPEC and SENDER_TEMPLATE (RFC 2207 sections 3.2 and 3.3).
    pub const SENDER_IPV4_GPI: u8 = 4;
    /// IPv6/GPI FILTER_SPEC and SENDER_TEMPLATE.
    pub const SENDER_IPV6_GPI: u8 = 5;
    /// RSVP-AGGREGATE-IP4 SESSION, FILTER_SPEC and SENDER_TEMPLATE (RFC 3175 section 6).
    pub const AGGREGATE_IPV4: u8 = 9;
    /// RSVP-AGGREGATE-IP6 SESSION, FILTER_SPEC and SENDER_TEMPLATE.
    pub const AGGREGATE_IPV6: u8 = 10;
    /// GENERIC-AGGREGATE-IP4 SESSION (RFC 4860 section 7).
    pub const GENERIC_AGGREGATE_IPV4: u8 = 17;
    /// GENERIC-AGGREGATE-IP6 SESSION.
    pub const GENERIC_AGGREGATE_IPV6: u8 = 18;
    /// INTEGRITY with a keyed message digest.
    pub const INTEGRITY: u8 = 1;
    /// TIME_VALUES.
    pub const TIME_VALUES: u8 = 1;
    /// STYLE.
    pub const STYLE: u8 = 1;
    /// FLOWSPEC, SENDER_TSPEC and ADSPEC in the format of RFC 2210.
    pub const INTSERV: u8 = 2;
    /// HELLO REQUEST.
    pub const HELLO_REQUEST: u8 = 1;
    /// HELLO ACK.
    pub const HELLO_ACK: u8 = 2;
    /// RESTART_CAP.
    pub const RESTART_CAP: u8 = 1;
    /// CAPABILITY.
    pub const CAPABILITY: u8 = 1;
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
    /// DIAG_SELECT.
    pub const DIAG_SELECT: u8 = 1;
    /// POLICY_DATA in the format of RFC 2750.
    pub const POLICY_DATA: u8 = 1;
    /// DCLASS.
    pub const DCLASS: u8 = 1;
}

code_points! {
    /// Globally defined error values of [`ErrorCode::AdmissionControlFailure`] (RFC 2205 appendix B).
    pub enum AdmissionControlError: u16 {
        DelayBoundCannotBeMet = 1 "Delay bound cannot be met",
        BandwidthUnavailable = 2 "Requested bandwidth unavailable",
        MtuTooLarge = 3 "MTU in flowspec larger than interface MTU",
    }
}

code_points! {
    /// Globally defined error values of [`ErrorCode::TrafficControlError`] (RFC 2205 appendix B).
    pub enum TrafficControlError: u16 {
        ServiceConflict = 1 "Service conflict",
        ServiceUnsupported = 2 "Service unsupported",
        BadFlowspec = 3 "Bad Flowspec value",
        BadTspec = 4 "Bad Tspec value",
        BadAdspec = 5 "Bad Adspec value",
    }
}

code_points! {
    /// Error values of [`ErrorCode::PolicyControlFailure`] (RFC 2750 appendix A, RFC 4495 section 5.1).
    pub enum PolicyControlError: u16 {
        Information = 0 "Information reporting",
        Warning = 1 "Warning",
        ReasonUnknown = 2 "Reason unknown",
        Rejected = 3 "Generic policy rejection",
        QuotaExceeded = 4 "Quota or accounting violation",
        Preempted = 5 "Flow was preempted",
        Expired = 6 "Previously installed policy expired",
        Replaced = 7 "Previous policy data was replaced and caused rejection",
        NotMergeable = 8 "Policies could not be merged",
        DecisionPointDown = 9 "PDP down or non functioning",
        ServerUnavailable = 10 "Third party server unavailable",
        BadPolicyData = 11 "POLICY_DATA object has bad syntax",
        PolicyDataIntegrity = 12 "POLICY_DATA object failed integrity check",
        BadPolicyElement = 13 "Policy element has bad syntax",
        MissingPolicyElement = 14 "Mandatory policy element missing",
        OutOfResources = 15 "PEP out of resources to handle policies",
        BadRsvpObject = 16 "PDP encountered bad RSVP objects or syntax",
        ServiceRejected = 17 "Service type was rejected",
        StyleRejected = 18 "Reservation style was rejected",
        FlowSpecRejected = 19 "Flowspec was rejected (too large)",
        PartiallyPreempted = 102 "Flow was preempted in part",
    }
}

code_points! {
    /// P-Types of policy elements (registry "Policy Data Object Policy Elements"; RFC 3181, 3182, 5946, 6401).
    pub enum PolicyElementType: u16 {
        PreemptionPriority = 1 "PREEMPTION_PRI",
        AuthUser = 2 "AUTH_USER",
        AuthApplication = 3 "AUTH_APP",
        AdmissionPriority = 5 "ADMISSION_PRI",
        ResourcePriority = 6 "APP_RESOURCE_PRI",
        ReceiverProxyControl = 7 "REC_PROXY_CONTROL",
    }
}

code_points! {
    /// Control-Values of REC_PROXY_CONTROL (RFC 5946 section 4.2).
    pub enum ReceiverProxyControl: u8 {
        Needed = 1 "Receiver-Proxy-Needed",
        NotNeeded = 2 "Receiver-Proxy-Not-Needed",
    }
}

code_points! {
    /// Merge strategies of PREEMPTION_PRI and ADMISSION_PRI (RFC 3181 section 4, RFC 6401 section 5.1).
    pub enum MergeStrategy: u8 {
        HighestQos = 1 "Take priority of highest QoS",
        HighestPriority = 2 "Take highest priority",
        ForceError = 3 "Force error on heterogeneous merge",
    }
}

code_points! {
    /// Error codes of PREEMPTION_PRI and ADMISSION_PRI (RFC 3181 section 4, RFC 6401 section 5.1).
    pub enum PreemptionError: u8 {
        NoError = 0 "No error",
        Preemption = 1 "This previously admitted flow was preempted",
        Heterogeneous = 2 "This element encountered heterogeneous merge",
    }
}

code_points! {
    /// A-Types of authentication attributes (RFC 3182 section 3.3).
    pub enum AttributeType: u8 {
        PolicyLocator = 1 "POLICY_LOCATOR",
        Credential = 2 "CREDENTIAL",
        DigitalSignature = 3 "DIGITAL_SIGNATURE",
        PolicyErrorObject = 4 "POLICY_ERROR_OBJECT",
    }
}

code_points! {
    /// SubTypes of [`AttributeType::PolicyLocator`] (RFC 3182 section 3.3.1).
    pub enum LocatorForm: u8 {
        AsciiDn = 1 "ASCII_DN",
        UnicodeDn = 2 "UNICODE_DN",
        AsciiDnEncrypted = 3 "ASCII_DN_ENCRYPT",
        UnicodeDnEncrypted = 4 "UNICODE_DN_ENCRYPT",
    }
}

code_points! {
    /// SubTypes of [`AttributeType::Credential`] (RFC 3182 section 3.3.2).
    pub enum CredentialForm: u8 {
        AsciiId = 1 "ASCII_ID",
        UnicodeId = 2 "UNICODE_ID",
        KerberosTicket = 3 "KERBEROS_TKT",
        X509Certificate = 4 "X509_V3_CERT",
        PgpCertificate = 5 "PGP_CERT",
        // 128 to 255 are for private use (section 8).
        WebToken = 128 "CWT",
    }
}

code_points! {
    /// ErrorValues of [`AttributeType::PolicyErrorObject`] (RFC 3182 section 3.3.4).
    pub enum IdentityError: u16 {
        NoMoreInfo = 1 "ERROR_NO_MORE_INFO",
        UnsupportedCredentialType = 2 "UNSUPPORTED_CREDENTIAL_TYPE",
        InsufficientPrivileges = 3 "INSUFFICIENT_PRIVILEGES",
        ExpiredCredential = 4 "EXPIRED_CREDENTIAL",
        IdentityChanged = 5 "IDENTITY_CHANGED",
    }
}

/// Bits of the error values of [`ErrorCode::AdmissionControlFailure`], [`ErrorCode::ServicePreempted`] and
/// [`ErrorCode::TrafficControlError`]: `ssur cccc cccc cccc` (RFC 2205 appendix B).
pub mod error_value {
    /// ss: origin of the sub-code; zero for a globally defined one.
    pub const DEFINED_BY: u16 = 0xc000;
    /// ss of a sub-code defined by an organization.
    pub const BY_ORGANIZATION: u16 = 0x8000;
    /// ss of a sub-code defined by a service.
    pub const BY_SERVICE: u16 = 0xc000;
    /// u: the message is informational; state may be updated and the message forwarded.
    pub const INFORMATIONAL: u16 = 0x2000;
    /// c: sub-code.
    pub const SUB_CODE: u16 = 0x0fff;
}
