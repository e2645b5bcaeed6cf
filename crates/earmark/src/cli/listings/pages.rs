//! Pages of a listing, of one daemon or of several routers.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;

use earmark_control::command::Failure;
use earmark_control::{Client, ClientError, Rows, Show};
use serde::de::DeserializeOwned;

use crate::cli::routers::names::RouterName;
use crate::cli::routers::router::{ANSWER_TIMEOUT, Router, no_answer};

/// Pages of a router that wait until those of the routers before it are printed.
const WAITING_PAGES: usize = 2;

/// Where the pages come from.
pub(super) enum Pages<'a> {
    OfDaemon(&'a mut Client),
    OfRouters { routers: &'a [Router], failed: &'a mut dyn FnMut(&Router, Failure) },
}

/// Receiver of the pages of a router.
type Received<T> = Receiver<Result<Rows<T>, ClientError>>;

impl Pages<'_> {
    /// Returns the length of the longest name of a router, if rows bear them.
    pub(super) fn router_width(&self) -> Option<usize> {
        match self {
            Pages::OfDaemon(_) => None,
            Pages::OfRouters { routers, .. } => {
                routers.iter().map(|router| router.name.as_str().len()).max()
            }
        }
    }

    /// Requests the listing page by page, and passes each page to `each`: first those of the first router. Returns whether all
    /// routers have answered.
    ///
    /// # Errors
    /// `each` fails, or the only daemon does.
    pub(super) fn each<T: DeserializeOwned + Send + 'static>(
        &mut self,
        show: &Show,
        mut each: impl FnMut(Option<&RouterName>, Rows<T>) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let (routers, failed) = match self {
            Pages::OfDaemon(client) => {
                let mut pages = client.pages::<T>(show.clone());
                while let Some(page) = pages.next_page()? {
                    each(None, page)?;
                }
                return Ok(true);
            }
            Pages::OfRouters { routers, failed } => (*routers, failed),
        };
        // All routers list at the same time.
        let answers: Vec<Received<T>> =
            routers.iter().map(|router| request(router, show)).collect();
        let mut is_answered = true;
        for (router, pages) in routers.iter().zip(answers) {
            loop {
                let failure = match pages.recv_timeout(ANSWER_TIMEOUT) {
                    Ok(Ok(page)) => {
                        each(Some(&router.name), page)?;
                        continue;
                    }
                    Ok(Err(error)) => error.into(),
                    Err(RecvTimeoutError::Timeout) => no_answer(),
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                failed(router, failure);
                is_answered = false;
                break;
            }
        }
        Ok(is_answered)
    }
}

/// Requests the pages of a router in a thread.
fn request<T: DeserializeOwned + Send + 'static>(router: &Router, show: &Show) -> Received<T> {
    let (sender, pages) = sync_channel(WAITING_PAGES);
    let (socket, show) = (router.socket.clone(), show.clone());
    thread::spawn(move || {
        let list = || -> Result<(), ClientError> {
            let mut client = Client::connect(&socket)?;
            let mut pages = client.pages::<T>(show);
            while let Some(page) = pages.next_page()? {
                if sender.send(Ok(page)).is_err() {
                    break;
                }
            }
            Ok(())
        };
        if let Err(error) = list() {
            let _ = sender.send(Err(error));
        }
    });
    pages
}
