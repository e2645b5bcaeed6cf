//! SESSION_AUTH: layouts of RFC 5981, malformed values, and the form of a web token.

use earmark_wire::EmitError;
use earmark_wire::nsis::iana::{EntityIdForm, SESSION_AUTH, XType};
use earmark_wire::nsis::{
    Attribute, SessionAuth, SessionAuthErrorKind, Treatment, emit_session_auth, session_auth_len,
};
use earmark_wire::qos_nslp::{Extra, ExtraObject, Message, Reserve};
use proptest::prelude::*;

fn entity(form: EntityIdForm, value: &[u8]) -> Attribute<'_> {
    Attribute { x_type: XType::AuthEntId, sub_type: form.code(), value }
}

fn data(value: &[u8]) -> Attribute<'_> {
    Attribute { x_type: XType::AuthenticationData, sub_type: 0, value }
}

fn emit(attributes: &[Attribute<'_>]) -> Vec<u8> {
    let mut octets = vec![0xa5; session_auth_len(attributes)];
    assert_eq!(emit_session_auth(attributes, &mut octets), Ok(octets.len()));
    octets
}

/// Figure 1 of RFC 5981: an address and authentication data; and the form of a web token, with padding.
#[test]
fn attributes_are_laid_out_as_in_the_rfc() {
    for (attributes, octets) in [
        (
            [entity(EntityIdForm::Ipv4, &[10, 0, 0, 1]), data(&[0, 0, 0, 7, 0xaa])],
            &[0, 8, 1, 1, 10, 0, 0, 1, 0, 9, 8, 0, 0, 0, 0, 7, 0xaa, 0, 0, 0][..],
        ),
        (
            [entity(EntityIdForm::WebToken, b"isp"), data(&[0xd2, 0x84])],
            &[0, 7, 1, 128, b'i', b's', b'p', 0, 0, 6, 8, 0, 0xd2, 0x84, 0, 0],
        ),
    ] {
        assert_eq!(emit(&attributes), octets);
        let parsed = SessionAuth::parse(octets).expect("a valid one");
        assert!(parsed.attributes().eq(attributes));
    }
}

#[test]
fn malformed_values_are_refused_with_the_place() {
    use SessionAuthErrorKind::{Empty, Length, Padding, Truncated};
    for (octets, kind, offset) in [
        (&[][..], Empty, 0),
        (&[0, 8, 1], Truncated, 0),
        (&[0, 8, 1, 1, 1, 2, 3, 4, 0], Truncated, 8),
        (&[0, 4, 1, 1], Length, 0),
        (&[0, 0, 1, 1], Length, 0),
        (&[0, 8, 1, 1, 1, 2, 3, 4, 0, 9, 8, 0, 1, 2, 3, 4], Length, 8),
        (&[0, 7, 1, 1, 1, 2, 3], Length, 0),
        (&[0, 7, 1, 1, 1, 2, 3, 1], Padding, 0),
        (&[0xff, 0xff, 1, 1, 1, 2, 3, 1], Length, 0),
    ] {
        let error = SessionAuth::parse(octets).expect_err("a fault");
        assert_eq!((error.kind, error.offset), (kind, offset), "{octets:?}");
    }
}

#[test]
fn web_token_is_an_identifier_and_a_token_and_nothing_else() {
    let issuer = entity(EntityIdForm::WebToken, b"provider");
    let (token, other) = (data(&[1, 2, 3]), entity(EntityIdForm::Fqdn, b"a.example"));
    let end = Attribute { x_type: XType::EndTime, sub_type: 1, value: &[0; 8] };
    let unknown = Attribute { x_type: XType::Unknown(200), sub_type: 0, value: &[0; 4] };
    for (attributes, found) in [
        (&[issuer, token][..], Some(&[1, 2, 3][..])),
        (&[issuer], Some(&[])),
        (&[issuer, end, token], Some(&[])),
        (&[issuer, token, unknown], Some(&[])),
        (&[issuer, unknown], Some(&[])),
        (&[other, token], None),
        (&[token, issuer], None),
    ] {
        let octets = emit(attributes);
        let parsed = SessionAuth::parse(&octets).expect("a valid one");
        assert_eq!(parsed.web_token(), found, "{attributes:?}");
    }
}

#[test]
fn attributes_that_nobody_could_read_are_not_written() {
    let long = vec![0; 65_532];
    for (attribute, error) in [
        (data(&[]), EmitError::Contradiction),
        (Attribute { x_type: XType::Unknown(1), ..data(&[1]) }, EmitError::Contradiction),
        (data(&long), EmitError::TooLong),
    ] {
        assert_eq!(emit_session_auth(&[attribute], &mut vec![0; 70_000]), Err(error));
    }
    let room = &mut [0; 7];
    assert_eq!(emit_session_auth(&[data(&[1])], room), Err(EmitError::BufferTooShort));
}

/// SESSION_AUTH is known whatever its flags are, may occur several times, and is forwarded with its octets (RFC 5981
/// section 3.1).
#[test]
fn object_is_kept_in_a_message() {
    let value = emit(&[entity(EntityIdForm::WebToken, b"isp"), data(&[1])]);
    for treatment in [Treatment::Forward, Treatment::Mandatory, Treatment::Ignore] {
        let objects = [ExtraObject { treatment, object_type: SESSION_AUTH, value: &value }; 2];
        let extra = Extra::Items(&objects);
        let reserve = Reserve { extra, ..earmark_testkit::messages::qos_nslp::RESERVE };
        let message = Message::Reserve(reserve);
        let mut octets = vec![0; message.buffer_len()];
        assert_eq!(message.emit(&mut octets), Ok(octets.len()));
        let Ok(Message::Reserve(parsed)) = Message::parse(&octets) else { panic!("{treatment:?}") };
        assert_eq!(parsed.extra, extra);
        assert!(parsed.extra.session_auths().eq([&value[..]; 2]));
        let forwarded = Message::Reserve(Reserve { extra: parsed.extra, ..reserve });
        let mut again = vec![0; octets.len()];
        assert_eq!(forwarded.emit(&mut again), Ok(octets.len()));
        assert_eq!(again, octets);
    }
}

proptest! {
    #[test]
    fn arbitrary_octets_are_parsed_or_refused(octets in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(parsed) = SessionAuth::parse(&octets) {
            let attributes: Vec<_> = parsed.attributes().collect();
            let length: usize = attributes.iter().map(|a| (4 + a.value.len()).next_multiple_of(4)).sum();
            prop_assert_eq!(length, octets.len());
            prop_assert_eq!(emit(&attributes), &octets[..]);
            let _ = parsed.web_token();
        }
    }

    #[test]
    fn attributes_round_trip(values in prop::collection::vec(
        (any::<u8>(), any::<u8>(), prop::collection::vec(any::<u8>(), 1..20)), 1..6))
    {
        let attributes: Vec<_> = values
            .iter()
            .map(|(code, sub_type, value)| {
                Attribute { x_type: XType::from_code(*code), sub_type: *sub_type, value }
            })
            .collect();
        let octets = emit(&attributes);
        let parsed = SessionAuth::parse(&octets).expect("a valid one");
        prop_assert!(parsed.attributes().eq(attributes));
    }
}
