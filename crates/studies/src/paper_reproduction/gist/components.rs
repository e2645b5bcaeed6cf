//! Table III: instructions of a GIST router by component.

use anyhow::Result;

use crate::bench::Supervision;
use crate::bench::messages::instructions::WITHOUT_VALGRIND;
use crate::bench::nsis::profile::{self, Component};
use crate::paper_reproduction::PartOptions;
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{
    Axis, Basis, Estimate, Figure, Kind, Section, Series, Table,
};

/// Key of the published table.
const KEY: &str = "gist.table3_runtime_pct";

/// Returns the numbers of sessions. They matter little: instruction counts are independent of memory latency.
fn sessions(order: &PartOptions) -> &'static [u32] {
    if order.quick { &[100, 200, 400] } else { &[100, 200, 400, 800, 1_600] }
}

/// Returns the published row of a component.
fn row(component: Component) -> &'static str {
    match component {
        Component::Timers => "timers",
        Component::ReceiveAndDistribute => "receive_and_distribute",
        Component::Parse => "parse",
        Component::Compose => "compose",
        Component::HashTables => "hash_tables",
        Component::Fsm => "fsm",
        Component::Nslp => "nslp_ping",
        Component::Misc => "misc",
    }
}

/// Counts the instructions, by valgrind.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let mut section = Section::default();
    section.heading("Where the time goes (Table III)");
    let mut profiles = Vec::new();
    for &sessions in sessions(order) {
        let Some(profile) = profile::measure(sessions, supervision)? else {
            section.text(format!("Not measured: {WITHOUT_VALGRIND}."));
            section.leave_out(KEY, WITHOUT_VALGRIND);
            return Ok(section);
        };
        profiles.push(profile);
    }
    section.text(
        "Three nodes without I/O, in virtual time: the first pings the last through the one in the middle, each session every 30 s, and \
         GIST asks again who is next every 180 s on average, in datagrams. Instructions of the node in the middle were counted by \
         valgrind, for 180 s in which all sessions stand, and are told apart by the module that they were written in; what libraries \
         take (copying, searching trees) belongs to their callers. The paper's shares are of time, by gprof, with the system's calls for \
         sockets in them, which a node without I/O has not.",
    );
    let columns = ["component", "% of instructions", "% published, 0.1.0", "% published, 0.5.2"];
    let mut table = Table::new("gist-components", "Shares of the components of GIST", &columns);
    let mut ours = Vec::new();
    for (place, component) in Component::ALL.into_iter().enumerate() {
        let shares = profiles.iter().map(|profile| 100.0 * profile.shares[place].1);
        let Some(share) = Estimate::of(&shares.collect::<Vec<_>>()) else { continue };
        let key = format!("{KEY}.{}", row(component));
        let then = published::numbers(&key);
        table.row([
            component.name().into(),
            (&share).into(),
            then.first().copied().into(),
            then.get(1).copied().into(),
        ]);
        let note =
            "one value: of instructions, without sockets; beside versions 0.1.0 and 0.5.2 of GIST";
        ours.push(share.at(place as f64));
        section.entries_by(Basis::Counted, key, "% of instructions", [share], note);
    }
    let sockets = published::numbers(&format!("{KEY}.sockets"));
    let [first, second] = [0, 1].map(|version| sockets.get(version).copied().into());
    table.row(["sockets".into(), None::<f64>.into(), first, second]);
    let reason = "the engine was counted without I/O; what the kernel takes is in the processor time of the daemon";
    section.leave_out(format!("{KEY}.sockets"), reason);
    section.figure(figure(ours));
    section.table(table);
    let per_message = profiles.iter().map(|profile| {
        // Each session has six pings, each passing twice.
        profile.instructions as f64 / (f64::from(profile.sessions) * 12.0)
    });
    if let Some(each) = Estimate::of(&per_message.collect::<Vec<_>>()) {
        section.text(format!(
            "All of it is {:.0} instructions for each message of Ping that passes, refreshes of GIST included. Timers took 42 % of version \
             0.1.0, since a sorted heap held them; a wheel, here as in 0.5.2 a list for each span, makes them cheap. What is left is what \
             every message needs: reading it, finding its state, writing it.",
            each.median
        ));
    }
    Ok(section)
}

fn figure(ours: Vec<crate::paper_reproduction::section::Point>) -> Figure {
    let names = ["timers", "receive", "parse", "compose", "hash", "FSM", "NSLP", "misc"];
    let then = |version: usize| -> Vec<_> {
        let of = |component| published::numbers(&format!("{KEY}.{}", row(component)));
        let values =
            Component::ALL.into_iter().map(|component| of(component).get(version).copied());
        let places = values.enumerate();
        places.filter_map(|(place, value)| Some(Estimate::exact(value?).at(place as f64))).collect()
    };
    Figure {
        name: "gist-components".to_owned(),
        title: "Shares of the components of GIST (Table III)".to_owned(),
        across: Axis::named("component", &names),
        up: Axis::linear("% of the run time"),
        kind: Kind::Bars,
        series: vec![
            Series::measured("Earmark, instructions", ours),
            Series::published("GIST 0.1.0", then(0)),
            Series::published("GIST 0.5.2", then(1)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_a_component_or_left_out() {
        let rows = published::measurements().filter(|(key, _)| published::is_under(key, KEY));
        let names: Vec<&str> = rows.map(|(key, _)| &key[KEY.len() + 1..]).collect();
        assert_eq!(names.len(), Component::ALL.len() + 1);
        assert!(Component::ALL.iter().all(|component| names.contains(&row(*component))));
    }
}
