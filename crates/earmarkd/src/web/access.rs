//! Who may ask: the token, and the header `Content-Type`.

use earmark_http::access::{Refusal, text};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

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
            let found = check_token(
                &HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]),
                &token,
            );
            assert_eq!(found.is_ok(), is_it, "{value}");
        }
        assert!(check_token(&HeaderMap::new(), &token).is_err());
    }
}
