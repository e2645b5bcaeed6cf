//! QSPEC (RFC 5975): what a message of QoS NSLP asks for and what it has found, in a form that all QoS models share.
//!
//! A header, up to four objects, and in each of them parameters; all lengths are in words and do not count the header
//! that they stand in:
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
//! QoS Desired is what is asked for, QoS Available what the nodes on the way could still give, QoS Reserved what they
//! have given, and Minimum QoS the least that will do. Which of them are there is the procedure's matter.
//!
//! - [`Qspec::parse`] checks the frame, and [`Qspec::emit`] is its inverse. Parameters stay on the wire and are read
//!   while they are iterated.
//! - [`Qspec::validate`] judges the values, [`Qspec::check_objects`] whether the procedure's objects are there. They are
//!   apart from the frame because a node raises the E flags of what it finds wrong (section 4.2.1), for which the frame
//!   must be whole.
//! - [`Editor`] raises flags and rewrites values where they stand, as a node does to QoS Available.
//! - [`ParseError::outcome`] is what a RESPONSE would say of an error.
//!
//! What RFC 5975 leaves open is decided so:
//!
//! - An object of an unknown type is an error: nothing says how to go on without it. A parameter of an unknown type is
//!   kept, and refused where its M flag is set ([`Parameter::is_refused`]).
//! - M and N of TMOD-1 are constants, 1 and 0, and read as such whatever they are.
//! - An Initiator QSPEC inside a local one stands behind the objects of that, which the length of that does not count.
//! - Ratios are the number itself; "units of 10^-11" is their resolution.

mod edit;
mod error;
pub mod iana;
mod object;
mod procedure;
mod template;
mod value;

pub use edit::Editor;
pub use error::{ErrorKind, ParseError, ValueError};
pub use object::{Parameter, Parameters, QosObject};
pub use procedure::Procedure;
pub use template::Qspec;
pub use value::{
    AdmissionPriority, ExcessTreatment, PathJitter, Phb, PhbField, PreemptionPriority, Ratio,
    RphPriority, Value,
};

/// Octets of the headers of QSPEC, object and parameter.
pub const HEADER: usize = 4;
