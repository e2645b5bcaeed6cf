//! The token of a reservation, as state.

use alloc::boxed::Box;

use crate::user::User;
use crate::verify::Verified;

/// Token of a reservation.
#[derive(Clone, Debug)]
pub struct HeldToken {
    octets: Box<[u8]>,
    /// What it proves; `None` if this node has not read it.
    verified: Option<Verified>,
}

impl HeldToken {
    /// Returns the token of a granted request; `None` without one.
    pub fn of(token: Option<&[u8]>, verified: Option<Verified>) -> Option<Box<HeldToken>> {
        token.map(|token| Box::new(HeldToken { octets: token.into(), verified }))
    }

    /// Returns whether a message has this token.
    #[inline]
    pub fn is(&self, token: Option<&[u8]>) -> bool {
        token == Some(&self.octets)
    }

    /// Returns the time until which the reservation lasts at most, seconds since 1970.
    pub fn until(&self) -> Option<u64> {
        self.verified.as_ref().map(|verified| verified.until)
    }

    /// Returns the user that the token names.
    pub fn user(&self) -> Option<User> {
        User::of_token(&self.octets, self.verified.as_ref())
    }
}
