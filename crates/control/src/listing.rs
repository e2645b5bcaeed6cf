//! Listings: their pages and filters.

use earmark_core::{EndFilter, outcome};
use serde::{Deserialize, Serialize};

/// Parameters of [`Request::Show`](crate::Request::Show).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// Listing to return.
    pub what: Listing,
    /// Most rows; by default [`DEFAULT_ROWS`](crate::DEFAULT_ROWS) for a whole answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Asks for one page, with the rows that the daemon finds within about a millisecond: [`START`](Show::START) for the
    /// first one, then [`Rows::next`](crate::Rows::next) of the page before. Without it the answer is the whole listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Rows to include.
    #[serde(default, skip_serializing_if = "ListingFilter::is_empty")]
    pub filter: ListingFilter,
}

impl Show {
    /// Position of the first page.
    pub const START: &str = "start";

    /// Requests a whole listing.
    pub fn new(what: Listing) -> Show {
        Show { what, limit: None, after: None, filter: ListingFilter::default() }
    }
}

/// Rows that a listing includes: those that have all of what is given. [`Listing::filters`] has the members of each listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ListingFilter {
    /// Destination of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<EndFilter>,
    /// Source of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<EndFilter>,
    /// Name of an interface of the data, incoming or outgoing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Name of the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Name of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// State of the row: one of [`Listing::states`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl ListingFilter {
    /// Returns whether all rows are included.
    pub fn is_empty(&self) -> bool {
        *self == ListingFilter::default()
    }

    /// Returns the names of the members that are given.
    pub fn members(&self) -> impl Iterator<Item = &'static str> {
        let members = [
            ("to", self.to.is_some()),
            ("from", self.from.is_some()),
            ("link", self.link.is_some()),
            ("protocol", self.protocol.is_some()),
            ("user", self.user.is_some()),
            ("state", self.state.is_some()),
        ];
        members.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

earmark_core::named_enum! {
    /// A listing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Listing {
        /// Flows announced to or by this node.
        Sessions = "sessions",
        /// Reservations.
        Reservations = "reservations",
        /// Links, with their reserved bandwidth.
        Links = "links",
        /// Nodes that this node exchanges messages with.
        Neighbors = "neighbors",
        /// Aggregates across cores.
        Aggregates = "aggregates",
        /// Routing state of GIST.
        RoutingState = "routing_state",
        /// Messaging associations of GIST.
        Associations = "associations",
        /// Rules of NATFW NSLP for the packet filter.
        Pinholes = "pinholes",
        /// Addresses and ports that NATFW NSLP has reserved for data from outside.
        Translations = "translations",
        /// Applications that `reserve`, `listen`, `ping`, `open` and `expose` opened on this host.
        Applications = "applications",
        /// Counters, in one row.
        Counters = "counters",
    }
}

impl Listing {
    /// Returns whether the listing has pages. The others have one row for each interface, neighbour or aggregate.
    pub const fn has_pages(self) -> bool {
        match self {
            Listing::Sessions
            | Listing::Reservations
            | Listing::RoutingState
            | Listing::Pinholes
            | Listing::Translations
            | Listing::Applications => true,
            Listing::Links
            | Listing::Neighbors
            | Listing::Aggregates
            | Listing::Associations
            | Listing::Counters => false,
        }
    }

    /// Returns the members of [`ListingFilter`] that the listing has.
    pub const fn filters(self) -> &'static [&'static str] {
        match self {
            Listing::Sessions => &["to", "from", "link", "protocol", "state"],
            Listing::Reservations => &["to", "from", "link", "protocol", "user", "state"],
            Listing::Links => &["link", "state"],
            Listing::Neighbors | Listing::Aggregates => &["link", "protocol", "state"],
            Listing::RoutingState => &["to", "from", "link", "state"],
            Listing::Associations => &["state"],
            Listing::Pinholes => &["to", "from", "user", "state"],
            Listing::Translations => &["user", "state"],
            Listing::Applications => &["to", "protocol", "state"],
            Listing::Counters => &[],
        }
    }

    /// Returns the states that a row of the listing can have.
    pub const fn states(self) -> &'static [&'static str] {
        match self {
            Listing::Sessions => &["reserved", "partial", "waiting", "unreserved"],
            Listing::Reservations => &["enforced", "standby", "unenforced", "no_queue"],
            Listing::Links => &["up", "down", "absent", "no_speed", "flapping", "failed"],
            Listing::Neighbors => &["alive", "lost", "restarting", "recovering", "unknown"],
            Listing::Aggregates => &["fine", "failing"],
            Listing::RoutingState => &[
                "wait_response",
                "wait_association",
                "established_downstream",
                "wait_confirm",
                "established_upstream",
            ],
            Listing::Associations => &["opening", "half_open", "open", "closed"],
            Listing::Pinholes | Listing::Translations => &["pending", "established", "transitory"],
            Listing::Applications => &KINDS,
            Listing::Counters => &[],
        }
    }
}

/// Names of the kinds of outcomes.
const KINDS: [&str; outcome::Kind::ALL.len()] = {
    let mut names = [""; outcome::Kind::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = outcome::Kind::ALL[index].name();
        index += 1;
    }
    names
};
