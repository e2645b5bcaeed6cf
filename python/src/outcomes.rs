//! Outcomes of runs, as JSON and as Arrow tables.
//!
//! A table is exported through the Arrow PyCapsule interface, without a copy: pyarrow, polars, pandas and DuckDB read it
//! from there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use earmark_scenario::Outcome;
use earmark_scenario::tables::{self, Cell, Column, Kind, TABLES};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Outcomes of runs.
#[pyclass(frozen, module = "earmark._earmark")]
pub(crate) struct Outcomes {
    runs: Vec<Arc<Run>>,
}

/// Outcome of a run, and its line of JSON.
struct Run {
    json: String,
    outcome: Outcome,
}

impl Outcomes {
    pub(crate) fn of(outcome: Outcome) -> PyResult<Outcomes> {
        let json = serde_json::to_string(&outcome)
            .map_err(|why| PyRuntimeError::new_err(why.to_string()))?;
        Ok(Outcomes { runs: vec![Arc::new(Run { json, outcome })] })
    }
}

#[pymethods]
impl Outcomes {
    /// Reads a line of JSON, as `earmark-lab simulate --json` prints it.
    #[staticmethod]
    fn from_json(json: String) -> PyResult<Outcomes> {
        let outcome = serde_json::from_str::<Outcome>(&json).map_err(|why| {
            PyValueError::new_err(format!("no outcome of this version of Earmark: {why}"))
        })?;
        Ok(Outcomes { runs: vec![Arc::new(Run { json, outcome })] })
    }

    /// Joins outcomes.
    #[staticmethod]
    fn concatenate(parts: Vec<PyRef<'_, Outcomes>>) -> Outcomes {
        Outcomes { runs: parts.iter().flat_map(|part| part.runs.iter().cloned()).collect() }
    }

    /// Returns the line of JSON of each outcome, as `earmark-lab simulate --json` prints it.
    fn json(&self) -> Vec<&str> {
        self.runs.iter().map(|run| run.json.as_str()).collect()
    }

    /// Returns a table by its name. `swept` are columns before its own: a name, and a value for each run.
    #[pyo3(signature = (name, swept=None))]
    fn table(&self, name: &str, swept: Option<Vec<(String, SweptValues)>>) -> PyResult<Table> {
        let table = find(name)?;
        let mut columns: Vec<Builder> =
            table.columns.iter().map(|column| Builder::of(column.kind)).collect();
        let mut run_of_row = Vec::new();
        for (index, run) in self.runs.iter().enumerate() {
            table.rows(std::slice::from_ref(&run.outcome), |row| {
                run_of_row.push(index);
                columns.iter_mut().zip(row).for_each(|(column, cell)| column.append(*cell));
            });
        }
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (name, swept) in swept.unwrap_or_default() {
            let array = swept.of_rows(&run_of_row).ok_or_else(|| {
                PyValueError::new_err(format!("`{name}` does not have a value for each run"))
            })?;
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        fields.extend(table.columns.iter().map(field));
        arrays.extend(columns.into_iter().map(Builder::finish));
        let schema = Arc::new(Schema::new(fields));
        Ok(Table { batch: RecordBatch::try_new(schema, arrays).map_err(of_arrow)? })
    }
}

/// Values of a swept key, one for each run. The first kind is taken that has all of them.
#[derive(FromPyObject)]
enum SweptValues {
    Flags(Vec<bool>),
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Texts(Vec<String>),
}

impl SweptValues {
    /// Returns the column of a table whose rows belong to these runs; `None` if a run has no value.
    fn of_rows(&self, runs: &[usize]) -> Option<ArrayRef> {
        fn pick<T: Clone, A: FromIterator<Option<T>> + Array + 'static>(
            values: &[T],
            runs: &[usize],
        ) -> Option<ArrayRef> {
            let rows = runs.iter().map(|run| values.get(*run).cloned().map(Some));
            rows.collect::<Option<A>>().map(|column| Arc::new(column) as ArrayRef)
        }
        match self {
            SweptValues::Flags(values) => pick::<_, BooleanArray>(values, runs),
            SweptValues::Integers(values) => pick::<_, Int64Array>(values, runs),
            SweptValues::Numbers(values) => pick::<_, Float64Array>(values, runs),
            SweptValues::Texts(values) => pick::<_, StringArray>(values, runs),
        }
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
