//! A share of a link, as the file has it.

use serde::Deserialize;

/// A share or a rate: `0.75`, `"75%"` or `"7.5Mbit"`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a share such as \"75%\" or 0.75, or a rate such as \"7.5Mbit\"")]
pub(crate) enum Share {
    Number(f64),
    Text(String),
}
