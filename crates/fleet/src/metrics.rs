//! The parts of a router's metrics that the page shows.

use std::collections::BTreeMap;

use crate::exposition::{LineError, Sample};

/// Most links of a router, whatever their number in the whole fleet is.
pub const MAX_LINKS: usize = 256;
/// Most parts of a router that have sessions.
const MAX_PARTS: usize = 32;
/// Most buckets of a histogram.
const MAX_BUCKETS: usize = 64;
/// Longest name of a link, a part or a version, octets.
const LONGEST_NAME: usize = 64;
/// Largest value: any rate, counter or number of sessions is far below.
const LARGEST: f64 = 1e18;

/// What one scrape of a router says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Version of the daemon; `None` until its sample has come.
    pub version: Option<String>,
    /// Number of sessions by protocol.
    pub sessions: BTreeMap<String, f64>,
    /// Links by their names.
    pub links: BTreeMap<String, LinkMetrics>,
    /// Links that were left out because there are too many.
    pub links_left_out: usize,
    /// Refused reservations since the start of the daemon.
    pub refused: f64,
    /// Dropped messages since the start of the daemon.
    pub dropped: f64,
    /// Turns of the event loop since the start of the daemon, as upper bounds of their time in seconds and the number of turns up to
    /// that bound.
    pub turns: Vec<(f64, f64)>,
}

/// What one scrape says about a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkMetrics {
    /// Whether the interface is up.
    pub up: Option<bool>,
    /// Bandwidth, bit/s.
    pub bandwidth_bps: Option<f64>,
    /// Reservable bandwidth, bit/s.
    pub reservable_bps: Option<f64>,
    /// Reserved bandwidth, bit/s.
    pub reserved_bps: Option<f64>,
    /// Number of reservations.
    pub reservations: Option<f64>,
    /// Octets that the reservations have sent since the start of the daemon.
    pub sent_octets: Option<f64>,
}

impl Metrics {
    /// Adds a sample if the page shows it. At most `max_links` links are kept.
    ///
    /// # Errors
    /// The value is out of range, or a label is too long.
    pub fn add(&mut self, sample: &Sample<'_>, max_links: usize) -> Result<(), LineError> {
        let Some(name) = sample.name.strip_prefix("earmark_") else { return Ok(()) };
        if let Some(name) = name.strip_prefix("link_") {
            return self.add_link(name, sample, max_links);
        }
        match name {
            "build_info" => self.version = Some(label(sample, "version")?.to_owned()),
            // Some protocols call their sessions streams.
            "soft_states" if matches!(sample.label("kind"), Some("sessions" | "streams")) => {
                let part = label(sample, "part")?;
                let count = number(sample)?;
                if self.sessions.len() < MAX_PARTS || self.sessions.contains_key(part) {
                    self.sessions.insert(part.to_owned(), count);
                }
            }
            "events_total" => match sample.label("kind") {
                Some("reservation_refused") => self.refused += number(sample)?,
                Some("message_dropped") => self.dropped += number(sample)?,
                _ => {}
            },
            "event_loop_turn_seconds_bucket" => {
                let bound = label(sample, "le")?.parse::<f64>().map_err(|_| LineError::Range)?;
                if self.turns.len() < MAX_BUCKETS && !bound.is_nan() {
                    self.turns.push((bound, number(sample)?));
                }
            }
            // Refusals for the requests of other nodes are counters by reason where they are no events.
            _ if name.ends_with("_refused_total") => self.refused += number(sample)?,
            _ => {}
        }
        Ok(())
    }

    fn add_link(
        &mut self,
        name: &str,
        sample: &Sample<'_>,
        max_links: usize,
    ) -> Result<(), LineError> {
        let interface = label(sample, "interface")?;
        if !self.links.contains_key(interface) && self.links.len() >= max_links {
            self.links_left_out += usize::from(name == "up");
            return Ok(());
        }
        let value = Some(number(sample)?);
        let link = self.links.entry(interface.to_owned()).or_default();
        match name {
            "up" => link.up = value.map(|up| up > 0.0),
            "bandwidth_bytes_per_second" => link.bandwidth_bps = value.map(bits),
            "reservable_bytes_per_second" => link.reservable_bps = value.map(bits),
            "reserved_bytes_per_second" => link.reserved_bps = value.map(bits),
            "claims" => link.reservations = value,
            "reserved_sent_bytes_total" => link.sent_octets = value,
            _ => {}
        }
        Ok(())
    }

    /// Returns the sum of a value over all links.
    pub fn sum(&self, value: impl Fn(&LinkMetrics) -> Option<f64>) -> f64 {
        self.links.values().filter_map(value).sum()
    }
}

/// Returns an upper bound, in seconds, of 99 of 100 turns of the event loop since an earlier scrape; `None` if there were none, or the
/// daemon has started again in between.
pub fn slow_turns(earlier: &[(f64, f64)], later: &[(f64, f64)]) -> Option<f64> {
    let since = |(bound, count): &(f64, f64)| {
        let before = earlier.iter().find(|(other, _)| other == bound)?.1;
        (*count >= before).then_some((*bound, count - before))
    };
    let counts: Vec<(f64, f64)> = later.iter().map(since).collect::<Option<_>>()?;
    let all = counts.iter().map(|(_, count)| *count).fold(0.0, f64::max);
    if all == 0.0 {
        return None;
    }
    let largest = counts.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite());
    let largest = largest.fold(0.0, f64::max);
    let within = counts.iter().filter(|(_, count)| *count >= all * 0.99);
    // Slower turns than the largest bound show as that bound.
    Some(within.map(|(bound, _)| *bound).fold(largest, f64::min))
}

fn bits(octets: f64) -> f64 {
    octets * 8.0
}

fn number(sample: &Sample<'_>) -> Result<f64, LineError> {
    match (0.0..=LARGEST).contains(&sample.value) {
        true => Ok(sample.value),
        false => Err(LineError::Range),
    }
}

fn label<'a>(sample: &'a Sample<'_>, name: &str) -> Result<&'a str, LineError> {
    let value = sample.label(name).ok_or(LineError::Labels)?;
    if value.len() > LONGEST_NAME { Err(LineError::Label) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Lines;

    fn metrics(text: &str, max_links: usize) -> Result<Metrics, String> {
        let (mut lines, mut metrics) = (Lines::default(), Metrics::default());
        lines
            .push(text.as_bytes(), |sample| metrics.add(sample, max_links))
            .map_err(|error| error.to_string())?;
        Ok(metrics)
    }

    #[test]
    fn shown_parts_are_kept() {
        let text = "earmark_build_info{version=\"0.1.0\"} 1.0\n\
            earmark_link_up{interface=\"eth0\"} 1.0\n\
            earmark_link_reserved_bytes_per_second{interface=\"eth0\"} 125000.0\n\
            earmark_link_reserved_sent_bytes_total{interface=\"eth0\"} 9000\n\
            earmark_soft_states{part=\"p\",kind=\"sessions\"} 3.0\n\
            earmark_soft_states{part=\"q\",kind=\"streams\"} 2.0\n\
            earmark_soft_states{part=\"p\",kind=\"neighbors\"} 9.0\n\
            earmark_events_total{part=\"p\",kind=\"reservation_refused\"} 4\n\
            earmark_q_refused_total{kind=\"bandwidth\"} 5\n\
            earmark_events_total{part=\"p\",kind=\"message_dropped\"} 6\n\
            process_open_fds 10.0\nother 1\n";
        let metrics = metrics(text, 4).expect("valid");
        assert_eq!(metrics.version.as_deref(), Some("0.1.0"));
        assert_eq!(metrics.sessions, [("p".to_owned(), 3.0), ("q".to_owned(), 2.0)].into());
        assert_eq!((metrics.refused, metrics.dropped), (9.0, 6.0));
        let link = metrics.links.get("eth0").expect("a link");
        assert_eq!(
            (link.up, link.reserved_bps, link.sent_octets),
            (Some(true), Some(1e6), Some(9e3))
        );
    }

    #[test]
    fn links_parts_and_buckets_are_bounded() {
        let mut text = String::new();
        for number in 0..1_000 {
            text += &format!("earmark_link_up{{interface=\"e{number}\"}} 1\n");
            text += &format!("earmark_link_claims{{interface=\"e{number}\"}} 1\n");
            text += &format!("earmark_soft_states{{part=\"p{number}\",kind=\"sessions\"}} 1\n");
            text += &format!("earmark_event_loop_turn_seconds_bucket{{le=\"{number}\"}} 1\n");
        }
        let metrics = metrics(&text, 10).expect("valid");
        assert_eq!((metrics.links.len(), metrics.links_left_out), (10, 990));
        assert_eq!((metrics.sessions.len(), metrics.turns.len()), (MAX_PARTS, MAX_BUCKETS));
    }

    #[test]
    fn values_out_of_range_and_long_labels_are_refused() {
        for (line, error) in [
            ("earmark_link_up{interface=\"e\"} NaN", "the value is out of range"),
            ("earmark_link_up{interface=\"e\"} -1", "the value is out of range"),
            ("earmark_link_claims{interface=\"e\"} +Inf", "the value is out of range"),
            ("earmark_link_claims{interface=\"e\"} 1e300", "the value is out of range"),
            ("earmark_link_up 1", "malformed labels"),
            ("earmark_event_loop_turn_seconds_bucket{le=\"x\"} 1", "the value is out of range"),
        ] {
            assert_eq!(metrics(&format!("{line}\n"), 4), Err(format!("line 1: {error}")), "{line}");
        }
        let long = format!("earmark_link_up{{interface=\"{}\"}} 1\n", "e".repeat(65));
        assert_eq!(metrics(&long, 4), Err("line 1: a label exceeds 64 octets".to_owned()));
    }

    #[test]
    fn slow_turns_are_those_since_the_earlier_scrape() {
        let earlier = [(0.001, 900.0), (0.1, 1_000.0), (f64::INFINITY, 1_000.0)];
        let later = [(0.001, 1_000.0), (0.1, 1_100.0), (f64::INFINITY, 1_100.0)];
        assert_eq!(slow_turns(&earlier, &later), Some(0.001));
        let later = [(0.001, 950.0), (0.1, 1_100.0), (f64::INFINITY, 1_100.0)];
        assert_eq!(slow_turns(&earlier, &later), Some(0.1));
        let later = [(0.001, 900.0), (0.1, 1_000.0), (f64::INFINITY, 1_100.0)];
        assert_eq!(slow_turns(&earlier, &later), Some(0.1), "the largest bound");
        assert_eq!(slow_turns(&earlier, &earlier), None, "no turn");
        assert_eq!(slow_turns(&later, &earlier), None, "a restart");
        assert_eq!(slow_turns(&[], &later), None);
    }
}
