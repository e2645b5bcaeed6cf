//! NSIS, the signalling framework of RFC 4080: what its protocols have in common on the wire.
//!
//! GIST carries the messages of signalling applications, and both are made of the same
//! [objects](object): a header of 32 bits that says type, length and what to do where the type is not known, and a
//! value of whole 32-bit words.

pub mod object;
mod session;

pub use object::{
    ErrorKind, HEADER, MAXIMUM_VALUE, Object, ObjectError, Objects, Treatment, WORD, objects,
};
pub use session::SessionId;
