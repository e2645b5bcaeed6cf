//! The published measurements in less time: fewer sessions with proportionally shorter refresh periods, so that the
//! number of messages a second is unchanged.

use std::time::Duration;

/// Published ping interval of a session, in place of an application refresh.
const PING: Duration = Duration::from_secs(30);
/// Published refresh interval of GIST.
const REFRESH: Duration = Duration::from_secs(180);

/// Factor by which the number of sessions and the periods are reduced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scaling {
    pub(super) by: u32,
}

impl Scaling {
    /// Returns the factor for a report: each round takes a refresh period of GIST for each level.
    pub(super) fn of_report(quick: bool) -> Scaling {
        Scaling { by: if quick { 250 } else { 50 } }
    }

    /// Returns the scaled number of sessions.
    pub(super) fn sessions(self, published: u32) -> u32 {
        published / self.by
    }

    /// Returns the scaled ping interval of a session.
    pub(super) fn ping(self) -> Duration {
        PING / self.by
    }

    /// Returns the scaled mean refresh interval of GIST.
    pub(super) fn refresh(self) -> Duration {
        REFRESH / self.by
    }

    /// Returns a note about the difference from the published measurement.
    pub(super) fn note(self) -> String {
        let Scaling { by } = self;
        let (ping, refresh) = (self.ping().as_secs_f64(), self.refresh().as_secs_f64());
        format!(
            "with 1/{by} of the sessions, each pinged every {ping:.2} s and refreshed by GIST every {refresh:.1} s, so that messages a \
             second are those of the paper"
        )
    }
}

/// Returns the pings a second with this number of published sessions.
pub(super) fn pings_a_second(published: u32) -> f64 {
    f64::from(published) / PING.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_a_second_stay_the_same() {
        for by in [1, 10, 120] {
            let scaling = Scaling { by };
            let rate = f64::from(scaling.sessions(60_000)) / scaling.ping().as_secs_f64();
            assert!((rate - pings_a_second(60_000)).abs() < 1e-6 * rate);
        }
    }
}
