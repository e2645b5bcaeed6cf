//! Policy rules (Linux: `fib_rules.h`): whether other tables than main and local apply.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::netlink::{Answers, NetlinkError, Received};

/// Octets of `struct fib_rule_hdr`.
pub(crate) const RULE_HEADER: usize = 12;
/// `FR_ACT_TO_TBL`.
const TO_TABLE: u8 = 1;
/// Attributes (`FRA_...`) that do not select packets.
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
/// Value that means no suppression.
const NONE: u32 = u32::MAX;

/// Rules of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Whether there are other rules than those of every new namespace.
    pub(super) apply: bool,
    /// Hash of their content, if so.
    detail: u64,
}

impl Rules {
    /// Decodes the dump of a family.
    pub(super) fn decode(answers: &Answers, ipv6: bool) -> Result<Rules, NetlinkError> {
        let mut detail = DefaultHasher::new();
        let mut tables = Vec::new();
        for message in answers {
            let message = message?;
            message.payload.hash(&mut detail);
            tables.push(default_table(&message)?);
        }
        let (local, main, default) = (
            Some(u32::from(libc::RT_TABLE_LOCAL)),
            Some(u32::from(libc::RT_TABLE_MAIN)),
            Some(u32::from(libc::RT_TABLE_DEFAULT)),
        );
        let tables_by_default: &[Option<u32>] =
            if ipv6 { &[local, main] } else { &[local, main, default] };
        // A kernel without rules reports none, and uses local and main.
        let apply = !tables.is_empty() && tables != tables_by_default;
        Ok(Rules { apply, detail: if apply { detail.finish() } else { 0 } })
    }
}

/// Returns the table of a rule that matches all packets; `None` for any other rule.
pub(super) fn default_table(message: &Received<'_>) -> Result<Option<u32>, NetlinkError> {
    let fixed = message.fixed(RULE_HEADER, "rule")?;
    let flags = u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
    let mut plain = fixed[1..4] == [0; 3] && fixed[7] == TO_TABLE && flags == 0;
    let mut table = u32::from(fixed[4]);
    for attribute in message.attributes(RULE_HEADER) {
        let attribute = attribute?;
        match attribute.kind {
            FRA_TABLE => table = attribute.u32("table of a rule")?,
            FRA_PRIORITY | FRA_PROTOCOL => {}
            FRA_SUPPRESS_IFGROUP | FRA_SUPPRESS_PREFIXLEN => {
                plain &= attribute.u32("what a rule suppresses")? == NONE;
            }
            _ => plain = false,
        }
    }
    Ok(plain.then_some(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Message, Messages};

    fn rule(table: u8, change: impl FnOnce(Message) -> Message) -> Option<u32> {
        let fixed = [libc::AF_INET as u8, 0, 0, 0, table, 0, 0, TO_TABLE, 0, 0, 0, 0];
        let message = Message::new(libc::RTM_NEWRULE, 0).fixed(&fixed).u32(FRA_PRIORITY, 7);
        let octets = change(message.u32(FRA_SUPPRESS_PREFIXLEN, NONE)).finish(0);
        let message = Messages::new(&octets).next().expect("one").expect("well-formed");
        default_table(&message).expect("well-formed")
    }

    #[test]
    fn rule_with_selector_is_not_plain() {
        const FRA_FWMARK: u16 = 10;
        assert_eq!(rule(254, |m| m), Some(254));
        assert_eq!(rule(254, |m| m.u32(FRA_TABLE, 1_000)), Some(1_000));
        assert_eq!(rule(254, |m| m.u32(FRA_FWMARK, 1)), None);
        assert_eq!(rule(254, |m| m.u32(FRA_SUPPRESS_IFGROUP, 3)), None);
    }

    #[test]
    fn malformed_rule_is_refused_with_its_field() {
        for octets in [
            Message::new(libc::RTM_NEWRULE, 0).fixed(&[2; 8]).finish(0),
            Message::new(libc::RTM_NEWRULE, 0).fixed(&[2; 12]).u8(FRA_TABLE, 1).finish(0),
        ] {
            let message = Messages::new(&octets).next().expect("one").expect("a message");
            let error = default_table(&message).expect_err("cut short");
            assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}");
        }
    }
}
