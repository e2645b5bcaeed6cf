//! Records against a reference model: whatever is killed in between, each is applied once.

mod common;

use std::collections::BTreeMap;

use common::{Place, append, begun, counts, ended, flow, rows, started};
use earmark_history::Record;
use proptest::collection::vec;
use proptest::prelude::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// The flow with this port is reserved, unless it is.
    Begin(u16),
    /// The queue forwards octets.
    Forward(u16, u64),
    /// The daemon reads the queue.
    Read(u16),
    /// The reservation ends.
    End(u16),
    /// The writer applies what there is.
    Apply,
    /// The writer is killed, and another one goes on.
    KillWriter,
    /// The daemon is killed. The flows whose bits are set are claimed again.
    KillDaemon(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 1..6_u16;
    prop_oneof![
        4 => port().prop_map(Step::Begin),
        4 => (port(), 1..1_000_u64).prop_map(|(port, octets)| Step::Forward(port, octets)),
        2 => port().prop_map(Step::Read),
        3 => port().prop_map(Step::End),
        2 => Just(Step::Apply),
        1 => Just(Step::KillWriter),
        1 => any::<u8>().prop_map(Step::KillDaemon),
    ]
}

/// A reservation in the kernel, and in the records as they must be.
struct Standing {
    number: u64,
    row: usize,
    before: u64,
    counted: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_record_is_applied_once(steps in vec(step(), 1..80)) {
        let place = Place::new("model");
        let mut journal = place.open_journal();
        append(&mut journal, &[started(0), Record::AdoptedAll {}], 0);
        let mut writer = place.writer();
        let mut standing: BTreeMap<u16, Standing> = BTreeMap::new();
        // Octets, and the reason for the end.
        let mut expected: Vec<(u64, Option<&str>)> = Vec::new();
        let (mut number, mut at_ms) = (0, 0);
        for step in steps {
            at_ms += 10;
            match step {
                Step::Begin(port) if !standing.contains_key(&port) => {
                    number += 1;
                    let before = number * 7;
                    append(&mut journal, &[begun(number, port, at_ms, before)], 0);
                    let row = expected.len();
                    expected.push((0, None));
                    standing.insert(port, Standing { number, row, before, counted: before });
                }
                Step::Begin(_) => {}
                Step::Forward(port, octets) => {
                    if let Some(known) = standing.get_mut(&port) {
                        known.counted += octets;
                    }
                }
                Step::Read(port) => {
                    if let Some(known) = standing.get(&port) {
                        let counts = counts(known.counted);
                        let used = Record::Used { number: known.number, at_ms, counts };
                        append(&mut journal, &[used], 0);
                    }
                }
                Step::End(port) => {
                    if let Some(known) = standing.remove(&port) {
                        append(&mut journal, &[ended(known.number, at_ms, known.counted)], 0);
                        expected[known.row] = (known.counted - known.before, Some("torn_down"));
                    }
                }
                Step::Apply => writer.apply().expect("a database"),
                Step::KillWriter => writer = place.writer(),
                Step::KillDaemon(claimed) => {
                    drop(journal);
                    journal = place.open_journal();
                    let adopted = standing.keys().map(|&port| Record::Adopted { flow: flow(port) });
                    let begin = [started(at_ms)].into_iter().chain(adopted);
                    let begin: Vec<_> = begin.chain([Record::AdoptedAll {}]).collect();
                    append(&mut journal, &begin, 0);
                    number = 0;
                    standing.retain(|&port, known| {
                        if claimed >> port & 1 == 1 {
                            number += 1;
                            known.number = number;
                            append(&mut journal, &[begun(number, port, at_ms, known.counted)], 0);
                            return true;
                        }
                        let counts = Some(counts(known.counted));
                        let lost = Record::NotAdopted { flow: flow(port), at_ms, counts };
                        append(&mut journal, &[lost], 0);
                        expected[known.row] = (known.counted - known.before, Some("not_adopted"));
                        false
                    });
                }
            }
        }
        for known in standing.values() {
            let used = Record::Used { number: known.number, at_ms, counts: counts(known.counted) };
            append(&mut journal, &[used], 0);
            expected[known.row].0 = known.counted - known.before;
        }
        writer.apply().expect("a database");
        let found: Vec<_> = rows(&place.database())
            .into_iter()
            .map(|row| (row.octets.cast_unsigned(), row.end_reason))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(octets, reason)| (octets, reason.map(str::to_owned)))
            .collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(writer.status().invalid(), 0);
    }
}
