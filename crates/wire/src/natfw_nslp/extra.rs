//! Objects of unknown types that nodes of NATFW NSLP keep (RFC 5973 section 4.2), and SESSION_AUTH.

use super::iana::ObjectType;
use crate::nsis::extra::{self, KeptObjects};
use crate::nsis::object::Treatment;

/// Unknown objects that are forwarded, and SESSION_AUTH. AB=11 is forbidden for both.
#[derive(Clone, Copy, Debug)]
pub struct Kept;

impl KeptObjects for Kept {
    fn is_kept(object_type: u16, treatment: Treatment) -> bool {
        match ObjectType::from_code(object_type) {
            ObjectType::SessionAuth => treatment != Treatment::Refresh,
            ObjectType::Unknown(_) => treatment == Treatment::Forward,
            _ => false,
        }
    }
}

/// The unknown objects of a NATFW NSLP message, and its SESSION_AUTH.
pub type Extra<'a> = extra::Extra<'a, Kept>;
