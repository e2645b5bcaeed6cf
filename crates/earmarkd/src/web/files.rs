//! The files of the page, which are part of the program: no request opens a file.

/// A file of the page.
pub(super) struct File {
    path: &'static str,
    /// Value of the header `Content-Type`.
    pub(super) content_type: &'static str,
    /// The content.
    pub(super) content: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal $content_type:ident $file:literal;)*) => {
        &[$(File { path: $path, content_type: $content_type, content: include_bytes!($file) }),*]
    };
}

const FILES: &[File] = files! {
    "/" HTML "page/index.html";
    "/page.css" STYLE "page/page.css";
    "/page.js" SCRIPT "page/page.js";
    "/daemon.js" SCRIPT "page/daemon.js";
    "/elements.js" SCRIPT "page/elements.js";
    "/rates.js" SCRIPT "page/rates.js";
    "/topology.js" SCRIPT "page/topology.js";
    "/reservations.js" SCRIPT "page/reservations.js";
    "/forms.js" SCRIPT "page/forms.js";
    "/events.js" SCRIPT "page/events.js";
    "/uPlot.css" STYLE "page/uplot/uPlot.min.css";
    "/uPlot.js" SCRIPT "page/uplot/uPlot.esm.js";
};

/// Returns the file at a path, which must be equal to its own.
pub(super) fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}
