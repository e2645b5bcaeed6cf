//! The client against a daemon that closes idle connections, and one that refuses the user.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use earmark_control::{Client, ClientError, ProblemCode};

const IDLE: &str = r#"{"error":{"code":"idle","message":"idle connection closed","hint":""}}"#;
const FORBIDDEN: &str = r#"{"error":{"code":"forbidden","message":"may not","hint":""}}"#;
const ROWS: &str = r#"{"ok":{"rows":[],"more":false}}"#;

/// A daemon whose connections each have a script.
fn daemon(name: &str, script: fn(UnixStream, usize), count: usize) -> (PathBuf, JoinHandle<()>) {
    let path = std::env::temp_dir().join(format!("earmark-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a temporary socket");
    let serve = move || {
        for number in 0..count {
            let (stream, _) = listener.accept().expect("a client");
            script(stream, number);
        }
    };
    (path, std::thread::spawn(serve))
}

fn say(stream: &mut UnixStream, line: &str) {
    stream.write_all(format!("{line}\n").as_bytes()).expect("a client that reads");
}

fn answer_one(stream: &UnixStream) {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a request");
    say(&mut stream.try_clone().expect("a descriptor"), ROWS);
}

#[test]
fn idle_connection_that_was_closed_is_opened_again() {
    let script = |mut stream: UnixStream, number| {
        answer_one(&stream);
        if number == 0 {
            say(&mut stream, IDLE);
        }
    };
    let (path, server) = daemon("idle", script, 2);
    let mut client = Client::connect(&path).expect("a daemon");
    for _ in 0..2 {
        assert!(client.show_links().expect("an answer").rows.is_empty());
    }
    server.join().expect("it ends");
    let _ = std::fs::remove_file(path);
}

#[test]
fn refusal_at_connection_is_the_error_of_the_first_request() {
    let script = |mut stream: UnixStream, _| say(&mut stream, FORBIDDEN);
    let (path, server) = daemon("forbidden", script, 1);
    let mut client = Client::connect(&path).expect("a daemon");
    // The daemon has closed the connection before the request is written.
    server.join().expect("it ends");
    let error = client.show_links().expect_err("a refusal");
    let ClientError::Refused(problem) = error else { panic!("{error}") };
    assert_eq!(problem.code, ProblemCode::Forbidden);
    let _ = std::fs::remove_file(path);
}
