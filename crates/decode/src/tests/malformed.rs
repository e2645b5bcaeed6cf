//! Malformed messages of every protocol, and the lines of text that they become.

use earmark_testkit::messages::samples::{Sample, samples};

use super::*;

/// Returns the sample of this name.
fn sample(name: &str) -> Sample {
    samples().into_iter().find(|it| it.name == name).expect("there is one")
}

/// Returns the lines behind the first one, for the sample with octets replaced from `at` on, or cut off.
fn lines(sample: &Sample, message: &[u8]) -> Vec<String> {
    let packet = ipv4_packet(sample.ip_protocol, &sample.payload(message));
    text_of(&packet).lines().skip(1).map(|line| line.trim_start().to_owned()).collect()
}

/// Asserts that these lines stand one after another. One that ends in dots may go on.
#[track_caller]
fn assert_lines(name: &str, message: &[u8], expected: &[&str]) {
    let lines = lines(&sample(name), message);
    let is_same = |(line, expected): (&String, &&str)| match expected.strip_suffix("...") {
        Some(start) => line.starts_with(start),
        None => line == expected,
    };
    let mut windows = lines.windows(expected.len());
    let is_found = windows.any(|window| window.iter().zip(expected).all(is_same));
    assert!(is_found, "{name}: {expected:#?} in {lines:#?}");
}

/// A change of a valid message: octets are replaced, and others, which are lengths, are lowered by one.
struct Case {
    name: &'static str,
    at: usize,
    replaced: usize,
    by: &'static [u8],
    lowered: &'static [usize],
    expected: &'static [&'static str],
}

/// Returns a case in which all octets keep their place.
const fn changed(
    name: &'static str,
    at: usize,
    by: &'static [u8],
    expected: &'static [&'static str],
) -> Case {
    Case { name, at, replaced: by.len(), by, lowered: &[], expected }
}

fn check(cases: &[Case]) {
    for Case { name, at, replaced, by, lowered, expected } in cases {
        let mut message = sample(name).message;
        for at in *lowered {
            message[*at] -= 1;
        }
        message.splice(*at..at + replaced, by.iter().copied());
        assert_lines(name, &message, expected);
    }
}

#[test]
fn malformed_gist_and_nslp_messages_have_these_lines() {
    check(&[
        // TMOD-1 of four words, as other implementations send it, and all lengths around it.
        Case {
            name: "RESERVE",
            at: 156,
            replaced: 4,
            by: &[],
            lowered: &[7, 83, 127, 131, 135, 139],
            expected: &[
                "QSPEC  model default  local false  procedure sender-initiated reservation  combination 0",
                "malformed: QSPEC, octet 8: QoS Desired: TMOD-1: invalid length of the value",
                r#"QoS Desired  TMOD-1 {"rate":250000.0,"depth":3000.0,"peak":"infinity","min_policed_unit":64}  Path Latency 5  parameter 77 01020304"#,
                "malformed: TMOD-1 at octet 8: expected 24 octets, found 20",
                "QoS Available  Path Latency 5  parameter 77 01020304",
            ],
        },
        // A prefix length of 0 with a host address.
        changed(
            "RESERVE",
            28,
            &[0],
            &[
                "Message-Routing-Information  method path-coupled  direction Downstream  source 10.0.1.254/0  destination 10.0.1.1/32  protocol 17  source_port 1  destination_port 2",
                "warning: Message-Routing-Information at octet 8: the source is 10.0.1.254, but its prefix length is 0: any address",
                "Session-Identifier  session 07070707070707070707070707070707",
            ],
        ),
        // An unknown method hides nothing of the other objects.
        changed(
            "GIST Query",
            16,
            &[9],
            &[
                "Message-Routing-Information  rest 0a0001fe0a0001012020110000010002",
                "malformed: Message-Routing-Information at octet 8: unknown routing method 9",
                "Session-Identifier  session 07070707070707070707070707070707",
            ],
        ),
        changed(
            "RESERVE",
            100,
            &[0, 77],
            &[
                "RSN  number 1  epoch 2",
                "UNKNOWN  type 77  octets 00000003",
                "REFRESH-PERIOD  ms 30000",
            ],
        ),
        changed(
            "CREATE",
            101,
            &[9],
            &[
                "CREATE  flags [\"proxy\",\"end_to_end\"]",
                "malformed: NATFW NSLP, octet 12: NATFW_EFI has an unknown rule action",
                "NATFW_LT  seconds 300",
                "NATFW_EFI  action 9  sub_ports 0",
                "NATFW_MSN  number 1",
            ],
        ),
        changed(
            "EXTERNAL",
            118,
            &[0],
            &[
                "NATFW_DTINFO  sender 10.0.1.254/0  protocol 17  source_port 0  destination_port 5004",
                "warning: NATFW_DTINFO at octet 28: the sender is 10.0.1.254, but its prefix length is 0: any address",
                "NATFW_NONCE  number 7",
            ],
        ),
        changed(
            "EXTERNAL",
            154,
            &[0x60],
            &[
                "NATFW_EXTERNAL_BINDING  port 4000  rest c0000201c0000202",
                "malformed: NATFW_EXTERNAL_BINDING at octet 64: IP version is 6, not 4",
            ],
        ),
        changed(
            "Ping 2",
            87,
            &[60],
            &["malformed: Ping NSLP at octet 0: expected 60 octets, found 56"],
        ),
    ]);
}

#[test]
fn malformed_rsvp_messages_have_these_lines() {
    check(&[
        // An RSVP_HOP of 16 octets takes the header of the next object.
        changed(
            "Path",
            20,
            &[0, 16],
            &[
                "SESSION  destination 10.0.9.9  protocol 17  flags 0  port 6000",
                "RSVP_HOP  address 10.0.2.1  lih 7  rest 00080501  error object_size",
                "malformed: RSVP_HOP at octet 20: expected 12 octets, found 16",
            ],
        ),
        changed(
            "Path",
            20,
            &[0, 0],
            &[
                "RSVP_HOP  rest 0a00020100000007000805010000753...",
                "malformed: RSVP_HOP at octet 20: impossible length 0",
            ],
        ),
        changed(
            "Path",
            67,
            &[4],
            &["malformed: TOKEN_BUCKET_TSPEC at octet 68: expected 20 octets, found 16"],
        ),
        changed(
            "Path",
            43,
            &[77],
            &[
                "SENDER_TEMPLATE  rest 0a00010100001388  error unknown_c_type",
                "malformed: SENDER_TEMPLATE at octet 40: unknown C-Type 77",
            ],
        ),
        changed(
            "Path",
            16,
            &[0],
            &[
                "SESSION  destination 10.0.9.9  protocol 0  flags 0  port 6000  error zero_protocol",
                "malformed: SESSION at octet 8: protocol id is zero",
            ],
        ),
    ]);
}

#[test]
fn malformed_yessir_reports_have_these_lines() {
    check(&[
        changed(
            "YESSIR",
            55,
            &[12],
            &[
                "GENERIC  command Active  style Individual  interval 30  reservation 5  multiplexed false",
                "FLOWSPEC_CODEC  payload_type 0  frames 1  rest 06400010",
                "malformed: FLOWSPEC_CODEC at octet 52: expected 8 octets, found 12",
            ],
        ),
        changed(
            "YESSIR",
            78,
            &[0, 3],
            &[
                "FAILURE  rest 0100000001010002000000000a000009",
                "malformed: FAILURE at octet 76: impossible length 3",
            ],
        ),
        changed(
            "YESSIR",
            80,
            &[2],
            &[
                "FAILURE  reason Bandwidth  hop 2  available 0.0  node 10.0.0.9",
                "FAILURE",
                "malformed: FAILURE at octet 76: the count is 2, but the number of notes is 1",
            ],
        ),
        changed("YESSIR", 52, &[99], &["UNKNOWN  type 99  flags 0  octets 00010000"]),
    ]);
}

#[test]
fn malformed_boomerang_messages_have_these_lines() {
    check(&[
        // A mask that is no prefix.
        changed(
            "Boomerang V4",
            41,
            &[0],
            &[
                "CLASSIFIER  source 10.0.1.254  destination 10.0.1.1  source_port 1  destination_port 2  protocol 17  tos 0",
                "MASK  source 255.0.255.255  destination 255.255.255.255  source_port 65535  destination_port 65535  protocol 255  tos 0",
                "DOWNGRADE  forward_bps 3  reverse_bps 2",
            ],
        ),
        changed(
            "Boomerang V4",
            9,
            &[0x22],
            &["malformed: QOS at octet 56: the format is IntServ, whose layout is unknown"],
        ),
        changed(
            "Boomerang V4",
            77,
            &[99],
            &[
                "UNKNOWN  option 99  octets 18  rest 0000736f6d65626f64790707070707070707",
                "warning: option 99 at octet 76: option 99 is unknown and takes the rest",
            ],
        ),
        Case {
            name: "Boomerang V4",
            at: 88,
            replaced: 8,
            by: &[1],
            lowered: &[],
            expected: &[
                "USER_ID  user somebody  rest 01",
                "malformed: USER_ID at octet 76: expected 20 octets, found 13",
            ],
        },
    ]);
}

/// A message for nothing that no node has refused releases the reservation.
#[test]
fn release_of_boomerang_is_named() {
    let sample = sample("Boomerang V4");
    let mut message = sample.message.clone();
    message[60..76].fill(0);
    let line = |message: &[u8]| {
        let text = text_of(&ipv4_packet(sample.ip_protocol, &sample.payload(message)));
        text.lines().next().expect("a line").to_owned()
    };
    assert!(
        line(&message).starts_with("frame 1: Boomerang echo (Release) 10.0.1.1 -> "),
        "{}",
        line(&message)
    );
    message[11] = 1;
    assert!(line(&message).contains("(Reservation)"), "{}", line(&message));
    assert!(line(&sample.message).contains("(Reservation)"));
}
