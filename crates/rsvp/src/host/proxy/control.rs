//! REC_PROXY_CONTROL: a sender says whether it wants a receiver proxy (RFC 5946 section 4.2).

use earmark_wire::rsvp::iana::{ObjectClass, PolicyElementType, ReceiverProxyControl};
use earmark_wire::rsvp::{Carried, PolicyData, PolicyElement};

use crate::instance::Rsvp;
use crate::state::Index;

impl Rsvp {
    /// Returns what the Path of a sender says about receiver proxies; `None` if it says nothing, or has a value without
    /// meaning. The element is defined for unicast sessions only.
    pub(super) fn proxy_control(&self, index: Index) -> Option<ReceiverProxyControl> {
        let carried = self.store.psb(index).carried.octets();
        if carried.is_empty() || self.store.session_of(index).destination.is_multicast() {
            return None;
        }
        let mut control = None;
        for object in Carried::Objects(carried).iter() {
            if object.class_num() != ObjectClass::PolicyData.code() {
                continue;
            }
            // What cannot be read is left to nodes with policy.
            for element in PolicyData::parse(&object).ok()?.elements {
                match element {
                    PolicyElement::ReceiverProxy(value) => control = Some(value),
                    PolicyElement::Empty(PolicyElementType::ReceiverProxyControl) => control = None,
                    _ => {}
                }
            }
        }
        control.map(ReceiverProxyControl::from_code)
    }
}
