//! Lists that are decoded during iteration: SCOPE addresses, filters, fixed-filter flows.
//!
//! The parser has checked every object of a [`List::Wire`], so that iteration cannot fail. A `Wire` of unchecked octets
//! ends at the first one that cannot be decoded.

use core::fmt;
use core::net::IpAddr;

use super::common_form;
use super::dclass::Dscp;
use super::decode;
use super::diagnostics::{DiagResponse, Selected};
use super::frame::{Frames, OBJECT_HEADER};
use super::iana::{ObjectClass, c_type};
use super::identity::Attribute;
use super::message::{FixedFilterFlow, List, RawObject};
use super::objects::FilterSpec;
use super::policy::{PolicyElement, PolicyOption, ResourcePriority};
use super::refresh_reduction::{Acknowledgement, MulticastRefresh, RefreshList, SourceRefresh};
use crate::intserv::FlowSpec;

/// Items of a [`List`].
pub trait Item<'a>: Copy + sealed::Sealed {
    /// State that decoding keeps from one item to the next.
    #[doc(hidden)]
    type State: Copy + Default;

    /// Takes the next item of `rest`.
    #[doc(hidden)]
    fn next(rest: &mut &'a [u8], memory: &mut Self::State) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for core::net::IpAddr {}
    impl Sealed for super::FilterSpec {}
    impl Sealed for super::FixedFilterFlow {}
    impl Sealed for super::Acknowledgement {}
    impl Sealed for super::RefreshList<'_> {}
    impl Sealed for u32 {}
    impl Sealed for super::SourceRefresh {}
    impl Sealed for super::MulticastRefresh {}
    impl Sealed for super::PolicyOption<'_> {}
    impl Sealed for super::PolicyElement<'_> {}
    impl Sealed for super::ResourcePriority {}
    impl Sealed for super::Attribute<'_> {}
    impl Sealed for super::Dscp {}
    impl Sealed for super::Selected {}
    impl Sealed for super::DiagResponse<'_> {}
}

/// Iterator over the items of a [`List`], by value.
#[derive(Clone, Copy, Debug)]
pub struct ListIter<'a, T: Item<'a>> {
    list: List<'a, T>,
    memory: T::State,
}

impl<'a, T: Item<'a>> List<'a, T> {
    /// No items.
    pub const EMPTY: List<'a, T> = List::Wire(&[]);

    /// Iterates over the items in the order of the message.
    #[inline]
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter { list: *self, memory: T::State::default() }
    }

    /// Calls `each` for each item until it fails. Avoids copies of items to be emitted.
    #[inline]
    pub(super) fn try_for_each<E>(
        &self,
        mut each: impl FnMut(&T) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            List::Wire(_) => self.iter().try_for_each(|item| each(&item)),
            List::Items(items) => items.iter().try_for_each(each),
        }
    }

    /// Returns the sum of `amount` over the items. Avoids copies of items to be emitted.
    #[inline]
    pub(super) fn sum(&self, amount: impl Fn(&T) -> usize) -> usize {
        match self {
            List::Wire(_) => self.iter().map(|item| amount(&item)).sum(),
            List::Items(items) => items.iter().map(amount).sum(),
        }
    }

    /// Number of items. Items on the wire are counted by iteration.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            List::Wire(_) => self.iter().count(),
            List::Items(items) => items.len(),
        }
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl<'a, T: Item<'a>> Iterator for ListIter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.list {
            List::Wire(rest) => T::next(rest, &mut self.memory),
            List::Items(items) => {
                let (first, rest) = items.split_first()?;
                *items = rest;
                Some(*first)
            }
        }
    }
}

impl<'a, T: Item<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    #[inline]
    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Item<'a>> IntoIterator for &List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    #[inline]
    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Item<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Item<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Takes the next object of `rest`.
#[inline]
pub(super) fn next_object<'a>(rest: &mut &'a [u8]) -> Option<RawObject<'a>> {
    let mut frames = Frames::new(rest, 0);
    let object = frames.next()?.ok()?;
    *rest = frames.rest();
    Some(object)
}

/// Wire format: all octets behind the STYLE object.
impl<'a> Item<'a> for FilterSpec {
    type State = ();

    #[inline]
    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<FilterSpec> {
        loop {
            let object = next_object(rest)?;
            if object.class_num() == ObjectClass::FilterSpec.code() {
                return decode::filter_spec(&object).ok();
            }
        }
    }
}

/// Wire format: all octets behind the STYLE object. A FLOWSPEC is valid until the next one (RFC 2205 section 3.1.4).
impl<'a> Item<'a> for FixedFilterFlow {
    type State = Option<FlowSpec>;

    #[inline]
    fn next(rest: &mut &'a [u8], flowspec: &mut Option<FlowSpec>) -> Option<FixedFilterFlow> {
        if let Some((flow, behind)) = common_form::flow(rest) {
            (*rest, *flowspec) = (behind, flow.flowspec);
            return Some(flow);
        }
        const FLOWSPEC: u8 = ObjectClass::FlowSpec.code();
        const FILTER_SPEC: u8 = ObjectClass::FilterSpec.code();
        loop {
            let object = next_object(rest)?;
            match object.class_num() {
                FLOWSPEC => *flowspec = Some(decode::flowspec(&object).ok()?),
                FILTER_SPEC => {
                    let filter = decode::filter_spec(&object).ok()?;
                    return Some(FixedFilterFlow { flowspec: *flowspec, filter });
                }
                _ => {}
            }
        }
    }
}

/// Wire format: a SCOPE or ROUTE object with its header. The state is its C-Type.
impl<'a> Item<'a> for IpAddr {
    type State = u8;

    #[inline]
    fn next(rest: &mut &'a [u8], memory: &mut u8) -> Option<IpAddr> {
        const ROUTE: u8 = ObjectClass::Route.code();
        if *memory == 0 {
            let ([_, _, class, c_type], body) = rest.split_first_chunk::<OBJECT_HEADER>()?;
            *memory = *c_type;
            *rest = if *class == ROUTE { body.get(4..)? } else { body };
        }
        match *memory {
            c_type::IPV4 => decode::take_address(rest, true),
            c_type::IPV6 => decode::take_address(rest, false),
            _ => None,
        }
    }
}
