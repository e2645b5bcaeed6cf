//! Cases of the papers, as scenarios, and their published results.

use std::io;

use serde::Serialize;

const REGULAR: &str = include_str!("../../../../../scenarios/retry-regular.toml");
const HIGH: &str = include_str!("../../../../../scenarios/retry-high.toml");
/// Small, middle and large flows, each kind a third of the requested bandwidth.
pub(super) const MIXED: &str = include_str!("../../../../../scenarios/retry-mixed.toml");
/// High load, in which a tenth of the flows preempts others.
pub(super) const PRIORITIES: &str = include_str!("../../../../../scenarios/retry-priorities.toml");
const NETWORK: &str = include_str!("../../../../../topologies/retry.toml");
const ABILENE: &str = include_str!("../../../../../topologies/abilene.graphml");

/// Name of the study's network if all pairs of hosts attach at n1 and n5.
pub(super) const END_TO_END: &str = "retry-end-to-end.toml";
/// Name of the study's network as a parking lot: each pair crosses one or two links, and three links carry two pairs each.
pub(super) const PARKING_LOT: &str = "retry-parking-lot.toml";

/// Returns the study's network with other routers for some hosts.
fn attached(hosts: &[(&str, &str)]) -> String {
    let attach = |line: &str| {
        let moved = hosts.iter().find(|(host, _)| line.contains(&format!("ends = [\"{host}\", ")));
        match (moved, line.split_once(']')) {
            (Some((host, router)), Some((_, rest))) => {
                format!("    {{ ends = [\"{host}\", \"{router}\"]{rest}")
            }
            _ => line.to_owned(),
        }
    };
    NETWORK.lines().map(attach).collect::<Vec<_>>().join("\n")
}

/// Returns a file that scenarios of the study refer to; it is part of the program, so that the study needs no files.
pub(super) fn file(name: &str) -> io::Result<String> {
    match name.rsplit('/').next() {
        Some("retry.toml") => Ok(NETWORK.to_owned()),
        Some(END_TO_END) => Ok(attached(&[("n9", "n1"), ("n10", "n1"), ("n13", "n5")])),
        Some(PARKING_LOT) => {
            let sources = [("n8", "n2"), ("n9", "n3"), ("n10", "n1")];
            let destinations = [("n11", "n3"), ("n12", "n4"), ("n13", "n5"), ("n14", "n2")];
            Ok(attached(&[&sources[..], &destinations[..]].concat()))
        }
        Some("abilene.graphml") => Ok(ABILENE.to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

earmark_core::named_enum! {
    /// Requested bandwidth.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Load {
        /// 85 reservations at a time.
        Regular = "regular",
        /// 120 reservations at a time.
        High = "high",
    }
}

/// Method of completing refused reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Case {
    /// RSVP: by refreshes, hop by hop from the receiver.
    #[serde(rename = "rsvp")]
    Rsvp,
    /// One pass, by refreshes alone.
    #[serde(rename = "refresh")]
    Refresh,
    /// One pass, and resource grabbing without a threshold.
    #[serde(rename = "grab_inf")]
    GrabInfinite,
    /// One pass, and resource grabbing with T = 10.
    #[serde(rename = "grab_10")]
    Grab10,
    /// One pass, and resource grabbing with T = 8.
    #[serde(rename = "grab_8")]
    Grab8,
    /// One pass, and resource grabbing with T = 3.
    #[serde(rename = "grab_3")]
    Grab3,
    /// One pass, and resource grabbing with T = 1.
    #[serde(rename = "grab_1")]
    Grab1,
}

/// Published results of a case. Each published simulation was run several times with different seeds; the papers state
/// neither how many times, nor whether a figure is of one of these runs or a mean, and give no interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Retries in the network in 550 s; only for high load.
    pub retries: Option<u32>,
    /// Time until the test flow completed, seconds; `None` if it did not.
    pub completed_after: Option<f64>,
    /// Number of the test flow's tries.
    pub tries: u32,
}

impl Load {
    /// Returns the scenario of the load.
    pub(super) fn scenario(self) -> &'static str {
        match self {
            Load::Regular => REGULAR,
            Load::High => HIGH,
        }
    }
}

impl Case {
    /// All cases, in the order of the papers.
    pub const ALL: [Case; 7] = [
        Case::Rsvp,
        Case::Refresh,
        Case::GrabInfinite,
        Case::Grab10,
        Case::Grab8,
        Case::Grab3,
        Case::Grab1,
    ];

    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Case::Rsvp => "RSVP",
            Case::Refresh => "refresh only",
            Case::GrabInfinite => "T = ∞",
            Case::Grab10 => "T = 10",
            Case::Grab8 => "T = 8",
            Case::Grab3 => "T = 3",
            Case::Grab1 => "T = 1",
        }
    }

    /// Returns the settings of the scenario.
    pub(super) fn settings(self) -> [(&'static str, &'static str); 2] {
        let threshold = match self {
            Case::Rsvp | Case::Refresh => "0",
            Case::GrabInfinite => "\"infinite\"",
            Case::Grab10 => "10",
            Case::Grab8 => "8",
            Case::Grab3 => "3",
            Case::Grab1 => "1",
        };
        let protocol = if self == Case::Rsvp { "rsvp" } else { "yessir" };
        [("protocol", protocol), ("retry.threshold", threshold)]
    }

    /// Returns the published results: figures 2 to 4 and 6 to 12, table 1. Grabbing under regular load was published
    /// without a threshold only.
    pub fn published(self, load: Load) -> Option<Published> {
        let result =
            |retries, completed_after, tries| Some(Published { retries, completed_after, tries });
        match (load, self) {
            (Load::Regular, Case::Rsvp) => result(None, Some(150.0), 5),
            (Load::Regular, Case::Refresh) => result(None, Some(77.0), 3),
            (Load::Regular, Case::GrabInfinite) => result(None, Some(12.0), 19),
            (Load::Regular, _) => None,
            (Load::High, Case::Rsvp) => result(Some(3_409), None, 10),
            (Load::High, Case::Refresh) => result(Some(2_588), Some(43.0), 3),
            (Load::High, Case::GrabInfinite) => result(Some(28_314), None, 184),
            (Load::High, Case::Grab10) => result(Some(8_534), None, 46),
            (Load::High, Case::Grab8) => result(Some(7_137), Some(232.0), 32),
            (Load::High, Case::Grab3) => result(Some(4_382), Some(172.0), 14),
            (Load::High, Case::Grab1) => result(Some(2_685), Some(19.0), 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Job;
    use super::*;

    /// Other programs rely on the names in JSON.
    #[test]
    fn cases_have_their_names() {
        let names = Case::ALL.map(|case| serde_json::to_value(case).expect("plain data"));
        assert_eq!(names, ["rsvp", "refresh", "grab_inf", "grab_10", "grab_8", "grab_3", "grab_1"]);
        assert!(Load::ALL.iter().all(|load| serde_json::to_value(load).unwrap() == load.name()));
    }

    #[test]
    fn hosts_are_attached_elsewhere() {
        let lot = file(PARKING_LOT).expect("a network");
        for link in
            ["n7\", \"n1", "n8\", \"n2", "n9\", \"n3", "n11\", \"n3", "n14\", \"n2", "n1\", \"n2"]
        {
            assert!(lot.contains(&format!("ends = [\"{link}\"]")), "{link}: {lot}");
        }
        assert_eq!(lot.matches("ends").count(), NETWORK.matches("ends").count());
    }

    /// Every scenario of the study can be run with the program alone.
    #[test]
    fn cases_can_be_played() {
        for load in Load::ALL {
            for case in Case::ALL {
                let jobs = Job::each(load.scenario(), &case.settings(), 2).expect("a scenario");
                let checked = |job: &Job| job.scenario.check(&job.topology);
                assert!(jobs.iter().all(|job| checked(job).is_ok()), "{load:?} {case:?}");
            }
        }
        assert!(file("somewhere/retry.toml").is_ok() && file("else.toml").is_err());
    }
}
