//! `[web]`: the daemon's own page.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::source::Source;
use crate::control::Role;
use crate::web::{WebAddress, WebSettings};

/// Before the path of a Unix socket.
const UNIX: &str = "unix:";

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebTable {
    listen: Option<Spanned<String>>,
    token_file: Option<Spanned<PathBuf>>,
    role: Option<Spanned<Role>>,
    #[serde(default)]
    allow_remote: bool,
}

impl Source<'_> {
    pub(super) fn web(&self, table: WebTable) -> Result<Option<WebSettings>, ConfigError> {
        let Some(listen) = table.listen else { return Ok(None) };
        let role = table.role.as_ref().map_or(Role::Reader, |role| *role.get_ref());
        if let Some(path) = listen.get_ref().strip_prefix(UNIX) {
            self.socket_path(listen.span(), Path::new(path))?;
            let surplus = table.token_file.map(|file| file.span());
            if let Some(span) = surplus.or(table.role.map(|role| role.span())) {
                return Err(self.error(
                    span,
                    "at a Unix socket the user of the client decides",
                    "leave it out; control.group and control.readers name the groups",
                ));
            }
            let address = WebAddress::Unix(path.into());
            return Ok(Some(WebSettings { address, role }));
        }
        let hint = "an address and a port, \"127.0.0.1:9480\", or \"unix:/run/earmark/web.sock\"";
        let address: SocketAddr = self.read(&listen, hint)?;
        if !address.ip().is_loopback() && !table.allow_remote {
            return Err(self.error(
                listen.span(),
                format!("{} can be reached by other hosts, and the page has no TLS", address.ip()),
                "listen at \"unix:/run/earmark/web.sock\" behind a reverse proxy with TLS, or set allow_remote = true",
            ));
        }
        let Some(token) = table.token_file else {
            return Err(self.error(
                listen.span(),
                "every user of this host could use the page",
                "token_file = \"/etc/earmark/web.token\" names a file with a token: openssl rand -hex 32",
            ));
        };
        let address = WebAddress::Tcp(address, self.path(token)?);
        Ok(Some(WebSettings { address, role }))
    }
}
