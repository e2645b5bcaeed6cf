//! Files with secrets are refused if others may read them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use earmark_testkit::command_line::TemporaryDirectory;

use super::*;
use crate::config::read_text::unchanged;
use crate::config::source::Source;
use crate::config::table::Table;

/// Settings of a protocol that the program adds; the others have no secrets there.
const SECRET: &str = "[protocol.x]\nsecret = \"at least eight octets\"\n";

fn load(path: &str) -> Result<Config, String> {
    Config::load(Path::new(path)).map_err(|error| error.to_string())
}

fn set_mode(path: &str, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("an own file");
}

#[test]
fn configuration_with_secrets_is_refused_if_others_may_use_it() {
    let place = TemporaryDirectory::new("secret-config");
    let file = place.file("secret.toml", SECRET);
    let source = Source::new(SECRET, Path::new(&file));
    let secret = Table::parse(SECRET, &source).expect("TOML").secret(&source).expect("a secret");
    let plain = place.file("plain.toml", "[node]\nname = \"r1\"\n");
    for (mode, chmod) in [
        (0o600, None),
        (0o400, None),
        (0o640, None),
        (0o660, None),
        (0o644, Some("chmod 640")),
        (0o604, Some("chmod 600")),
        (0o602, Some("chmod 600")),
        (0o666, Some("chmod 660")),
    ] {
        set_mode(&file, mode);
        set_mode(&plain, mode);
        assert!(load(&plain).is_ok(), "no secret, mode {mode:o}");
        let metadata = std::fs::metadata(&file).expect("a file");
        let checked =
            Config::new("r1", "r1.sock").check_secret_files(&[(secret.clone(), metadata)]);
        match (checked.map_err(|error| error.to_string()), chmod) {
            (Ok(()), None) => {}
            (Err(error), Some(chmod)) => {
                assert!(error.contains(&format!("mode {mode:04o}")), "{error}");
                assert!(error.contains(&format!("help: {chmod} {file}")), "{error}");
                assert!(error.contains("secret.toml:2: protocol.x.secret: "), "{error}");
                assert!(!error.contains("eight octets"), "{error}");
            }
            (result, _) => panic!("mode {mode:o}: {result:?}"),
        }
    }
}

#[test]
fn tls_key_is_refused_if_others_may_read_it() {
    let place = TemporaryDirectory::new("secret-tls");
    let key = place.file("r1.key", "key");
    let text = format!(
        "[[interface]]\nname = \"eth0\"\n[nsis.tls]\nport = 30271\nkey = {key:?}\nby = \"keys\"\npublic_keys = \"all.pem\"\n"
    );
    let file = place.file("r1.toml", &text);
    for (mode, is_accepted) in [(0o600, true), (0o640, true), (0o644, false), (0o604, false)] {
        set_mode(&key, mode);
        match load(&file) {
            Ok(_) => assert!(is_accepted, "mode {mode:o}"),
            Err(error) => {
                assert!(!is_accepted, "mode {mode:o}: {error}");
                assert!(error.contains("r1.key contains secrets"), "{error}");
                assert!(error.contains("help: chmod 6"), "{error}");
            }
        }
    }
}

#[test]
fn files_with_secrets_belong_to_root_or_to_the_daemon() {
    let place = TemporaryDirectory::new("secret-owner");
    let keys = place.file("keys.toml", "");
    set_mode(&keys, 0o600);
    let text = format!("[integrity]\nkeys = {keys:?}\n");
    let config = place.file("r1.toml", &text);
    let path = Path::new(&keys).to_owned();
    let file = std::fs::metadata(&path).expect("a file");
    let own = file.uid();
    for (process, daemon, is_accepted) in [
        (own, None, true),
        (own.wrapping_add(1), None, own == 0),
        (own.wrapping_add(1), Some(own), true),
        (own.wrapping_add(1), Some(own.wrapping_add(2)), own == 0),
    ] {
        let result = Owners { process, daemon }.check(&path, &file);
        assert_eq!(result.is_ok(), is_accepted, "{process} {daemon:?}: {result:?}");
    }
    // Only root can give a file away.
    if own == 0 {
        std::os::unix::fs::chown(&path, Some(65_534), None).expect("root");
        let error = load(&config).expect_err("another owner");
        assert!(error.contains("user 65534 owns it\n  help: chown root "), "{error}");
        assert!(error.contains("`sudo -u '#65534' earmarkd config check`"), "{error}");
        let user = place.file("user.toml", &format!("{text}[daemon]\nuser = \"nobody\"\n"));
        assert!(load(&user).is_ok(), "the user that the daemon becomes");
    }
}

#[test]
fn file_that_changes_while_it_is_read_is_read_again() {
    let place = TemporaryDirectory::new("secret-change");
    let file = place.file("keys.toml", "old");
    let path = Path::new(&file);
    let text = || std::fs::read_to_string(path).expect("a file");
    let mut reads = 0;
    let read = unchanged(path, || {
        reads += 1;
        let text = text();
        if reads == 1 {
            std::fs::write(path, "new and longer").expect("an own file");
        }
        Ok(text)
    });
    assert_eq!((read.as_deref(), reads), (Ok("new and longer"), 2));
    let mut length = 20;
    let error = unchanged(path, || {
        length += 1;
        std::fs::write(path, "x".repeat(length)).expect("an own file");
        Ok(())
    });
    let error = error.expect_err("never the same twice").to_string();
    assert!(error.contains("keys.toml changed while it was read\n  help: write a new"), "{error}");
}
