//! Tokens in requests: each protocol's messages carry them, and listings show the user.

use earmark_core::Rate;
use earmark_node::NodeConfig;
use earmark_token::{Claims, Issuer, SecretKey, Settings, Token};
use serde_json::json;

use super::host::Host;

/// Requests that reserve for 10.0.9.9.
const REQUESTS: [(&str, &str, &str); 3] = [
    ("boomerang", "10.0.9.9:5001", r#""options":{"rates":[{"forward":2000000,"reverse":0}]}"#),
    ("yessir", "10.0.9.9:5000", r#""from":"10.0.1.1:5000","rate_bps":8000,"options":{"class":46}"#),
    ("nsis", "10.0.9.9:5001", r#""rate_bps":2000000"#),
];

fn token() -> (Token, SecretKey) {
    let key = SecretKey::from_random(&[1; 32]);
    let claims = Claims {
        issuer: "provider".into(),
        name: "alice@example.org".into(),
        not_before: 0,
        expires: 4_000_000_000,
        rate: Rate::from_mbps(2),
        destination: Some("10.0.9.9".parse().expect("a destination")),
        sources: None,
        port: None,
    };
    (claims.sign(&key).expect("valid claims"), key)
}

/// The name is claimed where nobody has verified it; a QNI with issuers verifies its own requests as well.
#[test]
fn token_names_the_user_of_a_reservation() {
    let (token, key) = token();
    let issuers = vec![Issuer { name: "provider".into(), key: key.public() }];
    let mut verifying = NodeConfig { name: "h1".into(), seed: 1, ..NodeConfig::default() };
    verifying.nsis.qos.tokens = Settings { issuers, ..Settings::default() };
    for (protocol, to, options) in REQUESTS {
        for (config, is_verifying) in [(NodeConfig::default(), false), (verifying.clone(), true)] {
            let mut host = Host::with(config, None);
            let mut peer = host.connect();
            let request = format!(
                r#"{{"reserve":{{"protocol":"{protocol}","to":"{to}",{options},"identity":{{"token":"{token}"}}}}}}"#
            );
            let opened = host.ask(&mut peer, &request);
            assert!(opened["ok"].is_object(), "{protocol}: {opened}");
            let listed = host.ask(&mut peer, r#"{"show":{"what":"reservations"}}"#);
            let proof = if is_verifying && protocol == "nsis" { "verified" } else { "claimed" };
            let user = json!({ "name": "alice@example.org", "proof": proof });
            assert_eq!(listed["ok"]["rows"][0]["user"], user, "{protocol}: {listed}");
            if protocol == "nsis" {
                // The RESERVE follows the handshake.
                continue;
            }
            let (_, message) = host.driver.kernel().sent.pop_front().expect("a message");
            let octets = token.octets();
            assert!(message.windows(octets.len()).any(|found| found == octets), "{protocol}");
        }
    }
}
