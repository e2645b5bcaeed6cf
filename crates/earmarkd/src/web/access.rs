//! Who may ask, and from which page: the token, and the headers `Host`, `Origin` and `Content-Type`.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Why a request is refused, with what to do.
pub(super) type Refusal = (hyper::StatusCode, &'static str);

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Checks that a request names this endpoint, not a name that somebody else has pointed at its address.
///
/// # Errors
/// The header is missing, or names another host.
pub(super) fn check_host(headers: &HeaderMap, address: Option<SocketAddr>) -> Result<(), Refusal> {
    let host = text(headers, HOST).unwrap_or_default();
    // A Unix socket has no name; the proxy in front of it checks this.
    let Some(address) = address else { return Ok(()) };
    let is_ours = |ip: IpAddr| ip == address.ip() || address.ip().is_unspecified();
    let is_address = host
        .parse::<SocketAddr>()
        .is_ok_and(|found| found.port() == address.port() && is_ours(found.ip()));
    let is_local = host
        .strip_prefix("localhost:")
        .is_some_and(|port| port.parse() == Ok(address.port()) && address.ip().is_loopback());
    match is_address || is_local {
        true => Ok(()),
        false => Err((
            hyper::StatusCode::MISDIRECTED_REQUEST,
            "the header Host names another host; help: use the address of web.listen with its port",
        )),
    }
}

/// Checks that the page of a request, if it names one, is the own one.
///
/// # Errors
/// The page is another one.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = text(headers, ORIGIN).unwrap_or_default();
    let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match page.is_some() && page == text(headers, HOST) {
        true => Ok(()),
        false => Err((
            hyper::StatusCode::FORBIDDEN,
            "the request comes from the page of another origin; help: use the daemon's own page",
        )),
    }
}

/// Checks that a request has JSON, which no form of another page can send.
///
/// # Errors
/// The request has another type.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let content = text(headers, CONTENT_TYPE).unwrap_or_default();
    let essence = content.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err((
            hyper::StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the content is not JSON; help: send Content-Type: application/json",
        )),
    }
}

/// Checks the token of a request.
///
/// # Errors
/// The token is missing or wrong.
pub(super) fn check_token(headers: &HeaderMap, token: &Zeroizing<String>) -> Result<(), Refusal> {
    let presented = text(headers, AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let is_it = |presented: &str| bool::from(presented.as_bytes().ct_eq(token.as_bytes()));
    match presented.is_some_and(is_it) {
        true => Ok(()),
        false => Err((
            hyper::StatusCode::UNAUTHORIZED,
            "the token is missing or wrong; help: send Authorization: Bearer with the content of web.token_file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().cloned();
        pairs.map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn host_is_the_address_or_localhost() {
        for (address, host, is_ours) in [
            ("127.0.0.1:9480", "127.0.0.1:9480", true),
            ("127.0.0.1:9480", "localhost:9480", true),
            ("[::1]:9480", "[::1]:9480", true),
            ("0.0.0.0:9480", "192.0.2.1:9480", true),
            ("127.0.0.1:9480", "127.0.0.1:9481", false),
            ("127.0.0.1:9480", "127.0.0.1", false),
            ("127.0.0.1:9480", "rebound.example:9480", false),
            ("0.0.0.0:9480", "rebound.example:9480", false),
            ("192.0.2.1:9480", "localhost:9480", false),
            ("127.0.0.1:9480", "", false),
        ] {
            let address = Some(address.parse().expect("an address"));
            let found = check_host(&headers(&[(HOST, host)]), address);
            assert_eq!(found.is_ok(), is_ours, "{host} at {address:?}");
        }
        assert!(check_host(&HeaderMap::new(), Some("127.0.0.1:1".parse().unwrap())).is_err());
    }

    #[test]
    fn origin_is_the_own_one_or_none() {
        let host = (HOST, "127.0.0.1:9480");
        assert!(check_origin(&headers(std::slice::from_ref(&host))).is_ok());
        for (origin, is_own) in [
            ("http://127.0.0.1:9480", true),
            ("https://127.0.0.1:9480", true),
            ("http://127.0.0.1:9481", false),
            ("http://example.com", false),
            ("null", false),
            ("", false),
        ] {
            let found = check_origin(&headers(&[host.clone(), (ORIGIN, origin)]));
            assert_eq!(found.is_ok(), is_own, "{origin}");
        }
    }

    #[test]
    fn token_must_be_equal() {
        let token = Zeroizing::new("0123456789abcdef".to_owned());
        for (value, is_it) in [
            ("Bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcdeF", false),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer ", false),
            ("0123456789abcdef", false),
        ] {
            let found = check_token(&headers(&[(AUTHORIZATION, value)]), &token);
            assert_eq!(found.is_ok(), is_it, "{value}");
        }
        assert!(check_token(&HeaderMap::new(), &token).is_err());
    }
}
