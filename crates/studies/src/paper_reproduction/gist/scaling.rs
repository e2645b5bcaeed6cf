//! Size of the measurements with sessions: as published, or with fewer sessions and proportionally shorter periods, so
//! that the number of messages a second is as published, and nothing else.

use std::time::Duration;

use super::super::section::Section;

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
    /// Returns the factor for a report: each round takes a refresh period of GIST for each level, so that a quick
    /// report has no time for the published ones.
    pub(super) fn of_report(quick: bool) -> Scaling {
        Scaling { by: if quick { 250 } else { 1 } }
    }

    /// Returns whether the setting is the published one; only then results are comparable with the published ones.
    pub(super) fn is_published(self) -> bool {
        self.by == 1
    }

    /// Returns the number of sessions in place of the published one.
    pub(super) fn sessions(self, published: u32) -> u32 {
        published / self.by
    }

    /// Returns the ping interval of a session.
    pub(super) fn ping(self) -> Duration {
        PING / self.by
    }

    /// Returns the mean refresh interval of GIST.
    pub(super) fn refresh(self) -> Duration {
        REFRESH / self.by
    }

    /// Returns the pings a second with this number of sessions.
    pub(super) fn pings_a_second(self, sessions: u32) -> f64 {
        f64::from(sessions) / self.ping().as_secs_f64()
    }

    /// Describes the setting, as part of a sentence.
    pub(super) fn note(self) -> String {
        let (ping, refresh) = (self.ping().as_secs_f64(), self.refresh().as_secs_f64());
        let setting =
            format!("each pinged every {ping:.2} s and refreshed by GIST every {refresh:.1} s");
        match self.is_published() {
            true => setting,
            false => format!(
                "{setting}: so many messages a second as published, of 1/{} of the sessions",
                self.by
            ),
        }
    }

    /// Records that a published figure has no counterpart, unless the setting is the published one; returns whether
    /// it is.
    pub(super) fn admits(self, section: &mut Section, key: &str) -> bool {
        if !self.is_published() {
            let reason = format!(
                "a quick report has 1/{} of the published sessions; the full report has all of them",
                self.by
            );
            section.leave_out(key, reason);
        }
        self.is_published()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_a_second_stay_the_same() {
        for by in [1, 10, 120] {
            let scaling = Scaling { by };
            let rate = scaling.pings_a_second(scaling.sessions(60_000));
            assert!((rate - 2_000.0).abs() < 1e-6 * rate);
        }
    }

    /// A full report measures the published setting; a quick one has no value under the keys of the published ones.
    #[test]
    fn only_the_published_setting_is_compared() {
        let [quick, full] = [true, false].map(Scaling::of_report);
        assert_eq!((full.sessions(60_000), full.ping(), full.refresh()), (60_000, PING, REFRESH));
        let mut section = Section::default();
        assert!(full.admits(&mut section, "gist.cpu_pct_60000") && section.left_out.is_empty());
        assert!(!quick.admits(&mut section, "gist.cpu_pct_60000"));
        assert_eq!(section.left_out.len(), 1);
    }
}
