//! Outcomes of runs, as JSON and as Arrow tables.
//!
//! A table is exported through the Arrow PyCapsule interface, without a copy: pyarrow, polars, pandas and DuckDB read it
//! from there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use earmark_scenario::Outcome;
use earmark_scenario::tables::{self, Cell, Column, Kind, TABLES};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Outcomes of runs.
#[pyclass(frozen, module = "earmark._earmark")]
pub(crate) struct Outcomes {
    outcomes: Vec<Arc<Outcome>>,
}

impl Outcomes {
    pub(crate) fn of(outcome: Outcome) -> Outcomes {
        Outcomes { outcomes: vec![Arc::new(outcome)] }
    }
}

#[pymethods]
impl Outcomes {
    /// Joins outcomes.
    #[staticmethod]
    fn concatenate(parts: Vec<PyRef<'_, Outcomes>>) -> Outcomes {
        Outcomes { outcomes: parts.iter().flat_map(|part| part.outcomes.iter().cloned()).collect() }
    }

    /// Returns a line of JSON for each outcome, as `earmark-lab simulate --json` prints it.
    fn json(&self) -> PyResult<Vec<String>> {
        let lines = self.outcomes.iter().map(|outcome| serde_json::to_string(&**outcome));
        lines.collect::<Result<_, _>>().map_err(|why| PyRuntimeError::new_err(why.to_string()))
    }

    /// Returns a table by its name.
    fn table(&self, name: &str) -> PyResult<Table> {
        let table = find(name)?;
        let mut columns: Vec<Builder> =
            table.columns.iter().map(|column| Builder::of(column.kind)).collect();
        for outcome in &self.outcomes {
            table.rows(std::slice::from_ref(&**outcome), |row| {
                columns.iter_mut().zip(row).for_each(|(column, cell)| column.append(*cell));
            });
        }
        let arrays = columns.into_iter().map(Builder::finish).collect();
        let schema = Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()));
        Ok(Table { batch: RecordBatch::try_new(schema, arrays).map_err(of_arrow)? })
    }
}

/// Returns the names, units and meanings of the columns of a table.
#[pyfunction]
pub(crate) fn columns(
    table: &str,
) -> PyResult<Vec<(&'static str, Option<&'static str>, &'static str)>> {
    let columns = find(table)?.columns.iter();
    Ok(columns.map(|column| (column.name, column.unit, column.meaning)).collect())
}

fn find(name: &str) -> PyResult<&'static tables::Table> {
    TABLES.iter().find(|table| table.name == name).ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        PyKeyError::new_err(format!("no table `{name}`; there are {}", names.join(", ")))
    })
}

/// A table in Arrow's memory layout.
#[pyclass(frozen, module = "earmark._earmark")]
pub(crate) struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    /// Exports the rows (Arrow PyCapsule interface). A requested schema is not followed, which the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let (rows, schema) = (self.batch.clone(), self.batch.schema());
        let reader = RecordBatchIterator::new([Ok::<_, ArrowError>(rows)], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Exports the schema (Arrow PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.batch.schema()).map_err(of_arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Units of the columns by name: `s`, `bit/s`, `packet`, or `None`.
    #[getter]
    fn units(&self) -> BTreeMap<String, Option<String>> {
        let schema = self.batch.schema();
        let unit =
            |field: &Arc<Field>| (field.name().clone(), field.metadata().get("unit").cloned());
        schema.fields().iter().map(unit).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Table of {} rows: {}>", self.batch.num_rows(), self.column_names().join(", "))
    }
}

fn field(column: &Column) -> Field {
    let kind = match column.kind {
        Kind::Text => DataType::Utf8,
        Kind::Integer => DataType::UInt64,
        Kind::Number => DataType::Float64,
        Kind::Flag => DataType::Boolean,
    };
    let mut metadata = vec![("meaning".to_owned(), column.meaning.to_owned())];
    metadata.extend(column.unit.map(|unit| ("unit".to_owned(), unit.to_owned())));
    Field::new(column.name, kind, true)
        .with_metadata(metadata.into_iter().collect::<HashMap<_, _>>())
}

/// Values of a column.
enum Builder {
    Text(StringBuilder),
    Integer(UInt64Builder),
    Number(Float64Builder),
    Flag(BooleanBuilder),
}

impl Builder {
    fn of(kind: Kind) -> Builder {
        match kind {
            Kind::Text => Builder::Text(StringBuilder::new()),
            Kind::Integer => Builder::Integer(UInt64Builder::new()),
            Kind::Number => Builder::Number(Float64Builder::new()),
            Kind::Flag => Builder::Flag(BooleanBuilder::new()),
        }
    }

    /// Appends a value; one of another kind is left out.
    fn append(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Builder::Text(column), Cell::Text(text)) => column.append_value(text),
            (Builder::Text(column), _) => column.append_null(),
            (Builder::Integer(column), Cell::Integer(number)) => column.append_value(number),
            (Builder::Integer(column), _) => column.append_null(),
            (Builder::Number(column), Cell::Number(number)) => column.append_value(number),
            (Builder::Number(column), _) => column.append_null(),
            (Builder::Flag(column), Cell::Flag(flag)) => column.append_value(flag),
            (Builder::Flag(column), _) => column.append_null(),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Builder::Text(mut column) => Arc::new(column.finish()),
            Builder::Integer(mut column) => Arc::new(column.finish()),
            Builder::Number(mut column) => Arc::new(column.finish()),
            Builder::Flag(mut column) => Arc::new(column.finish()),
        }
    }
}

fn of_arrow(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
