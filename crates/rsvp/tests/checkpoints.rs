//! Checkpoints that messages pass, as a hook records them. Separately: `cargo test -p earmark-rsvp --features
//! checkpoints`.

mod common;
#[path = "common/signing.rs"]
mod signing;

use common::*;
use earmark_core::checkpoint::{Checkpoint, Hook, enable, set_hook};
use earmark_rsvp::Config;
use earmark_testkit::checkpoints::{note, passed};
use signing::*;

/// One test for all cases, because a process has only one hook.
#[test]
fn authentic_message_passes_integrity_checkpoint() {
    set_hook(&(note as Hook)).expect("the first one");
    enable(true);
    let mut bench = router_with_key();
    let plain = path_octets();
    let sign = |signer: Signer| signer.sign(&plain);
    for (octets, genuine) in [
        (plain.clone(), false),
        (sign(Signer { secret: b"a guess", ..SIGNER }), false),
        (sign(SIGNER), true),
        (sign(SIGNER), false), // replayed
        (sign(Signer { sequence: 2, ..SIGNER }), true),
    ] {
        receive_path(&mut bench, &octets);
        assert_eq!(passed(Checkpoint::Integrity), genuine, "{octets:?}");
    }
    // Without secured interfaces nothing is verified.
    let mut open = with_config(Config::default());
    for octets in [plain.clone(), sign(SIGNER)] {
        receive_path(&mut open, &octets);
        assert!(!passed(Checkpoint::Integrity), "{octets:?}");
    }
    receive_path(&mut open, &plain);
    assert!(passed(Checkpoint::Parse), "the hook still sees other points");
}
