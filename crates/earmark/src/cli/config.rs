//! `earmark config`: compares the running configuration with its files, applies them, and keeps or takes back what was applied.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use earmark_control::command::{Failure, Output};
use earmark_control::{
    ApplyConfig, Client, ConfigAnswer, ConfigDifference, ConfigEffect, ConfigLink, ConfigRequest,
    LinkEffect, PendingConfig,
};
use earmark_core::Rate;
use earmark_core::amounts::parse_duration;

use super::outcome::Outcome;
use super::table::new_table;

pub(crate) const CONFIG_HELP: &str = "\
Change with care, on the host of the daemon:
  earmark config diff                          # settings that differ, and which of them need a restart
  earmark config apply --dry-run               # the same, with links and reservations; changes nothing
  earmark config apply --confirm-within 60s    # apply, and go back unless confirmed, even if this connection is lost
  earmark config confirm                       # keep what was applied
  earmark config rollback                      # or take it back at once

The files are those of `earmarkd --config FILE`, with what it includes and its drop-ins; `earmarkd config check` also finds what
this host lacks. All of these need the rights of an operator.";

/// What to do with the configuration.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List the settings in which the files differ from what runs. Secrets are not shown.
    #[command(after_help = "\
Examples:
  earmark config diff
  earmark config diff --json

Settings with effect `reload` run after `earmark config apply` or `systemctl reload earmark`, those with `restart` after the daemon
has started again. A file with a mistake is an error, as it would be for a reload.")]
    Diff,
    Apply(ApplyOptions),
    /// Keep the settings that `apply --confirm-within` has applied.
    #[command(after_help = "\
Example:
  earmark config confirm

Every operator may confirm, also over another connection. Without it the daemon goes back to the earlier settings in time.")]
    Confirm,
    /// Take the settings back that `apply --confirm-within` has applied, before their time is over.
    #[command(after_help = "\
Example:
  earmark config rollback

The files stay as they are. A daemon that starts later uses the earlier settings, too, until the files change.")]
    Rollback,
}

/// Read the files and apply their settings, with a way back.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  earmark config apply --dry-run
  earmark config apply --confirm-within 60s    # then look whether all is well, and `earmark config confirm`
  earmark config apply                         # at once and for good, like `systemctl reload earmark`

The daemon itself counts the time, whatever becomes of this command and its connection. If the daemon dies meanwhile, the next one
starts with the earlier settings. Until the end of the time no others can be applied, and SIGHUP reads keys alone. Settings that
need a restart are not applied, and so are not tried out.")]
pub(crate) struct ApplyOptions {
    /// Go back to the earlier settings after this time, 1s to 1440min, unless `earmark config confirm` comes before.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "dry_run")]
    pub(crate) confirm_within: Option<Duration>,
    /// Change nothing; show what would change, what becomes of reservations, and why the settings would be refused.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl ConfigCommand {
    fn request(&self) -> ConfigRequest {
        match self {
            ConfigCommand::Diff | ConfigCommand::Apply(ApplyOptions { dry_run: true, .. }) => {
                ConfigRequest::Compare {}
            }
            ConfigCommand::Apply(ApplyOptions { confirm_within, .. }) => {
                let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                ConfigRequest::Apply(ApplyConfig { confirm_within_ms: confirm_within.map(millis) })
            }
            ConfigCommand::Confirm => ConfigRequest::Confirm {},
            ConfigCommand::Rollback => ConfigRequest::RollBack {},
        }
    }
}

/// Sends the request and prints what differs.
pub(super) fn carry_out(
    client: &mut Client,
    command: &ConfigCommand,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let answer = client.config(command.request())?;
    let text = match command {
        ConfigCommand::Diff => differences(&answer) + &pending(&answer),
        ConfigCommand::Apply(_) => changes(&answer),
        ConfigCommand::Confirm => "the settings stay".to_owned(),
        ConfigCommand::Rollback => {
            "the earlier settings run again; the files stay as they are".to_owned()
        }
    };
    out.line(&text, &answer)?;
    Ok(Outcome::Done)
}

fn differences(answer: &ConfigAnswer) -> String {
    let mut text = String::new();
    if answer.differences.is_empty() {
        let _ = write!(text, "the running settings are those of {}", answer.files.join(", "));
    } else {
        let mut table = new_table(&["setting", "running", "file", "effect", "place"]);
        for ConfigDifference { key, running, file, place, effect } in &answer.differences {
            let value = |value: &Option<String>| value.clone().unwrap_or("-".to_owned());
            let cells =
                [key.clone(), value(running), value(file), effect.name().to_owned(), value(place)];
            table.add_row(cells.map(Cell::new));
        }
        let _ = write!(text, "{table}");
        if answer.more {
            text.push_str("\nmore settings differ");
        }
    }
    text
}

/// Says that settings await confirmation, if they do.
fn pending(answer: &ConfigAnswer) -> String {
    let Some(PendingConfig { left_ms, by }) = &answer.pending else { return String::new() };
    let left = left_ms.div_ceil(1_000);
    format!(
        "\nsettings of {by} await `earmark config confirm`; the daemon goes back to the earlier ones in {left} s"
    )
}

fn changes(answer: &ConfigAnswer) -> String {
    let links: String = answer.links.iter().map(|link| format!("\n{}", of_link(link))).collect();
    let waits = answer.differences.iter().filter(|row| row.effect == ConfigEffect::Restart).count();
    let restart = match waits {
        0 => String::new(),
        count => format!("\n{count} of these settings take effect after a restart of the daemon"),
    };
    format!("{}{restart}{links}{}", differences(answer), pending(answer))
}

/// Says what happens to a link and its reservations.
fn of_link(link: &ConfigLink) -> String {
    let ConfigLink { interface, effect, bandwidth_bps, reservable_bps, held_bps, claims } = link;
    let rate =
        |rate: &Option<Rate>| rate.map_or("an unknown rate".to_owned(), |rate| rate.to_string());
    let reservations = if *claims == 1 { "reservation" } else { "reservations" };
    let held = format!("{held_bps} in {claims} {reservations}");
    let (bandwidth, reservable) = (rate(bandwidth_bps), rate(reservable_bps));
    match effect {
        LinkEffect::Fits => format!("{interface}: {held} fit in {reservable}"),
        LinkEffect::ExceedsReservable => format!(
            "{interface}: {held} exceed the reservable {reservable}: they stay, and no other is admitted until they fit"
        ),
        LinkEffect::ExceedsBandwidth => format!(
            "{interface}: {held} exceed the bandwidth {bandwidth}: they stay, but do not get their rates while all of them send"
        ),
        LinkEffect::Joins => format!(
            "{interface}: takes part with {bandwidth}, of which {reservable} are reservable; its queues are replaced"
        ),
        LinkEffect::LeavesAtRestart => {
            format!("{interface}: {held} end when the daemon starts again")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(effect: LinkEffect) -> ConfigLink {
        ConfigLink {
            interface: "eth0".to_owned(),
            effect,
            bandwidth_bps: Some(Rate::from_mbps(8)),
            reservable_bps: Some(Rate::from_mbps(4)),
            held_bps: Rate::from_mbps(6),
            claims: 3,
        }
    }

    #[test]
    fn each_effect_on_a_link_is_told_with_its_rates() {
        for (effect, told) in [
            (LinkEffect::Fits, "eth0: 6 Mbit/s in 3 reservations fit in 4 Mbit/s"),
            (LinkEffect::ExceedsReservable, "exceed the reservable 4 Mbit/s: they stay"),
            (LinkEffect::ExceedsBandwidth, "exceed the bandwidth 8 Mbit/s: they stay"),
            (LinkEffect::Joins, "eth0: takes part with 8 Mbit/s, of which 4 Mbit/s"),
            (LinkEffect::LeavesAtRestart, "6 Mbit/s in 3 reservations end when"),
        ] {
            let text = of_link(&link(effect));
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn differences_are_listed_with_what_needs_a_restart() {
        let row = |key: &str, effect| ConfigDifference {
            key: key.to_owned(),
            running: Some("1".to_owned()),
            file: None,
            place: None,
            effect,
        };
        let differences = vec![
            row("daemon.reconcile", ConfigEffect::Reload),
            row("node.name", ConfigEffect::Restart),
        ];
        let pending = Some(PendingConfig { left_ms: 41_900, by: "user root (uid 0)".to_owned() });
        let answer = ConfigAnswer {
            differences,
            pending,
            links: vec![link(LinkEffect::Fits)],
            ..ConfigAnswer::default()
        };
        let text = changes(&answer);
        let line = |key: &str| text.lines().find(|line| line.contains(key)).expect(key);
        assert!(
            line("daemon.reconcile").contains(" reload ")
                && line("node.name").contains(" restart "),
            "{text}"
        );
        assert!(text.contains("\n1 of these settings take effect after a restart"), "{text}");
        assert!(
            text.contains("settings of user root (uid 0) await `earmark config confirm`"),
            "{text}"
        );
        assert!(text.contains("fit in 4 Mbit/s\n"), "{text}");
        assert!(text.ends_with("in 42 s"), "{text}");
        let none = ConfigAnswer { files: vec!["a.toml".to_owned()], ..ConfigAnswer::default() };
        assert_eq!(changes(&none), "the running settings are those of a.toml");
    }
}
