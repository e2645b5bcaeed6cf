//! Interrupted measurement of a cost profile.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::Outcome;

/// The file of an earlier profile stays as it is, and no other one is left.
pub(crate) fn interrupted_leaves_the_file() -> Outcome {
    let directory =
        std::env::temp_dir().join(format!("earmark-interrupted-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let file = directory.join("mine.toml");
    fs::write(&file, "earlier")?;
    let mut program = Command::new(env!("CARGO_BIN_EXE_earmark-studies"))
        .args(["profile", "--sessions", "100", "--repetitions", "1", "--out"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()?;
    let mut errors = BufReader::new(program.stderr.take().expect("it is piped"));
    let (mut line, mut rest) = (String::new(), String::new());
    while !line.contains("100 sessions") {
        line.clear();
        assert_ne!(errors.read_line(&mut line)?, 0, "it measures");
    }
    kill_process(Pid::from_child(&program), Signal::INT)?;
    errors.read_to_string(&mut rest)?;
    assert_eq!(program.wait()?.code(), Some(1), "{rest}");
    assert!(rest.contains("error: costs of RSVP: interrupted"), "{rest}");
    assert_eq!(fs::read_to_string(&file)?, "earlier");
    assert_eq!(fs::read_dir(&directory)?.count(), 1, "no partial file");
    fs::remove_dir_all(&directory)?;
    Ok(())
}
