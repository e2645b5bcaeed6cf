//! `earmark token`: the keys and tokens of a provider. Nothing here needs a daemon.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use earmark_control::command::{Failure, Output};
use earmark_control::{ShortFile, read_short_file};
use earmark_core::amounts::parse_duration;
use earmark_core::{Prefix, Rate};
use earmark_token::{AccessPort, Claims, Destination, PublicKey, SecretKey, Token};
use jiff::Timestamp;
use serde_json::json;
use zeroize::Zeroizing;

use super::outcome::Outcome;

pub(crate) const TOKEN_HELP: &str = "\
The provider makes its keys once, and gives the public one to its routers ([[policy.issuer]] in their settings):
  earmark token key provider                        # provider is secret, provider.pub is not

It signs a token for each user, who reserves with it:
  earmark token issue --key provider --name alice@example.org --to 10.0.2.2:5001/udp --rate 64kbit --valid 1h > alice.token
  earmark listen --on 10.0.2.2:5001 --token alice.token
  earmark token show alice.token --key provider.pub

docs/policy.md says what routers do with the verified name.";

/// Commands about tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a pair of keys: the private one, for its owner only, and the public one in FILE.pub.
    #[command(after_help = "\
Example:
  earmark token key provider

Other programs make such keys as well: openssl genpkey -algorithm ed25519 -out provider; chmod 600 provider;
openssl pkey -in provider -pubout -out provider.pub")]
    Key {
        /// File of the private key; it must not exist.
        file: PathBuf,
    },
    /// Sign a token, and print it.
    #[command(after_help = "\
Examples:
  earmark token issue --key provider --name alice@example.org --to 10.0.2.2:5001/udp --rate 64kbit --valid 1h
  earmark token issue --key provider --name studio --to 10.0.0.0/8 --from 10.7.0.0/16 --at r1/eth1 --rate 20Mbit --valid 30d

A token is no secret: whoever sees it can request what it allows, for the flow that it names, while it is valid. So
bind it to one destination, and keep it short.")]
    Issue(IssueOptions),
    /// Show what a token says. Only --key verifies its signature.
    Show {
        /// File with the token, as `earmark token issue` printed it.
        file: PathBuf,
        /// Verify that this public key's owner has signed it.
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

/// Claims of a new token.
#[derive(Args, Debug)]
pub(crate) struct IssueOptions {
    /// Private key, from `earmark token key`.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Name of the issuer, as in the settings of routers [default: name of the key's file, without extension].
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Name of the user: alice@example.org, or "CN=Alice, O=Example".
    #[arg(long)]
    name: String,
    /// Destination of the flow: 10.0.2.2:5001/udp, [2001:db8::2]:5001/udp, 10.0.2.0/24.
    #[arg(long, value_name = "DESTINATION")]
    to: Destination,
    /// Range of the senders' addresses [default: any].
    #[arg(long, value_name = "RANGE")]
    from: Option<Prefix>,
    /// Access interface where requests enter the network: r1/eth1 [default: any].
    #[arg(long, value_name = "ROUTER/INTERFACE")]
    at: Option<AccessPort>,
    /// Largest rate of one reservation.
    #[arg(long)]
    rate: Rate,
    /// Lifetime: 30min, 1h, 30d.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    valid: Duration,
    /// Begin of the lifetime from now.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    starts_in: Duration,
}

/// Permissions of users other than the owner.
const OTHERS: u32 = 0o077;

pub(super) fn carry_out(command: &TokenCommand, out: &mut Output) -> Result<Outcome, Failure> {
    match command {
        TokenCommand::Key { file } => make_keys(file, out)?,
        TokenCommand::Issue(options) => issue(options, out)?,
        TokenCommand::Show { file, key } => show(file, key.as_deref(), out)?,
    }
    Ok(Outcome::Done)
}

/// Reads a token from a file.
pub(crate) fn read_token(file: &Path) -> Result<Token, Failure> {
    read(file)?.text.parse().map_err(|error| refused(file, &error))
}

/// Returns the failure of a file that has no token.
fn refused(file: &Path, error: &dyn std::error::Error) -> Failure {
    let message = format!("{}: {error}", file.display());
    Failure::new("token", message, "`earmark token issue` prints a token")
}

fn make_keys(file: &Path, out: &mut Output) -> Result<(), Failure> {
    let mut octets = Zeroizing::new([0; 32]);
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut *octets))?;
    let key = SecretKey::from_random(&octets);
    let public = public_name(file);
    // A key that exists may be in use, and is never replaced.
    create(file, 0o600, key.to_pem().as_ref())?;
    create(&public, 0o644, &key.public().to_pem())?;
    let text = format!(
        "private key: {} (keep it secret)\npublic key:  {} ({})",
        file.display(),
        public.display(),
        key.public()
    );
    let json = json!({ "private": file, "public": public, "key": key.public().to_string() });
    out.line(&text, &json)
}

fn public_name(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

fn create(path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        let message = format!("cannot make {}: {error}", path.display());
        Failure::new("input_output", message, "name a file that does not exist yet")
    })
}

fn issue(options: &IssueOptions, out: &mut Output) -> Result<(), Failure> {
    let key = private_key(&options.key)?;
    let stem = || options.key.file_stem().map(|name| name.to_string_lossy().into_owned());
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let not_before = since_1970.saturating_add(options.starts_in);
    let claims = Claims {
        issuer: options.issuer.clone().or_else(stem).unwrap_or_default(),
        name: options.name.clone(),
        not_before: not_before.as_secs(),
        expires: not_before.saturating_add(options.valid).as_secs(),
        rate: options.rate,
        destination: Some(options.to),
        sources: options.from,
        port: options.at.clone(),
    };
    let token = claims.sign(&key).map_err(|error| {
        Failure::new("rejected", error.to_string(), "`earmark token issue --help` has examples")
    })?;
    out.line(&token.to_string(), &json!({ "token": token, "claims": claims_json(&claims) }))
}

fn show(file: &Path, key: Option<&Path>, out: &mut Output) -> Result<(), Failure> {
    let token = read_token(file)?;
    let claims = token.claims().map_err(|error| refused(file, &error))?;
    if let Some(path) = key {
        let key: PublicKey = read(path)?.text.parse().map_err(|error| {
            let message = format!("{}: {error}", path.display());
            Failure::new(
                "key",
                message,
                "name the public key: FILE.pub of `earmark token key FILE`",
            )
        })?;
        if !token.is_signed_by(&key) {
            let message = format!("{} is not signed with {}", file.display(), path.display());
            return Err(Failure::new("signature", message, "do not trust what it says"));
        }
    }
    let mut lines = vec![
        format!("name     {}", claims.name),
        format!("issuer   {}", claims.issuer),
        format!("valid    {} to {}", date(claims.not_before), date(claims.expires)),
        format!("rate     {}", claims.rate),
    ];
    let optional =
        |name: &str, value: Option<String>| format!("{name:9}{}", value.unwrap_or("any".into()));
    lines.push(optional("to", claims.destination.map(|to| to.to_string())));
    lines.push(optional("from", claims.sources.map(|from| from.to_string())));
    lines.push(optional("at", claims.port.as_ref().map(ToString::to_string)));
    let signature = if key.is_some() { "verified" } else { "not verified (--key verifies it)" };
    lines.push(format!("signed   {signature}"));
    let json = json!({
        "claims": claims_json(&claims),
        "octets": token.octets().len(),
        "verified": key.is_some(),
    });
    out.line(&lines.join("\n"), &json)
}

fn claims_json(claims: &Claims) -> serde_json::Value {
    json!({
        "name": claims.name,
        "issuer": claims.issuer,
        "not_before": date(claims.not_before),
        "expires": date(claims.expires),
        "rate_bps": claims.rate,
        "to": claims.destination.map(|to| to.to_string()),
        "from": claims.sources.map(|from| from.to_string()),
        "at": claims.port.as_ref().map(ToString::to_string),
    })
}

/// Formats a time in seconds since 1970 as a date.
fn date(seconds: u64) -> String {
    let date = i64::try_from(seconds).ok().and_then(|at| Timestamp::from_second(at).ok());
    date.map_or_else(|| format!("{seconds} s after 1970"), |date| date.to_string())
}

/// Reads a private key that nobody but its owner can read.
fn private_key(path: &Path) -> Result<SecretKey, Failure> {
    let ShortFile { text, mode } = read(path)?;
    if mode & OTHERS != 0 {
        let message = format!("other users can use {} (mode {:03o})", path.display(), mode & 0o777);
        return Err(Failure::new("key", message, format!("chmod 600 {}", path.display())));
    }
    SecretKey::from_pem(&text).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        Failure::new("key", message, "`earmark token key FILE` makes one")
    })
}

/// Reads a file with a key or a token.
fn read(path: &Path) -> Result<ShortFile, Failure> {
    read_short_file(path).map_err(|error| {
        let message = format!("cannot read {}: {error}", path.display());
        Failure::new("input_output", message, "")
    })
}
