//! Checkpoints that messages pass, as a hook sees them. Run with `cargo test -p earmark-yessir --features
//! checkpoints`.

mod common;

use common::{Ask, Node};
use earmark_core::Secret;
use earmark_core::checkpoint::{Checkpoint, Hook, enable, set_hook};
use earmark_core::keys::Directions;
use earmark_testkit::checkpoints::{note, passed};
use earmark_yessir::Config;
use earmark_yessir::auth::{Key, Settings};

/// One test for all, since a process has only one hook.
#[test]
fn signed_message_passes_integrity_checkpoint() {
    set_hook(&(note as Hook)).expect("the first one");
    enable(true);
    let key = |octet| Key::new(1, Secret::new(vec![octet; 32]));
    let interfaces = [("eth1".to_owned(), Directions::Accept)].into();
    let auth = Settings { keys: vec![key(7)], interfaces, sequence_start: 1_000 << 32 };
    let mut guarded = Node::with(Config { auth, ..Config::default() });
    let plain = Ask::new(1);
    let signed = |key, sequence| Ask { sign: Some((key, sequence)), ..plain.clone() };
    for (ask, genuine) in [
        (plain.clone(), false),
        (signed(key(8), 1), false),
        (signed(key(7), 1), true),
        (signed(key(7), 1), false), // once more
        (signed(key(7), 2), true),
    ] {
        guarded.pass(&ask.arrival());
        assert_eq!(passed(Checkpoint::Integrity), genuine, "{ask:?}");
    }
    // Without a required AUTH, none is checked.
    let mut open = Node::new();
    for ask in [plain.clone(), signed(key(7), 1)] {
        open.pass(&ask.arrival());
        assert!(!passed(Checkpoint::Integrity), "{ask:?}");
    }
    open.pass(&Ask::new(2).arrival());
    assert!(passed(Checkpoint::CreateSession), "the hook still sees other points");
}
