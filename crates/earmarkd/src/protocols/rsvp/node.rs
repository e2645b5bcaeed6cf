//! RSVP's settings as those of a node, and their reload.

use std::time::Duration;

use earmark_linux::{Intercept, InterfaceSignalling};
use earmark_node::{Command, NodeConfig};
use earmark_rsvp::{
    self as rsvp, HelloTiming, Renewal, RestartTimes, diagnostics, integrity, limits,
};
use jiff::Timestamp;

use super::Rsvp;
use super::config::{InterfaceKeys, RsvpConfig, RsvpInterface, RsvpTables};
use crate::config::{Config, ConfigError, InterfaceConfig, Keys, Source, Table};
use crate::protocol::{Protocol, ProtocolConfig, ReadTables, SigningKeys, read_as};
use crate::wall_clock::since_1970;

impl ProtocolConfig for Rsvp {
    fn tables(&self) -> &'static [Keys] {
        const NAMES: &[&str] = &["rsvp", "integrity", "policy", "sender_proxy", "receiver_proxy"];
        &[Keys { names: NAMES, before: "mark" }]
    }

    fn interface_keys(&self) -> &'static [Keys] {
        const NAMES: &[&str] =
            &["intercept", "udp_encapsulation", "neighbors", "dscp", "timing", "limits"];
        &[Keys { names: NAMES, before: "faces_core" }]
    }

    fn reader(&self) -> ReadTables {
        read_as::<RsvpTables>
    }

    fn read_interface(
        &self,
        table: Table<'_>,
        source: &Source<'_>,
        interface: &mut InterfaceConfig,
    ) -> Result<(), ConfigError> {
        let keys: InterfaceKeys = table.read(source)?;
        interface.settings.set(source.rsvp_interface(&keys)?);
        Ok(())
    }

    fn reload(&self, started: &Config, new: &mut Config, waiting: &mut Vec<String>) {
        let (started, wanted) = (of(started), of(new));
        for (key, differs) in [
            ("rsvp.udp_only", started.udp_only != wanted.udp_only),
            ("rsvp.reduction", started.reduction != wanted.reduction),
            (
                "rsvp.hello",
                started.hello
                    != HelloTiming { restart: started.hello.restart, ..wanted.hello.clone() },
            ),
            ("integrity", started.integrity != wanted.integrity),
        ] {
            waiting.extend(differs.then(|| key.to_owned()));
        }
        new.settings.set(RsvpConfig {
            timing: wanted.timing,
            limits: wanted.limits,
            policy: wanted.policy,
            proxies: wanted.proxies,
            notify: wanted.notify,
            remove_path_state: wanted.remove_path_state,
            diagnostics: wanted.diagnostics,
            strict: wanted.strict,
            hello: HelloTiming { restart: wanted.hello.restart, ..started.hello },
            ..started
        });
    }

    fn reload_interface(
        &self,
        started: &InterfaceConfig,
        new: &mut InterfaceConfig,
    ) -> Vec<&'static str> {
        let mut differing = Vec::new();
        let speaks = started.speaks(self.name());
        if speaks != new.speaks(self.name()) {
            differing.push("protocols (rsvp)");
            match speaks {
                true => _ = new.excluded_protocols.remove(self.name()),
                false => _ = new.excluded_protocols.insert(self.name()),
            }
        }
        differing
    }

    fn configure(&self, config: &Config, origin: Timestamp, node: &mut NodeConfig) {
        node.rsvp = engine(config, origin);
        let silent = config.interfaces.iter().filter(|interface| !interface.speaks(self.name()));
        node.without_rsvp = silent.map(|interface| interface.name.clone()).collect();
    }

    fn reload_command(&self, config: &Config, origin: Timestamp) -> Option<Command> {
        let renewal = Renewal::from(engine(config, origin));
        Some(Command::Rsvp(rsvp::Command::Renew(Box::new(renewal))))
    }

    fn wall_clock_command(&self, origin: Timestamp) -> Option<Command> {
        let wall_clock = since_1970(origin);
        Some(Command::Rsvp(rsvp::Command::WallClock { wall_clock }))
    }

    fn signing_keys(&self) -> Option<&dyn SigningKeys> {
        Some(self)
    }

    fn is_udp_only(&self, config: &Config) -> bool {
        of(config).udp_only
    }

    /// L = (K + 0.5) * 1.5 * R (RFC 2205 section 3.7), the longest of all interfaces; the Recovery Period, if that is longer.
    fn lifetime(&self, config: &Config) -> Option<Duration> {
        let general = of(config).timing;
        let own =
            config.interfaces.iter().filter_map(|known| interface(known).timing.over(general));
        let RestartTimes { restart_time, recovery_time, .. } = of(config).hello.restart;
        let recovery = restart_time.map(|_| recovery_time);
        own.chain([general])
            .map(|timing| timing.lifetime(timing.refresh_ms()))
            .chain(recovery)
            .max()
    }

    fn intercept(&self, config: &InterfaceConfig, how: &mut InterfaceSignalling) {
        let RsvpInterface { intercept, udp_encapsulation, .. } = interface(config);
        (how.intercept, how.udp) = (intercept, udp_encapsulation);
    }
}

fn of(config: &Config) -> RsvpConfig {
    config.settings.get()
}

fn interface(config: &InterfaceConfig) -> RsvpInterface {
    config.settings.get()
}

/// Settings of the engine, without keys.
fn engine(config: &Config, origin: Timestamp) -> rsvp::Config {
    let settings = of(config);
    let interfaces: Vec<(&str, RsvpInterface)> =
        config.interfaces.iter().map(|known| (known.name.as_str(), interface(known))).collect();
    let interfaces = || interfaces.iter().map(|(name, settings)| ((*name).to_owned(), settings));
    let defaults = integrity::Settings::default();
    let integrity = settings.integrity;
    rsvp::Config {
        tokens: config.tokens(origin),
        timing: settings.timing,
        interface_timing: interfaces()
            .filter_map(|(name, own)| Some((name, own.timing.over(settings.timing)?)))
            .collect(),
        diagnostics: diagnostics::Settings {
            answer: settings.diagnostics,
            ntp_origin: ntp(origin),
            ..diagnostics::Settings::default()
        },
        reduction: settings.reduction,
        hello: settings.hello,
        integrity: integrity::Settings {
            interfaces: config.secured(Rsvp.name()),
            window: integrity.window,
            handshake: integrity.handshake,
            sequence_start: ntp(origin),
            ..defaults
        },
        policy: settings.policy,
        proxies: settings.proxies,
        notify: settings.notify,
        remove_path_state: settings.remove_path_state,
        max_sessions: settings.limits.max_sessions,
        max_senders: settings.limits.max_senders,
        max_next_hops: settings.limits.max_next_hops,
        strict: settings.strict,
        limits: limits::Settings {
            interfaces: interfaces()
                .filter(|(_, settings)| settings.limits != limits::Interface::default())
                .map(|(name, settings)| (name, settings.limits.clone()))
                .collect(),
            per_neighbor: settings.limits.per_neighbor,
            changes_per_second: settings.limits.changes_per_second,
            access: settings.limits.access,
        },
        without_router_alert: interfaces()
            .filter(|(_, settings)| settings.intercept == Intercept::Protocol)
            .map(|(name, _)| name)
            .collect(),
        dclass: interfaces()
            .filter(|(_, settings)| !settings.dscp.is_empty())
            .map(|(name, settings)| (name, settings.dscp.clone()))
            .collect(),
        ..rsvp::Config::default()
    }
}

/// Converts a time to a 64-bit NTP timestamp: units of 2^-32 seconds since 1900, modulo 2^64 (RFC 2747 section 3.2).
fn ntp(at: Timestamp) -> u64 {
    const UNIX_EPOCH: i64 = 2_208_988_800;
    let seconds = at.as_second().wrapping_add(UNIX_EPOCH).cast_unsigned();
    let nanoseconds = u64::from(at.subsec_nanosecond().max(0).cast_unsigned());
    (seconds << 32) | ((nanoseconds << 32) / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L = (K + 0.5) * 1.5 * R of RFC 2205 section 3.7, for the default R = 30 s and K = 3.
    #[test]
    fn adopted_reservations_are_kept_for_one_lifetime() {
        assert_eq!(Rsvp.lifetime(&Config::new("", "")), Some(Duration::from_millis(157_500)));
    }

    /// RFC 3473 section 9.5.2: what nobody has claimed is removed at the end of the Recovery Period, not before.
    #[test]
    fn adopted_reservations_are_kept_for_recovery_period() {
        let hello = "[rsvp.hello]\nrestart_time = '30s'\nrecovery_time = '5min'";
        let config = Config::parse(hello, std::path::Path::new("r1.toml")).expect("it can be read");
        assert_eq!(Rsvp.lifetime(&config), Some(Duration::from_secs(300)));
    }

    /// An interface has the general time parameters except those that it names, and the longest lifetime counts.
    #[test]
    fn interface_has_timing_of_its_own() {
        let text = "[[interface]]\nname = \"eth0\"\n\
                    [[interface]]\nname = \"eth1\"\n\
                    timing = { refresh = \"60s\", repair_delay = \"500ms\" }\n\
                    [rsvp]\nrefresh = \"10s\"\nlifetime_factor = 2\nslew_percent = 50\nrepair_delay = \"3s\"\n";
        let config = Config::parse(text, std::path::Path::new("r1.toml")).unwrap();
        let engine = engine(&config, Timestamp::UNIX_EPOCH);
        let timing = |refresh, repair_delay| rsvp::Timing {
            refresh: Duration::from_secs(refresh),
            lifetime_factor: 2,
            slew_percent: 50,
            repair_delay: Duration::from_millis(repair_delay),
        };
        assert_eq!(engine.timing, timing(10, 3_000));
        assert_eq!(engine.interface_timing, [("eth1".to_owned(), timing(60, 500))].into());
        assert_eq!(Rsvp.lifetime(&config), Some(Duration::from_secs(225)));
        let bad = text.replace("500ms", "0s");
        let error = Config::parse(&bad, std::path::Path::new("r1.toml")).unwrap_err().to_string();
        assert!(error.contains("interface.timing") && error.contains("out of range"), "{error}");
    }

    /// An interface has limits of its own for neighbours, of which one that is not there is the general one.
    #[test]
    fn interface_has_limits_of_its_own() {
        let text = "[[interface]]\nname = \"eth0\"\n\
                    [[interface]]\nname = \"eth1\"\nlimits = { max_per_neighbor = 7 }\n\
                    [rsvp]\nmax_per_neighbor = 5\nchanges_per_second = 6\n";
        let config = Config::parse(text, std::path::Path::new("r1.toml")).unwrap();
        let limits = engine(&config, Timestamp::UNIX_EPOCH).limits;
        let own = limits::Interface { per_neighbor: Some(7), ..limits::Interface::default() };
        assert_eq!(limits.interfaces, [("eth1".to_owned(), own)].into());
        assert_eq!((limits.per_neighbor, limits.changes_per_second), (Some(5), Some(6)));
        let bad = text.replace("= 7", "= 0");
        let error = Config::parse(&bad, std::path::Path::new("r1.toml")).unwrap_err().to_string();
        assert!(error.contains("interface.limits") && error.contains("out of range"), "{error}");
    }

    /// NTP's own example: 1 January 1972 is 2 272 060 800 seconds after 1900.
    #[test]
    fn sequence_numbers_start_at_the_time_as_ntp_counts_it() {
        assert_eq!(
            ntp("1972-01-01T00:00:00.5Z".parse().unwrap()),
            (2_272_060_800 << 32) + (1 << 31)
        );
        let before: Timestamp = "2036-02-07T06:28:15.999Z".parse().unwrap();
        let after: Timestamp = "2036-02-07T06:28:16Z".parse().unwrap();
        assert!(ntp(after).wrapping_sub(ntp(before)) < 1 << 32, "it goes round, and on");
    }
}
