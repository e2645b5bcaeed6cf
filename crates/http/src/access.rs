//! From which page a request may come: the headers `Host` and `Origin`.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};

/// Why a request is refused, with what to do.
pub type Refusal = (hyper::StatusCode, &'static str);

/// Returns the value of a header if it is text.
pub fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Checks that a request names this endpoint, not a name that somebody else has pointed at its address.
///
/// # Errors
/// The header is missing, or names another host.
pub fn check_host(headers: &HeaderMap, address: Option<SocketAddr>) -> Result<(), Refusal> {
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
            "the header Host names another host; help: use the address that this page listens at, with its port",
        )),
    }
}

/// Checks that the page of a request, if it names one, is the own one.
///
/// # Errors
/// The page is another one.
pub fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = text(headers, ORIGIN).unwrap_or_default();
    let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match page.is_some() && page == text(headers, HOST) {
        true => Ok(()),
        false => Err((
            hyper::StatusCode::FORBIDDEN,
            "the request comes from the page of another origin; help: use the page of this address",
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
}
