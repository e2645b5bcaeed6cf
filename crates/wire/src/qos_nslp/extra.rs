//! Objects of unknown types that nodes of QoS NSLP keep (RFC 5974 section 5.1.3), and SESSION_AUTH.

use super::iana::ObjectType;
use crate::nsis::extra::{self, KeptObjects};
use crate::nsis::object::Treatment;

/// Unknown objects that are forwarded, or stored and refreshed, and SESSION_AUTH.
#[derive(Clone, Copy, Debug)]
pub struct Kept;

impl KeptObjects for Kept {
    fn is_kept(object_type: u16, treatment: Treatment) -> bool {
        match ObjectType::from_code(object_type) {
            ObjectType::SessionAuth => true,
            ObjectType::Unknown(_) => matches!(treatment, Treatment::Forward | Treatment::Refresh),
            _ => false,
        }
    }
}

/// The unknown objects of a QoS NSLP message, and its SESSION_AUTH.
pub type Extra<'a> = extra::Extra<'a, Kept>;
