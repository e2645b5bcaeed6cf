//! Required and optional objects of the seven messages of RFC 2205 (the BNF of sections 3.1.3 to 3.1.9).

use super::iana::{MessageType, ObjectClass};

/// Required and allowed classes of a message, as sets of bits `1 << Class-Num`.
pub(super) struct Rules {
    pub(super) required: u16,
    pub(super) allowed: u16,
}

const fn set(classes: &[ObjectClass]) -> u16 {
    let mut bits = 0;
    let mut i = 0;
    while i < classes.len() {
        bits |= bit(classes[i]);
        i += 1;
    }
    bits
}

/// Returns the bit of a class. The classes of RFC 2205 are below 16; others are in no set.
#[inline]
pub(super) const fn bit(class: ObjectClass) -> u16 {
    let code = class.code();
    if code < 16 { 1 << code } else { 0 }
}

impl Rules {
    const fn new(required: &[ObjectClass], optional: &[ObjectClass]) -> Rules {
        let required = set(required);
        Rules { required, allowed: required | set(optional) }
    }

    /// Returns the rules of a message, the BNF of RFC 2205 sections 3.1.3 to 3.1.9. The BNF allows a Path or PathTear
    /// without sender descriptor, which has no effect, so that the sender descriptor is required here. `None` for other
    /// messages.
    #[inline]
    pub(super) fn of(message: MessageType) -> Option<Rules> {
        use ObjectClass::*;
        Some(match message {
            MessageType::Path | MessageType::RecoveryPath => {
                const {
                    let required = &[Session, RsvpHop, TimeValues, SenderTemplate, SenderTspec];
                    Rules::new(required, &[PolicyData, Adspec])
                }
            }
            MessageType::Resv => {
                const {
                    let optional = &[ResvConfirm, Scope, PolicyData, FlowSpec, FilterSpec];
                    Rules::new(&[Session, RsvpHop, TimeValues, Style], optional)
                }
            }
            MessageType::PathErr => {
                const {
                    let optional = &[PolicyData, SenderTemplate, SenderTspec, Adspec];
                    Rules::new(&[Session, ErrorSpec], optional)
                }
            }
            MessageType::ResvErr => {
                const {
                    let optional = &[Scope, PolicyData, FlowSpec, FilterSpec];
                    Rules::new(&[Session, RsvpHop, ErrorSpec, Style], optional)
                }
            }
            MessageType::PathTear => {
                const { Rules::new(&[Session, RsvpHop, SenderTemplate], &[SenderTspec, Adspec]) }
            }
            MessageType::ResvTear => {
                const { Rules::new(&[Session, RsvpHop, Style], &[Scope, FlowSpec, FilterSpec]) }
            }
            MessageType::ResvConf => {
                const {
                    let required = &[Session, ErrorSpec, ResvConfirm, Style];
                    Rules::new(required, &[FlowSpec, FilterSpec])
                }
            }
            _ => return None,
        })
    }
}

/// Classes that may occur several times in a message.
pub(super) const REPEATABLE: u16 =
    set(&[ObjectClass::PolicyData, ObjectClass::FlowSpec, ObjectClass::FilterSpec]);
/// Classes that are allowed behind STYLE only.
pub(super) const FLOWS: u16 = set(&[ObjectClass::FlowSpec, ObjectClass::FilterSpec]);
