//! Memory that a flood can use: the largest messages, more of them than the tables hold. In a program of its own, because the
//! heap is counted for the whole process.

mod common;

use earmark_core::shares;
use earmark_rsvp::Config;
use earmark_testkit::memory::octets_per_session;
use earmark_wire::rsvp::{Body, Carried, Path, Session};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// A flood of Paths that each carry as much as is stored: the table ends at its limit, and a sender with all of it at the
/// octets that docs/limits.md names.
#[test]
fn flood_of_largest_senders_ends_at_the_documented_octets() {
    const SENDERS: u32 = 2_000;
    const OCTETS: f64 = 5_120.0;
    let _profiler = dhat::Profiler::builder().testing().build();
    let config = Config { max_sessions: SENDERS, ..Config::default() };
    // An object of a class that is forwarded without examination, as long as is stored.
    let mut object = vec![0x5a; config.max_kept_octets as usize];
    object[..4].copy_from_slice(&[0x10, 0x00, 0xc8, 0x01]);
    let flood = |messages: u32| {
        let mut bench = common::with_config(config.clone());
        for number in 0..messages {
            let port = u16::try_from(number).expect("a port") + 1;
            let path = Path {
                session: Session { port, ..common::session() },
                carried: Carried::Objects(&object),
                ..common::path()
            };
            bench.receive(common::ETH1, Body::Path(path));
        }
        bench
    };
    let heap = || dhat::HeapStats::get().curr_bytes;
    let octets = octets_per_session(heap, || flood(0), SENDERS, |_| flood(5 * SENDERS));
    let mut table = shares::Shares::default();
    let senders = table.room(common::ETH1, SENDERS, 2);
    assert_eq!(flood(5 * SENDERS).engine.population().1, senders as usize);
    println!("{octets:.0} octets for each of {SENDERS} places, of which a port uses {senders}");
    assert!((4_096.0 * 0.8..OCTETS).contains(&octets), "{octets}");
}
