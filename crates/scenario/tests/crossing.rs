//! Crossings: invariants hold in every variant of every protocol, and consecutive seeds cross all values of the axes.

use std::collections::BTreeSet;

use earmark_scenario::Protocols;
use earmark_scenario::crossing::{Case, EventKind, Place, play_case, play_logged};

#[test]
fn sampled_cases_hold_all_invariants() {
    let protocols = Protocols::default();
    let mut reserved = 0;
    for seed in 0..300 {
        let case = Case::of(seed, &protocols);
        let crossing = play_case(&case, &protocols);
        let again = format!("earmark-lab cross --seed {seed}");
        assert!(crossing.violations.is_empty(), "{again}: {crossing:#?}");
        reserved += usize::from(crossing.is_reserved);
    }
    assert!(reserved > 200, "{reserved}");
}

/// Errors found earlier, one of each kind: a locking destination of a one-way reservation, a lock whose key had no room for more,
/// grants after a refusal or a loss that nobody was told of, reservations by receivers whose sender had lost them, was gone, or
/// had been told that there is none, and a node off the path that became the next one again.
#[test]
fn formerly_failing_cases_hold_all_invariants() {
    let protocols = Protocols::default();
    let seeds = [
        22, 67, 81, 367, 1723, 2488, 284, 6569, 29638, 662474, 738074, 945674, 1051589, 3048479,
        3077293,
    ];
    for seed in seeds {
        let case = Case::of(seed, &protocols);
        let crossing = play_case(&case, &protocols);
        let again = format!("earmark-lab cross --seed {seed}");
        assert!(crossing.violations.is_empty(), "{again}: {crossing:#?}");
    }
}

/// 1 200 consecutive seeds are every variant and family with every event at every place.
#[test]
fn consecutive_seeds_cross_all_axes() {
    let protocols = Protocols::default();
    let names = |seed| {
        let case = Case::of(seed, &protocols);
        let event = case.events[0];
        (
            case.protocol.name(),
            case.variant.name,
            format!("{:?}", case.family),
            event.kind,
            event.place,
        )
    };
    let variants: usize = protocols.all().iter().map(|protocol| protocol.variants().len()).sum();
    let all = variants * 2 * EventKind::ALL.len() * Place::ALL.len();
    let crossed: BTreeSet<_> = (7_000..7_000 + all as u64).map(names).collect();
    assert_eq!(crossed.len(), all);
    assert!(protocols.all().iter().all(|protocol| protocol.variants().len() > 1), "{variants}");
}

/// A log does not change the run, and one seed always gives the same one.
#[test]
fn same_seed_gives_same_run() {
    let protocols = Protocols::default();
    let case = Case::of(1_723, &protocols);
    let mut nodes = BTreeSet::new();
    let logged = play_logged(&case, &protocols, |node, _| _ = nodes.insert(node.to_owned()));
    let again = play_case(&case, &protocols);
    assert_eq!((logged.events, logged.is_reserved), (again.events, again.is_reserved));
    assert!(nodes.len() >= 4, "{nodes:?}");
}
