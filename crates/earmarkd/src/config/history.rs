//! `[history]`: accounting records.

use std::path::{Path, PathBuf};
use std::time::Duration;

use earmark_core::amounts::parse_octets;
use earmark_history::LEAST_BOUND;
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::source::Source;
use crate::history::HistorySettings;

/// Most octets of the journal by default.
const JOURNAL_SIZE: u64 = 64 << 20;
/// Name of the journal's directory beside the control socket.
const JOURNAL: &str = "history";
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Age at which ended reservations are removed by default.
const RETENTION: Duration = Duration::from_secs(400 * 24 * 3_600);
const INTERVAL: Duration = Duration::from_secs(300);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryTable {
    database: Option<Spanned<PathBuf>>,
    journal: Option<Spanned<PathBuf>>,
    journal_size: Option<Spanned<String>>,
    retention: Option<Spanned<String>>,
    interval: Option<Spanned<String>>,
}

impl Source<'_> {
    /// Reads the settings of accounting records; `None` without a database. `socket` is the path of the control socket.
    pub(super) fn history(
        &self,
        table: HistoryTable,
        socket: &Path,
    ) -> Result<Option<HistorySettings>, ConfigError> {
        let beside = || socket.parent().unwrap_or(Path::new("/")).join(JOURNAL);
        let journal = table.journal.map(|path| self.path(path)).transpose()?;
        let journal_size = match &table.journal_size {
            None => JOURNAL_SIZE,
            Some(text) => {
                let hint = "\"64MiB\" is usual; from 4MiB to 4095MiB are possible";
                let octets = parse_octets(text.get_ref());
                let octets = octets.map_err(|e| self.error(text.span(), e.to_string(), hint))?;
                if u64::from(octets) < LEAST_BOUND {
                    return Err(self.error(text.span(), "the journal is too small", hint));
                }
                octets.into()
            }
        };
        let retention = match &table.retention {
            Some(text) if text.get_ref() == "never" => None,
            text => Some(self.duration(
                text.as_ref(),
                DAY..=36_500 * DAY,
                RETENTION,
                "\"400d\" is usual; from a day (1d) to a hundred years are possible, and \"never\" keeps all",
            )?),
        };
        let interval = self.duration(
            table.interval.as_ref(),
            Duration::from_secs(1)..=DAY,
            INTERVAL,
            "\"5min\" is usual; from 1s to a day (24h) are possible",
        )?;
        let database = table.database.map(|path| self.path(path)).transpose()?;
        Ok(database.map(|database| HistorySettings {
            database,
            journal: journal.unwrap_or_else(beside),
            journal_size,
            retention,
            interval,
        }))
    }
}
