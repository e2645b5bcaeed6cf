//! What belongs to one protocol: its options, and its errors as text.

pub mod boomerang;
pub mod nsis;
pub mod rsvp;
pub mod yessir;

/// IP protocol number of UDP.
pub(crate) fn udp() -> u8 {
    17
}

pub(crate) fn default_burst() -> u32 {
    10_000
}

pub(crate) fn default_max_packet() -> u32 {
    1_500
}

pub(crate) fn default_ttl() -> u8 {
    64
}

pub(crate) fn default_min_packet() -> u32 {
    64
}

pub(crate) fn default_protocol() -> String {
    "rsvp".to_owned()
}
