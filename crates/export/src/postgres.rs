//! Copies to PostgreSQL.

use earmark_history::export::Changes;
use postgres::{Client, Config, NoTls, Transaction};

/// Version of the schema that this program writes.
const VERSION: i64 = 1;
const SCHEMA: &str = include_str!("schema.sql");
/// Number of the lock under which one of many exporters creates the schema. Its digits mean nothing.
const CREATING: i64 = 0x6561_726d;

/// Why records cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The server cannot be reached, or refuses a statement.
    #[error("PostgreSQL: {0}")]
    Server(#[from] postgres::Error),
    /// Another version of this program has created the schema.
    #[error(
        "PostgreSQL: the schema `earmark` has version {0}, and this program knows version {VERSION}; install the version that fits"
    )]
    OtherSchema(i64),
}

/// A PostgreSQL database that gets the records of one router, and may have those of others.
pub struct Copy {
    client: Client,
    source: String,
}

impl Copy {
    /// Connects, and creates the schema `earmark` if it does not exist. `source` is the identity of the router's database.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or the schema is of another version.
    pub fn open(config: &Config, source: &str) -> Result<Copy, CopyError> {
        let mut client = config.connect(NoTls)?;
        let mut transaction = client.transaction()?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&CREATING])?;
        let exists = "SELECT to_regclass('earmark.meta') IS NOT NULL";
        if !transaction.query_one(exists, &[])?.get::<_, bool>(0) {
            transaction.batch_execute(SCHEMA)?;
        }
        let version = transaction.query_one("SELECT version FROM earmark.meta", &[])?.get(0);
        if version != VERSION {
            return Err(CopyError::OtherSchema(version));
        }
        transaction.commit()?;
        Ok(Copy { client, source: source.to_owned() })
    }

    /// Returns the revision up to which the records are copied.
    ///
    /// # Errors
    /// The server cannot be reached or refuses.
    pub fn revision(&mut self) -> Result<i64, CopyError> {
        let select = "SELECT revision FROM earmark.copied WHERE source = $1";
        let row = self.client.query_opt(select, &[&self.source])?;
        Ok(row.map_or(0, |row| row.get(0)))
    }

    /// Writes changes and how far they go, all or nothing.
    ///
    /// # Errors
    /// The server cannot be reached or refuses; nothing is written.
    pub fn write(&mut self, changes: &Changes) -> Result<(), CopyError> {
        let mut transaction = self.client.transaction()?;
        write_rows(&mut transaction, &self.source, changes)?;
        let copied = "INSERT INTO earmark.copied VALUES ($1, $2) ON CONFLICT (source) DO UPDATE SET revision = $2";
        transaction.execute(copied, &[&self.source, &changes.revision])?;
        Ok(transaction.commit()?)
    }
}

fn write_rows(to: &mut Transaction<'_>, source: &str, changes: &Changes) -> Result<(), CopyError> {
    if !changes.reservations.is_empty() {
        let upsert = to.prepare(
            "INSERT INTO earmark.reservation VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, \
             $18, $19, $20, $21) ON CONFLICT (source, id) DO UPDATE SET senders = $10, user_name = $11, proof = $12, \
             rate_bps = $13, seen_ms = $15, ended_ms = $16, end_reason = $17, octets = $18, packets = $19, drops = $20, \
             reserved_octets = $21",
        )?;
        for row in &changes.reservations {
            to.execute(
                &upsert,
                &[
                    &source,
                    &row.id,
                    &row.node,
                    &row.protocol,
                    &row.link,
                    &row.destination,
                    &row.destination_port,
                    &row.ip_protocol,
                    &row.dscp,
                    &row.senders,
                    &row.user,
                    &row.proof,
                    &row.rate_bps,
                    &row.begun_ms,
                    &row.seen_ms,
                    &row.ended_ms,
                    &row.end_reason,
                    &row.octets,
                    &row.packets,
                    &row.drops,
                    &row.reserved_octets,
                ],
            )?;
        }
    }
    if !changes.usage.is_empty() {
        let upsert = to.prepare(
            "INSERT INTO earmark.usage VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
             ON CONFLICT (source, hour_ms, node, user_name, proof, link, protocol) DO UPDATE \
             SET begun = $8, octets = $9, packets = $10, drops = $11, reserved_octets = $12",
        )?;
        for row in &changes.usage {
            let [begun, octets, packets, drops, reserved] = &row.numbers;
            to.execute(
                &upsert,
                &[
                    &source,
                    &row.hour_ms,
                    &row.node,
                    &row.user,
                    &row.proof,
                    &row.link,
                    &row.protocol,
                    begun,
                    octets,
                    packets,
                    drops,
                    reserved,
                ],
            )?;
        }
    }
    for gap in &changes.gaps {
        let upsert = "INSERT INTO earmark.gap VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        to.execute(upsert, &[&source, &gap.id, &gap.node, &gap.at_ms, &gap.records])?;
    }
    Ok(())
}
