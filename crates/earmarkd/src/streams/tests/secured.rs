//! TLS: which peers are accepted.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use earmark_core::{CloseReason, Transport};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, PublicKeyData, date_time_ymd,
};

use super::super::{Identity, Limits, Settings, TlsSettings};
use super::{Node, Seen, deaf, until};

/// An authority, with the files of the nodes that it has certified; dropping it removes them.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = format!("earmark-tls-{}-{number}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        std::fs::create_dir_all(&directory).expect("a directory");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let authority = Authority { issuer, directory };
        authority.write("authority.pem", &authority.issuer.pem());
        authority
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// Settings of a node with this name that accepts `peers`.
    pub(super) fn settings(&self, name: &str, peers: &[&str]) -> Settings {
        self.settings_until(name, peers, 4_000)
    }

    /// Settings of a node whose certificate expires at the end of `year`.
    fn settings_until(&self, name: &str, peers: &[&str], year: i32) -> Settings {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 12, 31);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("certified");
        Settings {
            tcp: None,
            tls: Some(TlsSettings {
                port: 0,
                key: self.write(&format!("{name}.key"), &key.serialize_pem()),
                identity: Identity::Certificates {
                    chain: self.write(&format!("{name}.pem"), &certificate.pem()),
                    authorities: self.path("authority.pem"),
                    peers: peers.iter().map(|&peer| peer.to_owned()).collect(),
                },
            }),
            limits: Limits::default(),
        }
    }

    /// Settings of a node that accepts `peers` by their raw public keys, which include its own.
    fn settings_with_keys(&self, name: &str, peers: &[&KeyPair], key: &KeyPair) -> Settings {
        let pem: String = peers.iter().map(|peer| peer.public_key_pem()).collect();
        Settings {
            tcp: None,
            tls: Some(TlsSettings {
                port: 0,
                key: self.write(&format!("{name}.key"), &key.serialize_pem()),
                identity: Identity::PublicKeys(self.write(&format!("{name}-peers.pem"), &pem)),
            }),
            limits: Limits::default(),
        }
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Connects two nodes with TLS, each of which sends data. Returns whether both received them, or the reasons of failure.
fn meet(near: &Settings, far: &Settings) -> Result<(), [Option<CloseReason>; 2]> {
    let (mut near, mut far) = (Node::new(near), Node::new(far));
    let port = far.port(Transport::Tls);
    let long: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    near.connect(2, Transport::Tls, port);
    near.write(2, &long);
    until("settled", &mut [&mut near, &mut far], |nodes| {
        nodes[0].end_of(2).is_some() || nodes[1].heard(1) == long
    });
    if let Some(reason) = near.end_of(2) {
        assert!(!far.is_open(1), "the engine hears of nobody who is not let in");
        let counters = [&near, &far].map(|node| node.streams.counters().not_authenticated);
        assert!(counters.iter().sum::<u64>() >= 1, "{counters:?}");
        return Err([Some(reason), far.end_of(1)]);
    }
    far.write(1, &long);
    until("answered", &mut [&mut near, &mut far], |nodes| nodes[0].heard(2) == long);
    assert!(matches!(far.seen[0], Seen::Open(_, Transport::Tls, _)));
    near.write(2, b"the last");
    near.close(2);
    until("its end", &mut [&mut near, &mut far], |nodes| nodes[1].end_of(1).is_some());
    assert!(far.heard(1).ends_with(b"the last"));
    assert_eq!(far.end_of(1), Some(CloseReason::Ended));
    until("nothing is left", &mut [&mut near, &mut far], |nodes| {
        nodes.iter().all(|node| node.streams.connections.is_empty())
    });
    Ok(())
}

const REFUSED: Result<(), [Option<CloseReason>; 2]> =
    Err([Some(CloseReason::NotAuthenticated), None]);

#[test]
fn certificate_with_listed_name_is_accepted() {
    let authority = Authority::new("names");
    let r1 = authority.settings("r1.example", &["r3.example", "r2.example"]);
    let r2 = authority.settings("r2.example", &["r1.example"]);
    assert_eq!(meet(&r1, &r2), Ok(()));
    assert_eq!(meet(&r2, &r1), Ok(()));
    // Peers are accepted by their address.
    let one = authority.settings("10.0.0.1", &["2001:db8::2"]);
    let two = authority.settings("2001:db8::2", &["10.0.0.1"]);
    assert_eq!(meet(&one, &two), Ok(()));
}

#[test]
fn certificate_with_unlisted_name_is_refused_by_either_side() {
    let authority = Authority::new("other");
    let r1 = authority.settings("r1.example", &["r2.example"]);
    let r2 = authority.settings("r2.example", &["r3.example"]);
    assert_eq!(meet(&r1, &r2), REFUSED, "who accepts does not want it");
    assert_eq!(meet(&r2, &r1), REFUSED, "who connects does not want it");
}

#[test]
fn expired_or_foreign_certificate_is_refused() {
    let authority = Authority::new("here");
    let r1 = authority.settings("r1", &["r2"]);
    let old = authority.settings_until("r2", &["r1"], 2_001);
    assert_eq!(meet(&r1, &old), REFUSED);
    assert_eq!(meet(&old, &r1), REFUSED);
    let elsewhere = Authority::new("elsewhere");
    let foreign = elsewhere.settings("r2", &["r1"]);
    assert_eq!(meet(&r1, &foreign), REFUSED);
    assert_eq!(meet(&foreign, &r1), REFUSED);
}

#[test]
fn raw_public_keys_are_accepted_if_listed() {
    let authority = Authority::new("keys");
    let [one, two, three] = [(); 3].map(|()| KeyPair::generate().expect("a key"));
    assert_ne!(one.subject_public_key_info(), two.subject_public_key_info());
    let r1 = authority.settings_with_keys("r1", &[&three, &two], &one);
    let r2 = authority.settings_with_keys("r2", &[&one], &two);
    let r3 = authority.settings_with_keys("r3", &[&two], &three);
    assert_eq!(meet(&r1, &r2), Ok(()));
    assert_eq!(meet(&r3, &r2), REFUSED);
    assert_eq!(meet(&r2, &r3), REFUSED);
    // Each side refuses the other's method of authentication.
    let certified = authority.settings("r4", &["r1"]);
    assert_eq!(meet(&r1, &certified), REFUSED);
    assert_eq!(meet(&certified, &r1), REFUSED);
}

/// A client without a certificate, and one without TLS, are refused.
#[test]
fn unauthenticated_client_is_refused() {
    let authority = Authority::new("nothing");
    let mut far = Node::new(&authority.settings("r1", &["r2"]));
    let address = std::net::SocketAddr::new(super::HERE, far.port(Transport::Tls));
    let mut store = rustls::RootCertStore::empty();
    store.add(authority.issuer.der().clone()).expect("an authority");
    let config = rustls::ClientConfig::builder().with_root_certificates(store);
    let config = config.with_no_client_auth();
    let name = "r1".try_into().expect("a name");
    let mut client = rustls::ClientConnection::new(config.into(), name).expect("a client");
    let mut socket = std::net::TcpStream::connect(address).expect("connected");
    socket.set_read_timeout(Some(std::time::Duration::from_millis(5))).expect("set");
    let mut outcome = Ok(());
    until("refused", &mut [&mut far], |nodes| {
        if let Err(error) = client.complete_io(&mut socket)
            && error.kind() == std::io::ErrorKind::InvalidData
        {
            outcome = Err(error.to_string());
        }
        nodes[0].streams.counters().not_authenticated == 1 && outcome.is_err()
    });
    assert!(outcome.expect_err("refused").contains("CertificateRequired"));

    let mut rude = std::net::TcpStream::connect(address).expect("connected");
    std::io::Write::write_all(&mut rude, b"GET / HTTP/1.0\r\n\r\n").expect("written");
    drop((socket, client));
    until("gone", &mut [&mut far], |nodes| {
        nodes[0].streams.counters().accepted == 2 && nodes[0].streams.half_open == 0
    });
    assert_eq!(far.seen, []);
}

/// A reload of names and keys applies to new connections.
#[test]
fn reload_applies_to_new_connections() {
    let authority = Authority::new("again");
    let r1 = authority.settings("r1", &["r2"]);
    let (mut near, mut far) = (Node::new(&r1), Node::new(&authority.settings("r2", &["r1"])));
    let port = far.port(Transport::Tls);
    near.connect(2, Transport::Tls, port);
    near.write(2, b"one");
    until("let in", &mut [&mut near, &mut far], |nodes| nodes[1].heard(1) == b"one");
    far.streams.reload(&authority.settings("r2", &["r9"])).expect("good settings");
    near.connect(4, Transport::Tls, port);
    near.write(4, b"two");
    until("refused", &mut [&mut near, &mut far], |nodes| nodes[0].end_of(4).is_some());
    assert_eq!(near.end_of(4), Some(CloseReason::NotAuthenticated));
    near.write(2, b", and more");
    until("goes on", &mut [&mut near, &mut far], |nodes| nodes[1].heard(1) == b"one, and more");
    let broken = Settings {
        tls: Some(TlsSettings { key: authority.path("none"), ..r1.tls.expect("there") }),
        ..deaf()
    };
    assert!(far.streams.reload(&broken).is_err());
    assert!(far.streams.tls.is_some(), "the old one stays");
}
