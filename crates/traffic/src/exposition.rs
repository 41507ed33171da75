//! The text format of Prometheus, as the textfile collector of the node exporter reads it.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>: each metric has one HELP and one TYPE line, then its
//! samples.  A value of a label may hold anything; backslash, quote and line end are escaped.

/// Labels, and a value.
type Sample = (Vec<(&'static str, String)>, u64);

/// A gauge, which goes up and down: its name, its help without a backslash, and samples; without one it is not written.
pub struct Metric(&'static str, &'static str, Vec<Sample>);

impl Metric {
    pub fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
        Metric(name, help, samples)
    }
}

pub fn write(metrics: &[Metric]) -> String {
    let mut out = String::new();
    for Metric(name, help, samples) in metrics.iter().filter(|of| !of.2.is_empty()) {
        out += &format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
        for (labels, value) in samples {
            let labels = labels.iter().map(|(label, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                format!("{label}=\"{}\"", value.replace('\n', "\\n"))
            });
            out += &match labels.collect::<Vec<_>>().join(",") {
                none if none.is_empty() => format!("{name} {value}\n"),
                labels => format!("{name}{{{labels}}} {value}\n"),
            };
        }
    }
    out
}
