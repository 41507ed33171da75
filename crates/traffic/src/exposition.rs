//! The text format of Prometheus, as the textfile collector of the node exporter reads it.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>: each metric has one HELP and one TYPE line, then its
//! samples.  A value of a label may hold anything; backslash, quote and line end are escaped.

use std::fmt::Write;

pub struct Metric {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// `gauge`, which goes up and down, or `counter`, which only grows and whose name ends with `_total`
    pub(crate) kind: &'static str,
    /// none: the metric is not written
    pub(crate) samples: Vec<MetricSample>,
}

pub type MetricSample = (Vec<(&'static str, String)>, u64);

impl Metric {
    pub fn gauge(name: &'static str, help: &'static str, samples: Vec<MetricSample>) -> Metric {
        Metric {
            name,
            help,
            kind: "gauge",
            samples,
        }
    }

    pub fn counter(name: &'static str, help: &'static str, samples: Vec<MetricSample>) -> Metric {
        Metric {
            name,
            help,
            kind: "counter",
            samples,
        }
    }
}

pub fn write(metrics: &[Metric]) -> String {
    let mut out = String::new();
    for Metric {
        name,
        help,
        kind,
        samples,
    } in metrics.iter().filter(|metric| !metric.samples.is_empty())
    {
        let _ = writeln!(
            out,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            help.replace('\\', "\\\\")
        );
        for (labels, value) in samples {
            let labels: Vec<String> = labels
                .iter()
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                .collect();
            let _ = if labels.is_empty() {
                writeln!(out, "{name} {value}")
            } else {
                writeln!(out, "{name}{{{}}} {value}", labels.join(","))
            };
        }
    }
    out
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
