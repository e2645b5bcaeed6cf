//! Configuration that is written for a daemon.

use earmark_core::Role;
use earmarkd::config::Queueing;
use earmarkd::protocols::boomerang::BoomerangConfig;
use earmarkd::protocols::nsis::NsisConfig;
use earmarkd::protocols::rsvp::RsvpConfig;
use earmarkd::protocols::yessir::YessirConfig;

use super::super::Settings;
use super::*;

/// The daemon's own parser reads the written configuration.
#[test]
fn daemon_configuration_is_valid() {
    let topology = Topology::parse(earmark_scenario::topology::DEMO).unwrap();
    let control = Path::new("/run/earmark-lab/earmark/r1.sock");
    let settings = Settings {
        protocols: [
            ("rsvp", "lifetime_factor = 5\n".to_owned()),
            ("boomerang", "refresh = \"2s\"\n".to_owned()),
            ("yessir", "refresh = \"3s\"\n".to_owned()),
            ("nsis", "refresh = \"4s\"\n".to_owned()),
        ]
        .into(),
        own_protocols: [(("r1".to_owned(), "nsis"), "validity = \"5s\"\n".to_owned())].into(),
        all_core: false,
        tables: "\n[daemon]\nadoption_time = \"7s\"\n".to_owned(),
        interface: "queues = \"none\"\n".to_owned(),
        own: [(("r1".to_owned(), "eth0".to_owned()), "faces_core = true\n".to_owned())].into(),
    };
    let options = Options::new("earmark-lab".into(), Duration::from_secs(2));
    let text = configuration(&topology, 1, control, &Options { settings, ..options });
    let config = earmarkd::config::Config::parse(&text, Path::new("r1.toml")).unwrap();
    assert_eq!(config.adoption_time, Duration::from_secs(7));
    assert_eq!((config.name.as_str(), config.control.socket.as_path()), ("r1", control));
    let rsvp: RsvpConfig = config.settings.get();
    assert_eq!(rsvp.timing.refresh, Duration::from_secs(2));
    assert_eq!(rsvp.timing.lifetime_factor, 5);
    let boomerang: BoomerangConfig = config.settings.get();
    let yessir: YessirConfig = config.settings.get();
    assert_eq!((boomerang.engine.refresh_interval, yessir.engine.interval), (2, 3));
    let nsis = config.settings.get::<NsisConfig>().engine;
    assert_eq!(nsis.qos.refresh, Duration::from_secs(4));
    assert_eq!(nsis.gist.validity, Duration::from_secs(5));
    assert!(config.interfaces.iter().all(|interface| interface.queues == Queueing::None));
    let faces_core = config.interfaces.iter().map(|interface| interface.border.is_some());
    assert!(faces_core.eq([true, false]));
    let roles = config.interfaces.iter().map(|interface| interface.trust.role);
    assert!(roles.eq([Role::Access, Role::Core]), "a host is behind eth0, a router behind eth1");
    let links: Vec<_> = config
        .interfaces
        .iter()
        .map(|i| {
            let capacity = i.capacity(None).unwrap();
            (i.name.as_str(), capacity.bandwidth.as_bps(), capacity.reservable.as_bps())
        })
        .collect();
    assert_eq!(links, [("eth0", 100_000_000, 75_000_000), ("eth1", 10_000_000, 7_500_000)]);
}
