//! The published measurements in less time: fewer sessions, each refreshed so much more often, so that as many messages come in
//! a second as did then.

use std::time::Duration;

/// How often a session was pinged, in place of a refresh of its application.
const PING: Duration = Duration::from_secs(30);
/// How often GIST asked again who is next.
const REFRESH: Duration = Duration::from_secs(180);

/// By how much sessions are fewer, and periods shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scaled {
    pub(super) by: u32,
}

impl Scaled {
    /// As a report has time for: each round takes a refresh period of GIST for each level.
    pub(super) fn of_report(quick: bool) -> Scaled {
        Scaled { by: if quick { 250 } else { 50 } }
    }

    /// Sessions in place of so many published ones.
    pub(super) fn sessions(self, published: u32) -> u32 {
        published / self.by
    }

    /// How often a session is pinged.
    pub(super) fn ping(self) -> Duration {
        PING / self.by
    }

    /// How often GIST refreshes, on average.
    pub(super) fn refresh(self) -> Duration {
        REFRESH / self.by
    }

    /// For people, what was done instead of what was published.
    pub(super) fn note(self) -> String {
        let Scaled { by } = self;
        let (ping, refresh) = (self.ping().as_secs_f64(), self.refresh().as_secs_f64());
        format!(
            "with 1/{by} of the sessions, each pinged every {ping:.2} s and refreshed by GIST every {refresh:.1} s, so that messages a \
             second are those of the paper"
        )
    }
}

/// Pings a second with so many published sessions.
pub(super) fn pings_a_second(published: u32) -> f64 {
    f64::from(published) / PING.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_a_second_stay_the_same() {
        for by in [1, 10, 120] {
            let scaled = Scaled { by };
            let rate = f64::from(scaled.sessions(60_000)) / scaled.ping().as_secs_f64();
            assert!((rate - pings_a_second(60_000)).abs() < 1e-6 * rate);
        }
    }
}
