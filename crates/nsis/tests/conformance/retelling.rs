//! The lines of a story: what happens, the indented ones that say more of it, and the effects, which are told anew. The
//! stories of GIST and of QoS NSLP share it.

use crate::words::Fault;

/// A story with the effects as they are: `step` has a line happen, with those that say more of it, and gives its effects.
///
/// # Errors
/// The number of the line that is not understood, and why.
pub(crate) fn retell(
    story: &str,
    mut step: impl FnMut(&str, &[&str]) -> Result<String, Fault>,
) -> Result<String, Fault> {
    let mut text = String::new();
    let mut lines = story.lines().zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        // What the node did then is of no account: what it does now is.
        if line.starts_with("=>") || line.starts_with("     ") {
            continue;
        }
        text = text + line + "\n";
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut body = Vec::new();
        while let Some((object, _)) =
            lines.next_if(|(next, _)| next.starts_with("    ") && !next.starts_with("     "))
        {
            text = text + object + "\n";
            body.push(object.trim());
        }
        let effects = step(line, &body).map_err(|fault| format!("line {number}: {fault}"))?;
        text += if effects.is_empty() { "=> nothing\n" } else { &effects };
    }
    Ok(text)
}
