//! A network namespace with a directory for files, in which tests run programs.
#![allow(dead_code, unreachable_pub)]

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use earmark_linux::netns::Namespace;
use earmark_testkit::command_line::TemporaryDirectory;
use earmark_testkit::wait::wait_for;
use libtest_mimic::{Arguments, Failed, Trial};

pub type Outcome = Result<(), Failed>;
/// Name and function of a test.
pub type Test = (&'static str, fn() -> Outcome);

/// Upper bound of every wait, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace and a directory.
pub struct Host {
    pub namespace: Namespace,
    pub directory: PathBuf,
    _files: TemporaryDirectory,
}

impl Host {
    pub fn new(name: &str) -> Result<Host, Failed> {
        let files = TemporaryDirectory::new(name);
        Ok(Host { namespace: Namespace::unnamed()?, directory: files.0.clone(), _files: files })
    }
}

/// Calls `look` until it returns a value.
pub fn until<T>(what: &str, look: impl FnMut() -> Result<Option<T>, Failed>) -> Result<T, Failed> {
    wait_for(what, PATIENCE, look)
}

pub fn check(condition: bool, what: &str) -> Outcome {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Arguments of util-linux that begin a program as root of a user namespace of its own, which needs no privileges.
const AS_ROOT: [&str; 2] = ["--user", "--map-root-user"];

/// Runs tests as root, if necessary in a user namespace. They are listed as ignored where that is impossible or something else
/// is missing.
pub fn run_as_root(missing: Option<String>, tests: &[Test]) -> std::process::ExitCode {
    let mut missing = missing;
    if !rustix::process::geteuid().is_root() {
        let possible = Command::new("unshare").args(AS_ROOT).arg("true").status();
        match possible.is_ok_and(|status| status.success()) {
            true => {
                let program = std::env::current_exe().expect("the program has a path");
                let arguments = std::env::args_os().skip(1);
                let error =
                    Command::new("unshare").args(AS_ROOT).arg(program).args(arguments).exec();
                panic!("{error}");
            }
            false => missing = Some("needs root, or user namespaces".to_owned()),
        }
    }
    let trials = tests.iter().map(|(name, test)| match &missing {
        // The kind is the only reason that the runner prints for an ignored test.
        Some(reason) => Trial::test(*name, *test).with_kind(reason).with_ignored_flag(true),
        None => Trial::test(*name, *test),
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
