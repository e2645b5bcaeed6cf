//! POLICY_DATA (RFC 2750) and the policies of RFC 3181, 3182, 2872 and 6401: layouts of the figures in both directions;
//! malformed objects; and their text form.

use earmark_testkit::messages::{hex, rsvp as samples};
use earmark_wire::EmitError;
use earmark_wire::rsvp::ErrorKind as E;
use earmark_wire::rsvp::iana::*;
use earmark_wire::rsvp::*;
use proptest::prelude::*;

/// Returns the object with these options and elements.
fn object(options: &str, elements: &str) -> Vec<u8> {
    let (options, elements) = (hex(options), hex(elements));
    let data_offset = 8 + options.len();
    let length = u16::try_from(data_offset + elements.len()).expect("short");
    let [l0, l1] = length.to_be_bytes();
    let mut object = vec![l0, l1, 14, 1, 0, u8::try_from(data_offset).expect("short"), 0, 0];
    object.extend(options);
    object.extend(elements);
    object
}

fn parse(object: &[u8]) -> Result<PolicyData<'_>, ParseError> {
    PolicyData::parse(&RawObject { offset: 100, bytes: object })
}

/// Returns kind and offset of the fault; the object has offset 100 in a message.
fn verdict(object: &[u8]) -> Result<(), (ErrorKind, usize)> {
    parse(object).map(|_| ()).map_err(|error| (error.kind, error.offset))
}

fn both_ways(object: &[u8], policy: &PolicyData<'_>) {
    assert_eq!(parse(object).as_ref(), Ok(policy));
    let mut buffer = vec![0xa5; policy.buffer_len()];
    assert_eq!(policy.emit(&mut buffer), Ok(object.len()));
    assert_eq!(buffer, object);
}

fn element(elements: &str, expected: PolicyElement<'_>) {
    let elements = object("", elements);
    both_ways(&elements, &PolicyData { options: List::EMPTY, elements: List::Items(&[expected]) });
}

const PREEMPTION: &str = "000c 0001 00 01 00 00 0003 0005";

#[test]
fn elements_match_their_figures_both_ways() {
    let priority = PreemptionPriority {
        merge_strategy: MergeStrategy::HighestQos.code(),
        error: PreemptionError::NoError.code(),
        preemption: 3,
        defending: 5,
    };
    element(PREEMPTION, PolicyElement::Preemption(priority));
    let priority = AdmissionPriority {
        merge_strategy: MergeStrategy::HighestPriority.code(),
        error: PreemptionError::Heterogeneous.code(),
        priority: 9,
    };
    element("000c 0005 00 02 02 00 000000 09", PolicyElement::Admission(priority));
    let resource = [
        ResourcePriority { namespace: 1, value: 4 },
        ResourcePriority { namespace: 0x102, value: 0 },
    ];
    let resource = PolicyElement::Resource(List::Items(&resource));
    element("000c 0006 0001 00 04 0102 00 00", resource);
    element("0008 c001 01020304", PolicyElement::Unknown(0xc001, &[1, 2, 3, 4]));
    element("0004 0001", PolicyElement::Empty(PolicyElementType::PreemptionPriority));
    element("0004 c001", PolicyElement::Empty(PolicyElementType::Unknown(0xc001)));
}

/// Flags and reserved fields are ignored when read, and zero when written (RFC 3181 section 4, RFC 6401 section 5).
#[test]
fn reserved_fields_of_priorities_are_ignored() {
    for (reserved, plain) in [
        ("000c 0001 ff 01 00 ff 0003 0005", "000c 0001 00 01 00 00 0003 0005"),
        ("000c 0005 ff 02 02 ff ffffff 09", "000c 0005 00 02 02 00 000000 09"),
        ("000c 0006 0001 ff 04 0102 ff 00", "000c 0006 0001 00 04 0102 00 00"),
    ] {
        let (reserved, plain) = (object("", reserved), object("", plain));
        let policy = parse(&reserved).expect("it can be read");
        assert_eq!(parse(&plain), Ok(policy));
        let read: Vec<PolicyElement<'_>> = policy.elements.iter().collect();
        let again = PolicyData { options: List::EMPTY, elements: List::Items(&read) };
        let mut octets = vec![0xa5; plain.len()];
        assert!(read.iter().all(|element| !matches!(element, PolicyElement::Unknown(..))));
        assert_eq!(again.emit(&mut octets), Ok(plain.len()));
        assert_eq!(octets, plain);
    }
}

/// The figure of RFC 2872 section 2: a locator of 25 octets, hence with padding, and a credential.
#[test]
fn application_element_has_locator_and_credential() {
    let locator = "APP=SAP, VER=1.1, SAPP=Print";
    let attributes = [
        Attribute {
            a_type: AttributeType::PolicyLocator,
            sub_type: LocatorForm::AsciiDn.code(),
            value: locator.as_bytes(),
        },
        Attribute {
            a_type: AttributeType::Credential,
            sub_type: CredentialForm::AsciiId.code(),
            value: b"SAP.EXE",
        },
    ];
    let text: String = locator.bytes().map(|octet| format!("{octet:02x}")).collect();
    let digits = format!("0030 0003 0020 01 01 {text} 000b 02 01 5341502e455845 00");
    element(&digits, PolicyElement::Application(List::Items(&attributes)));
    let user = digits.replace("0030 0003", "0030 0002");
    element(&user, PolicyElement::User(List::Items(&attributes)));
    assert_eq!(attributes[0].ascii(), Some(locator));
}

#[test]
fn policy_error_object_has_the_reason() {
    let refusal =
        Attribute { a_type: AttributeType::PolicyErrorObject, sub_type: 0, value: b"\0\0\0\x03no" };
    let attributes = [refusal];
    let digits = "0010 0002 000a 04 00 0000 0003 6e6f 0000";
    element(digits, PolicyElement::User(List::Items(&attributes)));
    assert_eq!(refusal.policy_error(), Some((3, &b"no"[..])));
    assert_eq!(Attribute { value: b"\0\0\0", ..refusal }.policy_error(), None);
    assert_eq!(Attribute { a_type: AttributeType::Credential, ..refusal }.policy_error(), None);
    assert_eq!(Attribute { value: b"name\0\0", ..refusal }.ascii(), Some("name"));
    assert_eq!(Attribute { value: b"\0", ..refusal }.ascii(), Some(""));
    assert_eq!(Attribute { value: "ä".as_bytes(), ..refusal }.ascii(), None);
    assert_eq!(Attribute { value: b"\xff", ..refusal }.ascii(), None);
}

#[test]
fn options_are_objects() {
    let hop = RsvpHop { address: "10.0.1.1".parse().expect("address"), lih: 7 };
    let v6: std::net::IpAddr = "2001:db8::1".parse().expect("address");
    let filter = FilterSpec { source: v6, selector: SourceSelector::Port(9) };
    let digest = [0xdd; 4];
    let integrity = Integrity { flags: 0, key_id: 1, sequence: 2, digest: &digest };
    let options = [
        PolicyOption::Filter(filter),
        PolicyOption::Hop(hop),
        PolicyOption::Hop(hop),
        PolicyOption::Integrity(integrity),
        PolicyOption::RefreshMs(90_000),
    ];
    let hop = "000c0301 0a000101 00000007";
    let digits = format!(
        "00180a02 20010db8 00000000 00000000 00000001 00000009 {hop} {hop} \
         00180401 0000 000000000001 0000000000000002 dddddddd 00080501 00015f90"
    );
    let elements = PolicyElement::Empty(PolicyElementType::AuthUser);
    let policy = PolicyData { options: List::Items(&options), elements: List::Items(&[elements]) };
    both_ways(&object(&digits, "0004 0002"), &policy);
    let scope = [PolicyOption::Scope(List::Items(&[v6]))];
    let policy = PolicyData { options: List::Items(&scope), elements: List::EMPTY };
    both_ways(&object("00140702 20010db8 00000000 00000000 00000001", ""), &policy);
}

#[test]
fn faults_are_reported_with_offset() {
    assert_eq!(verdict(&hex("0008 0e01 0008 0000")), Ok(()), "neither option nor element");
    assert_eq!(verdict(&hex("0004 0e01")), Err((E::ObjectSize, 100)));
    assert_eq!(verdict(&hex("0008 0e02 0008 0000")), Err((E::UnknownCType, 100)));
    for data_offset in ["0000", "0004", "0006", "000a", "000c", "ffff"] {
        let object = hex(&format!("0008 0e01 {data_offset} 0000"));
        assert_eq!(verdict(&object), Err((E::PolicyOption, 104)), "{data_offset}");
    }
    let time = "00080501 00000001";
    let option = |digits: &str| verdict(&object(&format!("{time} {digits}"), PREEMPTION));
    assert_eq!(option(""), Ok(()));
    assert_eq!(option("000c0501 00000001"), Err((E::PolicyOption, 116)), "length past the end");
    assert_eq!(option("00040501"), Err((E::PolicyOption, 116)), "too short");
    assert_eq!(option("00080801 00000011"), Err((E::PolicyOption, 116)), "no option");
    assert_eq!(option("00040000"), Err((E::PolicyOption, 116)), "no option");

    let second = |digits: &str| verdict(&object(time, &format!("{PREEMPTION} {digits}")));
    let wrong = Err((E::PolicyElement, 128));
    assert_eq!(second("0004 0001"), Ok(()));
    for digits in [
        "0003 0001",
        "0000 0001",
        "0008 0001",
        "0006 c001 0000 0000",
        "0008 0001 00010000",
        "0010 0001 00010000 00010002 00000000",
        "0008 0005 00010000",
        // Attributes with a length below the header, past the end, or with padding past the end.
        "0008 0002 0003 01 01",
        "0008 0003 0005 01 01",
        "0008 0002 0008 01 01",
        "0008 0002 0000 0000",
    ] {
        assert_eq!(second(digits), wrong, "{digits}");
    }
    let error = parse(&object("", "0008 0001 00010000")).map(|_| ()).expect_err("too short");
    assert_eq!(error.report(), Some((ErrorCode::PolicyControlFailure, 13)));
    let error = parse(&object("00040000", "")).map(|_| ()).expect_err("no option");
    assert_eq!(error.report(), Some((ErrorCode::PolicyControlFailure, 11)));
}

#[test]
fn unreadable_objects_are_not_emitted() {
    let refused = |element: PolicyElement<'_>| {
        let policy = PolicyData { options: List::EMPTY, elements: List::Items(&[element]) };
        policy.emit(&mut [0; 70_000]).expect_err("it is refused")
    };
    assert_eq!(refused(PolicyElement::Unknown(0xc001, &[1, 2, 3])), EmitError::Contradiction);
    let value = &[0; 65_535];
    let attribute = Attribute { a_type: AttributeType::Credential, sub_type: 1, value: &value[..] };
    assert_eq!(refused(PolicyElement::User(List::Items(&[attribute]))), EmitError::TooLong);
    let policy = PolicyData { options: List::EMPTY, elements: List::EMPTY };
    assert_eq!(policy.emit(&mut [0; 7]), Err(EmitError::BufferTooShort));
}

/// A message carries any POLICY_DATA, from which the policy can be parsed.
#[test]
fn messages_carry_policy_data_unexamined() {
    let mut parts = samples::sample(MessageType::Resv, Style::FixedFilter, false);
    parts.carried =
        [object("", PREEMPTION), hex("0008 0e63 ffffffff"), hex("0008e101 000000b8")].concat();
    let wire = samples::octets(&parts.message());
    let message = Message::parse(&wire).expect("it parses");
    assert_eq!(message, parts.message());
    let Body::Resv(resv) = message.body else { panic!("a Resv") };
    let mut carried = resv.carried.iter();
    let policy = PolicyData::parse(&carried.next().expect("the first")).expect("it is well formed");
    let types: Vec<_> = policy.elements.iter().map(|element| element.element_type()).collect();
    assert_eq!(types, [PolicyElementType::PreemptionPriority]);
    let unknown = PolicyData::parse(&carried.next().expect("the second")).expect_err("unknown");
    assert_eq!(unknown.kind, E::UnknownCType);
    assert_eq!(resv.carried.dclass(), Some(List::Items(&[Dscp(46)])));
}

#[test]
fn policy_data_serializes_flat() {
    let options = "000c0301 0a000101 00000007";
    let elements =
        format!("{PREEMPTION} 0010 0002 000a 02 01 416e6e616e6e 0000 0008 c001 00ff0102");
    let wire = [vec![0; 8], object(options, &elements)].concat();
    let decoded = objects(&wire).next().expect("one").expect("it decodes");
    let json = serde_json::to_string(&decoded).expect("it serializes");
    assert_eq!(
        json,
        concat!(
            r#"{"class_num":14,"c_type":1,"length":56,"offset":8,"class":"POLICY_DATA","#,
            r#""options":[{"class":"RSVP_HOP","address":"10.0.1.1","lih":7}],"#,
            r#""elements":[{"p_type":1,"policy":"PREEMPTION_PRI","merge_strategy":1,"error":0,"preemption":3,"defending":5},"#,
            r#"{"p_type":2,"policy":"AUTH_USER","attributes":[{"a_type":2,"attribute":"CREDENTIAL","sub_type":1,"text":"Annann"}]},"#,
            r#"{"p_type":49153,"policy":"unknown","body":"00ff0102"}]}"#,
        )
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Arbitrary elements do not panic, and parsed objects round-trip.
    #[test]
    fn arbitrary_elements_do_not_panic(
        elements in proptest::collection::vec(
            (0u16..8, proptest::collection::vec(0u8..14, 0..16), 0u8..4), 0..4),
        noise: bool,
    ) {
        let mut octets = Vec::new();
        for (p_type, body, wrong) in elements {
            let body = &body[..body.len() / 4 * 4];
            let wrong = if noise && wrong == 0 { 4 } else { 0 };
            octets.extend([0, 4 + wrong + body.len() as u8, 0, p_type as u8]);
            octets.extend(body);
        }
        let digits: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        let object = object("00080501 00000001", &digits);
        if let Ok(policy) = parse(&object) {
            let mut again = vec![0xa5; policy.buffer_len()];
            prop_assert_eq!(policy.emit(&mut again), Ok(again.len()));
            prop_assert_eq!(parse(&again), Ok(policy));
            let _ = format!("{policy:?}");
        }
    }
}
