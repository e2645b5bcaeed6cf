//! QSPEC (RFC 5975): requested and available QoS in a QoS NSLP message, in a format common to all QoS models.
//!
//! A QSPEC is a header and up to four objects, each with parameters. All lengths are in words and do not include the
//! header that contains them:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |  Vers.|I|QSPECType|r|r|Mes.Sq |Obj.Cmb|        Length         |
//!   |E|r|r|r|      Object Type      |r|r|r|r|        Length         |
//!     |M|E|N|r|     Parameter ID      |r|r|r|r|        Length         |
//!     //                            Value                            //
//! ```
//!
//! QoS Desired is the request, QoS Available the resources that the nodes on the path could still reserve, QoS Reserved
//! those that they have reserved, and Minimum QoS the least acceptable. The procedure determines which of them are
//! present.
//!
//! - [`Qspec::parse`] checks the frame; [`Qspec::emit`] is its inverse. Parameters stay on the wire and are parsed
//!   during iteration.
//! - [`Qspec::validate`] checks the values, [`Qspec::check_objects`] the presence of the procedure's objects. These
//!   checks are separate because a node sets the E flags of invalid parameters (section 4.2.1), which requires a valid
//!   frame.
//! - [`Editor`] sets flags and overwrites values in place, as nodes update QoS Available.
//! - [`ParseError::outcome`] returns the outcome in the RESPONSE.
//!
//! Decisions where RFC 5975 is silent:
//!
//! - An object of an unknown type is an error, because the RFC does not define how to continue without it. A parameter
//!   of an unknown type is kept, and refused if its M flag is set ([`Parameter::is_refused`]).
//! - M and N of TMOD-1 are the constants 1 and 0; received values are ignored.
//! - An Initiator QSPEC inside a local one follows the objects of the local one, whose length does not include it.
//! - Ratios are the number itself; "units of 10^-11" is their resolution.

mod completion;
mod edit;
mod error;
pub mod iana;
mod object;
mod procedure;
mod template;
mod value;

pub use completion::{completed_len, emit_with_packet_size, lacks_packet_size};
pub use edit::Editor;
pub use error::{ErrorKind, ParseError, ValueError};
pub use object::{Parameter, Parameters, QosObject};
pub use procedure::Procedure;
pub use template::Qspec;
pub use value::{
    AdmissionPriority, ExcessTreatment, PathJitter, Phb, PhbField, PreemptionPriority, Ratio,
    RphPriority, Value,
};

/// Length of the headers of QSPEC, object and parameter, octets.
pub const HEADER: usize = 4;
