//! Properties of one interface: its name in messages, its speed, its offloads.

use std::io;

use earmark_core::{InterfaceId, Rate};
use earmark_linux::netlink::{Connection, Message};
use earmark_linux::netns::Namespace;
use earmark_linux::{InterfaceName, TcError, interface, link};

use crate::support::{eventually, namespace};

/// Sends a message about interfaces in a namespace.
fn request(namespace: &Namespace, index: u32, message: impl Fn(Message) -> Message + Sync) {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let flags = if index == 0 { libc::NLM_F_CREATE | libc::NLM_F_EXCL } else { 0 };
    let make = || {
        let new = message(Message::new(libc::RTM_NEWLINK, flags as u16).fixed(&header));
        Connection::open().and_then(|mut netlink| netlink.request("change an interface", new))
    };
    namespace.run_in(make).expect("a thread inside").expect("the kernel does it");
}

fn pair() -> (Namespace, InterfaceId) {
    let namespace = namespace();
    let (near, _) = link::create_veth(&namespace, "near", &namespace, "far").expect("a veth pair");
    (namespace, near)
}

/// Errors show the current name of an interface when they are read; for a deleted one only its index.
pub(crate) fn error_message_names_the_interface() {
    let (namespace, near) = pair();
    let say = |error: &TcError| namespace.run_in(|| error.to_string()).expect("a thread inside");
    let error = TcError::PoolFull { interface: near, limit: 9 };
    assert_eq!(say(&error), "all 9 classes of near are in use");
    let refused = |index| {
        let refused = move || {
            let message = Message::new(libc::RTM_NEWLINK, 0).fixed(&[0; 3]);
            let mut netlink = Connection::open().expect("a socket");
            let error = netlink.request("change a class", message).expect_err("too short");
            TcError::from(error).on(index)
        };
        namespace.run_in(refused).expect("a thread inside")
    };
    let error_on = refused(near);
    assert!(say(&error_on).starts_with("near: cannot change a class: "), "{}", say(&error_on));
    assert_eq!(i32::from(error_on.errno()), libc::EINVAL);
    request(&namespace, near.0, |message| message.text(libc::IFLA_IFNAME, "wan"));
    assert_eq!(say(&error), "all 9 classes of wan are in use");
    link::delete(&namespace, "wan").expect("deleted");
    let name = namespace.run_in(|| InterfaceName(near).to_string()).expect("a thread inside");
    assert!(name.contains(&near.0.to_string()) && name.contains("removed"), "{name}");
}

pub(crate) fn speed_is_that_of_the_driver() {
    let (namespace, near) = pair();
    let speed = |name: &str| -> io::Result<Option<Rate>> {
        namespace.run_in(|| interface::speed(name)).expect("a thread inside")
    };
    assert_eq!(speed("near").expect("there"), Some(Rate::from_mbps(10_000)), "what veth says");
    assert_eq!(speed("lo").expect("there"), None);
    for missing in ["nowhere", "a-name-of-32-octets-is-too-long-"] {
        assert_eq!(speed(missing).unwrap_err().raw_os_error(), Some(libc::ENODEV), "{missing}");
    }
    // The speed of a bridge is that of its fastest port.
    request(&namespace, 0, |message| {
        let kind = |m: Message| m.text(libc::IFLA_INFO_KIND, "bridge");
        message.text(libc::IFLA_IFNAME, "bridge").nested(libc::IFLA_LINKINFO, kind)
    });
    link::set_up(&namespace, "bridge", true).expect("up");
    assert_eq!(speed("bridge").expect("there"), None);
    let bridge = link::index(&namespace, "bridge").expect("asked").expect("there");
    request(&namespace, near.0, |message| message.u32(libc::IFLA_MASTER, bridge.0));
    for name in ["near", "far"] {
        link::set_up(&namespace, name, true).expect("up");
    }
    eventually("the bridge has a speed", || {
        speed("bridge").expect("there") == Some(Rate::from_mbps(10_000))
    });
}

pub(crate) fn segmentation_offload_is_recognized() {
    let (namespace, _) = pair();
    let has = || {
        let asked = namespace.run_in(|| interface::has_segmentation_offload("near"));
        asked.expect("a thread inside").expect("there")
    };
    assert!(has(), "veth has it until somebody switches it off");
    for feature in ["tso", "gso"] {
        let mut ethtool = namespace.command("ethtool").expect("a command");
        match ethtool.args(["-K", "near", feature, "off"]).status() {
            Ok(status) => assert!(status.success(), "{feature}: {status}"),
            Err(error) => panic!("ethtool: {error}"),
        }
    }
    assert!(!has());
}

pub(crate) fn unchecked_sources_are_recognized() {
    let (namespace, _) = pair();
    // Forwarding, `rp_filter` of the interface and of all.
    let cases = [
        ("0", "0", "0", true),
        ("1", "0", "0", false),
        ("1", "1", "0", true),
        ("1", "2", "0", false),
        ("1", "0", "1", true),
        ("1", "1", "2", false),
        ("1", "2", "1", false),
    ];
    for (forwarding, own, all, is_checked) in cases {
        let settings =
            [("near.forwarding", forwarding), ("near.rp_filter", own), ("all.rp_filter", all)];
        for (key, value) in settings {
            link::sysctl(&namespace, &format!("net.ipv4.conf.{key}"), value).expect("a setting");
        }
        let asked = namespace.run_in(|| interface::checks_sources("near"));
        let asked = asked.expect("a thread inside").expect("there");
        assert_eq!(asked, is_checked, "forwarding {forwarding}, rp_filter {own} and {all}");
    }
    let absent = namespace.run_in(|| interface::checks_sources("absent"));
    assert!(absent.expect("a thread inside").is_err());
}
