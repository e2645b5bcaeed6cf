//! SESSION_AUTH objects of this node (RFC 5981), and objects that are kept in wire format.

use alloc::vec;
use alloc::vec::Vec;

use earmark_token::Token;
use earmark_wire::nsis::iana::{EntityIdForm, SESSION_AUTH, XType};
use earmark_wire::nsis::{Attribute, HEADER, Treatment, emit_session_auth, session_auth_len};

/// Appends an object in wire format.
pub(crate) fn keep(kept: &mut Vec<u8>, treatment: Treatment, object_type: u16, value: &[u8]) {
    let words = (value.len() / 4) as u16;
    let flags = match treatment {
        Treatment::Forward => 0x8000,
        _ => 0xc000,
    };
    kept.extend_from_slice(&(flags | object_type).to_be_bytes());
    kept.extend_from_slice(&words.to_be_bytes());
    kept.extend_from_slice(value);
}

/// Returns the SESSION_AUTH object for a token, in wire format.
pub(crate) fn object_of(token: &Token) -> Vec<u8> {
    let issuer = token.claims().map(|claims| claims.issuer);
    // Routers refuse a malformed token, whoever has issued it.
    let issuer = issuer.as_deref().unwrap_or("unknown");
    let attributes = [
        Attribute {
            x_type: XType::AuthEntId,
            sub_type: EntityIdForm::WebToken.code(),
            value: issuer.as_bytes(),
        },
        Attribute { x_type: XType::AuthenticationData, sub_type: 0, value: token.octets() },
    ];
    let mut value = vec![0; session_auth_len(&attributes)];
    let mut object = Vec::with_capacity(HEADER + value.len());
    // A token and the name of an issuer are neither empty nor too long.
    if emit_session_auth(&attributes, &mut value).is_ok() {
        keep(&mut object, Treatment::Forward, SESSION_AUTH, &value);
    }
    object
}
