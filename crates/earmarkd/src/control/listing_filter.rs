//! Filters of listings, checked against what there is to filter by.

use std::net::IpAddr;

use earmark_control::{
    AggregateRow, ApplicationRow, AssociationRow, LinkRow, LinkState, NeighborRow, PinholeRow,
    Problem, ProblemCode, ReservationRow, RoutingStateRow, SessionRow, Show, TranslationRow,
};
use earmark_core::{EndFilter, InterfaceId, RowFilter};
use serde::Serialize;
use serde_json::Value;

use crate::driver::{Driver, Kernel};

/// A filter whose names exist.
#[derive(Debug)]
pub(super) struct Filter {
    /// Part that engines evaluate before they build a row.
    pub(super) rows: RowFilter,
    link: Option<String>,
    user: Option<String>,
    state: Option<String>,
}

impl Filter {
    /// Checks the filter of a request.
    ///
    /// # Errors
    /// The listing does not have the filter, or there is no link, protocol or state of the name.
    pub(super) fn check<K: Kernel>(show: &Show, driver: &Driver<K>) -> Result<Filter, Problem> {
        let (what, filter) = (show.what, &show.filter);
        let filters = what.filters();
        if let Some(name) = filter.members().find(|name| !filters.contains(name)) {
            let hint = match filters {
                [] => "it has none".to_owned(),
                _ => format!("its filters are {}", filters.join(", ")),
            };
            let message = format!("the listing {} has no filter `{name}`", what.name());
            return Err(Problem::new(ProblemCode::BadRequest, message, hint));
        }
        let node = driver.node();
        if let Some(state) = &filter.state {
            known("state", state, what.states().iter().map(|&state| state.to_owned()))?;
        }
        if let Some(link) = &filter.link {
            known("link", link, driver.link_rows().map(|row| row.interface))?;
        }
        let engines = || node.engines().map(|engine| engine.kind().name);
        if let Some(protocol) = &filter.protocol {
            known("protocol", protocol, engines().map(str::to_owned))?;
        }
        let protocol = filter.protocol.as_deref();
        let interface = |name: &String| node.interfaces().by_name(name).map(|found| found.id);
        // A link that takes no part has no rows, and no interface has index 0.
        let link = filter.link.as_ref().map(|name| interface(name).unwrap_or(InterfaceId(0)));
        Ok(Filter {
            rows: RowFilter {
                protocol: protocol.and_then(|protocol| engines().find(|name| *name == protocol)),
                to: filter.to,
                from: filter.from,
                link,
            },
            link: filter.link.clone(),
            user: filter.user.clone(),
            state: filter.state.clone(),
        })
    }

    /// Returns whether a row is included.
    pub(super) fn admits<T: Listed>(&self, row: &T) -> bool {
        let RowFilter { protocol, to, from, .. } = self.rows;
        let end = |filter: Option<EndFilter>, end: Option<(IpAddr, u16)>| {
            filter
                .is_none_or(|filter| end.is_none_or(|(address, port)| filter.admits(address, port)))
        };
        let is = |wanted: Option<&str>, name: Option<&str>| wanted.is_none() || wanted == name;
        let by_engine = T::IS_FILTERED
            || is(protocol, row.protocol())
                && is(self.link.as_deref(), row.link())
                && end(to, row.to())
                && end(from, row.from());
        by_engine
            && is(self.user.as_deref(), row.user())
            && is(self.state.as_deref(), Some(row.state()))
    }
}

/// Checks that there is a thing of this name.
fn known(kind: &str, name: &str, names: impl Iterator<Item = String>) -> Result<(), Problem> {
    /// Names in an error.
    const NAMES: usize = 32;
    let names: Vec<String> = names.collect();
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let name: String = name.chars().take(64).collect();
    let more = if names.len() > NAMES { ", ..." } else { "" };
    let shown = names.iter().take(NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    let hint = match names.is_empty() {
        true => format!("there is no {kind}"),
        false => format!("one of {shown}{more}"),
    };
    Err(Problem::new(ProblemCode::BadRequest, format!("unknown {kind} {name:?}"), hint))
}

/// A row of a listing, as filters see it.
pub(super) trait Listed: Serialize {
    /// Whether engines have filtered the row by its flow, link and protocol.
    const IS_FILTERED: bool = false;

    /// Returns the state: one of [`earmark_control::Listing::states`].
    fn state(&self) -> &str;
    /// Returns the user.
    fn user(&self) -> Option<&str> {
        None
    }
    /// Returns the link.
    fn link(&self) -> Option<&str> {
        None
    }
    /// Returns the protocol.
    fn protocol(&self) -> Option<&str> {
        None
    }
    /// Returns the destination; `None` for any.
    fn to(&self) -> Option<(IpAddr, u16)> {
        None
    }
    /// Returns the source; `None` for any.
    fn from(&self) -> Option<(IpAddr, u16)> {
        None
    }
}

impl Listed for SessionRow {
    const IS_FILTERED: bool = true;

    fn state(&self) -> &str {
        match (self.reserved, self.waiting) {
            (true, false) => "reserved",
            (true, true) => "partial",
            (false, true) => "waiting",
            (false, false) => "unreserved",
        }
    }
}

impl Listed for ReservationRow {
    const IS_FILTERED: bool = true;

    fn state(&self) -> &str {
        self.enforcement.as_ref().map_or("no_queue", |enforcement| &enforcement.state)
    }

    fn user(&self) -> Option<&str> {
        self.user.as_ref().map(|user| user.name.as_str())
    }
}

impl Listed for RoutingStateRow {
    const IS_FILTERED: bool = true;

    fn state(&self) -> &str {
        &self.state
    }
}

impl Listed for LinkRow {
    fn state(&self) -> &str {
        match self.state {
            LinkState::NoSpeed => "no_speed",
            state => state.name(),
        }
    }

    fn link(&self) -> Option<&str> {
        Some(&self.interface)
    }
}

impl Listed for NeighborRow {
    fn state(&self) -> &str {
        self.hello.as_deref().unwrap_or("unknown")
    }

    fn link(&self) -> Option<&str> {
        Some(&self.interface)
    }

    fn protocol(&self) -> Option<&str> {
        Some(&self.protocol)
    }
}

impl Listed for AggregateRow {
    fn state(&self) -> &str {
        if self.failing { "failing" } else { "fine" }
    }

    fn link(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    fn protocol(&self) -> Option<&str> {
        Some(&self.protocol)
    }
}

impl Listed for AssociationRow {
    fn state(&self) -> &str {
        &self.stage
    }
}

impl Listed for PinholeRow {
    fn state(&self) -> &str {
        &self.session.stage
    }

    fn user(&self) -> Option<&str> {
        self.session.user.as_deref()
    }

    fn to(&self) -> Option<(IpAddr, u16)> {
        Some((self.destination, self.destination_port))
    }

    fn from(&self) -> Option<(IpAddr, u16)> {
        Some((self.source?, self.source_port))
    }
}

impl Listed for TranslationRow {
    fn state(&self) -> &str {
        &self.session.stage
    }

    fn user(&self) -> Option<&str> {
        self.session.user.as_deref()
    }
}

impl Listed for &ApplicationRow {
    fn state(&self) -> &str {
        self.outcome.kind.name()
    }

    fn protocol(&self) -> Option<&str> {
        Some(&self.protocol)
    }

    fn to(&self) -> Option<(IpAddr, u16)> {
        Some((self.destination, self.destination_port))
    }
}

impl Listed for Value {
    fn state(&self) -> &str {
        ""
    }
}
