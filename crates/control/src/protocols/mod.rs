//! What belongs to one protocol: its options, and its errors as text.

pub mod boomerang;
pub mod nsis;
pub mod rsvp;
pub mod yessir;

pub use nsis::Ping;
pub use nsis::natfw::{Expose, Open};
pub use rsvp::{StyleName, Trace};
pub use yessir::Statistics;

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

/// Descriptions in the schema of what differs between the protocols.
#[cfg(feature = "schema")]
pub(crate) mod describe {
    pub(crate) const PROTOCOL: &str = "Protocol to reserve with; by default `rsvp`.";
    pub(crate) const ANNOUNCING_PROTOCOL: &str =
        "Protocol by which senders announce themselves; by default `rsvp`.";
    pub(crate) const QUERY: &str = "Whether to query the available rate only. Not for RSVP.";
    pub(crate) const LISTENING_RATE: &str = "Rate to reserve for each sender, with NSIS the largest one; by default the rate that the \
         sender announces.";
}

/// Returns the schemas of the protocols' own options: protocol, request and schema.
#[cfg(feature = "schema")]
pub(crate) fn options(
    generator: &mut schemars::SchemaGenerator,
) -> Vec<(&'static str, &'static str, serde_json::Value)> {
    let mut all = Vec::new();
    let mut add = |protocol, request, schema: schemars::Schema| {
        all.push((protocol, request, schema.to_value()));
    };
    add("rsvp", "reserve", generator.root_schema_for::<rsvp::ReserveOptions>());
    add("rsvp", "listen", generator.root_schema_for::<rsvp::ListenOptions>());
    add("boomerang", "reserve", generator.root_schema_for::<boomerang::ReserveOptions>());
    add("yessir", "reserve", generator.root_schema_for::<yessir::ReserveOptions>());
    add("yessir", "listen", generator.root_schema_for::<yessir::ListenOptions>());
    add("nsis", "reserve", generator.root_schema_for::<nsis::ReserveOptions>());
    add("nsis", "listen", generator.root_schema_for::<nsis::ListenOptions>());
    all
}
