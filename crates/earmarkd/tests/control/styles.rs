//! Styles, named senders and flow labels, from the request to messages and listings.

use super::*;

/// A sender with a flow label is announced and listed with it.
#[test]
fn a_sender_may_have_a_flow_label() {
    let mut host = Host::of_both_families();
    let mut peer = host.connect();
    let line = r#"{"reserve":{"to":"[2001:db8::9]:5001","rate_bps":2000000,"flow_label":74565}}"#;
    assert_eq!(host.ask(&mut peer, line)["ok"]["role"], "sender");
    let (_, message) = host.driver.kernel().sent.pop_front().expect("a Path");
    // Class 11, C-Type 3: the address, an octet, and a label of three (RFC 2205 appendix A.9).
    let template = message.windows(4).position(|header| header == [0, 24, 11, 3]);
    let at = template.expect("an IPv6 flow-label SENDER_TEMPLATE") + 20;
    assert_eq!(message[at..at + 4], [0, 0x01, 0x23, 0x45]);
    let sessions = host.ask(&mut peer, r#"{"show":{"what":"sessions"}}"#);
    assert_eq!(sessions["ok"]["rows"][0]["flow_label"], 0x12345, "{sessions}");
    assert_eq!(sessions["ok"]["rows"][0]["source_port"], 0, "{sessions}");
}

/// A sender with an SPI is announced and listed with it (RFC 2207).
#[test]
fn a_sender_may_have_an_spi() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let line =
        r#"{"reserve":{"to":"10.0.9.9:9000","ip_protocol":50,"rate_bps":2000000,"spi":4096}}"#;
    assert_eq!(host.ask(&mut peer, line)["ok"]["role"], "sender");
    let (_, message) = host.driver.kernel().sent.pop_front().expect("a Path");
    // IPv4/GPI SESSION and SENDER_TEMPLATE: class 1, C-Type 3, and class 11, C-Type 4.
    assert!(message.windows(4).any(|header| header == [0, 12, 1, 3]));
    let template = message.windows(4).position(|header| header == [0, 12, 11, 4]);
    let at = template.expect("a SENDER_TEMPLATE with GPI") + 8;
    assert_eq!(message[at..at + 4], 4_096_u32.to_be_bytes());
    let sessions = host.ask(&mut peer, r#"{"show":{"what":"sessions"}}"#);
    let row = &sessions["ok"]["rows"][0];
    assert_eq!((&row["spi"], &row["source_port"]), (&json!(4_096), &json!(0)), "{sessions}");
}

/// Style and senders of a receiver are listed.
#[test]
fn a_receiver_may_share_and_name_senders() {
    let mut host = Host::new();
    let mut peer = host.connect();
    for line in [
        r#"{"listen":{"on":"239.1.2.3:5001"}}"#,
        r#"{"listen":{"on":"239.1.2.3:5002","options":{"style":"WF","confirm":true}}}"#,
        r#"{"listen":{"on":"239.1.2.3:5003","options":{"style":"SE","senders":[{"address":"10.0.7.1"}]}}}"#,
    ] {
        assert_eq!(host.ask(&mut peer, line)["ok"]["role"], "receiver", "{line}");
    }
    let listed = host.ask(&mut peer, r#"{"show":{"what":"applications"}}"#);
    let rows = listed["ok"]["rows"].as_array().unwrap();
    let styles: Vec<&Value> = rows.iter().map(|row| &row["style"]).collect();
    assert_eq!(styles, ["FF", "WF", "SE"]);
    assert_eq!(rows[1]["senders"], json!([]));
    assert_eq!(rows[2]["senders"], json!([{ "address": "10.0.7.1", "port": 0 }]));
}

#[test]
fn impossible_senders_are_refused() {
    let mut host = Host::of_both_families();
    let mut peer = host.connect();
    let wildcard = r#""style":"WF","senders":[{"address":"10.0.7.1"}]"#;
    for (line, code) in [
        (format!(r#"{{"listen":{{"on":"239.1.2.3:1","options":{{{wildcard}}}}}}}"#), "rejected"),
        (r#"{"listen":{"on":"239.1.2.3:1","options":{"style":"ZZ"}}}"#.to_owned(), "bad_request"),
        (
            r#"{"listen":{"on":"239.1.2.3:1","options":{"senders":[{"address":"2001:db8::1"}]}}}"#.to_owned(),
            "rejected",
        ),
        (
            r#"{"listen":{"on":"239.1.2.3:1","options":{"senders":[{"address":"10.0.7.1","flow_label":7}]}}}"#
                .to_owned(),
            "rejected",
        ),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":9,"flow_label":7}}"#.to_owned(), "rejected"),
        (
            r#"{"reserve":{"to":"[2001:db8::9]:1","rate_bps":9,"flow_label":1048576}}"#.to_owned(),
            "rejected",
        ),
        (
            r#"{"reserve":{"to":"[2001:db8::9]:1","rate_bps":9,"from":"[::]:5","flow_label":7}}"#
                .to_owned(),
            "rejected",
        ),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":9,"spi":7}}"#.to_owned(), "rejected"),
        (
            r#"{"reserve":{"to":"10.0.9.9:1","ip_protocol":50,"rate_bps":9}}"#.to_owned(),
            "rejected",
        ),
        (
            r#"{"reserve":{"to":"10.0.9.9:1","from":"0.0.0.0:5","ip_protocol":50,"rate_bps":9,"spi":7}}"#
                .to_owned(),
            "rejected",
        ),
        (
            r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:1","ip_protocol":50,"rate_bps":9,"spi":7}}"#
                .to_owned(),
            "rejected",
        ),
        (
            r#"{"reserve":{"to":"10.0.9.9:1","ip_protocol":50,"rate_bps":9,"spi":0}}"#.to_owned(),
            "rejected",
        ),
        (
            r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:0","ip_protocol":50,"rate_bps":9,"spi":0}}"#
                .to_owned(),
            "rejected",
        ),
        (
            r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:1","rate_bps":9,"flow_label":7}}"#
                .to_owned(),
            "rejected",
        ),
        (
            r#"{"listen":{"on":"239.1.2.3:1","ip_protocol":50,"options":{"senders":[{"address":"10.0.7.1","spi":0}]}}}"#
                .to_owned(),
            "rejected",
        ),
    ] {
        let answer = host.ask(&mut peer, &line);
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert!(!answer["error"]["hint"].as_str().unwrap().is_empty(), "{line}");
    }
    let applications = host.ask(&mut peer, r#"{"show":{"what":"applications"}}"#);
    assert_eq!(applications["ok"]["rows"], json!([]), "nothing was left behind");
}

/// What a protocol cannot signal is refused and named, never ignored. YESSIR's query and NSIS's priority show that the rest is
/// accepted.
#[test]
fn what_a_protocol_cannot_signal_is_refused() {
    let flow_label = r#""to":"[2001:db8::9]:1","flow_label":7"#;
    let to = r#""to":"10.0.9.9:5004""#;
    let esp = r#""to":"10.0.9.9:0","ip_protocol":50,"spi":7"#;
    for (protocol, what, named) in [
        ("rsvp", format!(r#"{to},"query":true"#), "query"),
        ("boomerang", flow_label.to_owned(), "flow label"),
        ("boomerang", esp.to_owned(), "SPI"),
        ("boomerang", format!(r#"{to},"identity":{{"user":"alice"}}"#), "name"),
        ("boomerang", format!(r#"{to},"identity":{{"priority":7}}"#), "priority"),
        ("yessir", flow_label.to_owned(), "flow label"),
        ("yessir", esp.to_owned(), "SPI"),
        ("yessir", format!(r#"{to},"ip_protocol":6"#), "IP protocol"),
        ("yessir", format!(r#"{to},"identity":{{"application":"APP=voice"}}"#), "name"),
        ("yessir", format!(r#"{to},"identity":{{"priority":7}}"#), "priority"),
        ("nsis", format!(r#"{to},"identity":{{"user":"alice"}}"#), "name"),
        ("yessir", format!(r#"{to},"from":"0.0.0.0:5004","query":true"#), ""),
        ("nsis", format!(r#"{to},"identity":{{"priority":7}}"#), ""),
    ] {
        let mut host = Host::of_both_families();
        let mut peer = host.connect();
        let line = format!(r#"{{"reserve":{{"protocol":"{protocol}","rate_bps":8000,{what}}}}}"#);
        let answer = host.ask(&mut peer, &line);
        if named.is_empty() {
            assert_eq!(answer["ok"]["role"], "sender", "{line}: {answer}");
            continue;
        }
        assert_eq!(answer["error"]["code"], "rejected", "{line}: {answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(protocol) && message.contains(named), "{line}: {message}");
        let applications = host.ask(&mut peer, r#"{"show":{"what":"applications"}}"#);
        assert_eq!(applications["ok"]["rows"], json!([]), "nothing was left behind");
    }
    let mut host = Host::new();
    let mut peer = host.connect();
    for (protocol, what, named) in [
        ("yessir", r#""ip_protocol":6"#, "IP protocol"),
        ("yessir", r#""identity":{"user":"alice"}"#, "name"),
        ("nsis", r#""identity":{"priority":7}"#, "priority"),
    ] {
        let line =
            format!(r#"{{"listen":{{"protocol":"{protocol}","on":"0.0.0.0:5004",{what}}}}}"#);
        let answer = host.ask(&mut peer, &line);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(named), "{line}: {answer}");
    }
}

#[test]
fn version_is_reported() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let answer = host.ask(&mut peer, r#"{"version":{}}"#);
    assert_eq!(answer["ok"]["protocol"], earmark_control::VERSION);
    assert_eq!(answer["ok"]["earmark"], env!("CARGO_PKG_VERSION"));
}
