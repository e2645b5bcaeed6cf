//! CSV files of outcomes, one for each of their tables.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use earmark_scenario::Outcome;
use earmark_scenario::tables::{Cell, TABLES, Table};

/// Writes `runs.csv`, `flows.csv`, `attempts.csv` and `rates.csv` into a directory, which is created if it is
/// missing; each has a header line, even without rows.
///
/// # Errors
/// A failed write, with the name of the file.
pub fn write_tables(directory: &Path, outcomes: &[Outcome]) -> Result<()> {
    let make = || format!("cannot make {}", directory.display());
    std::fs::create_dir_all(directory).with_context(make)?;
    for table in &TABLES {
        let file = directory.join(table.name).with_extension("csv");
        write(&file, table, outcomes)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn write(file: &Path, table: &Table, outcomes: &[Outcome]) -> Result<()> {
    let mut out = csv::Writer::from_writer(File::create(file)?);
    out.write_record(table.columns.iter().map(|column| column.name))?;
    let mut result = Ok(());
    table.rows(outcomes, |row| {
        if result.is_ok() {
            result = out.serialize(row.iter().map(Field).collect::<Vec<_>>());
        }
    });
    result?;
    Ok(out.flush()?)
}

/// A cell in a file.
struct Field<'r, 'a>(&'r Cell<'a>);

impl serde::Serialize for Field<'_, '_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self.0 {
            Cell::Text(text) => text.serialize(serializer),
            Cell::Integer(number) => number.serialize(serializer),
            Cell::Number(number) => number.serialize(serializer),
            Cell::Flag(flag) => flag.serialize(serializer),
            Cell::Empty => serializer.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes;
    use super::*;

    #[test]
    fn tables_are_joined_by_seed_and_flow() {
        let directory = std::env::temp_dir().join(format!("earmark-tables-{}", std::process::id()));
        write_tables(&directory, &outcomes()).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
        let [runs, flows, attempts, rates] =
            ["runs.csv", "flows.csv", "attempts.csv", "rates.csv"].map(read);
        write_tables(&directory, &[]).unwrap();
        let empty = read("flows.csv");
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(
            runs,
            "scenario,seed,events,attempts,retries,refused_retries,served,fragmented,wanted,completed,\
             wait_quartile_s,wait_median_s,wait_upper_quartile_s,interruptions,recoveries,\
             recovery_median_s,signalling_packets,signalling_octets\n\
             \"a, b\",1,100,10,4,2,0.5,0.125,5,3,0.5,1.0,2.0,3,2,1.5,70,7000\n\
             \"a, b\",2,200,20,8,4,0.5,0.125,5,4,,,,0,0,,140,14000\n"
        );
        assert_eq!(
            flows,
            "seed,flow,flows,from,to,reserves_s,completed_after_s,retries,outcome,sent,arrived,lost,\
             delay_mean_s,delay_p50_s,delay_p99_s,delay_max_s,jitter_s,ipdv_s\n\
             1,0,test,h0,h1,1.5,2.25,1,whole,10,9,1,0.25,0.2,0.5,0.75,0.125,0.0625\n\
             2,0,test,h0,h1,1.5,,1,,10,9,1,,,,,,\n"
        );
        assert!(
            attempts.starts_with(
                "seed,flow,at_s,node,granted,available_bit_s\n1,0,1.5,h0,true,\n1,0,1.52,r1,false,20000\n"
            )
        );
        assert!(rates.ends_with("\n2,0,0,100000\n2,0,1,96000\n"), "{rates}");
        assert_eq!(empty.lines().count(), 1);
    }
}
