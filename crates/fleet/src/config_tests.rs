use earmark_testkit::command_line::TemporaryDirectory;

use super::*;

const ROUTER: &str = "[[router]]\nname = 'r1'\nmetrics = 'http://10.0.0.1:9470/metrics'\n";

fn check(text: &str) -> Result<Config, String> {
    let place = TemporaryDirectory::new("fleet-config");
    let path = place.file("fleet.toml", text);
    let read = UncheckedConfig::read(Path::new(&path)).map_err(|error| error.to_string())?;
    read.check().map_err(|error| error.to_string())
}

#[test]
fn file_has_defaults() {
    let config = check(ROUTER).expect("valid");
    assert_eq!((config.listen, config.interval), (DEFAULT_LISTEN, DEFAULT_INTERVAL));
    assert_eq!((config.timeout, config.max_links()), (DEFAULT_TIMEOUT, MAX_LINKS));
    assert_eq!(config.routers[0].metrics.to_string(), "http://10.0.0.1:9470/metrics");
}

#[test]
fn example_of_the_package_is_valid_with_a_router() {
    let example = include_str!("../../../packaging/earmark-fleet.toml");
    assert!(check(example).expect_err("no router").starts_with("router: no router"));
    let is_setting = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    let enabled: String = example
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(setting) if setting.starts_with("[[") || is_setting(setting) => setting,
            _ => line,
        })
        .fold(String::new(), |text, line| text + line + "\n");
    let config = check(&enabled).expect("valid");
    assert_eq!((config.listen, config.interval), (DEFAULT_LISTEN, DEFAULT_INTERVAL));
    assert_eq!(config.timeout, DEFAULT_TIMEOUT);
    assert!(config.routers[0].page.is_some());
}

#[test]
fn mistake_names_its_setting() {
    let router = |rest: &str| format!("[[router]]\nname = 'r1'\n{rest}");
    for (text, mistake) in [
        (String::new(), "router: no router"),
        ("listen = '0.0.0.0:9490'\n".to_owned() + ROUTER, "listen: 0.0.0.0:9490 can be reached"),
        ("listen = 'localhost'\n".to_owned() + ROUTER, "listen = 'localhost'"),
        ("interval = '0s'\n".to_owned() + ROUTER, "interval: out of range"),
        ("interval = '10'\n".to_owned() + ROUTER, "interval = '10'"),
        ("timeout = '11s'\n".to_owned() + ROUTER, "timeout: out of range"),
        ("colour = 1\n".to_owned() + ROUTER, "unknown field `colour`"),
        (ROUTER.repeat(2), "router \"r1\": two routers have this name"),
        (router(""), "missing field `metrics`"),
        (router("metrics = 'https://r1:9470/'"), "router \"r1\": metrics: the scheme is not http"),
        (
            router("metrics = 'http://r1:1/'\npage = 'javascript:alert(1)'"),
            "router \"r1\": page: no URL",
        ),
        (router("metrics = 'http://r1:1/'\npage = '//r1'"), "router \"r1\": page: no URL"),
        (ROUTER.replace("r1", ""), "router \"\": name: no name"),
        (ROUTER.replace("'r1'", "\"a\\nb\""), "router \"a\\nb\": name: no name"),
        (ROUTER.replace("r1", &"x".repeat(65)), "name: no name"),
    ] {
        let found = check(&text).expect_err(&text);
        assert!(found.contains(mistake), "{text}: {found}");
    }
    let remote = "listen = '0.0.0.0:9490'\nallow_remote = true\n".to_owned() + ROUTER;
    assert!(check(&remote).is_ok());
}

#[test]
fn routers_links_and_file_are_bounded() {
    let routers = |count: usize| {
        (0..count).map(|number| ROUTER.replace("r1", &format!("r{number}"))).collect::<String>()
    };
    let config = check(&routers(MAX_ROUTERS)).expect("valid");
    assert!(config.max_links() * MAX_ROUTERS <= MAX_ALL_LINKS && config.max_links() > 60);
    assert!(check(&routers(MAX_ROUTERS + 1)).expect_err("too many").contains("exceed 500"));
    let large = format!("#{}\n{ROUTER}", " ".repeat(1024 * 1024));
    assert!(check(&large).expect_err("too large").contains("exceeds 1048576 octets"));
    assert!(UncheckedConfig::read(Path::new("/nowhere/fleet.toml")).is_err());
}
