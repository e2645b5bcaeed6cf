//! A thread without privileges, in which an HTTP endpoint is served.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use earmark_linux::capabilities;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::syscall_filter::SyscallFilter;

/// A thread that serves without privileges, until it is dropped.
pub(crate) struct ServerThread {
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Starts a thread without capabilities and with a filter for system calls. `prepare` runs in it, and returns what it
    /// serves.
    ///
    /// # Errors
    /// The system refuses the thread or what it needs.
    pub(crate) fn start<F>(
        name: &str,
        filter: SyscallFilter,
        prepare: impl FnOnce() -> io::Result<F> + Send + 'static,
    ) -> io::Result<ServerThread>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let (ready, is_ready) = mpsc::channel();
        let run = move || {
            let prepared = without_privileges(filter).and_then(|runtime| {
                let entered = runtime.enter();
                let serving = prepare()?;
                drop(entered);
                Ok((runtime, serving))
            });
            let (runtime, serving) = match prepared {
                Ok(prepared) => prepared,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(()));
            runtime.spawn(serving);
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(ServerThread { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Gives up all privileges of the calling thread, and returns a runtime for it.
fn without_privileges(filter: SyscallFilter) -> io::Result<Runtime> {
    // The filter forbids what a new runtime asks of the system.
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    capabilities::drop_all()?;
    filter.apply()?;
    Ok(runtime)
}
