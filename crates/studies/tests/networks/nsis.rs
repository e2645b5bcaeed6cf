//! Minimal runs of the NSIS measurements: they complete, and have plausible results for a chain without losses.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use earmark_studies::bench::nsis::resident::{self, Residents};
use earmark_studies::bench::nsis::set_up::{self, Associations};
use earmark_studies::bench::nsis::{Chain, Service, Set, Transport, ping, steady_state, transit};
use earmark_studies::bench::{Supervision, Unwatched};

use crate::Outcome;

const SET_UPS: u32 = 30;
const SESSIONS: u32 = 200;
/// Time longer than the refresh period of QoS NSLP and the validity of GIST, so that sessions need refreshes.
const WATCHED: Duration = Duration::from_secs(5);

fn chain(set: &Set) -> anyhow::Result<Chain> {
    Chain::of(PathBuf::from(env!("CARGO_BIN_EXE_earmark-studies")), set)
}

fn supervised<T>(work: impl FnOnce(&Supervision<'_>) -> T) -> T {
    work(&Supervision { watcher: &Unwatched, interrupted: &AtomicBool::new(false) })
}

/// ```text
///   h1 ---- r1 ---- h2
/// ```
///
/// Consecutive reservations over two hops succeed: in datagrams, over TCP and over TLS, where each hop sets up its
/// association with the first of them.
pub(crate) fn set_ups_by_every_transport() -> Outcome {
    for transport in Transport::ALL {
        let associations = match transport {
            Transport::Datagram => Associations::None,
            Transport::Tcp | Transport::Tls => Associations::Existing,
        };
        let chain = chain(&Set::new(2, transport))?;
        let plan = set_up::Plan {
            hops: 2,
            transport,
            service: Service::Qos,
            associations,
            count: SET_UPS,
        };
        let result = supervised(|supervision| set_up::measure_on(&chain, &plan, supervision))?;
        assert_eq!(result.times.count, SET_UPS as usize, "{transport:?}");
        assert!(result.rate.is_some_and(|rate| rate > 0.0) && result.times.p50_ms > 0.0);
        assert_eq!(result.losses.total(), 0, "{transport:?}");
    }
    Ok(())
}

/// Consecutive pinholes in the packet filters of two routers, each opened and closed.
pub(crate) fn pinholes_are_set_up_one_after_the_other() -> Outcome {
    let (transport, service) = (Transport::Tcp, Service::Natfw);
    let chain = chain(&Set { service, ..Set::new(3, transport) })?;
    let associations = Associations::Existing;
    let plan = set_up::Plan { hops: 3, transport, service, associations, count: SET_UPS };
    let result = supervised(|supervision| set_up::measure_on(&chain, &plan, supervision))?;
    assert_eq!(result.times.count, SET_UPS as usize);
    assert_eq!(result.losses.total(), 0);
    Ok(())
}

/// Two set-ups over TCP have associations of their own: the previous ones close as idle.
pub(crate) fn associations_end_without_use() -> Outcome {
    let hold = Duration::from_secs(1);
    let chain = chain(&Set { hold, ..Set::new(2, Transport::Tcp) })?;
    let associations = Associations::New;
    let plan = set_up::Plan {
        hops: 2,
        transport: Transport::Tcp,
        service: Service::Qos,
        associations,
        count: 2,
    };
    let result = supervised(|supervision| set_up::measure_on(&chain, &plan, supervision))?;
    assert_eq!((result.times.count, chain.associations()?), (2, 0));
    Ok(())
}

/// ```text
///   h1 ---- r1 ---- r2 ---- h2
/// ```
///
/// Two hundred sessions outlive their refresh period and the validity of routing state, refreshed individually and in
/// summaries, while pings pass.
pub(crate) fn resident_sessions_are_refreshed() -> Outcome {
    let mut received = Vec::new();
    for summary in [0, 100] {
        let (refresh, validity) = (Duration::from_secs(1), Duration::from_secs(3));
        let set = Set { refresh, validity, summary, ..Set::new(3, Transport::Datagram) };
        let chain = chain(&set)?;
        let (sessions, name) = (SESSIONS, "refreshed");
        let plan = resident::Plan { sessions, name, set, warm_up: WATCHED, window: WATCHED };
        let result = supervised(|supervision| resident::measure_on(&chain, &plan, supervision))?;
        let Residents { daemons, round_trips, .. } = &result;
        let nodes: Vec<_> = daemons.iter().map(|daemon| daemon.node.as_str()).collect();
        assert_eq!(nodes, ["r1", "r2", "h2"]);
        assert!(daemons.iter().all(|daemon| daemon.packets_in > 0.0 && daemon.processor > 0.0));
        assert!(round_trips.count > 0);
        assert_eq!((result.pings_lost, result.sessions_lost, result.losses.total()), (0, 0, 0));
        received.push(daemons[1].packets_in);
    }
    // Individual refreshes are 200 RESERVEs a second more.
    assert!(received[0] > received[1] + 50.0, "{received:?} packets a second");
    Ok(())
}

/// Pings at a low rate over two hops all come back.
pub(crate) fn pings_come_back() -> Outcome {
    let chain = chain(&Set::new(2, Transport::Datagram))?;
    let window = Duration::from_millis(500);
    let step = supervised(|supervision| ping::attempt_on(&chain, 100, window, supervision))?;
    assert_eq!((step.lost, step.offered), (0, 100));
    assert!(step.round_trips.count > 0 && step.message_us > 0.0);
    Ok(())
}

/// Sessions of Ping NSLP over one hop are pinged; then a reservation is set up beside them.
pub(crate) fn sessions_stand_and_are_pinged() -> Outcome {
    let period = Duration::from_secs(1);
    let set = Set { validity: steady_state::validity(period), ..Set::new(1, Transport::Tcp) };
    let chain = chain(&set)?;
    let plan = steady_state::Plan {
        levels: vec![20, 40],
        ping: Duration::from_millis(200),
        settle: Duration::from_millis(300),
        window: period,
        parts: 2,
        set_ups: Some((20, 3)),
    };
    let levels = supervised(|supervision| steady_state::measure_on(&chain, &plan, supervision))?;
    let counts: Vec<_> = levels.iter().map(|level| level.sessions).collect();
    assert_eq!(counts, [20, 40]);
    assert!(levels.iter().all(|level| level.lost == 0 && level.processor.len() == 2));
    assert!(levels.iter().all(|level| level.processor.iter().all(|share| *share > 0.0)));
    assert_eq!((levels[0].set_ups_ms.len(), levels[1].set_ups_ms.len()), (3, 0));
    // Each session has five pings a second, in the half second of a part.
    let pings: usize = levels[1].round_trips.iter().map(|times| times.count).sum();
    assert!((100..=300).contains(&pings), "{pings}");
    Ok(())
}

/// Many sessions begin one right after the other, and each gets its ping back.
pub(crate) fn sessions_are_held() -> Outcome {
    let chain = chain(&Set::new(1, Transport::Datagram))?;
    let held = supervised(|supervision| steady_state::hold_on(&chain, 300, 1_000, supervision))?;
    assert_eq!((held.sessions, held.back), (300, 300));
    Ok(())
}

/// ```text
///   h1 ---- r1 ---- h2
///   h3 -----'
/// ```
///
/// Frames that enter and leave a router between two senders are matched.
pub(crate) fn messages_are_timed_in_a_router() -> Outcome {
    let validity = steady_state::validity(Duration::from_secs(1));
    let set = Set { validity, second_sender: true, ..Set::new(2, Transport::Datagram) };
    let chain = chain(&set)?;
    let plan = transit::Plan {
        sessions: 40,
        ping: Duration::from_millis(200),
        settle: Duration::from_millis(300),
        window: Duration::from_secs(2),
        parts: 2,
    };
    let transits = supervised(|supervision| transit::measure_on(&chain, &plan, supervision))?;
    assert_eq!((transits.sessions, transits.lost, transits.unseen), (40, 0, 0));
    assert!(transits.queries.iter().map(|times| times.count).sum::<usize>() > 0);
    // Each ping passes twice, forwards and back.
    let data: usize = transits.data.iter().map(|times| times.count).sum();
    assert!((400..=1_200).contains(&data), "{data}");
    assert!(transits.data.iter().all(|times| times.p50_ms > 0.0));
    Ok(())
}
