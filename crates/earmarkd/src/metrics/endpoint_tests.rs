use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

/// An endpoint, and a thread that answers its questions with `families` until it is dropped.
struct Served {
    address: SocketAddr,
    stop: mpsc::Sender<()>,
    /// Returns the number of collections.
    answering: Option<JoinHandle<usize>>,
}

impl Served {
    fn new(families: Vec<Family>) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let settings = MetricsSettings { address, reservations: 0 };
        let endpoint =
            Endpoint::start(&settings, listener, SyscallFilter::Enforce).expect("a thread");
        let (stop, stopped) = mpsc::channel();
        let answering = std::thread::spawn(move || {
            let mut collections = 0;
            while stopped.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
                let mut wanted = [PollFd::new(&endpoint, PollFlags::IN)];
                let pause = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                if poll(&mut wanted, Some(&pause)).expect("it can be waited for") > 0 {
                    endpoint.answer(families.clone());
                    collections += 1;
                }
            }
            collections
        });
        Served { address, stop, answering: Some(answering) }
    }

    fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the connection ends");
        answer
    }

    fn scrape(&self, accept: &str) -> String {
        self.send(&format!("GET /metrics HTTP/1.1\r\nHost: r1\r\nAccept: {accept}\r\n\r\n"))
    }

    fn end(mut self) -> usize {
        let answering = self.answering.take().expect("it answers");
        drop(self.stop);
        answering.join().expect("it ends")
    }
}

fn families() -> Vec<Family> {
    let mut links = Family::gauges("earmark_link_up", "Whether the interface is up.");
    links.number(vec![("interface", "a\"b\\c\nd".to_owned())], 1.0);
    let mut sent = Family::counters("earmark_driver", "Counters of driver.");
    sent.count(vec![("kind", "sent".to_owned())], 7);
    let mut turns = Family::histograms("earmark_event_loop_turn_seconds", "Turns.");
    let mut histogram = Histogram::default();
    histogram.observe(Duration::from_micros(15));
    histogram.observe(Duration::from_secs(60));
    turns.histogram(Vec::new(), &histogram);
    vec![links, sent, turns]
}

#[test]
fn scraper_gets_the_format_that_it_accepts() {
    let served = Served::new(families());
    let text = served.scrape("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("content-type: application/openmetrics-text; version=1.0.0"), "{text}");
    for line in [
        r#"earmark_link_up{interface="a\"b\\c\nd"} 1.0"#,
        "# TYPE earmark_driver counter",
        r#"earmark_driver_total{kind="sent"} 7"#,
        r#"earmark_event_loop_turn_seconds_bucket{le="0.00001"} 0"#,
        r#"earmark_event_loop_turn_seconds_bucket{le="0.00002"} 1"#,
        r#"earmark_event_loop_turn_seconds_bucket{le="+Inf"} 2"#,
        "earmark_event_loop_turn_seconds_count 2",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(text.contains("process_resident_memory_bytes ") && text.ends_with("# EOF\n"), "{text}");

    let text = served.scrape("text/plain");
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    assert!(text.lines().any(|line| line == r#"earmark_driver_total{kind="sent"} 7"#), "{text}");
    assert!(!text.contains("# EOF"), "{text}");
}

#[test]
fn other_requests_are_refused() {
    let served = Served::new(families());
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: r1\r\n\r\n", "404"),
        ("GET /metrics/../../etc/passwd HTTP/1.1\r\nHost: r1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: r1\r\nContent-Length: 0\r\n\r\n", "405"),
        ("HEAD /metrics HTTP/1.1\r\nHost: r1\r\n\r\n", "200"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = served.send(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    assert_eq!(served.end(), 1, "only the metrics are collected");
}

#[test]
fn scrapers_of_one_moment_share_a_collection() {
    let served = Served::new(families());
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| assert!(served.scrape("*/*").contains("earmark_link_up")));
        }
    });
    assert!(served.end() < CONNECTIONS / 2, "one at a time, and used again while it is fresh");
}

/// All places are taken by clients that say nothing. They lose them, and the next scraper is served.
#[test]
fn silent_clients_hold_places_for_a_time_only() {
    let served = Served::new(families());
    let silent: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(served.address).expect("a connection"))
        .collect();
    let begin = std::time::Instant::now();
    assert!(served.scrape("*/*").contains("earmark_link_up"));
    assert!(begin.elapsed() < LONGEST * 2, "{:?}", begin.elapsed());
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 1]).expect("an end"), 0, "closed");
    }
}
