//! `[[policy.issuer]]`: providers whose tokens prove names.

use std::io;
use std::path::Path;

use earmark_control::{ShortFile, read_short_file};
use earmark_token::{Issuer, MAX_LABEL, PublicKey};
use serde::Deserialize;
use toml::Spanned;

use super::read_text::unchanged;
use super::{ConfigError, Source};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssuerTable {
    name: Spanned<String>,
    key: Spanned<String>,
}

/// Most issuers. All keys of one name are tried for each of its tokens.
const MAX_ISSUERS: usize = 64;

/// Permissions of users other than the owner to change a file.
const CHANGED_BY_OTHERS: u32 = 0o022;

const KEY: &str = "a public key in Base64, or the path of a file with one; `earmark token key FILE` makes both keys";

impl Source<'_> {
    pub(crate) fn issuers(&self, tables: &[IssuerTable]) -> Result<Vec<Issuer>, ConfigError> {
        if let Some(table) = tables.get(MAX_ISSUERS) {
            let message = format!("more than {MAX_ISSUERS} issuers");
            return Err(self.error(
                table.name.span(),
                message,
                "remove those that issue no tokens",
            ));
        }
        tables.iter().map(|table| self.issuer(table)).collect()
    }

    fn issuer(&self, table: &IssuerTable) -> Result<Issuer, ConfigError> {
        let name = table.name.get_ref();
        let printable = name.bytes().all(|octet| octet == b' ' || octet.is_ascii_graphic());
        if name.is_empty() || name.len() > MAX_LABEL || !printable {
            let message =
                format!("the name of an issuer is 1 to {MAX_LABEL} printable ASCII letters");
            let hint = "the name in its tokens, which `earmark token show FILE` prints";
            return Err(self.error(table.name.span(), message, hint));
        }
        let text = table.key.get_ref();
        let key = match text.parse() {
            Ok(key) => key,
            Err(_) => self.key_of_issuer(Path::new(text), table)?,
        };
        Ok(Issuer { name: name.clone(), key })
    }

    /// Reads the file of a key, again if it changes meanwhile.
    fn key_of_issuer(&self, path: &Path, table: &IssuerTable) -> Result<PublicKey, ConfigError> {
        let error = |message: String, hint: &str| self.error(table.key.span(), message, hint);
        unchanged(path, || {
            let ShortFile { text, mode } = read(path)
                .map_err(|cause| error(format!("cannot read {}: {cause}", path.display()), KEY))?;
            if mode & CHANGED_BY_OTHERS != 0 {
                let message = format!(
                    "other users can change {} (mode {:03o})",
                    path.display(),
                    mode & 0o777
                );
                return Err(error(message, &format!("chmod go-w {}", path.display())));
            }
            text.parse().map_err(|cause| error(format!("{}: {cause}", path.display()), KEY))
        })
    }
}

/// Reads a short regular file: the end of a pipe may never come.
fn read(path: &Path) -> io::Result<ShortFile> {
    match std::fs::metadata(path)?.is_file() {
        true => read_short_file(path),
        false => Err(io::Error::other("not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use earmark_testkit::command_line::TemporaryDirectory;
    use earmark_token::SecretKey;

    use super::*;
    use crate::config::Config;

    fn public(seed: u8) -> PublicKey {
        SecretKey::from_random(&[seed; 32]).public()
    }

    fn issuers(text: &str) -> Result<Vec<Issuer>, String> {
        let config =
            Config::parse(text, Path::new("r1.toml")).map_err(|error| error.to_string())?;
        Ok(config.issuers)
    }

    fn table(name: &str, key: &str) -> String {
        format!("[[policy.issuer]]\nname = '{name}'\nkey = '{key}'\n")
    }

    #[test]
    fn keys_are_read_from_settings_and_files() {
        let place = TemporaryDirectory::new("issuers");
        let file = place.0.join("provider.pub");
        let path = file.to_str().expect("a name of letters");
        for text in [public(1).to_pem(), format!("{}\n", public(1))] {
            std::fs::write(&file, text).expect("an own directory");
            let read =
                issuers(&(table("provider", path) + &table("other", &public(2).to_string())));
            let issuer = |name: &str, key| Issuer { name: name.into(), key };
            assert_eq!(read, Ok(vec![issuer("provider", public(1)), issuer("other", public(2))]));
        }
    }

    #[test]
    fn unusable_key_is_an_error_with_line_and_advice() {
        let place = TemporaryDirectory::new("issuers-refused");
        let path = |name: &str| place.0.join(name).to_str().expect("a name of letters").to_owned();
        std::fs::write(path("writable"), public(1).to_pem()).expect("an own directory");
        std::fs::set_permissions(path("writable"), Permissions::from_mode(0o666)).expect("ours");
        std::fs::write(path("garbage"), [0xff; 9]).expect("an own directory");
        std::fs::write(path("text"), "no key").expect("an own directory");
        std::fs::write(path("large"), "A".repeat(100_000)).expect("an own directory");
        std::fs::write(path("secret"), SecretKey::from_random(&[1; 32]).to_pem().as_ref())
            .expect("an own directory");
        for (name, message, hint) in [
            ("absent", "cannot read", "earmark token key"),
            ("", "not a regular file", "earmark token key"),
            ("writable", "other users can change", "chmod go-w"),
            ("garbage", "UTF-8", "earmark token key"),
            ("text", "not an Ed25519 public key", "earmark token key"),
            ("large", "not an Ed25519 public key", "earmark token key"),
            ("secret", "a private key, which belongs to the issuer only", "earmark token key"),
        ] {
            let error = issuers(&table("provider", &path(name))).expect_err(name);
            assert!(error.contains("r1.toml:3") && error.contains("policy.issuer.key"), "{error}");
            assert!(error.contains(message) && error.contains(hint), "{name}: {error}");
        }
        let nameless = issuers(&table("", &public(1).to_string())).expect_err("a name");
        assert!(nameless.contains("policy.issuer.name"), "{nameless}");
        let many: String = (0..65).map(|_| table("provider", &public(1).to_string())).collect();
        assert!(issuers(&many).expect_err("too many").contains("more than 64 issuers"));
    }

    /// A file that changes while it is read gives the old key, the new one, or an error, and never anything else.
    #[test]
    fn key_file_that_changes_gives_one_of_its_keys_or_an_error() {
        let place = TemporaryDirectory::new("issuers-changing");
        let file = place.0.join("provider.pub");
        std::fs::write(&file, public(1).to_pem()).expect("an own directory");
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    for seed in [2, 1] {
                        // In two steps, so that a reader may find the half.
                        let text = public(seed).to_pem();
                        std::fs::write(&file, &text[..text.len() / 2]).expect("an own directory");
                        std::fs::write(&file, text).expect("an own directory");
                    }
                }
            });
            for _ in 0..300 {
                match issuers(&table("provider", file.to_str().expect("a name of letters"))) {
                    Ok(read) => assert!([public(1), public(2)].contains(&read[0].key)),
                    Err(error) => assert!(
                        error.contains("changed while it was read")
                            || error.contains("not an Ed25519 public key"),
                        "{error}"
                    ),
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
