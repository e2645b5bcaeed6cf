//! The listening socket of the web page, and the token that browsers present.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use zeroize::Zeroizing;

use super::{WebAddress, WebSettings};
use crate::config::{Config, ConfigError, Control, Place, read_private};
use crate::control::{Listener, ListenerError, Role, Roles};
use crate::user::User;

/// Shortest token, octets: 128 bits as hexadecimal digits.
const SHORTEST_TOKEN: usize = 32;

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebListenerError {
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] ConfigError),
    /// The Unix socket cannot be created.
    #[error("{0} (web.listen)")]
    Unix(#[from] ListenerError),
    /// The system refuses the address.
    #[error(transparent)]
    Tcp(#[from] io::Error),
}

/// The socket of the page, which owns the file of a Unix socket.
pub(crate) enum WebListener {
    /// TCP.
    Tcp(TcpListener, Zeroizing<String>, Role),
    /// A Unix socket.
    Unix(Listener, Roles),
}

/// What the thread of the page accepts connections from.
#[cfg_attr(not(feature = "http"), allow(dead_code))]
pub(crate) enum WebSocket {
    /// TCP: browsers that present the token have the role.
    Tcp(TcpListener, Zeroizing<String>, Role),
    /// A Unix socket: the user of the peer decides.
    Unix(UnixListener, Roles),
}

impl WebListener {
    /// Listens, and reads the token, while the process may still use every port and file.
    ///
    /// # Errors
    /// The address or the token cannot be used.
    pub(crate) fn prepare(
        config: &Config,
        settings: &WebSettings,
    ) -> Result<WebListener, WebListenerError> {
        match &settings.address {
            WebAddress::Tcp(address, token) => {
                let text = read_private(token)?;
                let token_text = Zeroizing::new(text.trim().to_owned());
                let is_token = token_text.bytes().all(|octet| octet.is_ascii_graphic());
                if token_text.len() < SHORTEST_TOKEN || !is_token {
                    let place = Place { file: token.clone(), ..Place::default() };
                    let message = format!(
                        "no token: one line of at least {SHORTEST_TOKEN} letters, digits or signs"
                    );
                    let hint = format!("openssl rand -hex 32 > {}", token.display());
                    return Err(ConfigError::at(place, message, hint).into());
                }
                let listener = TcpListener::bind(address)?;
                Ok(WebListener::Tcp(listener, token_text, settings.role))
            }
            WebAddress::Unix(path) => {
                let control = Control { socket: path.clone(), ..config.control.clone() };
                let roles = Roles::of(&config.control)?;
                Ok(WebListener::Unix(Listener::prepare(&control)?, roles))
            }
        }
    }

    /// Puts the file of a Unix socket in place.
    ///
    /// # Errors
    /// Another daemon has taken the path meanwhile, or the system refuses.
    pub(crate) fn publish(&mut self) -> Result<(), ListenerError> {
        match self {
            WebListener::Tcp(..) => Ok(()),
            WebListener::Unix(listener, _) => listener.publish(),
        }
    }

    /// Changes the owner of the file to the user that the daemon is about to become.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn hand_over(&self, user: User) -> io::Result<()> {
        match self {
            WebListener::Tcp(..) => Ok(()),
            WebListener::Unix(listener, _) => listener.hand_over(user),
        }
    }

    /// Returns the socket for the thread of the page.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn socket(&self) -> io::Result<WebSocket> {
        Ok(match self {
            WebListener::Tcp(listener, token, role) => {
                WebSocket::Tcp(listener.try_clone()?, token.clone(), *role)
            }
            WebListener::Unix(listener, roles) => {
                WebSocket::Unix(listener.try_clone()?, roles.clone())
            }
        })
    }
}
