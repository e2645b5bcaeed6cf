//! Boomerang sessions that the kernel refreshes without the daemon.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::{InterfaceId, Outgoing};
use earmark_linux::{
    ClassifierChoice, ForwardedMessages, Offload, OffloadKey, OffloadSession, Share, ShareChange,
    SignallingSocket,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::boomerang::{boomerang_on, router};
use crate::flood;
use crate::interception::{assert_nothing, open_on};
use crate::packets::{ends, icmp_checksum, line, outgoing, receive_one};
use crate::support::{Line, RECEIVER, SENDER, eventually};

/// A message for IPv4 by bit rates, as its initiating node sends it.
#[derive(Clone, Copy)]
struct Message {
    key: OffloadKey,
    rates: [u32; 2],
}

/// Returns a message of a session for UDP between the ends of the line, with all keys exact.
fn message(source_port: u16) -> Message {
    let mut classifier = [0; 16];
    classifier[..4].copy_from_slice(&SENDER.octets());
    classifier[4..8].copy_from_slice(&RECEIVER.octets());
    classifier[8..10].copy_from_slice(&source_port.to_be_bytes());
    classifier[10..13].copy_from_slice(&[0x13, 0x89, 17]);
    let mut mask = [0xff; 16];
    mask[13..].fill(0);
    Message { key: OffloadKey { classifier, mask }, rates: [2_000_000, 64_000] }
}

impl Message {
    /// Returns the session of a router whose echoes arrive through the first interface, and leave through the second.
    fn session(&self, arrivals: [InterfaceId; 2]) -> OffloadSession {
        let [inward, outward] = arrivals;
        let share = |interface, rate| (rate > 0).then_some(Share { interface, rate });
        OffloadSession {
            initiator: SENDER,
            far_end: RECEIVER,
            arrivals,
            interval: 30,
            forward: share(outward, self.rates[0]),
            reverse: share(inward, self.rates[1]),
        }
    }

    /// Returns the ICMP message: an echo, or its reply.
    fn octets(&self, is_reply: bool) -> Vec<u8> {
        let mut octets = vec![if is_reply { 0 } else { 8 }, 0, 0, 0, 0x12, 0x34, 0, 1];
        octets.extend([0x47, 0x11, 0x47, 0x11, 0, 0, 0, 7, 0x10, 0x12, 0, 0]);
        octets.extend([30, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        octets.extend(self.key.classifier);
        octets.extend(self.key.mask);
        self.rates.iter().for_each(|rate| octets.extend(rate.to_be_bytes()));
        finished(octets)
    }
}

fn finished(mut octets: Vec<u8>) -> Vec<u8> {
    let sum = icmp_checksum(&octets, SENDER.into(), RECEIVER.into());
    octets[2..4].copy_from_slice(&sum);
    octets
}

fn offload(socket: &SignallingSocket) -> &Offload {
    socket.offload().expect("BPF")
}

/// Returns the number of refreshes of each direction.
fn refreshes(socket: &SignallingSocket, key: &OffloadKey) -> [u32; 2] {
    let seen = offload(socket).activity(key).expect("an answer").expect("entered");
    assert_eq!(seen.interval, 30);
    let seen = [seen.forward, seen.reverse];
    for direction in seen {
        assert!(direction.refreshes == 0 || direction.ago.is_some());
        assert!(direction.ago.is_none_or(|ago| ago < Duration::from_secs(5)));
    }
    seen.map(|direction| direction.refreshes)
}

/// Echo and reply are refreshed without the daemon, which finds the refreshes recorded; the first message, and all
/// after a change of routes, go to the daemon.
pub(crate) fn entered_session_is_refreshed_by_the_kernel() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    let mut router = router(&line);
    let ours = message(6_001);
    let out = outgoing(1, SENDER.into(), RECEIVER.into());
    let send =
        |sender: &mut SignallingSocket| sender.send(&out, &ours.octets(false)).expect("sent");
    let is_taken = |sender: &mut SignallingSocket, router: &mut SignallingSocket, what: &str| {
        send(sender);
        receive_one(what, router, |m| assert_eq!(m.datagram.payload, ours.octets(false)));
    };
    is_taken(&mut sender, &mut router, "the first");
    offload(&router).set(&ours.key, &ours.session([line.inward, line.outward])).expect("entered");
    assert_eq!(refreshes(&router, &ours.key), [0, 0]);
    for count in 1..=3 {
        for router_alert in [true, false] {
            let out = Outgoing { router_alert, ..out };
            sender.send(&out, &ours.octets(false)).expect("sent");
            receive_one("it is back", &mut sender, |m| {
                assert_eq!((m.datagram.source, m.datagram.ttl), (RECEIVER.into(), 63));
                assert_eq!(m.datagram.payload[8..], ours.octets(true)[8..]);
            });
        }
        assert_eq!(refreshes(&router, &ours.key), [2 * count, 2 * count]);
        assert_nothing(&mut router);
    }
    let passed = ForwardedMessages { requests: 6, replies: 6, refreshes: 12 };
    assert_eq!(offload(&router).forwarded().ok(), Some(passed));

    offload(&router).suspend_all().expect("suspended");
    is_taken(&mut sender, &mut router, "after a change of routes");
    assert_eq!(refreshes(&router, &ours.key), [6, 6], "what was seen is still known");
    offload(&router).set(&ours.key, &ours.session([line.inward, line.outward])).expect("entered");
    send(&mut sender);
    receive_one("it is back", &mut sender, |_| ());
    assert_eq!(refreshes(&router, &ours.key), [1, 1]);

    // A message of a direction without a reservation here is forwarded and recorded, but is no refresh.
    let one_way = Message { rates: [2_000_000, 0], ..ours };
    offload(&router)
        .set(&ours.key, &one_way.session([line.inward, line.outward]))
        .expect("entered");
    sender.send(&out, &one_way.octets(false)).expect("sent");
    receive_one("it is back", &mut sender, |_| ());
    assert_eq!(refreshes(&router, &ours.key), [1, 1]);
    let passed = offload(&router).forwarded().expect("counts");
    assert_eq!((passed.replies, passed.refreshes), (8, 15));

    assert!(offload(&router).remove(&ours.key).expect("removed"));
    assert!(!offload(&router).remove(&ours.key).expect("an answer"));
    assert_eq!(offload(&router).activity(&ours.key).expect("an answer"), None);
    is_taken(&mut sender, &mut router, "after it was taken out");
}

/// Any message with more or other content goes to the daemon.
pub(crate) fn other_message_goes_to_the_daemon() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    let mut router = router(&line);
    let ours = message(6_001);
    offload(&router).set(&ours.key, &ours.session([line.inward, line.outward])).expect("entered");
    let out = outgoing(1, SENDER.into(), RECEIVER.into());
    // Offsets of octets that are changed: the format, a flag, the interval, the version, each key, the mask, the rate.
    let offsets = [16, 17, 19, 20, 21, 32, 36, 40, 43, 44, 48, 55, 64, 67];
    let mut others: Vec<(Outgoing, Vec<u8>)> = offsets
        .into_iter()
        .map(|at| {
            let mut octets = ours.octets(false);
            octets[at] ^= 1;
            (out, finished(octets))
        })
        .collect();
    // Only the reply uses the reverse rate.
    let mut reverse = ours;
    reverse.rates[1] += 1;
    let mut bad_sum = ours.octets(false);
    bad_sum[6] ^= 0x80;
    let other_node = Outgoing { source: Ipv4Addr::new(10, 77, 1, 99).into(), ..out };
    others.extend([
        (out, bad_sum),
        (out, finished([ours.octets(false), vec![0; 4]].concat())),
        (out, finished(ours.octets(false)[..68].to_vec())),
        (out, Message { rates: [0, 0], ..ours }.octets(false)),
        (other_node, ours.octets(false)),
        (Outgoing { ttl: 1, ..out }, ours.octets(false)),
    ]);
    for (out, octets) in others {
        sender.send(&out, &octets).expect("sent");
        receive_one("the daemon's", &mut router, |m| {
            assert_eq!((m.datagram.source, m.datagram.payload), (out.source, &octets[..]));
        });
    }
    assert_eq!(refreshes(&router, &ours.key), [0, 0]);
    sender.send(&out, &reverse.octets(false)).expect("sent");
    receive_one("the reply asks for something else", &mut router, |m| {
        assert_eq!(m.datagram.source, IpAddr::from(RECEIVER));
    });
    assert_eq!(refreshes(&router, &ours.key), [1, 0]);
    assert_nothing(&mut sender);
}

/// Packets with an invalid header are ignored: they will be dropped.
pub(crate) fn malformed_packet_is_not_offloaded() {
    let line = line();
    let router = router(&line);
    let ours = message(6_001);
    offload(&router).set(&ours.key, &ours.session([InterfaceId(1); 2])).expect("entered");
    let packet = |first: u8| {
        let (header, octets) = (usize::from(first & 15) * 4, ours.octets(false));
        let mut packet = vec![0; header];
        packet[0] = first;
        packet[2..4].copy_from_slice(&((header + octets.len()) as u16).to_be_bytes());
        (packet[8], packet[9]) = (64, 1);
        packet[12..16].copy_from_slice(&SENDER.octets());
        if header >= 20 {
            packet[16..20].copy_from_slice(&RECEIVER.octets());
        }
        [packet, octets].concat()
    };
    for (first, refreshed) in [(0x44, 0), (0x65, 0), (0x55, 0), (0x45, 1), (0x46, 2)] {
        let run = offload(&router).measure(&packet(first), 1);
        assert!(run.is_ok(), "{first:#x}: {run:?}");
        assert_eq!(refreshes(&router, &ours.key), [refreshed, 0], "{first:#x}");
    }
}

/// The kernel grants from its delegated share as long as that suffices; the daemon learns of it from copies.
pub(crate) fn session_is_set_up_and_released_by_the_kernel() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    let mut router = router(&line);
    let out = outgoing(1, SENDER.into(), RECEIVER.into());
    let (outward, inward) = (line.outward, line.inward);
    let delegate = |router: &mut SignallingSocket, rates: [u64; 2]| {
        let offload = router.offload_mut().expect("BPF");
        for (interface, rate) in [outward, inward].into_iter().zip(rates) {
            assert_eq!(offload.delegate(interface, rate).ok(), Some(rate));
        }
    };
    let shares = |router: &SignallingSocket| {
        [outward, inward].map(|interface| offload(router).share(interface).expect("an answer"))
    };
    offload(&router).set_longest_interval(Some(30)).expect("set");
    let mut send = |message: &Message, what: &str| {
        sender.send(&out, &message.octets(false)).expect("sent");
        receive_one(what, &mut sender, |m| assert_eq!(m.datagram.source, IpAddr::from(RECEIVER)));
    };
    let copies = |router: &mut SignallingSocket| {
        let mut copies = Vec::new();
        while router
            .receive(|m| {
                assert!(m.is_copy);
                copies.push(m.share_change.expect("done"));
            })
            .expect("received")
            > 0
        {}
        copies
    };
    let [forward, reverse] =
        [(outward, 2_000_000), (inward, 64_000)].map(|(interface, rate)| Share { interface, rate });

    delegate(&mut router, [5_000_000, 1_000_000]);
    router.offload_mut().expect("BPF").allow(SENDER, line.inward, 1_000).expect("allowed");
    for port in [1, 2] {
        send(&message(port), "it is back");
        assert_eq!(refreshes(&router, &message(port).key), [0, 0]);
        send(&message(port), "its refresh, too");
        assert_eq!(refreshes(&router, &message(port).key), [1, 1]);
        let expected = [ShareChange::Reserved(forward), ShareChange::Reserved(reverse)];
        assert_eq!(copies(&mut router), expected);
    }
    assert_eq!(shares(&router), [1_000_000, 872_000]);

    let release = Message { rates: [0, 0], ..message(1) };
    send(&release, "it is back");
    assert_eq!(shares(&router), [1_000_000, 872_000], "the daemon has not looked");
    assert_eq!(copies(&mut router), [ShareChange::Released([forward, reverse])]);
    assert_eq!(shares(&router), [3_000_000, 936_000]);

    // A reduction of the share takes effect once the taken part is known.
    send(&message(3), "it is back");
    let less = router.offload_mut().expect("BPF").delegate(outward, 0).expect("delegated");
    assert_eq!(less, 2_000_000);
    assert_eq!(copies(&mut router).len(), 2);
    assert_eq!(shares(&router), [0, 872_000]);
    router.offload_mut().expect("BPF").delegate(outward, 3_000_000).expect("delegated");

    // Rate too high; interval too long; locked; not all five keys, or an invalid port; released, and not removed yet;
    // or no share delegated any more.
    let mut wide = message(5);
    wide.key.mask[8..10].fill(0);
    let mut locked = message(5).octets(false);
    locked[31] = 3;
    let mut long = message(5).octets(false);
    long[20] = 31;
    let others = [
        Message { rates: [3_000_001, 0], ..message(5) }.octets(false),
        wide.octets(false),
        message(0).octets(false),
        message(1).octets(false),
        finished(locked),
        finished(long),
    ];
    let mut is_taken = |octets: &[u8]| {
        sender.send(&out, octets).expect("sent");
        receive_one("the daemon's", &mut router, |m| {
            assert_eq!((m.is_copy, m.share_change, m.datagram.payload), (false, None, octets));
        });
    };
    others.iter().for_each(|octets| is_taken(octets));
    offload(&router).set_longest_interval(None).expect("set");
    sender.send(&out, &message(5).octets(false)).expect("sent");
    receive_one("the daemon's", &mut router, |m| assert!(!m.is_copy));
    assert_eq!(shares(&router), [3_000_000, 872_000]);
}

/// Messages of another origin than the session's go to the daemon: of another node, to or from another far end, or
/// through another interface. None is a refresh, and none releases anything.
pub(crate) fn message_of_another_origin_goes_to_the_daemon() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    let mut receiver = open_on(&line.receiver, &[ends(&line)[1]], boomerang_on());
    let mut router = router(&line);
    let ours = message(6_001);
    let path = router.offload_mut().expect("BPF");
    path.set_longest_interval(Some(30)).expect("set");
    for interface in [line.outward, line.inward] {
        path.delegate(interface, 5_000_000).expect("delegated");
    }
    path.allow(SENDER, line.inward, 1_000).expect("allowed");
    let release = Message { rates: [0, 0], ..ours };
    let echo = outgoing(1, SENDER.into(), RECEIVER.into());
    let reply = outgoing(1, RECEIVER.into(), SENDER.into());
    let foreign = |last| IpAddr::from(Ipv4Addr::new(10, 77, 2, last));
    // Without a session, a reply sets up nothing.
    receiver.send(&reply, &ours.octets(true)).expect("sent");
    receive_one("the daemon's", &mut router, |m| assert!(!m.is_copy));
    offload(&router).set(&ours.key, &ours.session([line.inward, line.outward])).expect("entered");
    for message in [ours, release] {
        for (is_from_sender, out, is_reply) in [
            (false, Outgoing { source: foreign(99), ..reply }, true),
            (true, Outgoing { destination: foreign(99), ..echo }, false),
        ] {
            let socket = if is_from_sender { &mut sender } else { &mut receiver };
            socket.send(&out, &message.octets(is_reply)).expect("sent");
            receive_one("the daemon's", &mut router, |m| {
                let treatment = (m.datagram.source, m.is_copy, m.share_change);
                assert_eq!(treatment, (out.source, false, None));
            });
        }
        assert_eq!(refreshes(&router, &ours.key), [0, 0]);
    }
    receiver.send(&reply, &ours.octets(true)).expect("sent");
    receive_one("it is back", &mut sender, |_| ());
    assert_eq!(refreshes(&router, &ours.key), [0, 1], "the far end itself");
    // The ends are right, and the interfaces are not.
    offload(&router).set(&ours.key, &ours.session([line.outward, line.inward])).expect("entered");
    sender.send(&echo, &ours.octets(false)).expect("sent");
    receive_one("the daemon's", &mut router, |m| assert!(!m.is_copy));
    receiver.send(&reply, &release.octets(true)).expect("sent");
    receive_one("the daemon's", &mut router, |m| assert!(!m.is_copy));
    assert_eq!(refreshes(&router, &ours.key), [0, 0]);
}

/// Copies do not wake the daemon; other messages do, even after unread copies.
pub(crate) fn copy_does_not_wake_the_daemon() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    let mut router = router(&line);
    let out = outgoing(1, SENDER.into(), RECEIVER.into());
    let path = router.offload_mut().expect("BPF");
    path.set_longest_interval(Some(30)).expect("set");
    for interface in [line.outward, line.inward] {
        assert_eq!(path.delegate(interface, 5_000_000).ok(), Some(5_000_000));
    }
    path.allow(SENDER, line.inward, 1_000).expect("allowed");
    let is_awake = |router: &SignallingSocket, patience: Timespec| {
        let mut descriptors = [PollFd::new(router, PollFlags::IN)];
        poll(&mut descriptors, Some(&patience)).expect("polled") > 0
    };
    for port in [1, 2] {
        sender.send(&out, &message(port).octets(false)).expect("sent");
        receive_one("it is back", &mut sender, |_| ());
        assert!(!is_awake(&router, Timespec::default()), "the kernel has handled it");
        // Key 0 means all ports, which the kernel does not handle.
        sender.send(&out, &message(0).octets(false)).expect("sent");
        assert!(is_awake(&router, Timespec { tv_sec: 10, tv_nsec: 0 }), "it is the daemon's");
        let mut read = Vec::new();
        while router.receive(|m| read.push(m.is_copy)).expect("received") > 0 {}
        assert_eq!(read, [true, true, false]);
    }
}

/// No initiating node gets more than its allowance, and one beyond the limit of nodes replaces the first. A new link
/// replaces one that is gone, and inherits nothing of what was taken of that.
pub(crate) fn initiating_node_is_limited_to_its_allowance() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    let mut router = router(&line);
    let out = outgoing(1, SENDER.into(), RECEIVER.into());
    let path = router.offload_mut().expect("BPF");
    path.set_longest_interval(Some(30)).expect("set");
    path.delegate(line.outward, 100_000_000).expect("delegated");
    path.delegate(line.inward, 100_000_000).expect("delegated");
    let inward = line.inward;
    let mut next = 1;
    // Number of half sessions that are set up until one goes to the daemon.
    let mut set_up = |router: &mut SignallingSocket| {
        for count in 0.. {
            sender.send(&out, &message(next).octets(false)).expect("sent");
            next += 1;
            let mut halves = 0;
            let mut taken = false;
            eventually("it came by", || {
                router
                    .receive(|m| match m.share_change {
                        Some(_) => halves += 1,
                        None => taken = true,
                    })
                    .expect("received");
                taken || halves == 2
            });
            if taken {
                return 2 * count + halves;
            }
            receive_one("it is back", &mut sender, |_| ());
        }
        0
    };
    assert_eq!(set_up(&mut router), 0, "no allowance");
    for allowance in [5, 4, 0, 1] {
        let path = router.offload_mut().expect("BPF");
        path.allow(SENDER, inward, allowance).expect("allowed");
        assert_eq!(set_up(&mut router), allowance);
        assert_eq!(offload(&router).allowance(SENDER, inward), Some(0));
    }
    let path = router.offload_mut().expect("BPF");
    path.allow(SENDER, inward, 5).expect("allowed");
    for number in 0..4_096_u32 {
        path.allow(Ipv4Addr::from(number.to_be_bytes()), inward, 1).expect("allowed");
    }
    assert_eq!(path.allowance(SENDER, inward), None);
    assert_eq!(set_up(&mut router), 0);

    let path = router.offload_mut().expect("BPF");
    let link = |number: u32| InterfaceId(1_000_000 + number);
    // Two exist already.
    for number in 2..1_024 {
        assert_eq!(path.delegate(link(number), 5).ok(), Some(5));
    }
    let refused = path.delegate(link(1_024), 6).expect_err("there is no room");
    assert_eq!(refused.raw_os_error(), Some(Errno::TOOBIG.raw_os_error()));
    assert!(path.share(line.outward).is_ok_and(|share| share < 100_000_000), "some was taken");
    path.remove_link(line.outward).expect("forgotten");
    assert_eq!(path.share(line.outward).ok(), Some(0));
    assert_eq!(path.delegate(link(1_024), 6).ok(), Some(6));
    assert_eq!(path.delegate(line.inward, 7).ok(), Some(7));
}

/// Messages that the kernel forwards itself pass a flood like our own messages.
pub(crate) fn shares_after_a_flood_are_accounted_for() {
    const COUNT: u32 = 100;
    let line = Line::new();
    let (_control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    let router = router(&line);
    let ours = message(6_001);
    offload(&router).set(&ours.key, &ours.session([line.inward, line.outward])).expect("entered");
    let out = outgoing(1, SENDER.into(), RECEIVER.into());
    let messages = || {
        for _ in 0..COUNT {
            sender.send(&out, &ours.octets(false)).expect("sent");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let outcome = flood::run(&line, Duration::from_secs(1), messages);
    assert!(outcome.received < outcome.sent * 9 / 10, "the flood does no harm: {outcome:?}");
    let mut returned = 0;
    eventually("all are back", || {
        sender.receive(|_| returned += 1).expect("received");
        returned == COUNT
    });
    assert_eq!(refreshes(&router, &ours.key), [COUNT, COUNT]);
}
