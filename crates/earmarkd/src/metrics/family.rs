//! Families of samples, as the event loop passes them to the endpoint.

use super::histogram::Histogram;

/// A family of samples, which have the same name.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// Name without the suffix of the kind.
    pub(crate) name: String,
    /// What the samples are.
    pub(crate) help: String,
    /// Kind of the samples.
    pub(crate) kind: FamilyKind,
    /// The samples, each with labels of its own.
    pub(crate) samples: Vec<Sample>,
}

/// Kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FamilyKind {
    /// Numbers that only grow.
    Counter,
    /// Values that rise and fall.
    Gauge,
    /// Histograms of seconds.
    Histogram,
}

/// A sample of a family.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Names and values of the labels.
    pub(crate) labels: Vec<(&'static str, String)>,
    /// The value.
    pub(crate) value: Value,
}

/// Value of a sample.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Value of a counter.
    Count(u64),
    /// Value of a counter of seconds.
    Seconds(f64),
    /// Value of a gauge.
    Number(f64),
    /// Value of a histogram.
    Histogram(Box<Histogram>),
}

impl Family {
    /// Creates a family of counters.
    pub(crate) fn counters(name: impl Into<String>, help: impl Into<String>) -> Family {
        Family {
            name: name.into(),
            help: help.into(),
            kind: FamilyKind::Counter,
            samples: Vec::new(),
        }
    }

    /// Creates a family of gauges.
    pub(crate) fn gauges(name: impl Into<String>, help: impl Into<String>) -> Family {
        Family { kind: FamilyKind::Gauge, ..Family::counters(name, help) }
    }

    /// Creates a family of histograms.
    pub(crate) fn histograms(name: impl Into<String>, help: impl Into<String>) -> Family {
        Family { kind: FamilyKind::Histogram, ..Family::counters(name, help) }
    }

    /// Adds a counter.
    pub(crate) fn count(&mut self, labels: Vec<(&'static str, String)>, count: u64) {
        self.samples.push(Sample { labels, value: Value::Count(count) });
    }

    /// Adds a counter of seconds.
    pub(crate) fn seconds(&mut self, seconds: f64) {
        self.samples.push(Sample { labels: Vec::new(), value: Value::Seconds(seconds) });
    }

    /// Adds a gauge.
    pub(crate) fn number(&mut self, labels: Vec<(&'static str, String)>, number: f64) {
        self.samples.push(Sample { labels, value: Value::Number(number) });
    }

    /// Adds a histogram.
    pub(crate) fn histogram(&mut self, labels: Vec<(&'static str, String)>, histogram: &Histogram) {
        let value = Value::Histogram(Box::new(histogram.clone()));
        self.samples.push(Sample { labels, value });
    }
}
