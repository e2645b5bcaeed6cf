//! Table I and Figure 5: octets of messages, layer by layer, and of whole procedures.

use crate::bench::bytes::{self, Comparison, NOTES};
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{
    Axis, Basis, Cell, Estimate, Figure, Kind, Section, Series, Table,
};

/// Counts the octets of every message, part by part.
pub(super) fn measure() -> Section {
    let mut section = Section::default();
    section.heading("Octets of messages (Table I, Figure 5)");
    section.text(
        "Every message is written by the formats of the daemon, and taken apart again; payload of applications is left out. The choices \
         are the paper's: 32 octets of cookie, the address of the node as its identity, a flow by its destination port in IPv4 and by its \
         flow label in IPv6, TCP as the only protocol offered. The paper counted by a draft of GIST, by hand; RFC 5971 came later, and \
         brought the magic number in datagrams and longer names of nodes in IPv6. Each difference has its reasons, which add up to it.",
    );
    let messages = bytes::messages();
    section.table(of_messages(&messages));
    for pair in messages.chunk_by(|one, next| one.what == next.what) {
        let Some(key) = pair[0].key else { continue };
        let values = pair.iter().map(|message| Estimate::exact(message.octets.into()));
        section.entries_by(Basis::Counted, key, "octets", values, "IPv4, IPv6");
    }
    let procedures = bytes::scenarios();
    section.figure(of_procedures(&procedures));
    section.table(reasons(&procedures));
    for procedure in &procedures {
        let Some(key) = procedure.key else { continue };
        let octets = [Estimate::exact(procedure.octets.into())];
        section.entries_by(Basis::Counted, key, "octets", octets, None);
    }
    for note in NOTES {
        section.text(sentence(note));
    }
    section
}

fn of_messages(messages: &[Comparison]) -> Table {
    let columns = [
        "message",
        "IP",
        "IP header",
        "UDP, TCP, magic",
        "above",
        "octets",
        "published",
        "reasons",
    ];
    let mut table = Table::new("gist-octets", "Octets of messages", &columns);
    for message in messages {
        let [ip, transport, above] = message.layers().map(|octets| Cell::from(f64::from(octets)));
        let of_both = message.key.map(published::numbers).unwrap_or_default();
        table.row([
            message.what.as_str().into(),
            message.version.name().into(),
            ip,
            transport,
            above,
            f64::from(message.octets).into(),
            of_both.get(message.version as usize).copied().into(),
            why(message).into(),
        ]);
    }
    table
}

fn reasons(procedures: &[Comparison]) -> Table {
    let columns = ["procedure", "octets", "published", "reasons"];
    let mut table = Table::new("gist-procedures", "Octets of procedures, in IPv4", &columns);
    for procedure in procedures {
        table.row([
            procedure.what.as_str().into(),
            f64::from(procedure.octets).into(),
            procedure.key.and_then(published::number).into(),
            why(procedure).into(),
        ]);
    }
    table
}

fn of_procedures(procedures: &[Comparison]) -> Figure {
    let names: Vec<&str> = procedures.iter().map(|procedure| procedure.what.as_str()).collect();
    let ours = procedures.iter().enumerate();
    let ours =
        ours.map(|(place, procedure)| Estimate::exact(procedure.octets.into()).at(place as f64));
    let theirs = procedures.iter().enumerate().filter_map(|(place, procedure)| {
        Some(Estimate::exact(published::number(procedure.key?)?).at(place as f64))
    });
    Figure {
        name: "gist-procedures".to_owned(),
        title: "Octets of setting up and refreshing, in IPv4 (Figure 5)".to_owned(),
        across: Axis::named("procedure", &names),
        up: Axis::linear("octets"),
        kind: Kind::Bars,
        series: vec![Series::measured("Earmark", ours), Series::published("GIST 2009", theirs)],
    }
}

fn why(comparison: &Comparison) -> String {
    let reasons = comparison.reasons.iter();
    reasons
        .map(|reason| format!("{:+}: {}", reason.octets, reason.why))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Returns a note as a sentence.
fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_octet_has_a_counterpart() {
        let section = measure();
        for (key, value) in published::measurements() {
            if !["gist.table1_octets", "gist.figure5_octets"]
                .iter()
                .any(|above| published::is_under(key, above))
            {
                continue;
            }
            let entry = section.entries.iter().find(|entry| entry.key == *key);
            let count = value.as_array().map_or(1, Vec::len);
            assert_eq!(entry.map(|entry| entry.values.len()), Some(count), "{key}");
        }
        let query = section.entries.iter().find(|entry| entry.key.ends_with(".query")).unwrap();
        assert!(query.values[0].median < query.values[1].median, "IPv4 before IPv6");
    }
}
