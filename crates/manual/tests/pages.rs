//! Every command has a man page, the formatters accept every page, and the completions have every option.

use std::process::{Command, ExitCode};

use earmark_manual::{SETTINGS, page, programs};
use earmark_testkit::command_line::TemporaryDirectory;
use libtest_mimic::{Arguments, Failed, Trial};

type Outcome = Result<(), Failed>;

fn check(condition: bool, what: &str) -> Outcome {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Names of the pages of a command and of those below it, as `man` is asked for them.
fn names(command: &clap::Command, parent: &str) -> Vec<String> {
    let name = format!("{parent}{}", command.get_name());
    let visible = command.get_subcommands().filter(|each| !each.is_hide_set());
    let below: Vec<String> = visible.flat_map(|each| names(each, &format!("{name}-"))).collect();
    [vec![name], below].concat()
}

fn written() -> Result<TemporaryDirectory, Failed> {
    let place = TemporaryDirectory::new("manual");
    earmark_manual::write_all(&place.0)?;
    Ok(place)
}

fn every_command_has_a_page() -> Outcome {
    let place = written()?;
    for program in programs() {
        let folder = place.0.join("man").join(program.command.get_name());
        let names = names(&program.command, "");
        for name in &names {
            let file = folder.join(format!("{name}.{}", program.section));
            let page = std::fs::read_to_string(&file)?;
            check(page.contains(".SH SYNOPSIS"), &format!("{name} has a synopsis"))?;
        }
        let settings = usize::from(folder.join(SETTINGS).exists());
        let files = std::fs::read_dir(&folder)?.count();
        check(files == names.len() + settings, &format!("{files} files for {names:?}"))?;
    }
    let settings = std::fs::read_to_string(place.0.join("man/earmarkd").join(SETTINGS))?;
    for part in [".SH [[interface]]", "\nbandwidth = \"100Mbit\"", "\\fB\"per\\-flow\"\\fR"] {
        check(settings.contains(part), &format!("{part} in {SETTINGS}"))?;
    }
    Ok(())
}

/// Examples keep their lines, and the paragraphs after them are filled in a section of their own.
fn examples_keep_their_lines() -> Outcome {
    let help = "Examples:\n  one two   # three\n  .four\n\nExit status: 0 success,\n1 error.";
    let command = clap::Command::new("x").about("Tests").after_help(help);
    let (name, page) = page::pages(command, "1")?.remove(0);
    check(name == "x.1", &name)?;
    let expected = ".SH EXAMPLES\n.PP\n.RS 4\n.nf\none two   # three\n\\&.four\n.fi\n.RE\n.SH NOTES\n\
                    Exit status: 0 success,\n1 error.\n.SH";
    check(page.contains(expected), &page)
}

fn completions_have_every_command() -> Outcome {
    let place = written()?;
    for program in programs() {
        let name = program.command.get_name();
        for file in [format!("bash/{name}"), format!("zsh/_{name}"), format!("fish/{name}.fish")] {
            let path = place.0.join("completions").join(name).join(&file);
            let script = std::fs::read_to_string(&path)?;
            for command in program.command.get_subcommands().filter(|each| !each.is_hide_set()) {
                check(script.contains(command.get_name()), &format!("{command} in {file}"))?;
            }
        }
    }
    let bash = std::fs::read_to_string(place.0.join("completions/earmark/bash/earmark"))?;
    check(bash.contains("--rate"), "options are completed")
}

/// Runs a formatter on each page; it must print nothing on standard error, and succeed.
fn formatter_has_nothing_to_say(program: &str, arguments: &[&str]) -> Outcome {
    let place = written()?;
    for folder in std::fs::read_dir(place.0.join("man"))? {
        for page in std::fs::read_dir(folder?.path())? {
            let page = page?.path();
            let mut command = Command::new(program);
            command.args(arguments).arg(&page).env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80");
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            let is_quiet = output.status.success() && said.is_empty();
            check(is_quiet, &format!("{}: {said}", page.display()))?;
        }
    }
    Ok(())
}

fn groff_has_nothing_to_say() -> Outcome {
    formatter_has_nothing_to_say("man", &["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
}

fn bash_reads_the_completions() -> Outcome {
    let place = written()?;
    for program in programs() {
        let name = program.command.get_name();
        let script = place.0.join(format!("completions/{name}/bash/{name}"));
        let output = Command::new("bash").arg("-n").arg(script).output()?;
        check(output.status.success(), &String::from_utf8_lossy(&output.stderr))?;
    }
    Ok(())
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

fn main() -> ExitCode {
    type Test = (&'static str, Option<&'static str>, fn() -> Outcome);
    let tests: [Test; 5] = [
        ("every_command_has_a_page", None, every_command_has_a_page),
        ("examples_keep_their_lines", None, examples_keep_their_lines),
        ("completions_have_every_command", None, completions_have_every_command),
        ("groff_has_nothing_to_say", Some("groff"), groff_has_nothing_to_say),
        ("bash_reads_the_completions", Some("bash"), bash_reads_the_completions),
    ];
    let trials = tests.into_iter().map(|(name, tool, test)| {
        match tool.filter(|tool| !is_installed(tool) || (*tool == "groff" && !is_installed("man")))
        {
            // The kind is the only reason that the runner prints for an ignored test.
            Some(tool) => {
                Trial::test(name, test).with_kind(format!("needs {tool}")).with_ignored_flag(true)
            }
            None => Trial::test(name, test),
        }
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
