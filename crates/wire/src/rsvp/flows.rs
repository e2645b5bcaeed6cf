//! The grammar of flow descriptor lists: which FLOWSPEC and FILTER_SPEC objects may follow a STYLE (RFC 2205 sections
//! 3.1.4, 3.1.6, 3.1.8 and 3.1.9).

use super::iana::MessageType;
use super::message::{FlowDescriptors, List};
use super::objects::Style;
use crate::intserv::FlowSpec;

/// Follows the objects behind STYLE one by one. Every refusal means [`super::ErrorKind::FlowDescriptors`].
pub(super) struct Grammar<'a> {
    style: Style,
    rules: Rules,
    /// Everything behind the STYLE object.
    wire: &'a [u8],
    /// The FLOWSPEC that came first.
    flowspec: Option<FlowSpec>,
    flowspecs: usize,
    filters: usize,
    /// The last object was a FLOWSPEC.
    after_flowspec: bool,
}

/// How messages differ.
#[derive(Clone, Copy)]
struct Rules {
    /// A FLOWSPEC must come before the first filter (or be there at all, for WF).
    flowspec: bool,
    /// There must be a flow descriptor.
    some: bool,
    /// There must not be two.
    one: bool,
}

impl Rules {
    fn of(message: MessageType) -> Rules {
        match message {
            // Flowspecs of a teardown mean nothing and may be left out, so a wildcard one has nothing left.
            MessageType::ResvTear => Rules { flowspec: false, some: true, one: false },
            MessageType::ResvErr => Rules { flowspec: false, some: false, one: true },
            _ => Rules { flowspec: true, some: true, one: false },
        }
    }
}

impl<'a> Grammar<'a> {
    pub(super) fn new(message: MessageType, style: Style, wire: &'a [u8]) -> Self {
        Grammar {
            style,
            rules: Rules::of(message),
            wire,
            flowspec: None,
            flowspecs: 0,
            filters: 0,
            after_flowspec: false,
        }
    }

    /// The next object is a FLOWSPEC; says whether it may be.
    #[inline]
    pub(super) fn flowspec(&mut self, flowspec: FlowSpec) -> bool {
        let fits = match self.style {
            Style::Wildcard => self.flowspecs == 0,
            Style::FixedFilter => !self.after_flowspec,
            Style::SharedExplicit => self.flowspecs == 0 && self.filters == 0,
        };
        self.flowspec = self.flowspec.or(Some(flowspec));
        self.flowspecs += 1;
        self.after_flowspec = true;
        fits
    }

    /// The next object is a FILTER_SPEC; says whether it may be.
    #[inline]
    pub(super) fn filter(&mut self) -> bool {
        let fits = match self.style {
            Style::Wildcard => false,
            Style::FixedFilter => !self.rules.one || self.filters == 0,
            Style::SharedExplicit => true,
        };
        self.filters += 1;
        self.after_flowspec = false;
        fits && (self.flowspecs > 0 || !self.rules.flowspec)
    }

    /// There is no more; the whole list, unless it must not end here.
    #[inline]
    pub(super) fn finish(self) -> Option<FlowDescriptors<'a>> {
        let Grammar { style, rules, wire, flowspec, flowspecs, filters, after_flowspec } = self;
        let complete = match style {
            Style::Wildcard => flowspecs > 0 || !rules.flowspec,
            Style::FixedFilter => !after_flowspec && (filters > 0 || !rules.some),
            Style::SharedExplicit => filters > 0 || (flowspecs == 0 && !rules.some),
        };
        complete.then_some(match style {
            Style::Wildcard => FlowDescriptors::Wildcard(flowspec),
            Style::FixedFilter => FlowDescriptors::FixedFilter(List::Wire(wire)),
            Style::SharedExplicit => FlowDescriptors::SharedExplicit(flowspec, List::Wire(wire)),
        })
    }
}
