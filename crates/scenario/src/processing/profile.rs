//! Cost profile: the processor time that a daemon takes for a message on one machine, by protocol, message and number of
//! resident sessions.

use serde::{Deserialize, Serialize};

/// Identifier of the format.
const SCHEMA: &str = "earmark-cost-profile/1";

/// A cost profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostProfile {
    /// Format and its version: `earmark-cost-profile/1`.
    pub schema: String,
    /// The machine.
    pub machine: String,
    /// Origin of the times: a command and its date, or a publication, and how they follow from it.
    pub source: String,
    /// Receive buffer of each socket; missing if it is never full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Buffer>,
    /// Times of turns. Of several that fit a turn, the one that says most about it counts.
    #[serde(default)]
    pub turns: Vec<TurnCost>,
    /// Times that sessions take without a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upkeep: Vec<Upkeep>,
}

/// Receive buffer of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Size, octets.
    pub octets: u64,
    /// Octets that a message takes beside its IP packet.
    pub overhead: u32,
}

/// Whether a daemon receives a message, or sends it by itself: by a timer, or for an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// A received message, with all that it causes at once.
    #[default]
    Received,
    /// A sent message that no received one has caused.
    Sent,
}

/// What a daemon does about a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Does {
    /// A reservation is installed in traffic control, or changed there.
    Installs,
    /// A reservation is removed from traffic control.
    Removes,
    /// Messages are sent, and traffic control stays as it is.
    Sends,
    /// Nothing that is seen outside: a refresh, or an error.
    Nothing,
}

/// Processor time of the turns for a kind of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnCost {
    /// Name of the protocol.
    pub protocol: String,
    /// Name of the message; missing for all others of the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Direction.
    #[serde(default)]
    pub direction: Direction,
    /// What the daemon does about it; missing for all else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub does: Option<Does>,
    /// Numbers of resident sessions, ascending.
    pub sessions: Vec<u32>,
    /// Time with each of these numbers. Between them it is linear; beyond them it is that of the nearest one, or, with
    /// two numbers or more, continues to rise as before the last one.
    pub microseconds: Vec<f64>,
}

/// Processor time that sessions take all the time, beside messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upkeep {
    /// Name of the protocol.
    pub protocol: String,
    /// Microseconds for each session in each second.
    pub microseconds_per_session_s: f64,
}

/// Reason why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// There is no built-in profile of this name.
    #[error("there is no such profile: give one of {known}, or a file whose name ends with .toml")]
    Unknown {
        /// Names of the built-in ones.
        known: String,
    },
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The text is not a profile.
    #[error("{0}")]
    Toml(String),
    /// The format is another one, or newer.
    #[error("its schema is `{0}`, and `{SCHEMA}` is known here")]
    Schema(String),
    /// The numbers of a turn make no sense.
    #[error("turns.{index}: {why}")]
    Turn {
        /// Index of the turn, from 0.
        index: usize,
        /// The reason.
        why: &'static str,
    },
    /// An upkeep makes no sense.
    #[error("upkeep.{index}: it is a time of at least 0")]
    Upkeep {
        /// Index, from 0.
        index: usize,
    },
}

impl CostProfile {
    /// Parses a profile.
    ///
    /// # Errors
    /// The first error found.
    pub fn parse(text: &str) -> Result<CostProfile, ProfileError> {
        let profile: CostProfile =
            toml::from_str(text).map_err(|why| ProfileError::Toml(why.to_string()))?;
        if profile.schema != SCHEMA {
            return Err(ProfileError::Schema(profile.schema));
        }
        for (index, turn) in profile.turns.iter().enumerate() {
            turn.check().map_err(|why| ProfileError::Turn { index, why })?;
        }
        let is_time = |us: f64| us.is_finite() && us >= 0.0;
        match profile.upkeep.iter().position(|it| !is_time(it.microseconds_per_session_s)) {
            Some(index) => Err(ProfileError::Upkeep { index }),
            None => Ok(profile),
        }
    }

    /// Creates a profile of measured turns.
    pub fn new(machine: String, source: String, turns: Vec<TurnCost>) -> CostProfile {
        let (schema, buffer, upkeep) = (SCHEMA.to_owned(), None, Vec::new());
        CostProfile { schema, machine, source, buffer, turns, upkeep }
    }

    /// Returns the time of a message, microseconds. `does` is `None` for a message that is sent. 0 without an entry.
    pub fn microseconds(
        &self,
        (protocol, message): (&str, &str),
        direction: Direction,
        does: Option<Does>,
        sessions: usize,
    ) -> f64 {
        let fits = |turn: &&TurnCost| {
            turn.protocol == protocol
                && turn.direction == direction
                && turn.message.as_ref().is_none_or(|known| known == message)
                && (turn.does.is_none() || turn.does == does)
        };
        let best = self
            .turns
            .iter()
            .filter(fits)
            .max_by_key(|turn| (turn.message.is_some(), turn.does.is_some()));
        best.map_or(0.0, |turn| turn.at(sessions as f64))
    }

    /// Returns whether messages of a protocol take time.
    pub fn has_times(&self, protocol: &str) -> bool {
        self.turns.iter().any(|turn| turn.protocol == protocol)
    }

    /// Returns the share of a processor that the upkeep of a protocol's sessions takes.
    pub fn upkeep_share(&self, protocol: &str, sessions: usize) -> f64 {
        let of_protocol = self.upkeep.iter().filter(|it| it.protocol == protocol);
        of_protocol.map(|it| it.microseconds_per_session_s * sessions as f64 / 1e6).sum()
    }
}

impl TurnCost {
    fn check(&self) -> Result<(), &'static str> {
        if self.sessions.is_empty() || self.sessions.len() != self.microseconds.len() {
            return Err("give as many microseconds as sessions, one at least");
        }
        if !self.sessions.is_sorted_by(|a, b| a < b) {
            return Err("sessions are in ascending order");
        }
        if !self.microseconds.iter().all(|us| us.is_finite() && *us >= 0.0) {
            return Err("a time is a number of microseconds, 0 at least");
        }
        Ok(())
    }

    /// Returns the time with a number of sessions.
    fn at(&self, sessions: f64) -> f64 {
        let point = |index: usize| {
            let (sessions, us) = (self.sessions.get(index)?, self.microseconds.get(index)?);
            Some((f64::from(*sessions), *us))
        };
        let above = self.sessions.partition_point(|number| f64::from(*number) < sessions);
        let last = self.sessions.len().saturating_sub(1);
        let Some(before) = above.min(last).checked_sub(1) else {
            return point(0).map_or(0.0, |(_, us)| us);
        };
        let Some((a, b)) = point(before).zip(point(before + 1)) else { return 0.0 };
        let us = a.1 + (b.1 - a.1) * (sessions - a.0) / (b.0 - a.0);
        if above > last { us.max(b.1) } else { us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(message: Option<&str>, does: Option<Does>, points: &[(u32, f64)]) -> TurnCost {
        TurnCost {
            protocol: "some".to_owned(),
            message: message.map(str::to_owned),
            direction: Direction::Received,
            does,
            sessions: points.iter().map(|(n, _)| *n).collect(),
            microseconds: points.iter().map(|(_, us)| *us).collect(),
        }
    }

    #[test]
    fn times_are_interpolated_and_rise_beyond_the_last_number() {
        let rising = turn(None, None, &[(100, 10.0), (200, 20.0)]);
        for (sessions, us) in
            [(0.0, 10.0), (100.0, 10.0), (150.0, 15.0), (200.0, 20.0), (400.0, 40.0)]
        {
            assert_eq!(rising.at(sessions), us, "{sessions}");
        }
        let falling = turn(None, None, &[(100, 20.0), (200, 10.0)]);
        assert_eq!((falling.at(150.0), falling.at(1e6)), (15.0, 10.0));
        assert_eq!(turn(None, None, &[(5, 7.0)]).at(1e9), 7.0);
    }

    #[test]
    fn the_most_specific_entry_counts() {
        let all = [
            turn(None, None, &[(0, 1.0)]),
            turn(None, Some(Does::Installs), &[(0, 2.0)]),
            turn(Some("Resv"), None, &[(0, 3.0)]),
            turn(Some("Resv"), Some(Does::Installs), &[(0, 4.0)]),
        ];
        let profile = CostProfile::new(String::new(), String::new(), all.to_vec());
        let of = |message, does| {
            profile.microseconds(("some", message), Direction::Received, Some(does), 9)
        };
        assert_eq!(of("Resv", Does::Installs), 4.0);
        assert_eq!(of("Resv", Does::Nothing), 3.0);
        assert_eq!(of("Path", Does::Installs), 2.0);
        assert_eq!(of("Path", Does::Sends), 1.0);
        assert!(profile.has_times("some") && !profile.has_times("other"));
        assert_eq!(profile.microseconds(("other", "Data"), Direction::Received, None, 9), 0.0);
        assert_eq!(profile.microseconds(("some", "Path"), Direction::Sent, None, 9), 0.0);
    }

    #[test]
    fn invalid_profiles_are_refused() {
        let with = |schema: &str, turn: &str| {
            let text = format!("schema = \"{schema}\"\nmachine = \"\"\nsource = \"\"\n{turn}");
            CostProfile::parse(&text).map_err(|error| error.to_string())
        };
        let turn = |sessions: &str, us: &str| {
            with(
                SCHEMA,
                &format!(
                    "[[turns]]\nprotocol = \"some\"\nsessions = {sessions}\nmicroseconds = {us}"
                ),
            )
        };
        assert!(turn("[0, 5]", "[1, 2.5]").is_ok());
        for (sessions, us, why) in [
            ("[]", "[]", "as many"),
            ("[1]", "[1, 2]", "as many"),
            ("[2, 2]", "[1, 2]", "ascending"),
            ("[1]", "[-1]", "0 at least"),
            ("[1]", "[nan]", "0 at least"),
            ("[1]", "[\"x\"]", "line 7"),
        ] {
            let error = turn(sessions, us).unwrap_err();
            assert!(error.contains(why), "{sessions} {us}: {error}");
        }
        assert!(with("earmark-cost-profile/2", "").unwrap_err().contains("is known here"));
        let upkeep = "[[upkeep]]\nprotocol = \"some\"\nmicroseconds_per_session_s = -1";
        assert!(with(SCHEMA, upkeep).unwrap_err().contains("upkeep.0"));
        assert!(CostProfile::parse("").is_err());
    }

    #[test]
    fn built_in_profiles_are_valid_and_written_back() {
        for (name, text) in super::super::BUILT_IN {
            let profile = CostProfile::parse(text).unwrap_or_else(|why| panic!("{name}: {why}"));
            let again = CostProfile::parse(&toml::to_string(&profile).unwrap());
            assert_eq!(again, Ok(profile), "{name}");
        }
    }
}
