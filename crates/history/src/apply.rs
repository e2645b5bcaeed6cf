//! Application of records to a database, within one transaction.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, Transaction, named_params, params};

use crate::database::Position;
use crate::record::{Counts, FlowKey, Record, Reservation};

/// Reason for the end of a reservation that ended while no daemon ran.
pub const UNKNOWN_END: &str = "unknown";
/// Reason for the end of a reservation that nobody has claimed after a restart.
const NOT_ADOPTED: &str = "not_adopted";

const HOUR_MS: i64 = 3_600_000;
const MS_PER_S: u128 = 1_000;
const BITS_PER_OCTET: u128 = 8;

/// Records of one transaction.
pub(crate) struct Applied<'a> {
    transaction: &'a Transaction<'a>,
    run: i64,
    node: String,
    revision: i64,
    /// Use in this transaction, so that each row is written once.
    usage: BTreeMap<UsageKey, Usage>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UsageKey {
    hour_ms: i64,
    user: String,
    proof: String,
    link: String,
    protocol: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    begun: i64,
    counts: Counts,
    reserved_octets: i64,
}

/// What a record needs to know of a reservation.
struct Open {
    id: i64,
    rate_bps: i64,
    seen_ms: i64,
    counted: Counts,
    user: String,
    proof: String,
    link: String,
    protocol: String,
}

const OPEN: &str = "SELECT id, rate_bps, seen_ms, counted_octets, counted_packets, counted_drops, user_name, proof, link, \
                    protocol FROM reservation WHERE ended_ms IS NULL AND ";

impl Open {
    fn read(row: &Row<'_>) -> rusqlite::Result<Open> {
        Ok(Open {
            id: row.get(0)?,
            rate_bps: row.get(1)?,
            seen_ms: row.get(2)?,
            counted: Counts {
                octets: row.get::<_, i64>(3)?.cast_unsigned(),
                packets: row.get::<_, i64>(4)?.cast_unsigned(),
                drops: row.get::<_, i64>(5)?.cast_unsigned(),
            },
            user: row.get(6)?,
            proof: row.get(7)?,
            link: row.get(8)?,
            protocol: row.get(9)?,
        })
    }

    /// What the rate would have allowed since the last record.
    fn reserved_until(&self, at_ms: i64) -> i64 {
        let span = u128::try_from(at_ms.saturating_sub(self.seen_ms)).unwrap_or(0);
        let rate = u128::try_from(self.rate_bps).unwrap_or(0);
        i64::try_from(rate * span / MS_PER_S / BITS_PER_OCTET).unwrap_or(i64::MAX)
    }
}

impl<'a> Applied<'a> {
    pub(crate) fn begin(
        transaction: &'a Transaction<'a>,
        position: Position,
    ) -> rusqlite::Result<Applied<'a>> {
        let revision = transaction.query_row("SELECT revision FROM meta", [], |row| row.get(0))?;
        let node = "SELECT node FROM run WHERE run = ?1";
        let node = transaction.query_row(node, [position.run], |row| row.get(0)).optional()?;
        let node = node.unwrap_or_default();
        Ok(Applied { transaction, run: position.run, node, revision, usage: BTreeMap::new() })
    }

    pub(crate) fn apply(&mut self, record: &Record) -> rusqlite::Result<()> {
        match record {
            Record::Started { at_ms, node } => self.started(*at_ms, node),
            Record::Adopted { flow } => self.adopted(flow),
            Record::AdoptedAll {} => self.adopted_all(),
            Record::Begun { number, at_ms, flow, counts, reservation } => {
                self.begun(*number, *at_ms, flow, *counts, reservation)
            }
            Record::Changed { number, at_ms, reservation } => {
                let Some(open) = self.numbered(*number)? else { return Ok(()) };
                self.used(&open, *at_ms, open.counted)?;
                self.describe(open.id, reservation)
            }
            Record::Used { number, at_ms, counts } => match self.numbered(*number)? {
                Some(open) => self.used(&open, *at_ms, *counts),
                None => Ok(()),
            },
            Record::Ended { number, at_ms, reason, counts } => match self.numbered(*number)? {
                Some(open) => self.ended(&open, *at_ms, reason, *counts),
                None => Ok(()),
            },
            Record::NotAdopted { flow, at_ms, counts } => match self.waiting(flow)? {
                Some(open) => self.ended(&open, *at_ms, NOT_ADOPTED, *counts),
                None => Ok(()),
            },
            Record::Lost { at_ms, records } => {
                self.revision += 1;
                let insert =
                    "INSERT INTO gap (node, at_ms, records, revision) VALUES (?1, ?2, ?3, ?4)";
                let row = params![self.node, at_ms, signed(*records), self.revision];
                self.transaction.execute(insert, row).map(drop)
            }
        }
    }

    /// Writes what was gathered, and how far the journal is applied.
    pub(crate) fn finish(mut self, journal: u64, at: (u64, u64)) -> rusqlite::Result<Position> {
        self.write_usage()?;
        self.transaction.execute("UPDATE meta SET revision = ?1", [self.revision])?;
        let (segment, offset) = (signed(at.0), signed(at.1));
        let upsert = "INSERT INTO journal VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET segment = ?2, position = ?3, run = ?4";
        self.transaction.prepare_cached(upsert)?.execute(params![
            journal.cast_signed(),
            segment,
            offset,
            self.run
        ])?;
        Ok(Position { segment: at.0, offset: at.1, run: self.run })
    }

    /// Writes the use gathered so far.
    fn write_usage(&mut self) -> rusqlite::Result<()> {
        for (key, usage) in std::mem::take(&mut self.usage) {
            self.revision += 1;
            let upsert = "INSERT INTO usage VALUES (:hour, :node, :user, :proof, :link, :protocol, :begun, :octets, :packets, \
                          :drops, :reserved, :revision) \
                          ON CONFLICT DO UPDATE SET begun = begun + :begun, octets = octets + :octets, \
                          packets = packets + :packets, drops = drops + :drops, \
                          reserved_octets = reserved_octets + :reserved, revision = :revision";
            self.transaction.prepare_cached(upsert)?.execute(named_params! {
                ":hour": key.hour_ms,
                ":node": self.node,
                ":user": key.user,
                ":proof": key.proof,
                ":link": key.link,
                ":protocol": key.protocol,
                ":begun": usage.begun,
                ":octets": signed(usage.counts.octets),
                ":packets": signed(usage.counts.packets),
                ":drops": signed(usage.counts.drops),
                ":reserved": usage.reserved_octets,
                ":revision": self.revision,
            })?;
        }
        Ok(())
    }

    fn started(&mut self, at_ms: i64, node: &str) -> rusqlite::Result<()> {
        // Use so far is of the node before, which the settings may have renamed.
        self.write_usage()?;
        let insert = "INSERT INTO run (node, started_ms) VALUES (?1, ?2)";
        self.transaction.execute(insert, params![node, at_ms])?;
        self.run = self.transaction.last_insert_rowid();
        node.clone_into(&mut self.node);
        Ok(())
    }

    fn adopted(&mut self, flow: &FlowKey) -> rusqlite::Result<()> {
        let update = "UPDATE reservation SET run = ?1, number = -id WHERE ended_ms IS NULL AND node = ?2 AND flow = ?3 AND run <> ?1 \
                      AND (?4 IS NULL OR protocol = ?4)";
        let mut statement = self.transaction.prepare_cached(update)?;
        statement.execute(params![self.run, self.node, flow_text(flow), flow.protocol]).map(drop)
    }

    /// Ends the open reservations of earlier runs, at the time of their last record.
    fn adopted_all(&mut self) -> rusqlite::Result<()> {
        // Each row gets a revision of its own.
        let update = "UPDATE reservation SET ended_ms = seen_ms, end_reason = ?1, revision = ?2 + id \
                      WHERE ended_ms IS NULL AND node = ?3 AND run <> ?4";
        let mut statement = self.transaction.prepare_cached(update)?;
        statement.execute(params![UNKNOWN_END, self.revision, self.node, self.run])?;
        let last = "SELECT coalesce(max(id), 0) FROM reservation";
        self.revision += self.transaction.query_row(last, [], |row| row.get::<_, i64>(0))?;
        Ok(())
    }

    fn numbered(&self, number: u64) -> rusqlite::Result<Option<Open>> {
        let select = format!("{OPEN} run = ?1 AND number = ?2");
        let mut statement = self.transaction.prepare_cached(&select)?;
        statement.query_row([self.run, signed(number)], Open::read).optional()
    }

    /// Returns the reservation of an adopted flow that waits to be claimed.
    fn waiting(&self, flow: &FlowKey) -> rusqlite::Result<Option<Open>> {
        let select = format!(
            "{OPEN} node = ?1 AND flow = ?2 AND run = ?3 AND number < 0 AND (?4 IS NULL OR protocol = ?4) LIMIT 1"
        );
        let mut statement = self.transaction.prepare_cached(&select)?;
        let key = params![self.node, flow_text(flow), self.run, flow.protocol];
        statement.query_row(key, Open::read).optional()
    }

    fn begun(
        &mut self,
        number: u64,
        at_ms: i64,
        flow: &FlowKey,
        counts: Counts,
        reservation: &Reservation,
    ) -> rusqlite::Result<()> {
        if let Some(open) = self.numbered(number)? {
            self.used(&open, at_ms, counts)?;
            return self.describe(open.id, reservation);
        }
        if let Some(open) = self.waiting(flow)? {
            self.used(&open, at_ms, counts)?;
            let update = "UPDATE reservation SET number = ?1 WHERE id = ?2";
            self.transaction.prepare_cached(update)?.execute([signed(number), open.id])?;
            return self.describe(open.id, reservation);
        }
        self.revision += 1;
        let insert = "INSERT INTO reservation (node, protocol, link, destination, destination_port, ip_protocol, dscp, senders, \
                      style, service, user_name, proof, rate_bps, begun_ms, seen_ms, octets, packets, drops, reserved_octets, \
                      revision, run, number, flow, counted_octets, counted_packets, counted_drops) \
                      VALUES (:node, :protocol, :link, :destination, :port, :ip_protocol, :dscp, :senders, :style, :service, \
                      :user, :proof, :rate, :at, :at, 0, 0, 0, 0, :revision, :run, :number, :flow, :octets, :packets, :drops)";
        let (user, proof) = user_of(reservation);
        self.transaction.prepare_cached(insert)?.execute(named_params! {
            ":node": self.node,
            ":protocol": reservation.protocol,
            ":link": reservation.link,
            ":destination": reservation.destination.to_string(),
            ":port": reservation.destination_port,
            ":ip_protocol": reservation.ip_protocol,
            ":dscp": reservation.dscp,
            ":senders": senders_text(reservation),
            ":style": reservation.style,
            ":service": reservation.service,
            ":user": user,
            ":proof": proof,
            ":rate": signed(reservation.rate_bps),
            ":at": at_ms,
            ":revision": self.revision,
            ":run": self.run,
            ":number": signed(number),
            ":flow": flow_text(flow),
            ":octets": signed(counts.octets),
            ":packets": signed(counts.packets),
            ":drops": signed(counts.drops),
        })?;
        let key = UsageKey {
            hour_ms: hour_of(at_ms),
            user: user.to_owned(),
            proof: proof.to_owned(),
            link: reservation.link.clone(),
            protocol: reservation.protocol.clone(),
        };
        self.usage.entry(key).or_default().begun += 1;
        Ok(())
    }

    /// Replaces what is known of a reservation but its use.
    fn describe(&mut self, id: i64, reservation: &Reservation) -> rusqlite::Result<()> {
        self.revision += 1;
        let update = "UPDATE reservation SET senders = ?1, style = ?2, service = ?3, user_name = ?4, proof = ?5, rate_bps = ?6, \
                      revision = ?7 WHERE id = ?8";
        let (user, proof) = user_of(reservation);
        let rate = signed(reservation.rate_bps);
        let (senders, style) = (senders_text(reservation), &reservation.style);
        let service = &reservation.service;
        self.transaction
            .prepare_cached(update)?
            .execute(params![senders, style, service, user, proof, rate, self.revision, id])
            .map(drop)
    }

    fn used(&mut self, open: &Open, at_ms: i64, counts: Counts) -> rusqlite::Result<()> {
        self.revision += 1;
        let (new, reserved) = (counts.since(open.counted), open.reserved_until(at_ms));
        let update = "UPDATE reservation SET octets = octets + ?1, packets = packets + ?2, drops = drops + ?3, \
                      reserved_octets = reserved_octets + ?4, seen_ms = max(seen_ms, ?5), revision = ?6, counted_octets = ?7, \
                      counted_packets = ?8, counted_drops = ?9 WHERE id = ?10";
        self.transaction.prepare_cached(update)?.execute(params![
            signed(new.octets),
            signed(new.packets),
            signed(new.drops),
            reserved,
            at_ms,
            self.revision,
            signed(counts.octets),
            signed(counts.packets),
            signed(counts.drops),
            open.id,
        ])?;
        let key = UsageKey {
            hour_ms: hour_of(at_ms),
            user: open.user.clone(),
            proof: open.proof.clone(),
            link: open.link.clone(),
            protocol: open.protocol.clone(),
        };
        let usage = self.usage.entry(key).or_default();
        usage.counts = usage.counts.plus(new);
        usage.reserved_octets = usage.reserved_octets.saturating_add(reserved);
        Ok(())
    }

    fn ended(
        &mut self,
        open: &Open,
        at_ms: i64,
        reason: &str,
        counts: Option<Counts>,
    ) -> rusqlite::Result<()> {
        self.used(open, at_ms, counts.unwrap_or(open.counted))?;
        let update =
            "UPDATE reservation SET ended_ms = max(?1, begun_ms), end_reason = ?2 WHERE id = ?3";
        self.transaction.prepare_cached(update)?.execute(params![at_ms, reason, open.id]).map(drop)
    }
}

/// Converts a number for a database, which has no larger ones.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn hour_of(at_ms: i64) -> i64 {
    at_ms - at_ms.rem_euclid(HOUR_MS)
}

fn flow_text(key: &FlowKey) -> String {
    let flow = serde_json::to_string(&key.flow).unwrap_or_default();
    format!("{} {flow}", key.link)
}

fn senders_text(reservation: &Reservation) -> String {
    serde_json::to_string(&reservation.senders).unwrap_or_default()
}

fn user_of(reservation: &Reservation) -> (&str, &str) {
    reservation.user.as_ref().map_or(("", ""), |user| (&user.name, &user.proof))
}
