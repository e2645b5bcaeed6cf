//! Numbers of the QSPEC template: <https://www.iana.org/assignments/qspec-parameters>.

/// The only defined version (RFC 5975 section 7).
pub const VERSION: u8 = 0;

code_points! {
    /// QSPEC types, which identify the QoS model (RFC 5975 section 7); five bits.
    pub enum QspecType: u8 {
        Default = 0 "default",
        Y1541 = 1 "Y.1541-QOSM",
        Rmd = 2 "RMD-QOSM",
    }
}

code_points! {
    /// Message sequences (RFC 5975 section 4.3); four bits.
    pub enum MessageSequence: u8 {
        TwoWay = 0 "sender-initiated reservation",
        ThreeWay = 1 "receiver-initiated reservation",
        ResourceQuery = 2 "resource query",
    }
}

code_points! {
    /// Object types (RFC 5975 section 5.1.2); twelve bits.
    pub enum ObjectType: u16 {
        QosDesired = 0 "QoS Desired",
        QosAvailable = 1 "QoS Available",
        QosReserved = 2 "QoS Reserved",
        MinimumQos = 3 "Minimum QoS",
    }
}

code_points! {
    /// Parameter identifiers (RFC 5975 section 7); twelve bits.
    pub enum ParameterId: u16 {
        Tmod1 = 1 "TMOD-1",
        Tmod2 = 2 "TMOD-2",
        PathLatency = 3 "Path Latency",
        PathJitter = 4 "Path Jitter",
        PathPlr = 5 "Path PLR",
        PathPer = 6 "Path PER",
        SlackTerm = 7 "Slack Term",
        PreemptionPriority = 8 "Preemption Priority and Defending Priority",
        AdmissionPriority = 9 "Admission Priority",
        RphPriority = 10 "RPH Priority",
        ExcessTreatment = 11 "Excess Treatment",
        PhbClass = 12 "PHB Class",
        DsteClassType = 13 "DSTE Class Type",
        Y1541QosClass = 14 "Y.1541 QoS Class",
    }
}

code_points! {
    /// Treatment of traffic that exceeds the TMOD (RFC 5975 section 5.2.11).
    pub enum Excess: u8 {
        Drop = 0 "drop",
        Shape = 1 "shape",
        Remark = 2 "re-mark",
        NoPolicing = 3 "no metering or policing is permitted",
    }
}

code_points! {
    /// Admission priorities of Y.2171, end to end (RFC 5975 section 5.2.9). All ones mean that only the local field
    /// counts.
    pub enum Y2171Priority: u8 {
        BestEffort = 0 "best-effort priority flow",
        Normal = 1 "normal priority flow",
        High = 2 "high priority flow",
        Local = 255 "locally significant",
    }
}

/// Flags of a parameter, in the first octet of its header. An object has only the highest bit, its E flag.
pub mod flag {
    /// M: nodes that do not know the parameter refuse the reservation.
    pub const MANDATORY: u8 = 1 << 7;
    /// E of a parameter: it cannot be satisfied, or it is invalid.
    pub const ERROR: u8 = 1 << 6;
    /// N: a node on the path does not know the parameter.
    pub const NOT_SUPPORTED: u8 = 1 << 5;
    /// E of an object: one of its parameters has the E flag.
    pub const OBJECT_ERROR: u8 = 1 << 7;
}
