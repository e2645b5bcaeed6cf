//! The page and the scrapes of all routers, until a signal.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use earmark_http::listener::serve;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::config::Config;
use crate::fleet::Fleet;
use crate::scrape::Scraper;
use crate::server::{BOUNDS, answer};

/// Time over which the first scrapes, and so those of each interval, are distributed.
const SPREAD: Duration = Duration::from_secs(1);
/// Most look-ups of names at a time; further ones wait.
const LOOKUPS: usize = 64;

/// A listening page, with its routers.
#[derive(Debug)]
pub struct Page {
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    address: SocketAddr,
    config: Config,
}

impl Page {
    /// Listens.
    ///
    /// # Errors
    /// The system refuses the address or the runtime.
    pub fn listen(config: Config) -> io::Result<Page> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(LOOKUPS)
            .build()?;
        let listener = TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(entered);
        Ok(Page { runtime, listener, address, config })
    }

    /// Returns the address of the page.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Scrapes and serves until SIGTERM or SIGINT. `log` takes a line whenever a router becomes reachable or unreachable.
    ///
    /// # Errors
    /// The system refuses to wait for signals.
    pub fn run(self, log: impl Fn(&str) + Clone + Send + Sync + 'static) -> io::Result<()> {
        let Page { runtime, listener, address, config } = self;
        let done = runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let fleet = Arc::new(Fleet::new(&config));
            start_scrapes(&config, &fleet, &log);
            tokio::spawn(serve(listener, BOUNDS, move |request| {
                let fleet = fleet.clone();
                async move {
                    let path = request.uri().path();
                    answer(request.method(), path, request.headers(), address, &fleet)
                }
            }));
            let ended = |context: &mut Context<'_>| {
                let signals = (terminate.poll_recv(context), interrupt.poll_recv(context));
                if signals == (Poll::Pending, Poll::Pending) {
                    Poll::Pending
                } else {
                    Poll::Ready(Ok(()))
                }
            };
            poll_fn(ended).await
        });
        // A look-up of a name may still run.
        runtime.shutdown_background();
        done
    }
}

/// Starts one task for each router.
fn start_scrapes(
    config: &Config,
    fleet: &Arc<Fleet>,
    log: &(impl Fn(&str) + Clone + Send + Sync + 'static),
) {
    let count = u32::try_from(config.routers.len()).unwrap_or(u32::MAX);
    for (id, router) in config.routers.iter().enumerate() {
        let mut scraper = Scraper::new(router.metrics.clone(), config.timeout, config.max_links());
        let delay = SPREAD / count * u32::try_from(id).unwrap_or_default();
        let mut ticks = interval_at(Instant::now() + delay, config.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (fleet, log) = (fleet.clone(), log.clone());
        tokio::spawn(async move {
            loop {
                ticks.tick().await;
                if let Some(line) = fleet.note(id, scraper.scrape().await) {
                    log(&line);
                }
            }
        });
    }
}
