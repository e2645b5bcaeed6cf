//! Credentials for the NATS server, from a file that only its owner may use.

use std::io;
use std::path::{Path, PathBuf};

use async_nats::ConnectOptions;
use earmark_control::read_short_file;
use zeroize::Zeroizing;

/// Permissions of the owner, and the bits of the file's type.
const ALLOWED: u32 = !0o077;
/// Size from which a file may have been read in part only.
const TOO_LONG: usize = 4_096;

/// Why a file is not usable as credentials. No error quotes the file.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Users other than the owner may read or change the file.
    #[error("{} contains secrets, and other users may use it (mode {mode:04o})", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
    /// The file is too long.
    #[error("{} is longer than 4095 octets", .0.display())]
    Long(PathBuf),
    /// The file has none of the known forms.
    #[error("{} has no credentials that this program knows", .0.display())]
    Form(PathBuf),
}

impl CredentialsError {
    /// Returns advice what to do.
    pub fn hint(&self) -> String {
        match self {
            CredentialsError::Read { .. } => {
                "name a file that the user of this program may read".to_owned()
            }
            CredentialsError::Open { path, .. } => format!("chmod 600 {}", path.display()),
            CredentialsError::Long(_) | CredentialsError::Form(_) => {
                "a file of credentials as nsc writes it (.creds), the seed of an NKey of a user (SU...), \
                 \"token=TOKEN\", or the lines \"user=NAME\" and \"password=PASSWORD\""
                    .to_owned()
            }
        }
    }
}

/// Credentials. Not printable.
pub struct Credentials {
    text: Zeroizing<String>,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A JWT of a user with the seed of its key.
    Jwt,
    Seed,
    Token,
    Password,
}

impl Credentials {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, others may use it, or it has another form.
    pub fn read(path: &Path) -> Result<Credentials, CredentialsError> {
        let file = read_short_file(path)
            .map_err(|source| CredentialsError::Read { path: path.to_owned(), source })?;
        // A pipe, as of a shell's process substitution, has no name for others.
        let regular = file.mode & 0o170_000 == 0o100_000;
        if regular && file.mode & !ALLOWED != 0 {
            let mode = file.mode & 0o7777;
            return Err(CredentialsError::Open { path: path.to_owned(), mode });
        }
        if file.text.len() >= TOO_LONG {
            return Err(CredentialsError::Long(path.to_owned()));
        }
        Credentials::parse(file.text).ok_or_else(|| CredentialsError::Form(path.to_owned()))
    }

    /// Parses the text of a file; `None` if it has none of the known forms.
    fn parse(text: Zeroizing<String>) -> Option<Credentials> {
        let seed = text.trim();
        let is_seed =
            seed.starts_with("SU") && seed.bytes().all(|octet| octet.is_ascii_alphanumeric());
        let has = |key| value(&text, key).is_some();
        let form = if text.contains("-----BEGIN NATS USER JWT-----") {
            // The library checks the rest.
            ConnectOptions::new().credentials(&text).ok().map(|_| Form::Jwt)?
        } else if is_seed {
            Form::Seed
        } else if has("token") {
            Form::Token
        } else if has("user") && has("password") {
            Form::Password
        } else {
            return None;
        };
        Some(Credentials { text, form })
    }

    /// Returns options with these credentials.
    pub fn options(&self) -> ConnectOptions {
        let options = ConnectOptions::new();
        let get = |key| value(&self.text, key).unwrap_or_default().to_owned();
        match self.form {
            Form::Jwt => options.credentials(&self.text).unwrap_or_default(),
            Form::Seed => options.nkey(self.text.trim().to_owned()),
            Form::Token => options.token(get("token")),
            Form::Password => options.user_and_password(get("user"), get("password")),
        }
    }
}

/// Returns the value of the line `KEY=VALUE`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(key));
    values.find_map(|rest| rest.strip_prefix('=')).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use earmark_testkit::command_line::TemporaryDirectory;

    use super::*;

    fn read(text: &str, mode: u32) -> Result<Form, CredentialsError> {
        let place = TemporaryDirectory::new("credentials");
        let path = place.file("nats", text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
            .expect("an own file");
        Credentials::read(Path::new(&path)).map(|credentials| credentials.form)
    }

    #[test]
    fn forms_are_told_apart() {
        for (text, expected) in [
            ("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n", Form::Seed),
            ("token=secret\n", Form::Token),
            ("user=earmark\npassword=a=b\n", Form::Password),
        ] {
            assert_eq!(read(text, 0o600).expect(text), expected);
        }
        assert_eq!(value("user=earmark\npassword=a=b\n", "password"), Some("a=b"));
    }

    #[test]
    fn unknown_form_is_refused_without_quoting_it() {
        for text in
            ["", "secret", "user=earmark", "token=", "-----BEGIN NATS USER JWT-----\nsecret\n"]
        {
            let error = read(text, 0o600).expect_err(text);
            assert!(matches!(error, CredentialsError::Form(_)), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(matches!(read(&"a".repeat(5_000), 0o600), Err(CredentialsError::Long(_))));
    }

    #[test]
    fn file_of_others_is_refused_with_command() {
        for mode in [0o640, 0o604, 0o620] {
            let error = read("token=secret", mode).expect_err("open to others");
            assert!(matches!(error, CredentialsError::Open { .. }), "{error}");
            assert!(error.hint().starts_with("chmod 600 /"), "{}", error.hint());
        }
        assert!(read("token=secret", 0o400).is_ok());
    }

    #[test]
    fn missing_file_is_named() {
        let error = Credentials::read(Path::new("/nonexistent/nats")).err().expect("no file");
        assert!(error.to_string().starts_with("cannot read /nonexistent/nats: "), "{error}");
    }
}
