//! Tokens as users of the crate see them: which requests they cover, and what is refused.

use std::net::IpAddr;
use std::sync::OnceLock;

use earmark_core::{InterfaceId, Prefix, Rate};
use earmark_token::{
    Claims, ClaimsError, Entrance, Issuer, MAX_LENGTH, SecretKey, TOLERANCE, Token, TokenError,
    TokenTextError, TokenUse, Verified, verify,
};
use proptest::prelude::*;

/// 2026-11-26T00:00:00Z and one hour later.
const START: u64 = 1_795_651_200;
const END: u64 = START + 3_600;

fn key() -> SecretKey {
    SecretKey::from_random(&[1; 32])
}

fn issuers() -> Vec<Issuer> {
    vec![Issuer { name: "provider".into(), key: key().public() }]
}

fn address(text: &str) -> Prefix {
    Prefix::host(text.parse().expect("an address"))
}

fn range(text: &str) -> Prefix {
    text.parse().expect("a range")
}

fn entrance(name: &str, is_core: bool) -> Option<Entrance<'_>> {
    Some(Entrance { interface: InterfaceId(1), name, is_core })
}

/// A token with all conditions.
fn claims() -> Claims {
    Claims {
        issuer: "provider".into(),
        name: "alice@example.org".into(),
        not_before: START,
        expires: END,
        rate: Rate::from_mbps(1),
        destination: Some("10.0.2.2:5001/udp".parse().expect("a destination")),
        sources: Some("10.0.1.0/24".parse().expect("a range")),
        port: Some("r1/eth1".parse().expect("a port")),
    }
}

/// Verifies claims signed by the provider for a request that they cover, changed by `change`.
fn verified(
    claims: &Claims,
    now: u64,
    change: impl FnOnce(&mut TokenUse<'_>),
) -> Result<Verified, TokenError> {
    let token = claims.sign(&key()).expect("valid claims");
    verify_octets(token.octets(), now, change)
}

/// The token of [`claims`], signed once.
fn signed() -> &'static Token {
    static TOKEN: OnceLock<Token> = OnceLock::new();
    TOKEN.get_or_init(|| claims().sign(&key()).expect("valid claims"))
}

/// A request that is covered as it is.
fn unchanged(_: &mut TokenUse<'_>) {}

fn verify_octets(
    token: &[u8],
    now: u64,
    change: impl FnOnce(&mut TokenUse<'_>),
) -> Result<Verified, TokenError> {
    let sources = [address("10.0.1.7")];
    let mut request = TokenUse {
        destination: address("10.0.2.2"),
        protocol: 17,
        port: 5_001,
        sources: &sources,
        rate: Rate::from_mbps(1),
        entrance: entrance("eth1", false),
    };
    change(&mut request);
    verify(token, &issuers(), "r1", &request, now)
}

#[test]
fn token_covers_the_request_that_it_names() {
    let verified = verified(&claims(), START, |_| {});
    assert_eq!(verified, Ok(Verified { name: "alice@example.org".into(), until: END + TOLERANCE }));
}

#[test]
fn other_requests_are_refused_with_the_reason() {
    let foreign = [address("10.0.1.7"), address("10.0.9.9")];
    type Change<'c> = &'c dyn Fn(&mut TokenUse<'_>);
    let cases: [(Change<'_>, TokenError); 8] = [
        (&|r| r.destination = address("10.0.2.3"), TokenError::OtherDestination),
        (&|r| r.destination = range("10.0.2.0/30"), TokenError::OtherDestination),
        (&|r| r.port = 5_002, TokenError::OtherDestination),
        (&|r| r.protocol = 6, TokenError::OtherDestination),
        (&|r| r.sources = &[], TokenError::OtherSources),
        (&|r| r.rate = Rate::from_bps(1_000_001), TokenError::RateTooLarge(Rate::from_mbps(1))),
        (&|r| r.entrance = entrance("eth2", false), TokenError::OtherInterface),
        // The named router checks core interfaces as well.
        (&|r| r.entrance = entrance("eth2", true), TokenError::OtherInterface),
    ];
    for (change, error) in cases {
        assert_eq!(verified(&claims(), START, change), Err(error));
    }
    let token = claims().sign(&key()).expect("valid claims");
    let request = TokenUse {
        destination: address("10.0.2.2"),
        protocol: 17,
        port: 5_001,
        sources: &foreign,
        rate: Rate::ZERO,
        entrance: entrance("eth9", true),
    };
    let at_r2 = |request: TokenUse<'_>| verify(token.octets(), &issuers(), "r2", &request, START);
    assert_eq!(at_r2(request), Err(TokenError::OtherSources));
    let behind = TokenUse { sources: &foreign[..1], ..request };
    assert!(at_r2(behind).is_ok());
    // A router that the token does not name trusts its core interfaces, and its own requests.
    let through = |entrance| at_r2(TokenUse { entrance, ..behind }).err();
    assert_eq!(through(entrance("eth1", false)), Some(TokenError::OtherInterface));
    assert_eq!(through(None), None);
}

/// Clocks may differ by the tolerance, and by no second more.
#[test]
fn token_of_another_time_is_refused_with_the_time() {
    for (now, error) in [
        (0, Some(TokenError::NotYetValid(START))),
        (START - TOLERANCE - 1, Some(TokenError::NotYetValid(START))),
        (START - TOLERANCE, None),
        (END + TOLERANCE - 1, None),
        (END + TOLERANCE, Some(TokenError::Expired(END))),
        (u64::MAX, Some(TokenError::Expired(END))),
    ] {
        assert_eq!(verified(&claims(), now, |_| {}).err(), error, "{now}");
    }
    let text = TokenError::NotYetValid(START).to_string();
    assert_eq!(text, "token not yet valid: it starts at 2026-11-26T00:00:00Z");
    assert_eq!(TokenError::Expired(END).to_string(), "token expired at 2026-11-26T01:00:00Z");
    assert!(TokenError::Expired(u64::MAX).to_string().contains("beyond the year 9999"));
}

#[test]
fn only_known_issuers_are_believed() {
    let strange = Claims { issuer: "stranger".into(), ..claims() };
    assert_eq!(verified(&strange, START, |_| {}), Err(TokenError::UnknownIssuer));
    let forged = claims().sign(&SecretKey::from_random(&[2; 32])).expect("valid claims");
    assert_eq!(verify_octets(forged.octets(), START, |_| {}), Err(TokenError::BadSignature));
}

/// While an issuer changes its key, both keys count.
#[test]
fn each_key_of_an_issuer_counts() {
    let mut both = issuers();
    both.push(Issuer { name: "provider".into(), key: SecretKey::from_random(&[2; 32]).public() });
    for key in [key(), SecretKey::from_random(&[2; 32])] {
        let claims = Claims { sources: None, port: None, ..claims() };
        let token = claims.sign(&key).expect("valid claims");
        let request = TokenUse {
            destination: address("10.0.2.2"),
            protocol: 17,
            port: 5_001,
            sources: &[],
            rate: Rate::ZERO,
            entrance: entrance("", false),
        };
        assert!(verify(token.octets(), &both, "", &request, START).is_ok());
    }
}

#[test]
fn invalid_claims_are_not_signed() {
    let long = "x".repeat(129);
    for (claims, error) in [
        (Claims { name: String::new(), ..claims() }, ClaimsError::Name("user name", 128)),
        (Claims { name: long.clone(), ..claims() }, ClaimsError::Name("user name", 128)),
        (Claims { name: "Älice".into(), ..claims() }, ClaimsError::Name("user name", 128)),
        (Claims { issuer: long, ..claims() }, ClaimsError::Name("name of an issuer", 64)),
        (Claims { expires: START, ..claims() }, ClaimsError::Lifetime),
        (Claims { expires: u64::MAX, ..claims() }, ClaimsError::Lifetime),
    ] {
        assert_eq!(claims.sign(&key()).err(), Some(error));
    }
}

/// The longest claims fit into a token.
#[test]
fn longest_token_is_within_the_limit() {
    let label = || "l".repeat(64);
    let claims = Claims {
        issuer: label(),
        name: "n".repeat(128),
        expires: i64::MAX as u64,
        rate: Rate::MAX,
        destination: Some("[2001:db8::2]:65535/254".parse().expect("a destination")),
        sources: Some("2001:db8::1/128".parse().expect("a range")),
        port: Some(format!("{}/{}", label(), label()).parse().expect("a port")),
        ..claims()
    };
    let token = claims.sign(&key()).expect("valid claims");
    assert_eq!(token.claims(), Ok(claims));
    assert_eq!(token.octets().len(), 498, "of {MAX_LENGTH}");
}

#[test]
fn text_of_tokens_round_trips_and_other_text_is_refused() {
    let token = claims().sign(&key()).expect("valid claims");
    assert_eq!(format!("{token}\n").parse(), Ok(token));
    for (text, error) in [
        (String::new(), TokenTextError::Characters),
        ("a b".into(), TokenTextError::Characters),
        ("+/==".into(), TokenTextError::Characters),
        ("A".repeat(100_000), TokenTextError::TooLong),
        ("A".repeat(684), TokenTextError::TooLong),
    ] {
        assert_eq!(text.parse::<Token>(), Err(error), "{} letters", text.len());
    }
}

fn any_claims() -> impl Strategy<Value = Claims> {
    let destination = (any::<IpAddr>(), any::<u8>(), any::<Option<u16>>(), any::<Option<u8>>());
    let times = (0..1_u64 << 40, 1..1_u64 << 40);
    let names = ("[ -~]{1,128}", "[ -~]{1,64}");
    let port = proptest::option::of(("[!-.0-~]{1,64}", "[!-~]{1,64}"));
    (names, times, any::<u64>(), destination, any::<Option<(IpAddr, u8)>>(), port).prop_map(
        |((name, issuer), (not_before, length), rate, to, sources, port)| Claims {
            issuer,
            name,
            not_before,
            expires: not_before + length,
            rate: Rate::from_bps(rate),
            destination: Some(earmark_token::Destination {
                range: earmark_core::Prefix::new(to.0, to.1),
                port: to.2,
                protocol: to.3,
            }),
            sources: sources.map(|(address, length)| earmark_core::Prefix::new(address, length)),
            port: port.map(|(router, interface)| earmark_token::AccessPort { router, interface }),
        },
    )
}

proptest! {
    /// Claims are read as they were signed.
    #[test]
    fn claims_round_trip(claims in any_claims()) {
        let token = claims.sign(&key()).expect("valid claims");
        prop_assert!(token.octets().len() <= MAX_LENGTH);
        prop_assert_eq!(token.claims(), Ok(claims));
    }

    /// A token with any changed, missing or added octet covers nothing.
    #[test]
    fn changed_octet_is_refused(
        place in any::<prop::sample::Index>(),
        by in 1..=255_u8,
        cut in any::<prop::sample::Index>(),
        added in prop::collection::vec(any::<u8>(), 1..9),
    ) {
        let token = signed();
        let mut changed = token.octets().to_vec();
        changed[place.index(token.octets().len())] ^= by;
        prop_assert!(verify_octets(&changed, START, unchanged).is_err());
        let truncated = &token.octets()[..cut.index(token.octets().len())];
        prop_assert!(verify_octets(truncated, START, unchanged).is_err());
        let mut longer = token.octets().to_vec();
        longer.extend(added);
        prop_assert!(verify_octets(&longer, START, unchanged).is_err());
    }

    /// Random octets are refused, whatever they are.
    #[test]
    fn random_octets_are_refused(octets in prop::collection::vec(any::<u8>(), 0..600), now: u64) {
        prop_assert!(verify_octets(&octets, now, unchanged).is_err());
    }
}

/// Each bit of a token counts: no change of one leaves it valid.
#[test]
fn each_bit_counts() {
    let token = claims().sign(&key()).expect("valid claims");
    for place in 0..token.octets().len() {
        for bit in 0..8 {
            let mut changed = token.octets().to_vec();
            changed[place] ^= 1 << bit;
            assert!(verify_octets(&changed, START, |_| {}).is_err(), "bit {bit} of octet {place}");
        }
    }
}

/// Nested arrays do not exhaust the stack.
#[test]
fn deeply_nested_octets_are_refused() {
    for octet in [0x81, 0xa1, 0xc1, 0x9f, 0x5f] {
        assert_eq!(verify_octets(&[octet; MAX_LENGTH], START, |_| {}), Err(TokenError::Malformed));
    }
    assert_eq!(verify_octets(&[0; MAX_LENGTH + 1], START, |_| {}), Err(TokenError::TooLong));
}

/// Another encoding of the same token, and one with an unsigned header, are refused although the signature holds.
#[test]
fn only_one_encoding_is_accepted() {
    let octets = signed().octets();
    let (&[array, short], _) = octets.split_first_chunk().expect("a token");
    assert_eq!((array, short & 0xe0), (0x84, 0x40), "four items, the first of up to 23 octets");
    let unsigned_at = 2 + usize::from(short & 0x1f);
    assert_eq!(octets[unsigned_at], 0xa0, "an empty map");
    let (before, after) = (&octets[..unsigned_at], &octets[unsigned_at + 1..]);
    for other in [
        [&[0x98, 4], &octets[1..]].concat(),
        [&[0xd2], octets].concat(),
        [&octets[..1], &[0x58, short & 0x1f], &octets[2..]].concat(),
        [before, &[0xa1, 0x19, 0xff, 0xff, 0x00], after].concat(),
        [before, &[0xb8, 0x00], after].concat(),
    ] {
        assert_eq!(verify_octets(&other, START, unchanged), Err(TokenError::Malformed));
    }
}
