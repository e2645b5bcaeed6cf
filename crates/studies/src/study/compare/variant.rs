//! Compared protocols, each with its settings.

use super::condition::Condition;

earmark_core::named_enum! {
    /// A protocol with the settings in which it is compared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Variant {
        /// RSVP with refresh reduction (RFC 2961), the daemon's default.
        Rsvp = "rsvp",
        /// RSVP that refreshes each state by a message of its own (RFC 2205).
        PlainRsvp = "rsvp-plain",
        /// Boomerang.
        Boomerang = "boomerang",
        /// YESSIR.
        Yessir = "yessir",
        /// QoS NSLP over GIST, in datagrams.
        Nsis = "nsis",
        /// NATFW NSLP over the same GIST: it reserves nothing, and opens a path through a packet filter in each router.
        Natfw = "natfw",
    }
}

impl Variant {
    /// Returns those that reserve bandwidth, in their order.
    pub(super) fn reserving() -> impl Iterator<Item = Variant> {
        Variant::ALL.into_iter().filter(|variant| variant.reserves())
    }

    /// Returns the name in tables and drawings.
    pub(super) fn title(self) -> &'static str {
        match self {
            Variant::Rsvp => "RSVP",
            Variant::PlainRsvp => "RSVP, RFC 2205",
            Variant::Boomerang => "Boomerang",
            Variant::Yessir => "YESSIR",
            Variant::Nsis => "NSIS",
            Variant::Natfw => "NATFW",
        }
    }

    /// Returns the protocol of its scenarios.
    pub fn protocol(self) -> &'static str {
        match self {
            Variant::Rsvp | Variant::PlainRsvp => "rsvp",
            Variant::Boomerang => "boomerang",
            Variant::Yessir => "yessir",
            Variant::Nsis | Variant::Natfw => "nsis",
        }
    }

    /// Returns the keys of its scenarios beside the protocol.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Variant::PlainRsvp => "refresh_reduction = false\n",
            _ => "",
        }
    }

    /// Returns the key by which its flows ask at their start.
    pub(super) fn request(self) -> &'static str {
        if self.reserves() { "reserves = \"0s\"" } else { "opens = \"0s\"" }
    }

    /// Returns whether it reserves bandwidth. What does not, cannot win.
    pub(super) fn reserves(self) -> bool {
        self != Variant::Natfw
    }

    /// Returns whether it is played under a condition: what is refused or repaired are reservations.
    pub(super) fn has(self, condition: Condition) -> bool {
        let of_all = [Condition::Light, Condition::Loss, Condition::Rush];
        self.reserves() || of_all.contains(&condition)
    }
}
