//! Included files and drop-ins override by table, key and name, and each mistake names its own file and line.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use earmark_core::Rate;
use earmark_testkit::command_line::TemporaryDirectory;

use super::*;
use crate::config::Config;
use crate::protocols::rsvp::RsvpConfig;

const MAIN: &str = "[node]\nname = \"r1\"\n[[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\n\
    [[interface]]\nname = \"eth1\"\nbandwidth = \"10Mbit\"\n";

/// A directory with a main file and other files.
fn place(name: &str, main: &str, others: &[(&str, &str)]) -> TemporaryDirectory {
    let place = TemporaryDirectory::new(name);
    std::fs::create_dir(place.0.join("r1.toml.d")).expect("an own directory");
    place.file("r1.toml", main);
    for (name, text) in others {
        std::fs::write(place.0.join(name), text).expect("an own directory");
    }
    place
}

fn load(place: &TemporaryDirectory) -> Result<Config, String> {
    let directory = format!("{}/", place.0.display());
    Config::load(&place.0.join("r1.toml"))
        .map_err(|error| error.to_string().replace(&directory, ""))
}

fn bandwidths(config: &Config) -> Vec<(&str, u64)> {
    let of = |interface: &crate::config::InterfaceConfig| {
        interface.bandwidth.map_or(0, Rate::as_bps) / 1_000_000
    };
    config.interfaces.iter().map(|interface| (interface.name.as_str(), of(interface))).collect()
}

#[test]
fn later_file_overrides_by_key_and_by_name_of_interface() {
    let included = "[node]\nname = \"r0\"\nseed = 7\n[rsvp]\nrefresh = \"9s\"\nmax_sessions = 5\n";
    let place = place(
        "merge",
        &format!(
            "include = [\"common.toml\"]\n{MAIN}[rsvp]\nrefresh = \"8s\"\n[[policy.rule]]\naction = \"refuse\"\n"
        ),
        &[
            ("common.toml", included),
            (
                "r1.toml.d/20-last.toml",
                "[[interface]]\nname = \"eth1\"\nbandwidth = \"30Mbit\"\n[[policy.rule]]\npriority = 2\n",
            ),
            (
                "r1.toml.d/10-first.toml",
                "[[interface]]\nname = \"eth2\"\nbandwidth = \"1Mbit\"\n\
                 [[interface]]\nname = \"eth1\"\nbandwidth = \"20Mbit\"\noverhead = 24\n",
            ),
            // Neither is a drop-in.
            ("r1.toml.d/.hidden.toml", "nonsense"),
            ("r1.toml.d/30.toml.bak", "nonsense"),
        ],
    );
    let config = load(&place).expect("valid");
    assert_eq!(
        (config.name.as_str(), config.seed),
        ("r1", Some(7)),
        "a file is after what it includes"
    );
    assert_eq!(bandwidths(&config), [("eth0", 10), ("eth1", 30), ("eth2", 1)]);
    assert_eq!(config.interfaces[1].overhead, 24, "keys that a later file leaves out stay");
    let rsvp: RsvpConfig = config.settings.get();
    assert_eq!((rsvp.timing.refresh.as_secs(), rsvp.limits.max_sessions), (8, 5));
    assert_eq!(rsvp.policy.rules.len(), 2, "tables of other lists are added");
    let names: Vec<_> = config.files.paths().filter_map(Path::file_name).collect();
    assert_eq!(names, ["common.toml", "r1.toml", "10-first.toml", "20-last.toml"]);
    assert!(!format!("{config:?}").contains("10Mbit"), "texts are not printed");

    std::fs::write(place.0.join("r1.toml.d/30-none.toml"), "[policy]\nrule = []\n")
        .expect("written");
    let rsvp: RsvpConfig = load(&place).expect("valid").settings.get();
    assert_eq!(rsvp.policy.rules.len(), 0, "an empty list removes tables");
}

#[test]
fn mistake_is_reported_with_its_own_file_and_line() {
    let interface =
        |name: &str, rest: &str| format!("\n[[interface]]\nname = \"{name}\"\n{rest}\n");
    for (text, told) in [
        (&*interface("eth0", "bandwidth = \"10MB\""), "d/a.toml:4: interface.bandwidth: the unit"),
        (&interface("eth0", "colour = 1"), "d/a.toml:4: interface.colour: unknown field `colour`"),
        (
            &interface("eth0", "reservable = \"20Mbit\""),
            "d/a.toml:4: interface.reservable: 20 Mbit/s exceeds",
        ),
        (
            &interface("eth0", "protocols = [\"x\"]"),
            "d/a.toml:4: interface.protocols: unknown variant",
        ),
        (
            &interface("eth9", "").repeat(2),
            "d/a.toml:7: interface.name: eth9 is configured already, in line 3\n",
        ),
        (
            &interface("eth0", "").repeat(2),
            "d/a.toml:7: interface.name: eth0 is configured already, in line 4 of r1.toml\n",
        ),
        ("[[interface]]\nbandwidth = \"1Mbit\"\n", "d/a.toml:1: interface: missing field `name`"),
        ("[node]\nname = \"a\"\nname = \"b\"\n", "d/a.toml:3: node.name: duplicate key"),
        ("interface = 5\n", "d/a.toml:1: interface: invalid type: integer `5`"),
        ("\n\nrsvp = 5\n", "d/a.toml:3: rsvp: invalid type: integer `5`"),
        ("colours = 1\n", "d/a.toml:1: colours: unknown field `colours`"),
        ("[rsvp\n", "d/a.toml:1: "),
        ("\n[rsvp]\nrefresh = \"", "d/a.toml:3: rsvp.refresh: "),
        ("[rsvp]\nrefresh = \"0s\"", "d/a.toml:2: rsvp.refresh: "),
        ("include = 5\n", "d/a.toml:1: include: a list of files is expected"),
        ("include = [5]\n", "d/a.toml:1: include: a list of paths is expected"),
        ("include = [\"\"]\n", "d/a.toml:1: include: a path is empty"),
        (
            "\ninclude = [\"none.toml\"]\n",
            "d/a.toml:2: include: r1.toml.d/none.toml: cannot read the file: No such file",
        ),
        (
            "include = [\"..\"]\n",
            "d/a.toml:1: include: r1.toml.d/..: cannot read the file: Is a directory",
        ),
        (
            "include = [\"/dev/zero\"]\n",
            "d/a.toml:1: include: /dev/zero: cannot read the file: it is not a regular file",
        ),
        (
            "include = [\"../r1.toml\"]\n",
            "d/a.toml:1: include: r1.toml is part of the configuration already",
        ),
        (
            "include = [\"a.toml\"]\n",
            "circular include: r1.toml.d/a.toml includes r1.toml.d/a.toml",
        ),
        (
            "include = [\"../circle.toml\"]\n",
            "circle.toml:1: include: circular include: r1.toml.d/a.toml includes r1.toml.d/../circle.toml includes r1.toml.d/../r1.toml.d/a.toml",
        ),
        (
            "include = [\"../binary.toml\"]\n",
            "d/a.toml:1: include: r1.toml.d/../binary.toml: cannot read the file: stream did not contain valid UTF-8",
        ),
        (
            "include = [\"../huge.toml\"]\n",
            "d/a.toml:1: include: r1.toml.d/../huge.toml is too large",
        ),
        (
            "include = [\"../deep1.toml\"]\n",
            "deep7.toml:1: include: files include each other 8 levels deep",
        ),
    ] {
        let place = place(
            "mistakes",
            MAIN,
            &[
                // A valid drop-in before shows that lines are counted from the right file.
                ("r1.toml.d/0.toml", "[control]\nidle_timeout = \"9s\"\n\n\n"),
                ("r1.toml.d/a.toml", text),
                ("circle.toml", "include = [\"r1.toml.d/a.toml\"]\n"),
            ],
        );
        std::fs::write(place.0.join("binary.toml"), [0xff, 0xfe]).expect("written");
        std::fs::write(place.0.join("huge.toml"), " ".repeat(MAX_OCTETS)).expect("written");
        for level in 1..10 {
            place.file(
                &format!("deep{level}.toml"),
                &format!("include = [\"deep{}.toml\"]\n", level + 1),
            );
        }
        let error = load(&place).expect_err(text);
        assert!(error.contains(told), "{text}: {error}");
        assert!(error.contains("\n  help: "), "{text}: {error}");
    }
}

/// What is valid alone may be a mistake after another file, which is reported where the later file says it.
#[test]
fn drop_in_that_breaks_the_settings_of_another_is_named() {
    let place = place(
        "break",
        MAIN,
        &[
            ("r1.toml.d/10.toml", "[[interface]]\nname = \"eth0\"\nreservable = \"8Mbit\"\n"),
            ("r1.toml.d/20.toml", "[[interface]]\nname = \"eth0\"\nbandwidth = \"4Mbit\"\n"),
        ],
    );
    let error = load(&place).expect_err("8 Mbit/s of 4");
    assert!(
        error.contains(
            "10.toml:3: interface.reservable: 8 Mbit/s exceeds the bandwidth of the link, 4 Mbit/s"
        ),
        "{error}"
    );
}

#[test]
fn directory_of_drop_ins_is_a_directory_with_few_files() {
    let place = place("directory", MAIN, &[]);
    let directory = place.0.join("r1.toml.d");
    symlink(place.0.join("none"), directory.join("a.toml")).expect("an own directory");
    let error = load(&place).expect_err("a link to nothing");
    assert!(error.starts_with("r1.toml.d/a.toml: cannot read the file: No such file"), "{error}");
    std::fs::remove_file(directory.join("a.toml")).expect("an own file");
    std::fs::create_dir(directory.join("a.toml")).expect("an own directory");
    let error = load(&place).expect_err("a directory");
    assert!(error.starts_with("r1.toml.d/a.toml: cannot read the file: Is a directory"), "{error}");
    std::fs::remove_dir(directory.join("a.toml")).expect("an own directory");
    for number in 0..MAX_FILES {
        std::fs::write(directory.join(format!("{number}.toml")), "").expect("an own directory");
    }
    let error = load(&place).expect_err("one file more");
    assert!(error.contains("more than 256 files"), "{error}");
    std::fs::remove_file(directory.join("0.toml")).expect("an own file");
    assert!(load(&place).is_ok(), "256 files are possible");
    std::fs::remove_dir_all(&directory).expect("an own directory");
    assert!(load(&place).is_ok(), "the directory may be missing");
    std::fs::write(&directory, "").expect("an own directory");
    let error = load(&place).expect_err("a file");
    assert!(
        error.contains("r1.toml.d: cannot read the directory of drop-ins: Not a directory"),
        "{error}"
    );
}

#[test]
fn secret_in_a_drop_in_that_others_may_read_is_refused() {
    let secret = "[protocol.x]\nsecret = \"at least eight octets\"\n";
    let place = place("secret", MAIN, &[("r1.toml.d/a.toml", secret)]);
    let path = |name: &str| place.0.join(name);
    let (files, metadata) = read_files(&path("r1.toml")).expect("readable");
    let (text, parts) = files.joined();
    let source = Source::of_files(&text, &parts);
    let (_, places) = Table::of_files(&source).expect("TOML");
    assert_eq!(places[0], None);
    let found = places[1].clone().expect("a secret");
    assert_eq!(
        (found.file, found.line, &*found.key),
        (path("r1.toml.d/a.toml"), 2, "protocol.x.secret")
    );
    // No protocol of this program has secrets in its settings, so that the check of the files is called itself.
    for (mode, is_refused) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
        std::fs::set_permissions(path("r1.toml.d/a.toml"), Permissions::from_mode(mode))
            .expect("own");
        let metadata = std::fs::metadata(path("r1.toml.d/a.toml")).expect("a file");
        let checked = Config::new("r1", "s")
            .check_secret_files(&[(places[1].clone().expect("one"), metadata)]);
        assert_eq!(checked.is_err(), is_refused, "mode {mode:o}");
        if let Err(error) = checked {
            assert!(error.to_string().contains("a.toml:2: protocol.x.secret: "), "{error}");
        }
    }
    assert_eq!(metadata.len(), 2);
}

#[test]
fn unreadable_include_is_named() {
    let main = format!("include = [\"a.toml\"]\n{MAIN}");
    let place = place("unreadable", &main, &[("a.toml", "")]);
    std::fs::set_permissions(&place.0, Permissions::from_mode(0o755)).expect("own");
    std::fs::set_permissions(place.0.join("a.toml"), Permissions::from_mode(0o000)).expect("own");
    // Root reads every file, so that a thread of another user does, which changes this thread alone.
    let load = || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root");
        }
        load(&place)
    };
    let loaded = std::thread::scope(|scope| scope.spawn(load).join().expect("it ends"));
    let error = loaded.expect_err("mode 0");
    let told = "r1.toml:1: include: a.toml: cannot read the file: Permission denied";
    assert!(error.contains(told), "{error}");
}

#[test]
fn text_without_a_file_cannot_include() {
    let error =
        Config::parse("include = [\"a.toml\"]\n", Path::new("r1.toml")).expect_err("no file");
    assert!(
        error.to_string().contains("r1.toml:1: include: only a configuration that is read"),
        "{error}"
    );
}

#[test]
fn large_lists_are_merged_in_time() {
    const COUNT: usize = 50_000;
    let mut text = String::new();
    for number in 0..COUNT {
        let _ = writeln!(text, "[[interface]]\nname = \"i{number}\"\nbandwidth = \"1Gbit\"");
    }
    let place = place("large", &text, &[("r1.toml.d/a.toml", &text.replace("1G", "2G"))]);
    let start = std::time::Instant::now();
    let config = load(&place).expect("valid");
    assert!(start.elapsed().as_secs() < 60, "reading takes {:?}", start.elapsed());
    assert_eq!(config.interfaces.len(), COUNT);
    assert_eq!(bandwidths(&config)[COUNT - 1].1, 2_000);
}
