//! The table of the packet filter in the kernel: adoption, repair, other tables, limits, rates.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use earmark_core::{Endpoint, FilterAction, FilterChange, FilterRule, Time};
use earmark_linux::clock::Clock;
use earmark_linux::netns::Namespace;
use earmark_linux::nftables::{self, Adoption, FilterReconciliation};
use earmark_linux::{PacketFilter, PacketFilterError, PacketFilterSettings};

use crate::guarded::{
    Guarded, PORT, allow, assert_passes, open, packets_to, rule, socket, udp_pinhole,
};
use crate::support::{RECEIVER, SENDER, namespace};

/// Runs `nft` in a namespace with commands; returns its output.
fn nft(namespace: &Namespace, commands: &str) -> String {
    let run = || {
        let mut nft = Command::new("nft");
        nft.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = nft.spawn().expect("nft runs");
        let mut stdin = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut stdin, commands.as_bytes()).expect("written");
        drop(stdin);
        child.wait_with_output().expect("it ends")
    };
    let output = namespace.run_in(run).expect("inside");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nft {commands:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn open_in(
    namespace: &Namespace,
    limit: u32,
) -> Result<(PacketFilter, Adoption), PacketFilterError> {
    let settings = PacketFilterSettings { limit, ..PacketFilterSettings::new(["left"]) };
    namespace.run_in(|| PacketFilter::open(settings, Clock::start())).expect("inside")
}

/// Returns a pinhole for UDP from one of many addresses.
fn one_of_many(number: u32) -> FilterRule {
    let source = Ipv4Addr::from(0x0a00_0000 + number);
    let mut packets = packets_to(Some(source.into()), RECEIVER, 17);
    (packets.flow.source_port, packets.flow.destination_port) = (6_000, PORT);
    allow(packets)
}

fn rules_of_every_kind() -> Vec<FilterRule> {
    let sender = Some(IpAddr::from(SENDER));
    let mut rules = vec![
        udp_pinhole(6_000, PORT),
        rule(udp_pinhole(6_001, PORT).packets, FilterAction::Deny),
        allow(packets_to(None, RECEIVER, 0)),
        allow(packets_to(sender, RECEIVER, 47)),
        allow(packets_to(None, "2001:db8:2::1".parse::<IpAddr>().expect("an address"), 6)),
    ];
    let mut ping = packets_to(sender, RECEIVER, 1);
    ping.icmp_type = Some(8);
    let mut esp = packets_to(sender, RECEIVER, 50);
    esp.flow.spi = 0x0102_0304;
    rules.extend([allow(ping), allow(esp)]);
    let external = Endpoint { address: [192, 0, 2, 1].into(), port: 40_000 };
    let to = Endpoint { address: RECEIVER.into(), port: 0 };
    rules.push(FilterRule {
        source: Some(external),
        destination: Some(to),
        ..udp_pinhole(6_002, PORT)
    });
    rules
}

/// An administrator sees what the filter does.
pub(crate) fn table_is_listed_by_nft() {
    let namespace = namespace();
    let (mut filter, _) = open_in(&namespace, 100).expect("opened");
    let until = Time::from_secs(3_600);
    let installs: Vec<_> =
        rules_of_every_kind().into_iter().map(|rule| FilterChange::Install(rule, until)).collect();
    assert!(filter.change(&installs).is_empty());
    let listed = nft(&namespace, "list ruleset");
    for expected in [
        "table inet earmark {",
        "comment \"Earmark packet filter, layout 1\"",
        "type filter hook forward priority filter + 1; policy accept;",
        "type nat hook prerouting priority dstnat; policy accept;",
        "type nat hook postrouting priority srcnat; policy accept;",
        "elements = { \"left\" }",
        "10.77.1.1 . 10.77.2.1 . udp . 6000 . 7000",
        "10.77.1.1 . 10.77.2.1 . icmp . echo-request",
        "10.77.1.1 . 10.77.2.1 . esp . 0x01020304",
        "2001:db8:2::1 . tcp",
        "10.77.1.1 . 10.77.2.1 . udp . 6002 . 7000 timeout 59m59s",
        ": 192.0.2.1 . 40000 }",
        "ct original ip saddr . ct original ip daddr . ct protocol . ct original proto-src . \
         ct original proto-dst @deny_ip4_saddr_daddr_proto_sport_dport drop",
        "iifname @guarded ct direction original drop",
        "oifname @guarded ct direction reply drop",
    ] {
        assert!(listed.contains(expected), "{expected}\n{listed}");
    }
}

/// The next daemon gets every rule with its end, the counters stay, and strays are removed.
pub(crate) fn rules_are_adopted_with_their_ends() {
    let mut guarded = Guarded::new();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    let rules = rules_of_every_kind();
    let changes: Vec<FilterChange> = (0..)
        .zip(&rules)
        .map(|(number, &rule)| {
            FilterChange::Install(rule, guarded.clock.now() + Duration::from_secs(100 + number))
        })
        .collect();
    guarded.change(&changes);
    assert_passes(&inside, &outside, true, "open");
    let Guarded { line, filter, .. } = guarded;
    drop(filter);
    assert_passes(&inside, &outside, true, "still open");
    let clock = Clock::start();
    let (mut filter, adoption) = open(&line, clock);
    assert_eq!(adoption.replaced, None);
    assert_eq!(filter.len(), rules.len());
    for (number, rule) in (0..).zip(&rules) {
        let found = adoption.rules.iter().find(|(adopted, _)| adopted == rule);
        let (_, until) = found.unwrap_or_else(|| panic!("{rule:?} in {:?}", adoption.rules));
        let left = until.since(clock.now());
        let wanted = Duration::from_secs(100 + number);
        assert!(left <= wanted && left > wanted - Duration::from_secs(20), "{left:?} {wanted:?}");
    }
    let counted = filter.statistics(&rules[0].packets).expect("an answer").expect("there");
    assert_eq!(counted.packets, 2);
    assert_passes(&inside, &outside, true, "open for the next daemon");
    assert!(filter.change(&[FilterChange::Remove(rules[0].packets)]).is_empty());
    assert!(filter.change(&[FilterChange::Remove(rules[2].packets)]).is_empty());
    assert_passes(&inside, &outside, false, "which can close it");
    assert_eq!(filter.reconcile().expect("compared"), FilterReconciliation::default());
    filter.teardown().expect("removed");
    assert_passes(&inside, &outside, true, "nothing guards any more");
}

/// Elements that nobody can mean are removed at the start: without an end, translations without a pinhole.
pub(crate) fn strays_are_removed_at_adoption() {
    let namespace = namespace();
    let (mut filter, _) = open_in(&namespace, 100).expect("opened");
    let binding = rules_of_every_kind().pop().expect("one");
    let install = FilterChange::Install(binding, Time::from_secs(3_600));
    assert!(filter.change(&[install]).is_empty());
    drop(filter);
    nft(
        &namespace,
        "delete element inet earmark allow_ip4_saddr_daddr_proto_sport_dport \
         { 10.77.1.1 . 10.77.2.1 . udp . 6002 . 7000 }\n\
         add element inet earmark allow_ip4_saddr_daddr_proto_sport_dport \
         { 10.77.1.9 . 10.77.2.1 . udp . 1 . 2 }",
    );
    let (_, adoption) = open_in(&namespace, 100).expect("opened");
    assert_eq!(adoption, Adoption::default());
    let listed = nft(&namespace, "list ruleset");
    assert!(!listed.contains("10.77.1"), "{listed}");
}

/// Tables of an administrator stay as they are, whatever the filter does.
pub(crate) fn tables_of_others_are_untouched() {
    let namespace = namespace();
    nft(
        &namespace,
        "table inet admin { set s { type ipv4_addr; elements = { 10.0.0.1 } }\n\
         chain c { type filter hook forward priority 0; ip saddr @s drop; }; }\n\
         table ip earmark { chain c { }; }",
    );
    let before = nft(&namespace, "list ruleset");
    let (mut filter, _) = open_in(&namespace, 100).expect("opened");
    for &rule in &rules_of_every_kind() {
        let install = FilterChange::Install(rule, Time::from_secs(60));
        assert!(filter.change(&[install]).is_empty());
    }
    filter.reconcile().expect("compared");
    drop(filter);
    drop(open_in(&namespace, 100).expect("opened"));
    assert!(nft(&namespace, "list ruleset").contains("table inet earmark"));
    assert!(namespace.run_in(nftables::clear).expect("inside").expect("cleared"));
    assert_eq!(nft(&namespace, "list ruleset"), before);
    assert!(!namespace.run_in(nftables::clear).expect("inside").expect("nothing to clear"));
}

/// A table of our name without our mark is refused, and not changed or removed.
pub(crate) fn foreign_table_is_refused() {
    let namespace = namespace();
    for content in ["chain c { }", "comment \"Earmark packet filters\"; chain c { }"] {
        nft(&namespace, &format!("table inet earmark {{ {content}; }}"));
        let before = nft(&namespace, "list ruleset");
        let error = open_in(&namespace, 100).expect_err("foreign");
        assert!(matches!(error, PacketFilterError::ForeignTable), "{error}");
        assert!(error.to_string().contains("nft delete table inet earmark"), "{error}");
        assert!(!namespace.run_in(nftables::clear).expect("inside").expect("left alone"));
        assert_eq!(nft(&namespace, "list ruleset"), before);
        nft(&namespace, "delete table inet earmark");
    }
}

/// Makes a table of another layout.
fn table_of_layout(number: u32) -> Namespace {
    let namespace = namespace();
    let comment = format!("comment \"Earmark packet filter, layout {number}\"");
    nft(&namespace, &format!("table inet earmark {{ {comment}\nset old {{ type ipv4_addr; }}; }}"));
    namespace
}

/// A table of a newer layout is left alone: this version cannot read its rules.
pub(crate) fn table_of_newer_layout_is_refused() {
    let namespace = table_of_layout(77);
    let before = nft(&namespace, "list ruleset");
    let error = open_in(&namespace, 100).expect_err("refused");
    assert!(matches!(error, PacketFilterError::NewerLayout { layout: 77 }), "{error}");
    assert_eq!(nft(&namespace, "list ruleset"), before, "nothing has changed");
}

/// A table of an earlier layout is replaced, and that is reported.
pub(crate) fn table_of_earlier_layout_is_replaced() {
    let namespace = table_of_layout(0);
    let (_, adoption) = open_in(&namespace, 100).expect("opened");
    assert_eq!(adoption.replaced.map(|replaced| replaced.layout), Some(0));
    assert!(adoption.rules.is_empty());
    let listed = nft(&namespace, "list ruleset");
    assert!(listed.contains("layout 1") && !listed.contains("set old"), "{listed}");
}

/// `nft flush ruleset`, and smaller changes by others, are found and repaired.
pub(crate) fn changes_by_others_are_repaired() {
    let mut guarded = Guarded::new();
    let [one, two] = [6_000, 6_001].map(|p| socket(&guarded.line.sender, (SENDER, p)));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    guarded.install(udp_pinhole(6_000, PORT));
    let binding = rules_of_every_kind().pop().expect("one");
    guarded.install(binding);
    let nothing = FilterReconciliation::default();
    assert_eq!(guarded.filter.reconcile().expect("compared"), nothing);
    let element =
        "allow_ip4_saddr_daddr_proto_sport_dport { 10.77.1.1 . 10.77.2.1 . udp . 6000 . 7000";
    let stray = "{ 10.77.1.1 . 10.77.2.1 . udp . 6001 . 7000 timeout 1h }";
    for (commands, expected) in [
        (
            "flush ruleset".to_owned(),
            FilterReconciliation { restored: 5, removed: 0, was_absent: true },
        ),
        ("table inet other { }".to_owned(), nothing),
        (
            format!("delete element inet earmark {element} }}"),
            FilterReconciliation { restored: 1, ..nothing },
        ),
        (
            format!(
                "delete element inet earmark {element} }}\nadd element inet earmark {element} \
                 timeout 5s }}"
            ),
            FilterReconciliation { restored: 1, ..nothing },
        ),
        (
            format!("add element inet earmark allow_ip4_saddr_daddr_proto_sport_dport {stray}"),
            FilterReconciliation { removed: 1, ..nothing },
        ),
        (
            "flush chain inet earmark forward".to_owned(),
            FilterReconciliation { restored: 1, ..nothing },
        ),
        (
            "insert rule inet earmark forward accept".to_owned(),
            FilterReconciliation { restored: 1, ..nothing },
        ),
        (
            "chain inet earmark forward { policy drop; }".to_owned(),
            FilterReconciliation { restored: 1, ..nothing },
        ),
        (
            "flush set inet earmark guarded".to_owned(),
            FilterReconciliation { restored: 1, ..nothing },
        ),
    ] {
        nft(&guarded.line.router, &commands);
        let found = guarded.filter.reconcile().unwrap_or_else(|e| panic!("{commands}: {e}"));
        assert_eq!(found, expected, "{commands}");
        assert_eq!(guarded.filter.reconcile().expect("compared"), nothing, "{commands}");
        assert_passes(&one, &outside, true, &commands);
        assert_passes(&two, &outside, false, &commands);
    }
}

/// A change meets a table that was flushed: it is made again with all rules.
pub(crate) fn change_after_a_flush_makes_the_table_again() {
    let mut guarded = Guarded::new();
    let [one, two, three] =
        [6_000, 6_001, 6_003].map(|p| socket(&guarded.line.sender, (SENDER, p)));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    guarded.install(udp_pinhole(6_000, PORT));
    nft(&guarded.line.router, "flush ruleset");
    guarded.install(udp_pinhole(6_001, PORT));
    for (socket, expected) in [(&one, true), (&two, true), (&three, false)] {
        assert_passes(socket, &outside, expected, "after the flush");
    }
    let found = guarded.filter.reconcile().expect("compared");
    assert!(found.was_absent, "{found:?}");
    nft(&guarded.line.router, "flush ruleset");
    guarded.remove(udp_pinhole(6_001, PORT));
    for (socket, expected) in [(&one, true), (&two, false)] {
        assert_passes(socket, &outside, expected, "after the second flush");
    }
}

pub(crate) fn full_filter_refuses_further_rules() {
    let (namespace, clock) = (namespace(), Clock::start());
    let settings = PacketFilterSettings { limit: 3, ..PacketFilterSettings::new(["left"]) };
    let opened = namespace.run_in(|| PacketFilter::open(settings, clock));
    let (mut filter, _) = opened.expect("inside").expect("opened");
    let hour = Time::from_secs(3_600);
    let installs = [0, 1, 2, 3, 4].map(|number| FilterChange::Install(one_of_many(number), hour));
    let refused = filter.change(&installs);
    let packets: Vec<_> = refused.iter().map(|(packets, _)| *packets).collect();
    assert_eq!(packets, [one_of_many(3).packets, one_of_many(4).packets]);
    assert_eq!(refused[0].1.errno(), libc::ENOSPC as u16);
    assert_eq!(refused[0].1.to_string(), "the packet filter is full: limit of 3 rules reached");
    assert!(filter.change(&installs[..3]).is_empty(), "what is there can be installed again");
    let exchange = [FilterChange::Remove(one_of_many(0).packets), installs[4]];
    assert!(filter.change(&exchange).is_empty(), "a removed rule leaves room");
    let soon = clock.now() + Duration::from_millis(200);
    assert!(filter.change(&[FilterChange::Install(one_of_many(1), soon)]).is_empty());
    std::thread::sleep(Duration::from_millis(300));
    assert!(filter.change(&[installs[3]]).is_empty(), "one that has ended leaves room, too");
    assert_eq!(filter.len(), 3);
}

/// A rule that the kernel refuses does not keep it from making the others of the call: here a set was changed by another program.
pub(crate) fn rule_refused_by_the_kernel_leaves_others() {
    let namespace = namespace();
    // A set of our name with room for one element, where the filter expects its own.
    let (mut filter, _) = open_in(&namespace, 100).expect("opened");
    nft(
        &namespace,
        "add set inet earmark allow_ip4_saddr_daddr_proto_sport_dport { \
         type ipv4_addr . ipv4_addr . inet_proto . inet_service . inet_service; flags timeout; \
         size 2; counter; }",
    );
    let hour = Time::from_secs(3_600);
    let mut installs = [0, 1, 2, 3].map(|n| FilterChange::Install(one_of_many(n), hour)).to_vec();
    let other = allow(packets_to(None, RECEIVER, 6));
    installs.push(FilterChange::Install(other, hour));
    let refused = filter.change(&installs);
    assert_eq!(refused.len(), 2, "{refused:?}");
    for (packets, error) in &refused {
        assert!(matches!(error, PacketFilterError::NoRoom(_)), "{error:?}");
        assert_eq!(error.errno(), libc::ENOSPC as u16);
        assert!(filter.statistics(packets).expect("an answer").is_none());
    }
    assert_eq!(filter.len(), 3);
    assert!(filter.statistics(&other.packets).expect("an answer").is_some());
}

/// Two batches of many rules, and their removal, in bounded time. `--nocapture` shows the rates.
pub(crate) fn thousands_of_rules_are_installed_in_batches() {
    const COUNT: u32 = 10_000;
    let namespace = namespace();
    let (mut filter, _) = open_in(&namespace, 1_000_000).expect("opened");
    let hour = Time::from_secs(3_600);
    let mut timed = |what: &str, changes: &[FilterChange]| {
        let start = Instant::now();
        assert!(filter.change(changes).is_empty(), "{what}");
        let took = start.elapsed();
        let rate = changes.len() as f64 / took.as_secs_f64();
        println!("{what}: {} in {took:?}, {rate:.0}/s", changes.len());
        assert!(took < Duration::from_secs(20), "{what}: {took:?}");
    };
    let batch = |from: u32| -> Vec<FilterChange> {
        (from..from + COUNT).map(|n| FilterChange::Install(one_of_many(n), hour)).collect()
    };
    timed("installed", &batch(0));
    timed("installed beside these", &batch(COUNT));
    timed("installed again", &batch(0));
    let removals: Vec<_> =
        (0..COUNT).map(|n| FilterChange::Remove(one_of_many(n).packets)).collect();
    timed("removed", &removals);
    let start = Instant::now();
    for change in batch(2 * COUNT).chunks(1).take(1_000) {
        assert!(filter.change(change).is_empty());
    }
    println!("installed one by one: 1000 in {:?}", start.elapsed());
    assert_eq!(filter.len(), COUNT as usize + 1_000);
    drop(filter);
    let start = Instant::now();
    let (mut filter, adoption) = open_in(&namespace, 1_000_000).expect("opened");
    println!("adopted: {} in {:?}", adoption.rules.len(), start.elapsed());
    assert_eq!(adoption.rules.len(), COUNT as usize + 1_000);
    nft(&namespace, "flush ruleset");
    let start = Instant::now();
    assert!(filter.reconcile().expect("repaired").was_absent);
    println!("repaired: {} in {:?}", filter.len(), start.elapsed());
}

/// Interfaces can be guarded later, and by names that no interface has yet; impossible names are refused.
pub(crate) fn guarded_interfaces_can_change() {
    let mut guarded = Guarded::new();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    assert_passes(&inside, &outside, false, "guarded");
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    guarded.filter.guard(names(&["wan9"])).expect("changed");
    assert_passes(&inside, &outside, true, "not guarded any more");
    guarded.filter.guard(names(&["wan9", "left"])).expect("changed");
    assert_passes(&inside, &outside, false, "guarded again");
    for name in ["", "a-name-too-long-"] {
        let error = guarded.filter.guard(names(&[name])).expect_err("refused");
        assert!(matches!(error, PacketFilterError::InterfaceName { .. }), "{error}");
    }
    assert_eq!(
        guarded.filter.reconcile().expect("compared"),
        FilterReconciliation::default(),
        "our own changes are no changes of others"
    );
}

/// Without CAP_NET_ADMIN the filter says so.
pub(crate) fn missing_privilege_is_named() {
    let namespace = namespace();
    let error = namespace.run_in(|| {
        let none = rustix::thread::CapabilitySet::empty();
        let sets =
            rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).expect("dropped");
        PacketFilter::open(PacketFilterSettings::new(["left"]), Clock::start()).map(drop)
    });
    let error = error.expect("inside").expect_err("refused");
    assert!(matches!(error, PacketFilterError::NotPermitted), "{error}");
}
