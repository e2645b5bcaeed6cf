//! Requests of applications, and messages that a test delivers by itself.

use super::*;

/// A request to open the path to a port of the server.
pub(super) fn to_server(port: u16) -> OpenRequest {
    OpenRequest {
        source_port: Some(700),
        destination_port: Some(port),
        protocol: Some(UDP),
        lifetime: Some(Duration::from_secs(60)),
        ..OpenRequest::new(address(SERVER))
    }
}

/// A request of the client for a port of its own.
pub(super) fn port_of_client(port: u16) -> ExposeRequest {
    ExposeRequest { lifetime: Some(Duration::from_secs(60)), ..ExposeRequest::new(UDP, port) }
}

/// Returns an event of NATFW_INFO.
pub(super) fn info_of(event: Informational) -> Info {
    Info::new(Outcome::Informational(event))
}

impl Net {
    /// Returns a CREATE of the client as a message: its lifetime, and its sequence number 5 after the first of the session.
    pub(super) fn create_of(
        &self,
        session: SessionId,
        port: u16,
        lifetime: u32,
    ) -> (SendMessage, Vec<u8>) {
        let first = self.first.get(&session).copied().unwrap_or(0);
        let (mut message, data) = self.create_with(session, |create| {
            create.lifetime = lifetime;
            create.msn = first.wrapping_add(5);
        });
        if let Mri::PathCoupled(flow) = &mut message.mri {
            flow.destination_port = Some(port);
        }
        (message, data)
    }

    /// Returns a CREATE of the client for its usual flow, with changes.
    pub(super) fn create_with(
        &self,
        session: SessionId,
        change: impl FnOnce(&mut earmark_wire::natfw_nslp::Create<'_>),
    ) -> (SendMessage, Vec<u8>) {
        use earmark_testkit::messages::natfw_nslp::CREATE;
        let mut create = earmark_wire::natfw_nslp::Create { lifetime: 60, msn: 0, ..CREATE };
        change(&mut create);
        let flow = earmark_testkit::messages::gist::udp_flow(
            ([10, 0, 0, 1], 700),
            ([198, 51, 100, 9], 5_000),
        );
        let message = SendMessage {
            handle: None,
            session,
            mri: Mri::PathCoupled(flow),
            to: None,
            attributes: Attributes { reliable: true, secure: false },
            timeout: Duration::from_secs(1),
            hops: None,
        };
        (message, emit(&Message::Create(create)))
    }

    /// Delivers a message to a node as if from another one.
    pub(super) fn deliver_as(
        &mut self,
        from: usize,
        to: usize,
        message: &SendMessage,
        data: &[u8],
    ) {
        self.peers.insert((to, message.session, format!("{:?}", message.mri.inverted())), from);
        let channel = channel(message.attributes, if from < to { LEFT } else { RIGHT });
        self.deliver(to, &received(message, data, (from, to), channel));
    }
}
