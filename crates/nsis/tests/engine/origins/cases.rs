//! The cases of the crossings: protections of a session, messages about it, and where they come from.
#![allow(unreachable_pub)] // a module of one test

use super::{NEXT, PREVIOUS};

/// Transport of the messages of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    Clear,
    Tcp,
    Tls,
}

/// A message about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Refresh,
    Tear,
    Change,
    Notify,
    Response,
    /// The Error "No Routing State".
    LostState,
}

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The peer, over the channel of the session.
    Own,
    OwnExplicit,
    /// Another association with the same peer.
    OtherTcp,
    OtherTcpExplicit,
    OtherTls,
    OtherTlsExplicit,
    /// A datagram with the address and identity of the peer, through its interface.
    Spoofed,
    SpoofedExplicit,
    /// Such a datagram through another interface.
    OtherPort,
    OtherPortExplicit,
    /// Such a datagram that a router has forwarded, so that its TTL is not the largest.
    Forwarded,
    ForwardedExplicit,
    /// A datagram with the identity of the peer in its NLI, from another address.
    StrangerExplicit,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Refresh, Kind::Tear, Kind::Change, Kind::Notify, Kind::Response, Kind::LostState];

    pub fn is_error(self) -> bool {
        self == Kind::LostState
    }

    /// Returns the interface of the victim that leads to the sender.
    pub fn side(self) -> u32 {
        if matches!(self, Kind::Notify | Kind::Response) { NEXT } else { PREVIOUS }
    }
}

impl Origin {
    pub const ALL: [Origin; 13] = [
        Origin::Own,
        Origin::OwnExplicit,
        Origin::OtherTcp,
        Origin::OtherTcpExplicit,
        Origin::OtherTls,
        Origin::OtherTlsExplicit,
        Origin::Spoofed,
        Origin::SpoofedExplicit,
        Origin::OtherPort,
        Origin::OtherPortExplicit,
        Origin::Forwarded,
        Origin::ForwardedExplicit,
        Origin::StrangerExplicit,
    ];

    /// Returns whether the message has the E-flag.
    pub fn is_explicit(self) -> bool {
        use Origin::*;
        matches!(
            self,
            OwnExplicit
                | OtherTcpExplicit
                | OtherTlsExplicit
                | SpoofedExplicit
                | OtherPortExplicit
                | ForwardedExplicit
                | StrangerExplicit
        )
    }

    pub fn needs_tls(self) -> bool {
        matches!(self, Origin::OtherTls | Origin::OtherTlsExplicit)
    }
}
