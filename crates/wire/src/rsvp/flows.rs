//! The grammar of flow descriptor lists: which FLOWSPEC and FILTER_SPEC objects may follow a STYLE (RFC 2205 sections
//! 3.1.4, 3.1.6, 3.1.8 and 3.1.9).

use super::iana::MessageType;
use super::list::List;
use super::message::FlowDescriptors;
use super::objects::Style;
use crate::intserv::FlowSpec;

/// Checks the objects behind STYLE one by one. Every refusal means [`super::ErrorKind::FlowDescriptors`].
pub(super) struct Grammar<'a> {
    style: Style,
    rules: Rules,
    /// All octets behind the STYLE object.
    wire: &'a [u8],
    /// The first FLOWSPEC.
    flowspec: Option<FlowSpec>,
    flowspecs: usize,
    filters: usize,
    /// Whether the last object was a FLOWSPEC.
    after_flowspec: bool,
}

/// Rules that differ between messages.
#[derive(Clone, Copy)]
struct Rules {
    /// A FLOWSPEC must precede the first filter (for WF, must be present).
    flowspec: bool,
    /// At least one flow descriptor is required.
    at_least_one: bool,
    /// At most one flow descriptor is allowed.
    at_most_one: bool,
}

impl Rules {
    fn of(message: MessageType) -> Rules {
        match message {
            // Flowspecs of a teardown have no meaning and may be left out, so that a wildcard one may be empty.
            MessageType::ResvTear => {
                Rules { flowspec: false, at_least_one: true, at_most_one: false }
            }
            MessageType::ResvErr => {
                Rules { flowspec: false, at_least_one: false, at_most_one: true }
            }
            _ => Rules { flowspec: true, at_least_one: true, at_most_one: false },
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

    /// Takes a FLOWSPEC; returns whether the grammar allows it here.
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

    /// Takes a FILTER_SPEC; returns whether the grammar allows it here.
    #[inline]
    pub(super) fn filter(&mut self) -> bool {
        let fits = match self.style {
            Style::Wildcard => false,
            Style::FixedFilter => !self.rules.at_most_one || self.filters == 0,
            Style::SharedExplicit => true,
        };
        self.filters += 1;
        self.after_flowspec = false;
        fits && (self.flowspecs > 0 || !self.rules.flowspec)
    }

    /// Ends the list and returns it; `None` if it must not end here.
    #[inline]
    pub(super) fn finish(self) -> Option<FlowDescriptors<'a>> {
        let Grammar { style, rules, wire, flowspec, flowspecs, filters, after_flowspec } = self;
        let complete = match style {
            Style::Wildcard => flowspecs > 0 || !rules.flowspec,
            Style::FixedFilter => !after_flowspec && (filters > 0 || !rules.at_least_one),
            Style::SharedExplicit => filters > 0 || (flowspecs == 0 && !rules.at_least_one),
        };
        complete.then_some(match style {
            Style::Wildcard => FlowDescriptors::Wildcard(flowspec),
            Style::FixedFilter => FlowDescriptors::FixedFilter(List::Wire(wire)),
            Style::SharedExplicit => FlowDescriptors::SharedExplicit(flowspec, List::Wire(wire)),
        })
    }
}
