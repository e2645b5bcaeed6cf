//! The token of a reservation, as state.

use alloc::boxed::Box;

use crate::user::User;
use crate::verify::Verified;

/// Token of a reservation.
#[derive(Clone, Debug)]
pub enum HeldToken {
    /// A token that this node has verified.
    Verified(Verified),
    /// The octets of a token that this node has not read.
    Unread(Box<[u8]>),
}

impl HeldToken {
    /// Returns the token of a granted request; `None` without one.
    pub fn of(token: Option<&[u8]>, verified: Option<Verified>) -> Option<Box<HeldToken>> {
        let unread = || token.map(|token| HeldToken::Unread(token.into()));
        verified.map(HeldToken::Verified).or_else(unread).map(Box::new)
    }

    /// Returns the time until which the reservation lasts at most, seconds since 1970.
    pub fn until(&self) -> Option<u64> {
        match self {
            HeldToken::Verified(verified) => Some(verified.until),
            HeldToken::Unread(_) => None,
        }
    }

    /// Returns the user that the token names.
    pub fn user(&self) -> Option<User> {
        match self {
            HeldToken::Verified(verified) => User::of_token(&[], Some(verified)),
            HeldToken::Unread(token) => User::of_token(token, None),
        }
    }
}
