//! Cost of the contract's structures at the sizes of the design: nanoseconds per operation.
//!
//! A plain program, since the result is a table of a dozen numbers: `cargo bench -p earmark-core --bench structures`.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use earmark_core::admission::{Demand, Ledger, LinkCapacity, Owner, Protocol, Service};
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::timer::TimingWheel;
use earmark_core::{Flow, Hop, InterfaceId, Prefix, Rate, Route, RouteTable, Routes, Time};

/// Number of sessions of a large node.
const MILLION: u64 = 1_000_000;
/// Number of routes of a large node.
const ROUTES: u32 = 65_000;

fn main() {
    timers();
    routes();
    ledger();
}

/// Runs `body` once and prints how long one of its `operations` took.
fn measure<R>(what: &str, operations: u64, body: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = body();
    let nanos = start.elapsed().as_nanos() as f64 / operations as f64;
    println!("{what:<58} {nanos:8.1} ns");
    result
}

/// A million soft states, each refreshed every 15 to 45 s.
fn timers() {
    let mut random = RandomStreams::new(1).stream("timers");
    let mut jitter = || random.uniform(Duration::from_secs(15), Duration::from_secs(45));
    let deadlines: Vec<Time> = (0..MILLION).map(|_| Time::ZERO + jitter()).collect();
    let mut wheel = TimingWheel::new();
    let ids: Vec<_> = measure("timer: arm, a million in all", MILLION, || {
        deadlines.iter().zip(0_u32..).map(|(&at, n)| wheel.arm(at, n)).collect()
    });
    measure("timer: next deadline", MILLION, || {
        for _ in 0..MILLION {
            black_box(wheel.next_deadline());
        }
    });
    measure("timer: move", MILLION, || {
        for (&id, &at) in ids.iter().zip(deadlines.iter().rev()) {
            wheel.rearm(id, at);
        }
    });
    measure("timer: fire, falls included, a millisecond at a time", MILLION, || {
        for millis in 0..=45_000 {
            while let Some(fired) = wheel.pop_due(Time::from_millis(millis)) {
                black_box(fired);
            }
        }
    });
    assert!(wheel.is_empty());
}

/// Prefix lengths as in a table of the backbone: most are /24, some are shorter, a few are hosts.
fn length(random: &mut Stream) -> u8 {
    match random.next_u64() % 100 {
        0..60 => 24,
        60..75 => 22,
        75..85 => 20,
        85..95 => 16 + (random.next_u64() % 8) as u8,
        95..98 => 32,
        _ => 8 + (random.next_u64() % 8) as u8,
    }
}

fn routes() {
    let mut random = RandomStreams::new(1).stream("routes");
    let hop = Hop { interface: InterfaceId(1), gateway: None, source: None };
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for _ in 0..ROUTES {
        // 25 routes to a /16, and 8 to a /32 of IPv6, as in the tables of the backbone.
        let v4_block = (random.next_u64() % 2_600) as u32 * 20 + 0x0b00;
        let v6_block = u128::from(random.next_u64() % 8_192) * 256 + 0x2001_0000;
        let rest = random.next_u64();
        let v4_address = Ipv4Addr::from_bits(v4_block << 16 | rest as u32 & 0xffff);
        let v6_address = Ipv6Addr::from_bits(v6_block << 96 | u128::from(rest) << 32);
        v4.push((IpAddr::V4(v4_address), length(&mut random)));
        v6.push((IpAddr::V6(v6_address), 24 + length(&mut random)));
    }
    for (family, routes) in [("IPv4", v4), ("IPv6", v6)] {
        let mut table = RouteTable::new();
        measure(&format!("routes: insert, 65 000 {family} in all"), ROUTES.into(), || {
            for &(address, length) in &routes {
                table.insert(Route { prefix: Prefix::new(address, length), metric: 1, hop });
            }
        });
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by_cached_key(|_| random.next_u64());
        measure(&format!("routes: look-up, known {family} destinations"), ROUTES.into(), || {
            for &n in &order {
                black_box(table.lookup(routes[n].0));
            }
        });
        let one = routes[0].0;
        measure(&format!("routes: look-up, the same {family} destination"), MILLION, || {
            for _ in 0..MILLION {
                black_box(table.lookup(black_box(one)));
            }
        });
    }
}

fn ledger() {
    let mut ledger = Ledger::new();
    for link in 1..=16 {
        let capacity = LinkCapacity { bandwidth: Rate::MAX, reservable: Rate::MAX, mtu: 1_500 };
        ledger.set_link(InterfaceId(link), capacity);
    }
    let flow = Flow::to_range(Prefix::host(Ipv4Addr::LOCALHOST.into()));
    let demand = Demand {
        service: Service::ControlledLoad,
        rate: Rate::from_mbps(1),
        burst: 5_000,
        max_packet: 1_000,
        min_packet: 0,
    };
    let claims: Vec<_> = measure("ledger: claim, a million on 16 links in all", MILLION, || {
        (0..MILLION as u32)
            .map(|block| {
                let owner = Owner { protocol: Protocol::new(1), block };
                ledger.claim(InterfaceId(1 + block % 16), owner, &flow, demand).expect("fits")
            })
            .collect()
    });
    measure("ledger: change", MILLION, || {
        for &claim in &claims {
            ledger.change(claim, Demand { rate: Rate::from_mbps(2), ..demand }).expect("fits");
        }
    });
    measure("ledger: ask for waiting requests where there are none", MILLION, || {
        for _ in 0..MILLION {
            black_box(ledger.next_grantable());
        }
    });
    measure("ledger: release", MILLION, || {
        for &claim in &claims {
            ledger.release(claim);
        }
    });
    assert!(ledger.links().all(|(_, status)| status.held == Rate::ZERO));
}
