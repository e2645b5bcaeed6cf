//! Published figures of other engines, or measurements of public engines, for comparison.
//!
//! The figures come from other machines and other programs, without intervals; they show the order of magnitude, and do not rank
//! engines by percentages.

use serde::Serialize;

/// A figure of another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Published {
    /// Name of the engine.
    pub engine: &'static str,
    /// Name of the quantity.
    pub what: &'static str,
    /// Value with its unit.
    pub figure: &'static str,
}

/// An engine and where it comes from.
const KOM: &str = "KOM RSVP 3.0f (C++, 2004)";

/// Implementation of the University of Göttingen, as *Overhead and Performance Study of GIST* describes and measures
/// it.
const GOETTINGEN: &str = "GIST of Göttingen (C++, 2005); Via Eden 533 MHz, 256 MB, Linux 2.6.8";

/// Resident sessions of GIST, refreshed every 30 s and 180 s: Figures 8 to 10 of *Overhead and Performance Study of
/// GIST*. The sessions are those of Ping, without application state.
pub const GIST_RESIDENT: [Published; 5] = [
    Published {
        engine: GOETTINGEN,
        what: "processor with 60 000 sessions, without an application's state (Figure 8)",
        figure: "C-mode 70 %, D-mode 71 %; version 0.5.2, D-mode 75 %",
    },
    Published {
        engine: GOETTINGEN,
        what: "memory of a session, GIST alone (Figure 9)",
        figure: "2.4 kB",
    },
    Published {
        engine: GOETTINGEN,
        what: "round trip over one hop (Figure 10)",
        figure: "4.8 to 5.2 ms below 50 000 sessions, 56.2 ms at 55 000, 7.0 s at 60 000",
    },
    Published {
        engine: GOETTINGEN,
        what: "a Data message at an intermediate node",
        figure: "1.1 ms with 20 000 sessions, 20 ms with 60 000",
    },
    Published {
        engine: "KOM RSVP, on the same machine",
        what: "processor with 60 000 sessions (Figure 8)",
        figure: "about 20 %",
    },
];

/// Consecutive set-ups with NSIS.
pub const GIST_SET_UP: [Published; 3] = [
    Published {
        engine: "NSIS-ka 0.98 (C++), QoS NSLP in datagrams",
        what: "one after the other over two hops",
        figure: "409/s, p50 2.39 ms, p99 3.59 ms",
    },
    Published {
        engine: "NSIS-ka 0.98 (C++), QoS NSLP in datagrams",
        what: "in transit, a session",
        figure: "1.47 ms of processor, 17.9 KB",
    },
    Published {
        engine: GOETTINGEN,
        what: "first round trip, D-mode, or C-mode where the association exists",
        figure: "3 to 5 ms",
    },
];

/// Resident sessions.
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

/// Set-ups.
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
