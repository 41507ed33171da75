//! `agree` beside a slurmstepd that is played: 999 other nodes have told their words, by PMI-1 as Slurm's pmi1.c speaks it.

use super::{printed, tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Output, Stdio};
use std::thread;
use std::time::Instant;

const NODES: usize = 1000;

/// What a node like a DGX H100 says.
fn word(rank: usize) -> Value {
    let report: Value = serde_json::from_str(&printed(&[
        "check",
        "--machine",
        "dgx-h100",
        "--json",
        "--off",
        "pcie-link",
    ]))
    .expect("a report");
    json!({"host": format!("gpu{rank:04}"), "agreement": report["agreement"]})
}

/// Answers one task as slurmstepd does, whose own puts count like those of `others`; returns what it put.
fn play(stream: UnixStream, others: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (mut told, mut writer) = (BTreeMap::new(), stream.try_clone().unwrap());
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        assert!(line.len() < 1024, "Slurm reads no more at once");
        let value = |key: &str| {
            line.split(' ')
                .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
                .unwrap_or("")
        };
        let answer = match value("cmd") {
            "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".to_string(),
            "get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=7.0".to_string(),
            "put" => {
                told.insert(value("key").to_string(), value("value").to_string());
                "cmd=put_result rc=0".to_string()
            }
            "barrier_in" => "cmd=barrier_out rc=0".to_string(),
            "get" => match told.get(value("key")).or(others.get(value("key"))) {
                Some(value) => format!("cmd=get_result rc=0 value={value}"),
                None => "cmd=get_result rc=1".to_string(),
            },
            "finalize" => "cmd=finalize_ack rc=0".to_string(),
            other => panic!("`{other}` is no request that Slurm answers"),
        };
        writer.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
    told
}

fn agree(rank: usize, others: &BTreeMap<String, String>) -> (Output, BTreeMap<String, String>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = tool();
    command
        .arg("agree")
        .env("PMI_FD", "0")
        .env("PMI_RANK", rank.to_string())
        .env("PMI_SIZE", NODES.to_string());
    command
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // the command keeps its copy of the child's socket until then
    drop(command);
    thread::scope(|scope| {
        let told = scope.spawn(|| play(ours, others));
        (child.wait_with_output().unwrap(), told.join().unwrap())
    })
}

/// As a task tells it: in parts, each behind the number of those that are left.
fn parts(rank: usize, word: &Value) -> impl Iterator<Item = (String, String)> {
    let text = word.to_string().replace(' ', "\\u0020");
    let parts: Vec<String> = text
        .as_bytes()
        .chunks(700)
        .map(|part| String::from_utf8(part.to_vec()).unwrap())
        .collect();
    let last = parts.len() - 1;
    let of = move |(part, text): (usize, String)| {
        (
            format!("nicp.{rank}.{part}"),
            format!("{:02}{text}", last - part),
        )
    };
    parts.into_iter().enumerate().map(of)
}

#[test]
fn of_a_thousand_nodes_those_that_differ_are_named_by_the_first_task_alone() {
    let usual = word(0);
    let mut others = BTreeMap::new();
    for rank in 1..NODES {
        let mut word = usual.clone();
        word["host"] = json!(format!("gpu{rank:04}"));
        let agreement = &mut word["agreement"];
        if [17, 18].contains(&rank) {
            let lost = agreement["rails"].as_array_mut().unwrap().remove(3);
            let left_out = json!({"nic": lost["nic"], "why": "its port is down"});
            agreement["left_out"].as_array_mut().unwrap().push(left_out);
        }
        if rank == 640 {
            agreement["rails"].as_array_mut().unwrap().swap(0, 1);
        }
        others.extend(parts(rank, &word));
    }
    let start = Instant::now();
    let (output, told) = agree(0, &others);
    println!("{NODES} nodes in {:?}", start.elapsed());
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{page}");
    // this machine itself is none of these
    assert!(page.starts_with("996 of 1000 nodes agree: "), "{page}");
    for line in [
        "gpu[0017-0018] (2 nodes)\n    mlx5_5:1 is left out: its port is down\n    do   for this job: --exclude=gpu[0017-0018]\n",
        "gpu0640\n    its rails are in another order: mlx5_3:1 mlx5_0:1 ",
        "    do   in /etc/nic-placement.conf: NodeName=gpu0640 rails=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11\n",
    ] {
        assert!(page.contains(line), "no `{line}` in {page}");
    }
    assert!(
        told.keys().all(|key| key.starts_with("nicp.0.")),
        "{told:?}"
    );

    let (second, told) = agree(1, &BTreeMap::new());
    assert_eq!(
        (
            second.status.code(),
            second.stdout.as_slice(),
            second.stderr.as_slice()
        ),
        (Some(0), &b""[..], &b""[..])
    );
    assert!(
        told.keys().all(|key| key.starts_with("nicp.1.")),
        "{told:?}"
    );
}

#[test]
fn a_task_that_told_nothing_or_nonsense_is_named() {
    for nonsense in [None, Some("00{\"host\":3}"), Some("99"), Some("x")] {
        let mut others: BTreeMap<String, String> = (1..NODES)
            .flat_map(|rank| parts(rank, &json!(null)))
            .collect();
        others.extend(nonsense.map(|text| ("nicp.1.0".to_string(), text.to_string())));
        if nonsense.is_none() {
            others.remove("nicp.1.0");
        }
        let (output, _) = agree(0, &others);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(1), &b""[..]),
            "{said}"
        );
        assert!(
            said.contains("task 1 told nothing that can be read") || said.contains("Slurm's PMI: "),
            "{said}"
        );
    }
}

#[test]
fn rails_in_reports_of_check_are_compared_by_audit() {
    let report: Value =
        serde_json::from_str(&printed(&["check", "--machine", "dgx-h100", "--json"])).unwrap();
    let with = |host: &str| {
        let mut report = report.clone();
        report["host"] = json!(host);
        report
    };
    let place = super::Place::new("agree");
    let (alike, odd) = (place.0.join("alike.json"), place.0.join("odd.json"));
    std::fs::write(&alike, format!("{:#}\n{:#}\n", with("n1"), with("n2"))).unwrap();
    let mut other = with("n3");
    let word = &mut other["agreement"];
    let lost = word["rails"].as_array_mut().unwrap().remove(0);
    let left_out = json!({"nic": lost["nic"], "why": "its port is down"});
    word["left_out"].as_array_mut().unwrap().push(left_out);
    std::fs::write(&odd, format!("{other:#}\n")).unwrap();
    let (alike, odd) = (alike.to_str().unwrap(), odd.to_str().unwrap());
    assert_eq!(super::run(&["audit", alike]).status.code(), Some(0));
    let both = super::run(&["audit", alike, odd]);
    assert_eq!(both.status.code(), Some(1));
    let page = String::from_utf8(both.stdout).unwrap();
    assert!(page.contains("\n  n3\n    left out: "), "{page}");
    assert!(page.contains("\n    rails: "), "{page}");
    let gone = super::run(&["agree", alike]);
    assert_eq!(gone.status.code(), Some(1));
    let said = String::from_utf8(gone.stderr).unwrap();
    assert!(said.contains("`nic-placement audit FILE…`"), "{said}");
}
