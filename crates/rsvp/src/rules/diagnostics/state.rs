//! Settings and state of diagnostics.

use earmark_core::random::{RandomStreams, Stream};
use serde::{Deserialize, Serialize};
use slab::Slab;

use super::pending_trace::PendingTrace;

/// Settings of diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whether DREQs of other nodes are answered and forwarded. They change no state, but reveal it (RFC 2745 section
    /// 7).
    pub answer: bool,
    /// Limit of DREQs and DREPs from one interface processed in one second; more are dropped.
    pub per_second: u32,
    /// NTP time of the engine's [`earmark_core::Time::ZERO`]: units of 2^-32 s since 1900 (RFC 5905 section 6). Responses contain the
    /// arrival time of a DREQ in NTP time; with 0, in the engine's time.
    pub ntp_origin: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { answer: true, per_second: 200, ntp_origin: 0 }
    }
}

/// State of diagnostics.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    /// Traces of this node.
    pub(super) tracing: Slab<PendingTrace>,
    /// Random Request IDs, so that other nodes cannot guess them.
    pub(super) ids: Stream,
}

impl Diagnostics {
    pub(crate) fn new(random: &RandomStreams) -> Diagnostics {
        let ids = random.stream("rsvp/diagnostics");
        Diagnostics { tracing: Slab::new(), ids }
    }
}
