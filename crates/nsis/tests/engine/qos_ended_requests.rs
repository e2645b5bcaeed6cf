//! Requests to the receiver of a flow that have ended at the sender, on GIST in both families: what the application was told
//! last stays true.

use std::time::Duration;

use earmark_core::{InterfaceId, Rate};
use earmark_nsis::Config;
use earmark_nsis::qos::{Command, Event};

use crate::common::qos::{
    APP, ENDS, LISTENER, all_held, command, events_of, listener, request, reservable_line_of,
    session_counts,
};
use crate::common::{Network, address};

const SECOND: Duration = Duration::from_secs(1);

fn is_timeout(event: &Event) -> bool {
    matches!(event, Event::TimedOut { application: APP })
}

/// Loses all messages on the first link until the sender has given up; returns whether it did.
fn silence_first_link(network: &mut Network) -> bool {
    network.loss = Some(Box::new(|seen, _| {
        seen.node == 0 || seen.node == 1 && seen.interface == InterfaceId(1)
    }));
    for _ in 0..60 {
        network.run(SECOND);
        if events_of(network, 0).last().is_some_and(is_timeout) {
            network.loss = None;
            return true;
        }
    }
    false
}

/// The reservation expires at the sender, nobody answers its QUERYs, and then the refreshes of the next node arrive again.
#[test]
fn refresh_after_timeout_does_not_reserve() {
    for end in ENDS {
        let mut config = Config::default();
        config.qos.refresh = SECOND;
        let mut network = reservable_line_of(4, &config);
        command(&mut network, 3, Command::Listen { application: LISTENER, listen: listener() });
        let request = request(address(end), Rate::from_mbps(2));
        command(&mut network, 0, Command::Invite { application: APP, request });
        network.run(2 * SECOND);
        assert_eq!(all_held(&network), [2, 2, 2, 0]);
        assert!(silence_first_link(&mut network), "{:?}", events_of(&network, 0));
        assert_eq!(all_held(&network), [0, 2, 2, 0], "{end}");
        network.run(60 * SECOND);
        assert_eq!(all_held(&network), [0, 0, 0, 0], "{end}");
        let is_denied = |event: &&Event| matches!(event, Event::Denied { .. });
        let events = events_of(&network, 0);
        assert_eq!(events.iter().rev().take_while(is_denied).count(), 1, "{events:?}");
        assert!(matches!(events[..], [.., Event::TimedOut { .. }, Event::Denied { .. }]));
        let events = events_of(&network, 3);
        assert!(events.iter().any(|event| matches!(event, Event::Refused { .. })), "{events:?}");
        network.run(60 * SECOND);
        assert_eq!(session_counts(&network), [0; 4], "{end}");
    }
}
