//! The page and its JSON. No request changes anything.

use std::net::SocketAddr;
use std::time::Duration;

use earmark_http::access::{Refusal, check_host, check_origin};
use earmark_http::answer::{JSON, PAGE_HEADERS, plain, typed};
use earmark_http::files::{ELEMENTS, File, HTML, PAGE_STYLE, SCRIPT, STYLE, find};
use earmark_http::listener::Bounds;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};

use crate::fleet::Fleet;

/// Bounds of the connections.
pub const BOUNDS: Bounds =
    Bounds { connections: 64, longest: Duration::from_secs(10), buffer: 16 * 1024 };

/// The files of the page.
const FILES: &[File] = &[
    File::new("/", HTML, include_bytes!("page/index.html")),
    PAGE_STYLE,
    ELEMENTS,
    File::new("/fleet.css", STYLE, include_bytes!("page/fleet.css")),
    File::new("/fleet.js", SCRIPT, include_bytes!("page/fleet.js")),
    File::new("/router.js", SCRIPT, include_bytes!("page/router.js")),
    File::new("/link.js", SCRIPT, include_bytes!("page/link.js")),
];

type Answer = Response<Full<Bytes>>;

/// Answers a request at the address of the page.
pub fn answer(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    address: SocketAddr,
    fleet: &Fleet,
) -> Answer {
    let answered = dispatch(method, path, headers, address, fleet);
    let mut answer = answered.unwrap_or_else(|(status, text)| plain(status, format!("{text}\n")));
    answer.headers_mut().extend(PAGE_HEADERS);
    if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    answer
}

fn dispatch(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    address: SocketAddr,
    fleet: &Fleet,
) -> Result<Answer, Refusal> {
    check_host(headers, Some(address))?;
    check_origin(headers)?;
    if method != Method::GET {
        let text = "another method is needed; help: GET, nothing can be changed here";
        return Err((StatusCode::METHOD_NOT_ALLOWED, text));
    }
    if let Some(file) = find(FILES, path) {
        return Ok(typed(StatusCode::OK, file.content_type, file.content));
    }
    let missing = (StatusCode::NOT_FOUND, "there is no such file; help: the page is at /");
    let text = match path.strip_prefix("/api/router/") {
        Some(id) => {
            let id = id.parse().map_err(|_| missing)?;
            fleet.router_report(id)
        }
        None if path == "/api/fleet" => fleet.report().map(Some),
        None => return Err(missing),
    };
    let text = text.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "the state is not JSON"))?;
    Ok(typed(StatusCode::OK, JSON, text.ok_or(missing)?))
}
