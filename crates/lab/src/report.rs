//! Presentation of results: of the demo a table on the terminal, a chart, and a page with both; of a network its
//! drawing.

mod chart;
mod html;
mod map;
mod table;

pub use chart::svg;
pub use html::page;
pub use map::map;
pub use table::stages;

/// Formats a rate in Mbit/s with two decimals.
fn mbps(bps: u64) -> String {
    format!("{:.2}", bps as f64 / 1e6)
}

/// Formats milliseconds with one decimal, small ones with two; a dash stands for a missing value.
fn millis(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// Formats a loss in percent. A loss above zero is not shown as 0.
fn percent(loss: f64) -> String {
    match loss * 100.0 {
        0.0 => "0 %".to_owned(),
        loss if loss < 0.1 => "< 0.1 %".to_owned(),
        loss => format!("{loss:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted() {
        assert_eq!([percent(0.0), percent(0.0004), percent(0.5432)], ["0 %", "< 0.1 %", "54.3 %"]);
        assert_eq!([millis(None), millis(Some(1.26)), millis(Some(0.024))], ["-", "1.3", "0.02"]);
        assert_eq!(mbps(1_999_000), "2.00");
    }
}
