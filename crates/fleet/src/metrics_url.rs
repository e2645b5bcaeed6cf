//! Address of the metrics of a router, such as `http://10.0.0.1:9470/metrics`.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// Longest URL, octets.
const LONGEST: usize = 1_024;

/// Why a text is no address of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text is no URL.
    #[error("no URL; help: write http://ADDRESS:9470/metrics")]
    Malformed,
    /// The scheme is another one.
    #[error(
        "the scheme is not http; help: the daemon serves its metrics without TLS, at http://ADDRESS:9470/metrics"
    )]
    Scheme,
    /// The port is missing.
    #[error(
        "the port is missing; help: write http://ADDRESS:9470/metrics, with the port of [metrics] in earmark.toml"
    )]
    Port,
    /// The URL contains a user.
    #[error("the URL contains a user; help: leave out what is before @, no router asks for it")]
    User,
}

/// Address of the metrics of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsUrl {
    /// Name or address of the host, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path and query; `/metrics` if the URL has none.
    pub path: String,
    /// Host and port, as the header `Host` has them.
    pub authority: String,
}

impl FromStr for MetricsUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<MetricsUrl, UrlError> {
        if text.len() > LONGEST {
            return Err(UrlError::Malformed);
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        match uri.scheme_str() {
            Some("http") => {}
            Some(_) => return Err(UrlError::Scheme),
            None => return Err(UrlError::Malformed),
        }
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::User);
        }
        let port = authority.port_u16().ok_or(UrlError::Port)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || port == 0 {
            return Err(UrlError::Malformed);
        }
        let path = match uri.path_and_query().map_or("/", |path| path.as_str()) {
            "/" => "/metrics",
            path => path,
        };
        let (path, authority) = (path.to_owned(), authority.to_string());
        Ok(MetricsUrl { host, port, path, authority })
    }
}

impl fmt::Display for MetricsUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_host_port_and_path() {
        for (text, host, port, path) in [
            ("http://10.0.0.1:9470/metrics", "10.0.0.1", 9_470, "/metrics"),
            ("http://r1.example.net:9470", "r1.example.net", 9_470, "/metrics"),
            ("http://[2001:db8::1]:9470/", "2001:db8::1", 9_470, "/metrics"),
            ("http://proxy:80/r1?format=text", "proxy", 80, "/r1?format=text"),
        ] {
            let url: MetricsUrl = text.parse().expect(text);
            assert_eq!((url.host.as_str(), url.port, url.path.as_str()), (host, port, path));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, error) in [
            ("", UrlError::Malformed),
            ("10.0.0.1:9470", UrlError::Malformed),
            ("http://:9470/", UrlError::Malformed),
            ("http://r1:0/", UrlError::Malformed),
            ("http://r1:99999/", UrlError::Port),
            ("https://r1:9470/metrics", UrlError::Scheme),
            ("file:///etc/passwd", UrlError::Malformed),
            ("http://r1/metrics", UrlError::Port),
            ("http://user:word@r1:9470/metrics", UrlError::User),
        ] {
            assert_eq!(text.parse::<MetricsUrl>(), Err(error), "{text}");
        }
        let long = format!("http://r1:9470/{}", "x".repeat(LONGEST));
        assert_eq!(long.parse::<MetricsUrl>(), Err(UrlError::Malformed));
    }
}
