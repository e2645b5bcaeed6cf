//! Attribution of instructions to the paper's functions.
//!
//! The benchmark calls three functions: for a message from the queue, for everything that it causes, and for
//! timeouts. Within them an instruction belongs to the innermost function on the stack that represents one of the
//! paper's; without such a function, instructions of message handling count as the maintenance of state.

use anyhow::{Result, ensure};

use super::counts::Profile;

/// Functions that parse and check a message.
const PARSE: [&str; 1] = ["rsvp::message::Message>::parse"];
/// Functions that find or create a session and its sender.
const SESSION: [&str; 6] = [
    "::look_up_sender",
    "::find_sender",
    "::sender_for",
    "::admit_sender",
    "::look_up_session",
    "::find_session",
];
/// Functions that route, write and send a message. A ResvConf is only forwarded.
const GENERATE: [&str; 13] = [
    "::path_messages",
    "::path_message_through",
    "::path_refresh",
    "::resv_message_for",
    "::resv_refresh",
    "::forward_path_tear",
    "::send_path_tear",
    "::send_resv_tear",
    "::receive_resv_conf",
    "RefreshReduction>::send",
    "next_hops::NextHops",
    "routes::RouteTable",
    "::follow_route",
];
/// Functions that find the next timer.
const DEADLINE: [&str; 1] = ["::next_deadline"];

/// Instructions of each function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Functions {
    pub(super) input: u64,
    pub(super) parse: u64,
    pub(super) session: u64,
    pub(super) state: u64,
    pub(super) generate: u64,
    /// Timeouts: refresh messages that are due.
    pub(super) refresh: u64,
    /// Look-ups of the next timer, in every engine before every message.
    pub(super) deadline: u64,
    /// Other work of timeouts: timers and expiry.
    pub(super) timers: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    Parse,
    Session,
    Generate,
    Deadline,
    Rest,
}

impl Functions {
    /// Attributes the instructions of RSVP.
    ///
    /// # Errors
    /// Functions are missing, because the compiler has inlined them.
    pub(super) fn of_rsvp(profile: &Profile) -> Result<Functions> {
        let functions = Functions::of(profile);
        let all = [functions.parse, functions.session, functions.generate, functions.refresh];
        ensure!(
            all.iter().all(|&cost| cost > 0),
            "the functions of RSVP cannot be told apart in this build of the program"
        );
        Ok(functions)
    }

    /// Attributes the instructions of any protocol; only RSVP's message handling is divided, and that of the others
    /// counts as `state`.
    pub(super) fn of(profile: &Profile) -> Functions {
        let mut functions = Functions::default();
        for (stack, cost) in &profile.functions {
            let activity = stack.split('\'').map(activity).find(|&one| one != Activity::Rest);
            let place = if stack.contains("earmark_counted_input") {
                &mut functions.input
            } else if stack.contains("earmark_counted_time_out") {
                match activity {
                    Some(Activity::Generate) => &mut functions.refresh,
                    Some(Activity::Deadline) => &mut functions.deadline,
                    _ => &mut functions.timers,
                }
            } else {
                match activity {
                    Some(Activity::Parse) => &mut functions.parse,
                    Some(Activity::Session) => &mut functions.session,
                    Some(Activity::Generate) => &mut functions.generate,
                    _ => &mut functions.state,
                }
            };
            *place += cost;
        }
        functions
    }

    /// Returns the instructions of message handling after parsing.
    pub(super) fn process(&self) -> u64 {
        self.session + self.state + self.generate
    }

    pub(super) fn time_out(&self) -> u64 {
        self.refresh + self.deadline + self.timers
    }

    pub(super) fn all(&self) -> u64 {
        self.input + self.parse + self.process() + self.time_out()
    }
}

fn activity(function: &str) -> Activity {
    let is_any_of = |names: &[&str]| names.iter().any(|name| function.contains(name));
    match () {
        () if is_any_of(&PARSE) => Activity::Parse,
        () if is_any_of(&SESSION) => Activity::Session,
        () if is_any_of(&GENERATE) => Activity::Generate,
        () if is_any_of(&DEADLINE) => Activity::Deadline,
        () => Activity::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(functions: &[(&str, u64)]) -> Profile {
        let functions = functions.iter().map(|(name, cost)| ((*name).to_owned(), *cost)).collect();
        Profile { functions, ..Profile::default() }
    }

    #[test]
    fn innermost_known_function_counts() {
        const RSVP: &str = "<impl earmark_rsvp::instance::Rsvp>";
        const HANDLE: &str = "earmark_node::node::Node::handle";
        let of = |inner: &str, phase: &str| {
            format!("{inner}'{HANDLE}'lab::earmark_counted_{phase}'main")
        };
        let message = |inner: &str| of(inner, "delivery");
        let generate = format!("earmark_wire::emit'{RSVP}::path_messages'{RSVP}::receive_path");
        let session =
            format!("hash'earmark_rsvp::store::Store::look_up_sender'{RSVP}::receive_path");
        let parse = format!(
            "checksum'<impl earmark_wire::rsvp::message::Message>::parse'{RSVP}::receive_message"
        );
        let state = format!("{RSVP}::schedule_path_refresh'{RSVP}::receive_path");
        let deadline = "peek'<Rsvp as Engine>::next_deadline";
        let functions = Functions::of_rsvp(&profile(&[
            ("memcpy'lab::earmark_counted_input'main", 1),
            (&message(&parse), 2),
            (&message(&session), 4),
            (&message(&generate), 8),
            (&message(&state), 16),
            (&message("earmark_core::timer::arm"), 32),
            (&of(&generate, "time_out"), 64),
            (&of(deadline, "time_out"), 128),
            (&of("earmark_core::timer::pop_due", "time_out"), 256),
        ]));
        let functions = functions.unwrap();
        let expected = Functions {
            input: 1,
            parse: 2,
            session: 4,
            generate: 8,
            state: 48,
            refresh: 64,
            deadline: 128,
            timers: 256,
        };
        assert_eq!(functions, expected);
        assert_eq!((functions.process(), functions.time_out(), functions.all()), (60, 448, 511));
    }

    #[test]
    fn missing_functions_are_named() {
        let all_in_one = profile(&[("handle'lab::earmark_counted_delivery", 100)]);
        assert!(Functions::of_rsvp(&all_in_one).is_err());
        assert_eq!(Functions::of(&all_in_one).state, 100);
    }
}
