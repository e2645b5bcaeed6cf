//! Errors in files of keys and certificates are reported with the file's name.

use super::super::{Identity, StreamError, Streams, TlsError};
use super::secured::Authority;

#[test]
fn errors_name_their_file() {
    let authority = Authority::new("faults");
    let good = authority.settings("r1", &["r2"]);
    let with = |change: &dyn Fn(&mut super::super::TlsSettings)| {
        let mut settings = good.clone();
        change(settings.tls.as_mut().expect("there"));
        match Streams::open(&settings) {
            Err(StreamError::Tls(error)) => error,
            other => panic!("not refused: {other:?}"),
        }
    };
    let missing = authority.path("missing.pem");
    let empty = authority.write("empty.pem", "");
    let error = with(&|tls| tls.key.clone_from(&missing));
    assert!(matches!(&error, TlsError::File { path, .. } if *path == missing), "{error}");
    let error = with(&|tls| tls.key.clone_from(&empty));
    assert!(matches!(&error, TlsError::File { path, .. } if *path == empty), "{error}");
    let error = with(&|tls| {
        let Identity::Certificates { chain, .. } = &mut tls.identity else { unreachable!() };
        chain.clone_from(&empty);
    });
    assert!(matches!(&error, TlsError::Nothing { path, .. } if *path == empty), "{error}");
    let error = with(&|tls| {
        let Identity::Certificates { authorities, .. } = &mut tls.identity else { unreachable!() };
        authorities.clone_from(&empty);
    });
    assert!(matches!(&error, TlsError::Nothing { path, .. } if *path == empty), "{error}");
    let error = with(&|tls| {
        let Identity::Certificates { peers, .. } = &mut tls.identity else { unreachable!() };
        peers.push("no name".to_owned());
    });
    assert!(matches!(&error, TlsError::Name(name) if name == "no name"), "{error}");
    // The key belongs to another node.
    let other = authority.settings("r9", &["r2"]).tls.expect("there").key;
    let error = with(&|tls| tls.key.clone_from(&other));
    assert!(matches!(error, TlsError::Identity(_)), "{error}");
    let error = with(&|tls| tls.identity = Identity::PublicKeys(empty.clone()));
    assert!(matches!(&error, TlsError::Nothing { path, .. } if *path == empty), "{error}");
}
