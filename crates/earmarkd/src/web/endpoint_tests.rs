//! The endpoint with browsers that do what they should not, in front of a hub that answers with the request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use earmark_testkit::command_line::TemporaryDirectory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use super::*;
use crate::control::Roles;
use crate::web::event_streams::STREAMS;
use crate::web::server::{CONNECTIONS, LONGEST};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const LINKS: &str = r#"{"show":{"what":"links"}}"#;

/// An endpoint with a hub, until it is dropped.
struct Served {
    address: SocketAddr,
    _stop: mpsc::Sender<()>,
    watchers: Arc<AtomicUsize>,
}

impl Served {
    fn new() -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let token = Zeroizing::new(TOKEN.to_owned());
        let (_stop, watchers) = serve_hub(WebSocket::Tcp(listener, token, Role::Reader));
        Served { address, _stop, watchers }
    }

    fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(LONGEST * 3)).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("written");
        stream
    }

    fn send(&self, request: &str) -> String {
        let mut answer = String::new();
        // A connection with unread octets of a request is reset behind its answer.
        let _ = self.connect(request).read_to_string(&mut answer);
        answer
    }

    /// Returns a request with the headers that are needed, and these lines besides.
    fn request(&self, line: &str, headers: &str, body: &str) -> String {
        let (address, length) = (self.address, body.len());
        format!(
            "{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        )
    }

    fn api(&self, body: &str) -> String {
        self.send(&self.request("POST /api", "Content-Type: application/json\r\n", body))
    }
}

/// Starts an endpoint with a hub that answers each request with itself, and whose watchers get an event of 4 KiB every
/// 2 ms. Returns what ends it, and the number of watchers.
fn serve_hub(socket: WebSocket) -> (mpsc::Sender<()>, Arc<AtomicUsize>) {
    let endpoint = WebEndpoint::start(socket, SyscallFilter::Enforce).expect("a thread");
    let (stop, stopped) = mpsc::channel::<()>();
    let watchers = Arc::new(AtomicUsize::new(0));
    let counted = watchers.clone();
    std::thread::spawn(move || {
        while stopped.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            let pause = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            let mut wanted = [PollFd::new(&endpoint, PollFlags::IN)];
            if poll(&mut wanted, Some(&pause)).expect("it can be waited for") > 0 {
                let _ = rustix::io::read(&endpoint.wanted, &mut [0; 8]);
                for client in endpoint.clients.try_iter() {
                    let counted = counted.clone();
                    std::thread::spawn(move || answer(client, &counted));
                }
            }
        }
    });
    (stop, watchers)
}

fn answer(client: NewClient, watchers: &AtomicUsize) {
    let mut stream = client.stream;
    let mut request = String::new();
    let _ = BufReader::new(stream.try_clone().expect("a descriptor")).read_line(&mut request);
    if request.contains("watch") {
        watchers.fetch_add(1, Ordering::Relaxed);
        let _ = stream.write_all(b"{\"ok\":{\"node\":\"r1\"}}\n");
        let event = format!("{{\"event\":{{\"text\":\"{}\"}}}}\n", "x".repeat(4_096));
        while stream.write_all(event.as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(2));
        }
        watchers.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let asked = serde_json::from_str::<serde_json::Value>(&request).expect("a line of JSON");
    let answer = serde_json::json!({ "ok": { "asked": asked, "role": client.role } });
    // An event before the answer, which the page leaves out.
    let _ = writeln!(stream, "{{\"event\":{{}}}}\n{answer}");
}

fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").unwrap_or_default().get(..3).unwrap_or_default()
}

#[test]
fn request_reaches_the_hub_in_one_line() {
    let served = Served::new();
    let answer = served.api("{\"show\":\n {\"what\":\"links\"}\n}");
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(
        answer.ends_with(
            "{\"ok\":{\"asked\":{\"show\":{\"what\":\"links\"}},\"role\":\"reader\"}}\n"
        ),
        "{answer}"
    );
    let answer = served.send(&served.request("GET /role", "", ""));
    assert!(answer.ends_with("{\"role\":\"reader\"}"), "{answer}");
}

#[test]
fn every_answer_keeps_scripts_frames_and_caches_out() {
    let served = Served::new();
    for line in ["GET /", "GET /role", "GET /nothing", "POST /api", "DELETE /"] {
        let answer = served.send(&served.request(line, "", "")).to_ascii_lowercase();
        for header in [
            "content-security-policy: default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(answer.contains(header), "{line}: {header}\n{answer}");
        }
        assert!(!answer.contains("set-cookie") && !answer.contains("access-control"), "{answer}");
    }
}

#[test]
fn page_has_no_script_or_style_in_its_text() {
    let files = crate::web::files::FILES;
    let file = earmark_http::files::find(files, "/").expect("a page");
    let page = std::str::from_utf8(file.content).expect("text");
    assert!(
        !page.contains("<style") && !page.contains("style=") && !page.contains(" on"),
        "{page}"
    );
    for script in page.split("<script").skip(1) {
        assert!(script.starts_with(" type=\"module\" src=\"page.js\"></script>"), "{script}");
    }
}

#[test]
fn only_files_of_the_page_are_served() {
    let served = Served::new();
    for path in ["/", "/page.js", "/page.css", "/uPlot.js"] {
        assert_eq!(status(&served.send(&served.request(&format!("GET {path}"), "", ""))), "200");
    }
    for path in [
        "/../etc/passwd",
        "/page.js/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/page",
        "/page.js/",
        "/page/uplot/LICENSE",
    ] {
        let answer = served.send(&served.request(&format!("GET {path}"), "", ""));
        assert_eq!(status(&answer), "404", "{path}: {answer}");
        assert!(!answer.contains("root:"), "{answer}");
    }
    assert_eq!(status(&served.send(&served.request("GET /api", "", ""))), "405");
    assert_eq!(status(&served.send(&served.request("POST /", "", ""))), "405");
}

#[test]
fn token_is_needed_for_everything_but_the_files() {
    let served = Served::new();
    for (line, plain) in [("GET /", "200"), ("GET /role", "401"), ("GET /events", "401")] {
        for header in [String::new(), format!("Authorization: Bearer {}x\r\n", &TOKEN[1..])] {
            let answer = served
                .send(&format!("{line} HTTP/1.1\r\nHost: {}\r\n{header}\r\n", served.address));
            assert_eq!(status(&answer), plain, "{line} {header}: {answer}");
        }
    }
    let address = served.address;
    let answer = served.send(&format!(
        "POST /api HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{LINKS}",
        LINKS.len()
    ));
    assert!(status(&answer) == "401" && answer.contains("www-authenticate: Bearer"), "{answer}");
    assert!(answer.contains("help: "), "{answer}");
}

#[test]
fn other_host_and_other_origin_are_refused() {
    let served = Served::new();
    let rebound = format!(
        "GET /role HTTP/1.1\r\nHost: rebound.example:{}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        served.address.port()
    );
    assert_eq!(status(&served.send(&rebound)), "421");
    for (origin, expected) in [("http://evil.example", "403"), ("null", "403")] {
        let headers = format!("Origin: {origin}\r\nContent-Type: application/json\r\n");
        let answer = served.send(&served.request("POST /api", &headers, LINKS));
        assert_eq!(status(&answer), expected, "{answer}");
    }
    let headers =
        format!("Origin: http://{}\r\nContent-Type: application/json\r\n", served.address);
    assert_eq!(status(&served.send(&served.request("POST /api", &headers, LINKS))), "200");
}

#[test]
fn content_must_be_json_of_a_bounded_size() {
    let served = Served::new();
    for (content_type, body, expected) in [
        ("text/plain", LINKS.to_owned(), "415"),
        ("application/x-www-form-urlencoded", LINKS.to_owned(), "415"),
        ("application/json; charset=utf-8", LINKS.to_owned(), "200"),
        ("application/json", "show links".to_owned(), "400"),
        ("application/json", String::new(), "400"),
        ("application/json", "[".repeat(10_000), "400"),
        ("application/json", format!("\"{}\"", "x".repeat(70_000)), "413"),
    ] {
        let header = format!("Content-Type: {content_type}\r\n");
        let answer = served.send(&served.request("POST /api", &header, &body));
        assert_eq!(status(&answer), expected, "{content_type} {body:.20}: {answer}");
    }
    let answer =
        served.send(&served.request("GET /", &format!("X: {}\r\n", "x".repeat(40_000)), ""));
    assert_eq!(status(&answer), "431", "{answer}");
}

/// Five hundred tabs read events: a part of them gets streams, the others are told to come back, and requests go on.
#[test]
fn too_many_streams_are_refused_and_requests_are_answered() {
    let served = Served::new();
    let head = served.request("GET /events", "", "");
    let (mut streams, mut refused) = (Vec::new(), 0);
    for _ in 0..500 {
        let mut stream = served.connect(&head);
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("an answer");
        match &first[9..] {
            b"200" => streams.push(stream),
            other => {
                let mut rest = String::new();
                stream.read_to_string(&mut rest).expect("text");
                assert!(other == b"503" && rest.contains("retry-after: 10"), "{rest}");
                refused += 1;
            }
        }
    }
    assert_eq!((streams.len(), refused), (STREAMS, 500 - STREAMS));
    assert_eq!(served.watchers.load(Ordering::Relaxed), 1, "one watcher for all streams");
    let begin = Instant::now();
    assert_eq!(status(&served.api(LINKS)), "200");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());

    drop(streams);
    let end = Instant::now() + LONGEST * 2;
    while served.watchers.load(Ordering::Relaxed) > 0 {
        assert!(Instant::now() < end, "the watch ends with the last stream");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Browsers that do not read their streams lose them. One that reads does not.
#[test]
fn browser_that_does_not_read_is_cut_off() {
    let served = Served::new();
    let head = served.request("GET /events", "", "");
    let stalled: Vec<TcpStream> = (0..STREAMS - 1).map(|_| served.connect(&head)).collect();
    let mut reading = served.connect(&head);
    let (begin, mut data) = (Instant::now(), [0; 65_536]);
    loop {
        assert!(reading.read(&mut data).expect("events") > 0, "it stays open");
        if begin.elapsed() > Duration::from_secs(1) {
            let mut other = served.connect(&head);
            let mut first = [0; 12];
            other.read_exact(&mut first).expect("an answer");
            if &first[9..] == b"200" {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(begin.elapsed() < LONGEST * 5, "places of browsers that do not read become free");
    }
    drop(stalled);
}

#[test]
fn silent_browsers_hold_places_for_a_time_only() {
    let served = Served::new();
    let silent: Vec<TcpStream> = (0..CONNECTIONS).map(|_| served.connect("")).collect();
    let begin = Instant::now();
    assert_eq!(status(&served.api(LINKS)), "200");
    assert!(begin.elapsed() < LONGEST * 2, "{:?}", begin.elapsed());
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 1]).expect("an end"), 0, "closed");
    }
}

#[test]
fn user_of_the_unix_socket_has_the_role_of_the_control_socket() {
    let directory = TemporaryDirectory::new("web-socket");
    let path = directory.0.join("web.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let (_stop, _) = serve_hub(WebSocket::Unix(listener, Roles::default()));
    let mut stream = std::os::unix::net::UnixStream::connect(&path).expect("a connection");
    stream.write_all(b"GET /role HTTP/1.1\r\nHost: router.example\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    assert!(answer.ends_with("{\"role\":\"operator\"}"), "{answer}");
}
