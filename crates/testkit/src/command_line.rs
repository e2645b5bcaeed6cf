//! Command lines: examples in help texts, and what a program prints.

use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the examples in the help of a program and all its commands: indented lines that begin with its name, without
/// what follows a pipe, a redirection, a comment or several blanks.
///
/// The command is that of the program itself.
pub fn examples(command: &clap::Command) -> Vec<String> {
    let start = format!("  {} ", command.get_name());
    let (mut examples, mut commands) = (Vec::new(), vec![command]);
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter(|line| line.starts_with(&start)) {
            let line = line.trim().split(['#', '|', '<', '>']).next().unwrap_or_default();
            examples.push(line.split("   ").next().unwrap_or_default().to_owned());
        }
    }
    examples
}

/// Checks the arguments of a program: their declaration, by the checks of clap, and that every example in the help of
/// any command parses as a command line.
///
/// # Panics
/// A check fails, or the help has fewer examples.
pub fn check_arguments<A: clap::Parser>(least_examples: usize) {
    A::command().debug_assert();
    let examples = examples(&A::command());
    for example in &examples {
        let parsed = A::try_parse_from(example.split_whitespace());
        assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
    }
    assert!(examples.len() >= least_examples, "{examples:?}");
}

/// A temporary directory of a test; dropping the value removes it.
#[derive(Debug)]
pub struct TemporaryDirectory(pub PathBuf);

impl TemporaryDirectory {
    /// Creates a directory of this process, with a name of its own.
    ///
    /// # Panics
    /// The directory cannot be created.
    pub fn new(name: &str) -> TemporaryDirectory {
        // Tests of one process may use one name at the same time.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("earmark-{name}-{process}-{number}"));
        std::fs::create_dir_all(&path).expect("temporary files can be created");
        TemporaryDirectory(path)
    }

    /// Writes a file; returns its path.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("temporary files can be written");
        path.to_str().expect("the name is text").to_owned()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the exit status of a program.
///
/// # Panics
/// A signal has ended the program.
pub fn status(output: &Output) -> i32 {
    output.status.code().expect("the program ends by itself")
}

/// Returns what a program has written to standard output.
///
/// # Panics
/// The output is not UTF-8.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

/// Returns what a program has written to standard error.
///
/// # Panics
/// The output is not UTF-8.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the output is text")
}
