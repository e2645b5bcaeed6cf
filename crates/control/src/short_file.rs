//! Short files with keys and tokens, which the daemon and its clients read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zeroize::Zeroizing;

/// Maximum number of octets that are read.
const MAX_LENGTH: usize = 4_096;

/// Beginning of a file, and its permissions.
pub struct ShortFile {
    /// Text, which may be secret: overwritten on drop.
    pub text: Zeroizing<String>,
    /// Permissions of the opened file.
    pub mode: u32,
}

/// Reads the beginning of a file as text, at most 4 096 octets: more than any key or token has.
///
/// # Errors
/// The file cannot be read, or is no text.
pub fn read_short_file(path: &Path) -> io::Result<ShortFile> {
    let file = File::open(path)?;
    let mode = file.metadata()?.mode();
    // With room for everything, no copy is left behind where a smaller text was.
    let mut text = Zeroizing::new(String::with_capacity(MAX_LENGTH + 1));
    file.take(MAX_LENGTH as u64).read_to_string(&mut text)?;
    Ok(ShortFile { text, mode })
}
