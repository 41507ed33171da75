//! The alert rules of packaging/prometheus, on the metrics that the commands write: a metric with another name fails here.

use super::super::refresh::textfile;
use super::super::{request::whole_node, verify};
use nic_placement_core::config::Admin;
use nic_placement_core::topology::PortState;
use nic_placement_node::platform::model;
use nic_placement_traffic::exposition::write;
use nic_placement_traffic::report::NodeReport;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `refresh --textfile` writes, with the rail `mlx5_4` up or down.
fn of_ports(state: PortState) -> String {
    let mut node = model("dgx-h100").unwrap();
    let mut nics = node.nics.iter_mut();
    let nic = nics.find(|nic| nic.name == "mlx5_4").unwrap();
    nic.ports[0].state = state;
    let plan = whole_node(node, Admin::default()).unwrap();
    write(&textfile::metrics(&plan))
}

/// What `verify --textfile` writes of a job with two tasks of these verdicts.
fn of_tasks(verdicts: [&str; 2]) -> String {
    let task = |verdict| {
        json!({"job": 1234, "step": 0, "processes": [], "gpus": [], "is_placed": true, "planned": [], "used": [],
            "verdict": verdict, "changed": [], "cpus": {"threads": 1, "far": 0}})
    };
    let tasks = serde_json::from_value(json!(verdicts.map(task))).unwrap();
    write(&[verify::metric(&NodeReport::new("n1".to_string(), tasks))])
}

/// Samples for an hour, as Prometheus has them from the node exporter of `n1`.
fn series(texts: &[String]) -> Vec<Value> {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        json!({"series": format!("{name}{{instance=\"n1\",{labels}"), "values": format!("{value}+0x60")})
    };
    let lines = texts.iter().flat_map(|text| text.lines());
    let samples = lines.filter(|line| !line.starts_with('#'));
    samples.map(sample).collect()
}

/// promtool's answer; `None` without a promtool.
pub(in crate::commands) fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut promtool = Command::new("promtool");
    promtool.args(arguments).stdin(Stdio::piped());
    promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = promtool.spawn() else {
        println!("skipped: there is no `promtool`: tests/exec/install.sh");
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Some((output.status.success(), said))
}

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus/nic-placement.rules.yml")
}

#[test]
fn the_rules_ask_for_metrics_that_are_written() {
    let written = [of_ports(PortState::Down), of_tasks(["far", "far"])].concat();
    let rules = std::fs::read_to_string(rules()).unwrap();
    let word = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
    let lines = rules.lines().map(str::trim);
    let asked = lines.filter_map(|line| line.strip_prefix("expr: "));
    let mut asked = Vec::from_iter(asked.flat_map(|line| line.split(word)));
    asked.retain(|word| word.starts_with("nic_placement_"));
    assert_eq!(asked.len(), 2);
    for metric in asked {
        let head = format!("# TYPE {metric} gauge\n");
        assert!(written.contains(&head), "{metric}: {written}");
    }
}

#[test]
fn each_alert_comes_with_its_cause_and_not_without() {
    let alert = |name: &str, minute: u32, alerts: Value| json!({"eval_time": format!("{minute}m"), "alertname": name, "exp_alerts": alerts});
    let sick = [of_ports(PortState::Down), of_tasks(["far", "as-planned"])];
    let well = of_tasks(["nearer-exists", "as-near"]);
    let well = [of_ports(PortState::Active), well];
    let port = json!({"exp_labels": {"severity": "warning", "instance": "n1", "device": "mlx5_4", "port": "1"},
        "exp_annotations": {"summary": "port mlx5_4:1 of n1 is down, or much slower than the others",
            "description": "GPUs would use it if it worked. `nic-placement check` on the node says what is wrong."}});
    let tasks = json!({"exp_labels": {"severity": "info", "jobid": "1234"}, "exp_annotations": {
        "summary": "tasks of job 1234 that use a NIC of the other socket, though a nearer one is there: 1",
        "description": "`nic-placement verify --job 1234` on its nodes says which tasks."}});
    let [down, far] = ["NicPlacementPortDown", "NicPlacementTasksFar"];
    let tests = json!({"rule_files": [rules()], "evaluation_interval": "1m", "tests": [
        {"interval": "1m", "input_series": series(&sick), "alert_rule_test": [
            alert(down, 3, json!([])), alert(down, 6, json!([port])),
            alert(far, 8, json!([])), alert(far, 12, json!([tasks]))]},
        {"interval": "1m", "input_series": series(&well), "alert_rule_test": [
            alert(down, 30, json!([])), alert(far, 30, json!([]))]},
    ]});
    let name = format!("nic-placement-alerts-{}.yml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, tests.to_string()).unwrap();
    let answer = promtool(&["test", "rules", file.to_str().unwrap()], "");
    std::fs::remove_file(&file).unwrap();
    if let Some((is_good, said)) = answer {
        assert!(is_good && said.contains("SUCCESS"), "{said}");
        let said = promtool(&["check", "metrics"], &sick.concat()).unwrap();
        assert_eq!(said, (true, String::new()));
    }
}
