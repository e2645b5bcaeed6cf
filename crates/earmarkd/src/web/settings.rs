//! Settings of the web page.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::control::Role;

/// Settings of the web page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSettings {
    /// Address that the page is served at.
    pub address: WebAddress,
    /// Role of the browsers that present the token.
    pub role: Role,
}

/// Address of the web page, and what proves who a browser is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebAddress {
    /// TCP, with the file of the token.
    Tcp(SocketAddr, PathBuf),
    /// A Unix socket; the user of the peer decides, as at the control socket.
    Unix(PathBuf),
}
