//! Command lines are parsed as the help texts promise; contradictory ones are refused.

use super::values::{Sharing, endpoint};
use super::*;
use std::time::Duration;

use earmark_control::Listing;
use earmark_core::Rate;
use earmark_testkit::command_line::check_arguments;

fn parse(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(std::iter::once("earmark").chain(line.split_whitespace()))
}

#[test]
fn arguments_and_examples_are_valid() {
    check_arguments::<Arguments>(40);
}

#[test]
fn send_arguments_are_parsed() {
    let line = "send --to 10.0.2.2:5001 --from 10.0.1.1:4000 --rate 2Mbit --burst 20kB --peak 3Mbit --ip-protocol tcp \
                --json --control /run/x.sock";
    let arguments = parse(line).unwrap();
    assert!(arguments.json);
    assert_eq!(arguments.socket(), PathBuf::from("/run/x.sock"));
    assert_eq!(parse("show links").unwrap().socket(), PathBuf::from(DEFAULT_SOCKET));
    let Command::Send(SendOptions { rate, traffic }) = arguments.command else {
        panic!("not send")
    };
    assert_eq!(traffic.to, "10.0.2.2:5001".parse().unwrap());
    assert_eq!(traffic.from, Some("10.0.1.1:4000".parse().unwrap()));
    assert_eq!(rate, Rate::from_mbps(2));
    assert_eq!(traffic.peak, Some(Rate::from_mbps(3)));
    assert_eq!((traffic.burst, traffic.ip_protocol, traffic.max_packet), (20_000, 6, 1_500));
}

#[test]
fn receivers_may_share_and_name_senders() {
    let line = "listen --on [ff3e::1:2]:5001 --style se --sender 2001:db8::1 --sender [2001:db8::2]:4000 \
                --sender 2001:db8::3#0x12345 --wait 10s";
    let Command::Listen(ListenOptions { receiver: listen, .. }) = parse(line).unwrap().command
    else {
        panic!("not listen")
    };
    assert_eq!((listen.style, listen.wait), (Sharing::Se, Some(Duration::from_secs(10))));
    let named: Vec<_> =
        listen.senders.iter().map(|s| (s.address.to_string(), s.port, s.flow_label)).collect();
    assert_eq!(
        named,
        [
            ("2001:db8::1".to_owned(), 0, None),
            ("2001:db8::2".to_owned(), 4_000, None),
            ("2001:db8::3".to_owned(), 0, Some(0x12345)),
        ]
    );
    let Command::Listen(ListenOptions { receiver: listen, .. }) =
        parse("listen --on 10.0.2.2").unwrap().command
    else {
        panic!()
    };
    assert_eq!((listen.style, listen.senders.len()), (Sharing::Ff, 0));
    let line = "send --to 2001:db8::2 --rate 1Mbit --flow-label 7";
    let Command::Send(send) = parse(line).unwrap().command else { panic!("not send") };
    assert_eq!(send.traffic.flow_label, Some(7));
}

#[test]
fn ipsec_is_named_by_its_spi() {
    let line = "send --to 10.0.2.2:9000 --rate 1Mbit --ip-protocol esp --spi 0xc0ffee01";
    let Command::Send(send) = parse(line).unwrap().command else { panic!("not send") };
    assert_eq!((send.traffic.ip_protocol, send.traffic.spi), (50, Some(0xc0ff_ee01)));
    let line = "listen --on 10.0.2.2:9000 --ip-protocol ah --sender 10.0.1.1@4096";
    let Command::Listen(ListenOptions { receiver: listen, .. }) = parse(line).unwrap().command
    else {
        panic!("not listen")
    };
    assert_eq!((listen.ip_protocol, listen.senders[0].spi), (51, Some(4_096)));
    for wrong in ["--spi 0", "--spi 0x100000000", "--spi 1 --flow-label 2"] {
        let line = format!("send --to 10.0.2.2:9000 --rate 1Mbit --ip-protocol esp {wrong}");
        assert!(parse(&line).is_err(), "{wrong}");
    }
}

#[test]
fn addresses_may_lack_a_port_and_may_be_ipv6() {
    for (text, expected) in [
        ("10.0.2.2", "10.0.2.2:0"),
        ("2001:db8::2", "[2001:db8::2]:0"),
        ("[2001:db8::2]:5001", "[2001:db8::2]:5001"),
        ("localhost:7", "127.0.0.1:7"),
    ] {
        assert_eq!(endpoint(text), Ok(expected.parse().unwrap()), "{text}");
    }
    assert!(endpoint("10.0.2.2:99999").is_err());
    assert!(endpoint("").is_err());
}

#[test]
fn levels_of_the_log_are_parsed() {
    let set = |line: &str| match parse(line) {
        Ok(Arguments { command: Command::Log(LogCommand::Set(set)), .. }) => {
            Ok((set.levels.to_string(), set.time))
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    };
    let ten = Some(Duration::from_secs(600));
    assert_eq!(set("log set rsvp=debug 10m"), Ok(("rsvp=debug".to_owned(), ten)));
    assert_eq!(set("log set warn,audit=info"), Ok(("all=warn,audit=info".to_owned(), None)));
    let error = set("log set rsvp=loud").expect_err("no level");
    assert!(error.contains("off, error, warn, info, debug and trace"), "{error}");
    assert!(set("log set rsvp=debug soon").is_err());
    assert!(set("log set").is_err());
}

#[test]
fn path_arguments_are_parsed() {
    let asked = |line: &str| {
        let Command::Show { what: Show::Path(options), limit } = parse(line).unwrap().command
        else {
            panic!("not show path")
        };
        options.request(limit)
    };
    let line = "show path 10.0.2.2 --from 10.0.1.1 --ip-protocol tcp --sport 4000 --dport 80 --mark 0x7 \
                --interface-in eth0 --limit 3";
    let request = asked(line).unwrap();
    assert_eq!(request.to, "10.0.2.2:80".parse().unwrap());
    assert_eq!(request.from, Some("10.0.1.1:4000".parse().unwrap()));
    assert_eq!((request.ip_protocol, request.mark, request.limit), (6, Some(7), Some(3)));
    assert_eq!(request.incoming.as_deref(), Some("eth0"));
    let ports = asked("show path 10.0.2.2:80 --from 10.0.1.1:4000 --dport 80").unwrap();
    assert_eq!((ports.to, ports.from), (request.to, request.from));
    assert_eq!((ports.ip_protocol, ports.mark, ports.limit), (17, None, None));
    let own = asked("show --limit 3 path 2001:db8::2 --sport 4000").unwrap();
    assert_eq!(own.from, Some("[::]:4000".parse().unwrap()));
    assert_eq!((own.to.port(), own.limit), (0, Some(3)));
    let conflict = asked("show path 10.0.2.2:80 --dport 81").unwrap_err();
    assert_eq!(conflict, "10.0.2.2:80 names port 80, and --dport names 81");
    assert!(asked("show path localhost").unwrap().to.ip().is_loopback());
}

#[test]
fn session_arguments_of_packet_filters_are_parsed() {
    let asked = |line: &str| {
        let Command::Open(options) = parse(line).unwrap().command else { panic!("not open") };
        options.request().unwrap()
    };
    let usual =
        asked("open --to 192.0.2.1:5001 --from 10.0.1.1:4000 --lifetime 1500ms --datagrams");
    assert_eq!((usual.ip_protocol, usual.lifetime_s), (17, Some(2)));
    assert_eq!(usual.from, Some("10.0.1.1:4000".parse().unwrap()));
    assert_eq!(serde_json::to_value(usual.transport).unwrap(), "datagrams");
    let any = asked("open --to 192.0.2.1 --ip-protocol any --probe");
    assert_eq!((any.ip_protocol, any.to.port(), any.from), (0, 0, None));
    assert_eq!(serde_json::to_value(any.proxy).unwrap(), "edge_and_onward");
    let echo = asked("open --to 192.0.2.1 --icmp-type 8 --icmp-type 13");
    assert_eq!((echo.ip_protocol, &echo.icmp_types[..]), (1, &[8, 13][..]));
    assert_eq!(asked("open --to 2001:db8::1 --icmp-type 128").ip_protocol, 58);
    let ipsec = asked("open --to 192.0.2.1 --ip-protocol esp --spi 0x1000 --proxy");
    assert_eq!((ipsec.ip_protocol, ipsec.spi), (50, Some(0x1000)));
    let line = "expose 22 --ip-protocol tcp --address 10.0.1.1 --from 192.0.2.1:900 --behind-firewall --next-port";
    let Command::Expose(options) = parse(line).unwrap().command else { panic!("not expose") };
    let request = options.request().unwrap();
    assert_eq!((request.port, request.ip_protocol, request.from_port), (22, 6, Some(900)));
    assert_eq!(request.from, Some("192.0.2.1".parse().unwrap()));
    assert!(request.behind_firewall && request.next_port && !request.deny);
    for (line, expected) in
        [("pinholes", Listing::Pinholes), ("translations", Listing::Translations)]
    {
        let Command::Show { what: Show::Listing(what), .. } =
            parse(&format!("show {line}")).unwrap().command
        else {
            panic!("not a listing")
        };
        assert_eq!(what.parts().0, expected);
    }
}

#[test]
fn limit_is_accepted_before_and_after_listing() {
    for line in ["show --limit 7 routing-state", "show routing-state --limit 7"] {
        let Command::Show { what: Show::Listing(what), limit } = parse(line).unwrap().command
        else {
            panic!("not a listing")
        };
        assert_eq!((what.parts().0, limit), (Listing::RoutingState, Some(7)));
    }
}

#[test]
fn invalid_arguments_are_refused() {
    for line in [
        "",
        "show",
        "show colours",
        "show path",
        "show path 10.0.2.2 --ip-protocol ospf",
        "show path 10.0.2.2 --dport 99999",
        "show path 10.0.2.2 --mark red",
        "show path 10.0.2.2 --interface-in eth0",
        "show path 10.0.2.2 --flow-label 0",
        "send --to 10.0.2.2:5001",
        "send --rate 2Mbit",
        "send --to 10.0.2.2:5001 --rate 2MB",
        "send --to 10.0.2.2:5001 --rate 2Mbit --ip-protocol 0",
        "send --to 10.0.2.2:5001 --rate 2Mbit --ip-protocol 256",
        "send --to 10.0.2.2:5001 --rate 2Mbit --burst much",
        "listen --on 10.0.2.2:5001 --rate 1Mbit --delay 20ms",
        "listen --on 10.0.2.2:5001 --delay 20",
        "listen --on 10.0.2.2:5001 --style shared",
        "listen --on 10.0.2.2:5001 --sender 10.0.1.1#7",
        "listen --on [2001:db8::2]:5001 --sender 2001:db8::1#0",
        "listen --on [2001:db8::2]:5001 --sender [2001:db8::1]:5#7",
        "send --to [2001:db8::2]:5001 --rate 2Mbit --flow-label 0x100000",
        "reserve --to 10.0.2.2:5001 --rate 2Mbit --timeout soon",
        "release",
        "release 7 --all",
        "release seven",
        "daemon",
        "daemon --config a --log loud",
        "watch --for ever",
        #[cfg(feature = "top")]
        "top --interval 100ms",
        #[cfg(feature = "top")]
        "top --interval often",
        #[cfg(feature = "top")]
        "top --to nowhere",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}
