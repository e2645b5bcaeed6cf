//! Figures that others have published, or that public engines gave when they were measured, to be shown beside ours.
//!
//! They come from other machines and other programs, one run each; they say of what order a figure is, not who is better
//! by how many percent.

use serde::Serialize;

/// One figure of somebody else's engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Published {
    /// Which engine.
    pub engine: &'static str,
    /// What was measured.
    pub what: &'static str,
    /// What it gave.
    pub figure: &'static str,
}

/// An engine and where it comes from.
const KOM: &str = "KOM RSVP 3.0f (C++, 2004)";

/// Of resident sessions.
pub const RESIDENT: [Published; 3] = [
    Published {
        engine: KOM,
        what: "transit router, 60 000 sessions, R = 30 s, without and with refresh reduction",
        figure: "18.7 % and 13.3 % of a processor (12.2 % idle)",
    },
    Published { engine: KOM, what: "a relayed refresh", figure: "18 us" },
    Published {
        engine: KOM,
        what: "memory in the transit router",
        figure: "6 200 octets a session, over 367 MB",
    },
];

/// Of set-ups.
pub const SET_UP: [Published; 4] = [
    Published {
        engine: KOM,
        what: "10 000 sessions over three nodes, as fast as they go",
        figure: "1.28 s, 7 800/s",
    },
    Published {
        engine: KOM,
        what: "60 000 sessions offered at 4 000/s and 20 000/s",
        figure: "all after 15 s; 35 010, and never more",
    },
    Published {
        engine: "NSIS-ka 0.98 (C++)",
        what: "one after the other over two hops",
        figure: "409/s, p50 2.39 ms, p99 3.59 ms",
    },
    Published {
        engine: "Boomerang (Linux, framework draft of 2000)",
        what: "requests",
        figure: "6 800/s, 120 000 sessions",
    },
];
