//! Messages that exceed a datagram, on a session whose routing state was set up in D-mode (RFC 5971 sections 4.1.1,
//! 4.3.3 and 4.4.1): each is delivered over an association, or its application gets the reason.

use std::time::Duration;

use earmark_core::Transport;
use earmark_nsis::Config;
use earmark_nsis::gist::Installation;
use earmark_nsis::nslp::SendFailure;
use earmark_wire::gist::Mri;

use crate::common::application::Handle;
use crate::common::{Network, Place, line_through, session};

const SECOND: Duration = Duration::from_secs(1);

/// Creates two nodes, side by side or with a router between them; `listens` if they accept connections.
fn pair(is_near: bool, listens: bool, installation: Installation) -> (Network, Vec<Handle>, usize) {
    let mut config = Config::default();
    config.gist.installation = installation;
    let node = Place::Aware(config.clone());
    let places = match is_near {
        true => vec![node; 2],
        false => vec![node.clone(), Place::Plain, node],
    };
    let (mut network, apps) = line_through(&places);
    let last = places.len() - 1;
    for node in [0, last] {
        let port = config.gist.associations.tcp_port.filter(|_| listens);
        network.nodes[node].listens.extend(port.map(|port| (port, Transport::Tcp)));
    }
    (network, apps, last)
}

/// Sends a message and expects its data at the peer, or one failure.
fn assert_not_lost(
    network: &mut Network,
    (from, to): (&Handle, &Handle),
    mri: Mri,
    data: &[u8],
    what: &str,
) -> Option<SendFailure> {
    from.calls();
    to.calls();
    from.send(mri, session(1), data);
    network.run(30 * SECOND);
    let (received, failures) = (to.received(), from.failures());
    assert_eq!(received.len() + failures.len(), 1, "{what}: {failures:?}");
    assert!(received.iter().all(|one| one == data), "{what}");
    failures.first().copied()
}

#[test]
fn large_message_is_delivered_or_reported() {
    let installations = [Installation::Delayed, Installation::Immediate, Installation::Confirmed];
    for installation in installations {
        for (is_near, listens) in [(true, true), (true, false), (false, true), (false, false)] {
            for is_ipv4 in [true, false] {
                for size in [600, 1_500, 70_000] {
                    let what = format!("{installation:?} {is_near} {listens} {is_ipv4} {size}");
                    let (mut network, apps, last) = pair(is_near, listens, installation);
                    let mri = if is_ipv4 { network.flow() } else { network.flow_six() };
                    apps[0].send(mri, session(1), b"one.");
                    network.run(SECOND);
                    assert_eq!(apps[last].received(), [b"one."], "{what}");
                    let (first, second) = (&apps[0], &apps[last]);
                    let large = vec![7; size];
                    let up = mri.inverted();
                    let fits = is_near && size < 1_400;
                    let failure = assert_not_lost(&mut network, (second, first), up, &large, &what);
                    assert_eq!(failure.is_none(), fits, "{what}");
                    let failure =
                        assert_not_lost(&mut network, (first, second), mri, &large, &what);
                    assert_eq!(failure.is_none(), fits || listens, "{what}");
                    // The association that it has opened serves the other direction, too.
                    let failure = assert_not_lost(&mut network, (second, first), up, &large, &what);
                    assert_eq!(failure.is_none(), fits || listens, "{what}");
                }
            }
        }
    }
}
