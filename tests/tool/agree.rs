//! `agree` beside a slurmstepd that is played: 999 other nodes have told their words, by PMI-1 as Slurm's pmi1.c speaks it.

use super::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

const NODES: usize = 1000;

/// What a node like a DGX H100 says.
fn word(rank: usize) -> Value {
    let report = super::json("check --machine dgx-h100 --json --off pcie-link");
    json!({"host": format!("gpu{rank:04}"), "agreement": report["agreement"]})
}

/// One NIC of its rails is left out.
fn lose_a_rail(agreement: &mut Value, at: usize) {
    let lost = agreement["rails"].as_array_mut().unwrap().remove(at);
    let left_out = json!({"nic": lost["nic"], "why": "its port is down"});
    agreement["left_out"].as_array_mut().unwrap().push(left_out);
}

/// Answers one task as slurmstepd does, whose own puts count like those of `others`; returns what it put.
fn play(stream: UnixStream, others: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (mut told, mut writer) = (BTreeMap::new(), stream.try_clone().unwrap());
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        assert!(line.len() < 1024, "{line}");
        let value = |key: &str| {
            let mut words = line.split(' ');
            let found = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            found.unwrap_or("")
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
            other => panic!("`{other}`"),
        };
        writer.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
    told
}

fn agree(rank: usize, others: &BTreeMap<String, String>) -> (Answer, BTreeMap<String, String>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = tool();
    command.arg("agree");
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    for (name, value) in [("PMI_FD", 0), ("PMI_RANK", rank), ("PMI_SIZE", NODES)] {
        command.env(name, value.to_string());
    }
    command.stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    // the command keeps its copy of the child's socket until then
    drop(command);
    thread::scope(|scope| {
        let told = scope.spawn(|| play(ours, others));
        let answer = Answer::new("agree", child.wait_with_output().unwrap());
        (answer, told.join().unwrap())
    })
}

/// As a task tells it: in parts, each behind the number of those that are left.
fn parts(rank: usize, word: &Value) -> Vec<(String, String)> {
    let text = word.to_string().replace(' ', "\\u0020");
    let parts: Vec<&[u8]> = text.as_bytes().chunks(700).collect();
    let numbered = parts.iter().enumerate().map(|(part, text)| {
        let (left, text) = (parts.len() - 1 - part, std::str::from_utf8(text).unwrap());
        (format!("nicp.{rank}.{part}"), format!("{left:02}{text}"))
    });
    numbered.collect()
}

#[test]
fn of_a_thousand_nodes_those_that_differ_are_named_by_the_first_task_alone() {
    let usual = word(0);
    let mut others = BTreeMap::new();
    for rank in 1..NODES {
        let mut word = usual.clone();
        word["host"] = json!(format!("gpu{rank:04}"));
        let agreement = &mut word["agreement"];
        match rank {
            17 | 18 => lose_a_rail(agreement, 3),
            640 => agreement["rails"].as_array_mut().unwrap().swap(0, 1),
            _ => {}
        }
        others.extend(parts(rank, &word));
    }
    let start = Instant::now();
    let (page, told) = agree(0, &others);
    println!("{NODES} nodes in {:?}", start.elapsed());
    // this machine itself is none of these
    page.ends(4).says(&["996 of 1000 nodes agree: "]);
    for line in [
        "gpu[0017-0018]\n    mlx5_5:1 is left out: ",
        "    do   for this job: --exclude=gpu[0017-0018]\n",
        "gpu0640\n    its rails are in",
        " another order: mlx5_3:1 mlx5_0:1 ",
        "    do   in /etc/nic-placement.conf: NodeName=gpu0640 rails=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11\n",
    ] {
        assert!(page.out.contains(line), "no `{line}`\n{page}");
    }
    let is_so = told.keys().all(|key| key.starts_with("nicp.0."));
    assert!(is_so, "{told:?}");
    let (second, told) = agree(1, &BTreeMap::new());
    second.is(0, "", "");
    let is_so = told.keys().all(|key| key.starts_with("nicp.1."));
    assert!(is_so, "{told:?}");
}

#[test]
fn a_task_that_told_nothing_or_nonsense_is_named() {
    for nonsense in [None, Some("00{\"host\":3}"), Some("99"), Some("x")] {
        let all = (1..NODES).flat_map(|rank| parts(rank, &json!(null)));
        let mut others: BTreeMap<String, String> = all.collect();
        others.remove("nicp.1.0");
        others.extend(nonsense.map(|text| ("nicp.1.0".to_string(), text.to_string())));
        let (answer, _) = agree(0, &others);
        answer.refuses(1, &[]);
        let told = ["task 1 told nothing", "Slurm's PMI: "];
        let is_so = told.iter().any(|told| answer.err.contains(told));
        assert!(is_so, "{answer}");
    }
}

#[test]
fn rails_in_reports_of_check_are_compared_by_audit() {
    let report = super::json("check --machine dgx-h100 --json");
    let with = |host: &str| {
        let mut report = report.clone();
        report["host"] = json!(host);
        report
    };
    let place = Place::new("agree");
    let alike = format!("{:#}\n{:#}\n", with("n1"), with("n2"));
    let alike = place.file("alike.json", alike);
    let mut other = with("n3");
    lose_a_rail(&mut other["agreement"], 0);
    let odd = place.file("odd.json", format!("{other:#}\n"));
    run(&format!("audit {alike}")).ends(0);
    let both = run(&format!("audit {alike} {odd}"));
    both.ends(1).says(&[" n3 left out: ", " rails: "]);
    let answer = run(&format!("agree {alike}"));
    answer.ends(1).says(&["`nic-placement audit FILE…`"]);
}
