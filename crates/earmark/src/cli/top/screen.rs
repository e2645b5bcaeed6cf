//! The terminal: draws the view, and reads keys.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use earmark_control::command::Failure;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::draw::draw;
use super::sampler::Sampler;
use super::view::{Action, View};

/// Longest time until something new is drawn.
const PATIENCE: Duration = Duration::from_millis(100);
/// Lines of a page.
const PAGE: isize = 10;

/// Shows the view until a key or a signal ends it.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn run(view: View, sampler: &Sampler) -> Result<(), Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, ended.clone())?;
    }
    // Restores the terminal also if this program panics.
    let mut terminal = ratatui::try_init()?;
    let shown = show(view, sampler, &mut terminal, &ended);
    ratatui::try_restore()?;
    Ok(shown?)
}

fn show(
    mut view: View,
    sampler: &Sampler,
    terminal: &mut ratatui::DefaultTerminal,
    ended: &AtomicBool,
) -> io::Result<()> {
    while !ended.load(Ordering::Relaxed) {
        sampler.reported().for_each(|update| view.update(update));
        terminal.draw(|frame| draw(&view, frame))?;
        if !event::poll(PATIENCE)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        match action(key, view.typed.is_some()) {
            Some(Action::End) => return Ok(()),
            Some(action) if view.act(action) => sampler.ask(view.query.clone()),
            _ => {}
        }
    }
    Ok(())
}

/// Returns what a key asks for.
fn action(key: KeyEvent, is_typing: bool) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if is_control => Some(Action::End),
        KeyCode::Enter if is_typing => Some(Action::Apply),
        KeyCode::Esc if is_typing => Some(Action::Leave),
        KeyCode::Backspace if is_typing => Some(Action::Erase),
        KeyCode::Char(letter) if is_typing && !is_control => Some(Action::Type(letter)),
        _ if is_typing => None,
        KeyCode::Char('q') | KeyCode::Esc => Some(Action::End),
        KeyCode::Char('s') => Some(Action::NextColumn),
        KeyCode::Char('r') => Some(Action::Reverse),
        KeyCode::Char('/') => Some(Action::Filter),
        KeyCode::Up => Some(Action::Move(-1)),
        KeyCode::Down => Some(Action::Move(1)),
        KeyCode::PageUp => Some(Action::Move(-PAGE)),
        KeyCode::PageDown => Some(Action::Move(PAGE)),
        KeyCode::Home => Some(Action::Move(isize::MIN)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_letters_while_filters_are_typed() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for (code, alone, typing) in [
            (KeyCode::Char('q'), Some(Action::End), Some(Action::Type('q'))),
            (KeyCode::Char('/'), Some(Action::Filter), Some(Action::Type('/'))),
            (KeyCode::Esc, Some(Action::End), Some(Action::Leave)),
            (KeyCode::Enter, None, Some(Action::Apply)),
            (KeyCode::Down, Some(Action::Move(1)), None),
        ] {
            assert_eq!(action(key(code), false), alone, "{code:?}");
            assert_eq!(action(key(code), true), typing, "{code:?}");
        }
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(interrupt, true), Some(Action::End));
    }
}
