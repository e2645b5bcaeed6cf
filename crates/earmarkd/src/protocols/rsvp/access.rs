//! `[rsvp.access]`: limits of what comes through one access interface.

use std::time::Duration;

use earmark_rsvp::limits::Access;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{ConfigError, Source};

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessTable {
    max_per_interface: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
    errors_per_second: Option<Spanned<u32>>,
    max_lifetime: Option<Spanned<String>>,
}

impl Source<'_> {
    pub(crate) fn access(&self, table: &AccessTable) -> Result<Access, ConfigError> {
        let defaults = Access::default();
        let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
        let hint = "\"630s\" is the default; from 1s to 1 day (24h) are possible";
        let AccessTable { max_per_interface, changes_per_second, errors_per_second, .. } =
            table.clone();
        Ok(Access {
            max_blocks: self.count(max_per_interface, defaults.max_blocks)?,
            changes_per_second: self.count(changes_per_second, defaults.changes_per_second)?,
            errors_per_second: self.count(errors_per_second, defaults.errors_per_second)?,
            max_lifetime: self.duration(
                table.max_lifetime.as_ref(),
                range,
                defaults.max_lifetime,
                hint,
            )?,
        })
    }
}
