//! A row, and the router that it comes from.

use serde::{Serialize, Serializer};

use crate::cli::routers::names::RouterName;

/// Name of the column and of the member with the router.
pub(super) const ROUTER: &str = "router";

/// A row of a router; of the local daemon, whose rows name no router, without a name.
pub(super) struct OfRouter<R> {
    pub(super) router: Option<RouterName>,
    pub(super) row: R,
}

impl<R: Serialize> Serialize for OfRouter<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Named<'a, R> {
            router: &'a str,
            #[serde(flatten)]
            row: &'a R,
        }
        match &self.router {
            Some(router) => Named { router: router.as_str(), row: &self.row }.serialize(serializer),
            None => self.row.serialize(serializer),
        }
    }
}
