//! The text format of Prometheus, as the textfile collector of the node exporter reads it.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>: each metric has one HELP and one TYPE line, then its
//! samples.  A value of a label may hold anything; backslash, quote and line end are escaped.
#![forbid(unsafe_code)]

use std::fmt::Write;

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// goes up and down
    Gauge,
    /// only grows; its name ends with `_total`
    Counter,
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// its name
    pub name: &'static str,
    /// what it says
    pub help: &'static str,
    /// what it is
    pub kind: Kind,
    /// none: the metric is not written
    pub samples: Vec<Sample>,
}

/// Labels and a value.
pub type Sample = (Vec<(&'static str, String)>, u64);

impl Metric {
    /// A gauge.
    pub fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
        Metric { name, help, kind: Kind::Gauge, samples }
    }

    /// A counter.
    pub fn counter(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
        Metric { name, help, kind: Kind::Counter, samples }
    }
}

/// The whole text.
pub fn write(metrics: &[Metric]) -> String {
    let mut out = String::new();
    for Metric { name, help, kind, samples } in metrics.iter().filter(|metric| !metric.samples.is_empty()) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        // writing to a string cannot fail
        let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", help.replace('\\', "\\\\"));
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let _ = match labels.is_empty() {
                true => writeln!(out, "{name} {value}"),
                false => writeln!(out, "{name}{{{}}} {value}", labels.join(",")),
            };
        }
    }
    out
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
