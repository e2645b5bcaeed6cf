//! NSIS, the signalling framework of RFC 4080: the wire format that its protocols share.
//!
//! GIST carries the messages of signalling applications, and both consist of the same [objects](object): a header of 32
//! bits with the type, the length and the treatment if the type is unknown, and a value of whole 32-bit words.

pub mod extra;
pub mod iana;
pub mod object;
mod session;
mod session_auth;

pub use extra::{Extra, ExtraObject, KeptObjects};
pub use object::{
    ErrorKind, HEADER, MAXIMUM_VALUE, Object, ObjectError, Objects, Treatment, WORD, objects,
};
pub use session::SessionId;
pub use session_auth::{
    Attribute, SessionAuth, SessionAuthError, SessionAuthErrorKind, emit_session_auth,
    session_auth_len,
};
