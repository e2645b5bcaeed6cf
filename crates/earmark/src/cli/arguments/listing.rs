//! Options of listings.

use clap::{Args, Subcommand};
use earmark_control::{Listing, ListingFilter};
use earmark_core::EndFilter;

use crate::protocols;

/// What can be listed.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum What {
    /// Senders that were announced (path state).
    Sessions(ListingOptions),
    /// What is reserved, and the traffic it has carried.
    Reservations(ListingOptions),
    /// Interfaces that take part, and how much of each is reserved.
    Links(ListingOptions),
    /// Nodes that this one talks to.
    Neighbors(ListingOptions),
    /// What crosses cores in one reservation for many flows.
    Aggregates(ListingOptions),
    #[command(about = protocols::ROUTING_STATE)]
    RoutingState(ListingOptions),
    #[command(about = protocols::ASSOCIATIONS)]
    Associations(ListingOptions),
    #[command(about = protocols::PINHOLES)]
    Pinholes(ListingOptions),
    #[command(about = protocols::TRANSLATIONS)]
    Translations(ListingOptions),
    /// What `send`, `listen`, `reserve`, `open` and `expose` opened on this host.
    Applications(ListingOptions),
    /// Messages by kind, what was dropped and why, sockets and traffic control.
    Counters,
}

impl What {
    /// Returns the listing and its options.
    pub(crate) fn parts(self) -> (Listing, ListingOptions) {
        match self {
            What::Sessions(options) => (Listing::Sessions, options),
            What::Reservations(options) => (Listing::Reservations, options),
            What::Links(options) => (Listing::Links, options),
            What::Neighbors(options) => (Listing::Neighbors, options),
            What::Aggregates(options) => (Listing::Aggregates, options),
            What::RoutingState(options) => (Listing::RoutingState, options),
            What::Associations(options) => (Listing::Associations, options),
            What::Pinholes(options) => (Listing::Pinholes, options),
            What::Translations(options) => (Listing::Translations, options),
            What::Applications(options) => (Listing::Applications, options),
            What::Counters => (Listing::Counters, ListingOptions::default()),
        }
    }
}

/// Which rows are listed, in which order and form.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListingOptions {
    /// Print everything that is known about each row, one block a row.
    #[arg(long)]
    pub(crate) detail: bool,
    /// Sort by these columns; `-` before a column sorts its largest first: rate, or -rate,to.
    /// An unknown column lists the columns.
    #[arg(long, value_name = "[-]COLUMN", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) sort: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
}

/// Which rows are listed: those that have all of what is given. A filter that the listing does not have is refused.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterOptions {
    /// Rows of flows to this destination: 10.0.0.1, 10.0.0.1:5000 or 10.1.0.0/16.
    #[arg(long, value_name = "ADDRESS[:PORT]|RANGE")]
    to: Option<EndFilter>,
    /// Rows of flows from this source, in the same form.
    #[arg(long, value_name = "ADDRESS[:PORT]|RANGE")]
    from: Option<EndFilter>,
    /// Rows of this interface, incoming or outgoing.
    #[arg(long, value_name = "INTERFACE")]
    link: Option<String>,
    /// Rows of this protocol.
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
    /// Rows of this user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Rows in this state; an unknown state lists those of the listing.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
}

impl From<FilterOptions> for ListingFilter {
    fn from(options: FilterOptions) -> ListingFilter {
        let FilterOptions { to, from, link, protocol, user, state } = options;
        // A state is one word of the protocol, which people may write as they read it.
        let state = state.map(|state| state.replace([' ', '-'], "_"));
        ListingFilter { to, from, link, protocol, user, state }
    }
}
