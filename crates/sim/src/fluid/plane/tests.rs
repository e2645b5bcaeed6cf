//! Tests of the plane alone: shares that can be calculated by hand.

use earmark_core::Rate;

use super::*;

/// Packet length for which a rate of whole kilobits has whole framing, too.
const OCTETS: u32 = 14_000;

fn mbps(rate: u64) -> FluidRate {
    FluidRate::of(Rate::from_mbps(rate))
}

/// Creates links of 10 Mbit/s, and paths through some of them; the end of each is watched by the number of the first
/// link.
fn plane(links: u32, ways: &[&[LinkNumber]]) -> (Plane, Vec<Vec<ChannelNumber>>) {
    let mut plane = Plane::default();
    for _ in 0..links {
        plane.add_link(mbps(10));
    }
    let mut lay = |(name, way): (usize, &&[LinkNumber])| {
        let mut next = Next::Watched(name as u32);
        let mut channels = Vec::new();
        for &link in way.iter().rev() {
            let channel = plane.add_channel(link, OCTETS, Some(name as u32), next);
            plane.use_channel(channel);
            channels.insert(0, channel);
            next = Next::Channel(channel);
        }
        channels
    };
    let channels = ways.iter().enumerate().map(&mut lay).collect();
    (plane, channels)
}

/// Returns the rate that arrives now at the end of each path, Mbit/s.
fn arrives(plane: &mut Plane, at: &mut [f64]) {
    plane.settle();
    for (name, rate) in plane.arrivals.drain(..) {
        at[name as usize] = rate.during(core::time::Duration::from_secs(1)).octets() as f64 / 125e3;
    }
}

fn near(at: &[f64], expected: &[f64]) {
    let close = at.iter().zip(expected).all(|(at, expected)| (at - expected).abs() < 1e-3);
    assert!(close && at.len() == expected.len(), "{at:?}, and not {expected:?}");
}

/// Share of the payload: a frame adds a thousandth.
const FRAMED: f64 = 1.0 / 1.001;

/// A class passes its reserved rate, best effort shares the rest, and traffic lost upstream is no load downstream.
#[test]
fn links_are_shared() {
    let (mut plane, ways) = plane(2, &[&[0, 1], &[0], &[1]]);
    let mut at = [0.0; 3];
    for (way, rate) in ways.iter().zip([4, 12, 10]) {
        plane.flow_in(way[0], FluidRate::ZERO, mbps(rate));
    }
    arrives(&mut plane, &mut at);
    let first = 10.0 * FRAMED * 4.0 / 16.0;
    let second = 10.0 * FRAMED / (first + 10.0);
    near(&at, &[first * second, 10.0 * FRAMED * 12.0 / 16.0, 10.0 * second]);
    plane.classify(ways[0][0], Some((1, mbps(3))));
    arrives(&mut plane, &mut at);
    let second = 10.0 * FRAMED / 13.0;
    near(&at, &[3.0 * second, 10.0 * FRAMED - 3.0, 10.0 * second]);
    plane.classify(ways[0][1], Some((7, mbps(3))));
    arrives(&mut plane, &mut at);
    near(&at, &[3.0, 10.0 * FRAMED - 3.0, 10.0 * FRAMED - 3.0]);
    plane.set_class_rate(1, 7, mbps(1));
    plane.set_bandwidth(0, mbps(2));
    arrives(&mut plane, &mut at);
    near(&at, &[1.0, 0.0, 10.0 * FRAMED - 1.0]);
}

/// Three paths in a circle, each over two of three links: with 10 Mbit/s into each, x of 10 + x pass, and the share s
/// has s (10 + 10 s) = 10 without frames, so s is 0.618.
#[test]
fn cyclic_paths_converge_and_leave_no_flow() {
    let (mut plane, ways) = plane(3, &[&[0, 1], &[1, 2], &[2, 0]]);
    let mut at = [0.0; 3];
    for way in &ways {
        plane.flow_in(way[0], FluidRate::ZERO, mbps(10));
    }
    arrives(&mut plane, &mut at);
    let share = ((1.0 + 4.0 * FRAMED).sqrt() - 1.0) / 2.0;
    near(&at, &[10.0 * share * share; 3]);
    for way in &ways {
        plane.flow_in(way[0], mbps(10), FluidRate::ZERO);
    }
    arrives(&mut plane, &mut at);
    near(&at, &[0.0; 3]);
    for way in &ways {
        assert!(way.iter().all(|&channel| plane.leave_channel(channel)));
    }
    plane.settle();
    assert!(plane.channels.is_empty());
    for link in &plane.links {
        assert_eq!((link.wanted, link.reserved), (FluidRate::ZERO, FluidRate::ZERO));
    }
}

/// Streams that share channels are one flow; the channels are removed with the last of them.
#[test]
fn channel_is_removed_with_its_last_user() {
    let (mut plane, ways) = plane(1, &[&[0]]);
    plane.use_channel(ways[0][0]);
    plane.flow_in(ways[0][0], FluidRate::ZERO, mbps(1));
    plane.flow_in(ways[0][0], FluidRate::ZERO, mbps(2));
    let mut at = [0.0];
    arrives(&mut plane, &mut at);
    near(&at, &[3.0]);
    plane.flow_in(ways[0][0], mbps(2), FluidRate::ZERO);
    assert!(!plane.leave_channel(ways[0][0]));
    arrives(&mut plane, &mut at);
    near(&at, &[1.0]);
}
