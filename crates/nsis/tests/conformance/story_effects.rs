//! The lines of a story: inputs, their indented details, and effects, which are replaced. The stories of GIST and of
//! QoS NSLP share it.

use crate::words::Fault;

/// Returns a story with the actual effects: `step` executes a line with its details, and returns the effects.
///
/// # Errors
/// The number of the invalid line, and the reason.
pub(crate) fn replace_effects(
    story: &str,
    mut step: impl FnMut(&str, &[&str]) -> Result<String, Fault>,
) -> Result<String, Fault> {
    let mut text = String::new();
    let mut lines = story.lines().zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        // Skips the effects of the story; the actual ones replace them.
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
