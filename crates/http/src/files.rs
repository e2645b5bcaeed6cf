//! Files of a page, which are part of a program: no request opens a file.

/// Content type of HTML.
pub const HTML: &str = "text/html; charset=utf-8";
/// Content type of a style sheet.
pub const STYLE: &str = "text/css; charset=utf-8";
/// Content type of a script.
pub const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file of a page.
#[derive(Debug)]
pub struct File {
    path: &'static str,
    /// Value of the header `Content-Type`.
    pub content_type: &'static str,
    /// The content.
    pub content: &'static [u8],
}

/// Style sheet that all pages have.
pub const PAGE_STYLE: File = File::new("/page.css", STYLE, include_bytes!("page/page.css"));
/// Script that makes elements of text, which all pages have.
pub const ELEMENTS: File = File::new("/elements.js", SCRIPT, include_bytes!("page/elements.js"));

impl File {
    /// Returns a file that is served at this path.
    pub const fn new(
        path: &'static str,
        content_type: &'static str,
        content: &'static [u8],
    ) -> File {
        File { path, content_type, content }
    }
}

/// Returns the file at a path, which must be equal to its own.
pub fn find(files: &'static [File], path: &str) -> Option<&'static File> {
    files.iter().find(|file| file.path == path)
}
