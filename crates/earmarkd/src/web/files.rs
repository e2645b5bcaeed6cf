//! The files of the page.

use earmark_http::files::{ELEMENTS, File, HTML, PAGE_STYLE, SCRIPT, STYLE};

/// The files, by their paths.
pub(super) const FILES: &[File] = &[
    File::new("/", HTML, include_bytes!("page/index.html")),
    PAGE_STYLE,
    ELEMENTS,
    File::new("/page.js", SCRIPT, include_bytes!("page/page.js")),
    File::new("/daemon.js", SCRIPT, include_bytes!("page/daemon.js")),
    File::new("/rates.js", SCRIPT, include_bytes!("page/rates.js")),
    File::new("/topology.js", SCRIPT, include_bytes!("page/topology.js")),
    File::new("/reservations.js", SCRIPT, include_bytes!("page/reservations.js")),
    File::new("/forms.js", SCRIPT, include_bytes!("page/forms.js")),
    File::new("/events.js", SCRIPT, include_bytes!("page/events.js")),
    File::new("/uPlot.css", STYLE, include_bytes!("page/uplot/uPlot.min.css")),
    File::new("/uPlot.js", SCRIPT, include_bytes!("page/uplot/uPlot.esm.js")),
];
