//! Requests about the configuration.

use std::time::Duration;

use earmark_control::{ApplyConfig, ConfigAnswer, ConfigRequest, Problem};

use super::requests::RequestHandler;
use super::roles::UserText;
use crate::driver::Kernel;

impl<K: Kernel> RequestHandler<'_, K> {
    pub(super) fn config(&mut self, request: ConfigRequest) -> Result<ConfigAnswer, Problem> {
        let RequestHandler { hub, driver, client, now } = self;
        let by = hub.clients.get(client).map_or(0, |client| client.peer.uid);
        match request {
            ConfigRequest::Compare {} => hub.config.compare(*now, driver.link_rows()),
            ConfigRequest::Apply(ApplyConfig { confirm_within_ms }) => {
                let within = confirm_within_ms.map(Duration::from_millis);
                hub.config.apply(*now, within, UserText(by).to_string(), driver.link_rows())
            }
            ConfigRequest::Confirm {} => hub.config.confirm(),
            ConfigRequest::RollBack {} => hub.config.roll_back(),
        }
    }
}
