//! The lines of a story: inputs, their indented details, and effects, which are replaced by the actual ones.

use earmark_core::Time;

use super::Protocol;
use super::topology::Topology;
use super::words::{Fault, Seconds, Words};

/// Plays a story in a topology, both as text; returns the story with the actual effects.
///
/// # Errors
/// The line that cannot be read, and the reason.
pub fn play<P: Protocol>(topology: &str, story: &str) -> Result<String, Fault> {
    let fault = |fault| format!("topology.toml: {fault}");
    let topology = Topology::read(topology).map_err(fault)?;
    let mut player = Player { node: P::new(topology).map_err(fault)?, now: Time::ZERO };
    let mut text = String::new();
    for entry in entries(story) {
        match entry {
            Entry::Remark(line) => text = text + line + "\n",
            Entry::Step { number, lines } => {
                text.extend(lines.iter().flat_map(|line| [line, "\n"]));
                let effects = player.step(&lines);
                text += &effects.map_err(|fault| format!("story.txt: line {number}: {fault}"))?;
            }
        }
    }
    Ok(text)
}

#[derive(Debug, PartialEq)]
enum Entry<'s> {
    /// A remark, or an empty line.
    Remark(&'s str),
    /// An input: a line, and the indented lines below it.
    Step { number: usize, lines: Vec<&'s str> },
}

/// Returns all entries without the effects.
fn entries(story: &str) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut in_effect = false;
    for (number, line) in (1..).zip(story.lines()) {
        let indented = line.starts_with(' ');
        if line.starts_with("=>") {
            in_effect = true;
        } else if indented
            && !in_effect
            && let Some(Entry::Step { lines, .. }) = entries.last_mut()
        {
            lines.push(line);
        } else if !indented {
            in_effect = false;
            entries.push(match line {
                line if line.is_empty() || line.starts_with('#') => Entry::Remark(line),
                line => Entry::Step { number, lines: vec![line] },
            });
        }
    }
    entries
}

/// A node and the time of its story.
struct Player<P> {
    node: P,
    now: Time,
}

impl<P: Protocol> Player<P> {
    /// Performs the input of the lines; returns the effects.
    fn step(&mut self, lines: &[&str]) -> Result<String, Fault> {
        let (head, body) = lines.split_first().ok_or("an empty step")?;
        let mut words = Words::of(head);
        let text = if words.flag_first("at") {
            let Seconds(at) = words.value("time")?;
            words.end()?;
            self.advance_to(Time::ZERO + at)?
        } else if words.flag_first("wait") {
            let Seconds(latest) = words.value("time")?;
            words.end()?;
            self.wait(Time::ZERO + latest)?
        } else {
            let body: Vec<&str> = body.iter().map(|line| line.trim()).collect();
            lines_of("", &self.node.step(self.now, words, &body)?)
        };
        Ok(if text.is_empty() { "=> nothing\n".into() } else { text })
    }

    /// Advances the time until a timer has an effect, which must be before `latest`.
    fn wait(&mut self, latest: Time) -> Result<String, Fault> {
        while let Some(at) = self.node.next_deadline().filter(|&at| at <= latest) {
            self.now = self.now.max(at);
            let effects = self.node.expire(self.now);
            if !effects.is_empty() {
                return Ok(lines_of("", &effects));
            }
        }
        Err("the node does nothing until then".into())
    }

    /// Advances the time, timer by timer.
    fn advance_to(&mut self, end: Time) -> Result<String, Fault> {
        if end < self.now {
            return Err("time does not go back".into());
        }
        let mut text = String::new();
        while let Some(at) = self.node.next_deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            text += &lines_of(&P::when(self.now), &self.node.expire(self.now));
        }
        self.now = end;
        Ok(text)
    }
}

fn lines_of(when: &str, effects: &[String]) -> String {
    effects.iter().map(|effect| format!("=> {when}{effect}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A node that repeats each line a second after it.
    struct Echo(Vec<(Time, String)>);

    impl Protocol for Echo {
        const FOLDER: &'static str = "echo";
        type Settings = toml::Table;

        fn new(_: Topology<toml::Table>) -> Result<Echo, Fault> {
            Ok(Echo(Vec::new()))
        }

        fn step(
            &mut self,
            now: Time,
            words: Words<'_>,
            body: &[&str],
        ) -> Result<Vec<String>, Fault> {
            if words.is_empty() {
                return Err("no word".into());
            }
            let text = [&[&words.text_of_all()[..]], body].concat().join("\n     ");
            self.0.push((now + Duration::from_secs(1), text));
            Ok(Vec::new())
        }

        fn next_deadline(&self) -> Option<Time> {
            self.0.first().map(|(at, _)| *at)
        }

        fn expire(&mut self, _: Time) -> Vec<String> {
            vec![self.0.remove(0).1]
        }
    }

    const TOPOLOGY: &str = "[[interface]]\nname = \"eth1\"\naddresses = [\"10.0.1.2/24\"]\n";

    #[test]
    fn effects_of_story_are_replaced_by_actual_ones() {
        let story =
            "# A remark.\n\nsay this\n    and that\n=> nothing\nat 2s\n=> at 1s wrong\n     x\n";
        let played = play::<Echo>(TOPOLOGY, story);
        let expected = "# A remark.\n\nsay this\n    and that\n=> nothing\nat 2s\n\
                        => at 1s say this\n     and that\n";
        assert_eq!(played.as_deref(), Ok(expected));
        assert_eq!(play::<Echo>(TOPOLOGY, expected).as_deref(), Ok(expected));
    }

    #[test]
    fn wrong_line_is_reported_with_its_number() {
        let fault = play::<Echo>(TOPOLOGY, "\nat 2s\nat 1s\n");
        assert_eq!(fault, Err("story.txt: line 3: time does not go back".into()));
        let fault = play::<Echo>(TOPOLOGY, "at two\n").expect_err("no time");
        assert!(fault.starts_with("story.txt: line 1: "), "{fault}");
    }
}
