//! Requests of the C interface, as a launcher hands them in, below the pointers of it.
#![forbid(unsafe_code)]

use super::held;
use super::work::Work;
use nic_placement_capi::failure::Failure;
use nic_placement_capi::{calls, wall};
use nic_placement_core::libraries::marker;
use nic_placement_core::libraries::names;
use nic_placement_core::topology::CpuSet;
use nic_placement_node::platform;
use serde_json::{Map, Value};
use std::hint::black_box;

type Call = fn(&str) -> Result<String, Failure>;
type Fields = Map<String, Value>;

/// The number of a failure that is a bug of ours (`include/nic_placement.h`).
const BUG: i32 = 5;

/// The same answer twice, and a text that C can take.
fn answer(data: &[u8], nth: usize, call: Call, text: &str) -> Result<String, String> {
    let answered = call(text);
    if held::has_turn(data, nth, 4) {
        assert_eq!(answered, call(text), "the same answer twice");
    }
    let (status, told) = wall::told(answered.clone());
    let told = told.into_string().expect("UTF-8");
    assert_ne!(status, BUG);
    assert_eq!(answered.is_ok(), status == 0);
    match answered {
        Ok(text) => {
            assert_eq!(text, told, "no NUL in it");
            Ok(text)
        }
        Err(_) => {
            assert!(!told.is_empty(), "a reason");
            held::message(&told);
            Err(told)
        }
    }
}

/// A request about this node would read whatever node this runs on.
fn is_of_this_node(text: &str) -> bool {
    serde_json::from_str::<Value>(text)
        .is_ok_and(|value| value.get("node").is_none_or(Value::is_null))
}

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if is_of_this_node(text) {
        return;
    }
    if held::has_turn(data, 1, 2) {
        if let Ok(map) = answer(data, 3, calls::map, text) {
            is_map(&fields(text), &map);
        }
    }
    if held::has_turn(data, 0, 4) {
        if let Ok(process) = answer(data, 2, calls::process, text) {
            assert!(
                fields(&process)["reasons"]
                    .as_array()
                    .is_some_and(|reasons| !reasons.is_empty())
            );
        }
    }
    let plan = answer(data, 1, calls::plan, text);
    let one_task = held::has_turn(data, 0, 2).then(|| {
        (
            answer(data, 0, calls::task, text),
            answer(data, 2, calls::render, text),
        )
    });
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => {
            let alike = (Err(why.clone()), Err(why));
            return assert!(
                one_task.is_none_or(|one_task| one_task == alike),
                "refused alike"
            );
        }
    };
    let (request, plan) = (fields(text), fields(&plan));
    let tasks = plan["tasks"].as_array().expect("a list");
    tasks
        .iter()
        .for_each(|task| is_task(&request, &plan, task.as_object().expect("a task")));
    let Some((task, render)) = one_task else {
        return;
    };
    let id = request.get("task").and_then(Value::as_u64).unwrap_or(0);
    let Some(wanted) = tasks.get(id as usize).and_then(Value::as_object) else {
        assert!(task.is_err() && render.is_err(), "there is no task {id}");
        return;
    };
    let (task, render) = (task.expect("as the plan"), render.expect("as the plan"));
    match request.get("as").and_then(Value::as_str) {
        Some("lines") => are_lines(wanted, &task, &render),
        _ => are_fields(wanted, &fields(&task), &fields(&render)),
    }
}

fn fields(text: &str) -> Fields {
    match serde_json::from_str(text).expect("JSON") {
        Value::Object(fields) => fields,
        other => panic!("no object: {other}"),
    }
}

fn is_map(request: &Fields, map: &str) {
    assert!(map.ends_with('\n'));
    map.lines().for_each(held::tidy);
    if let None | Some("json" | "sglang" | "mooncake") = request.get("map").and_then(Value::as_str)
    {
        fields(map);
    }
}

/// An entry of a plan's `tasks`: devices and CPUs that are there, variables that may be set.
fn is_task(request: &Fields, plan: &Fields, task: &Fields) {
    let gpus = plan["gpus"].as_array().expect("a list").len() as u64;
    let indices = task["gpus"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|gpu| gpu["index"].as_u64());
    indices.for_each(|index| assert!(index.expect("a number") < gpus));
    let cpus = CpuSet::from_list(text(task, "cpus")).expect("a list of CPUs");
    if let Some(may) = request.get("cpus").and_then(Value::as_str) {
        assert!(
            cpus.is_subset(&CpuSet::from_list(may).expect("it was accepted")),
            "no other CPU"
        );
    } else if let Some(model) = request["node"].get("machine").and_then(Value::as_str) {
        assert!(
            cpus.is_subset(&platform::model(model).expect("it was accepted").cpus()),
            "no other CPU"
        );
    }
    let has = request.get("environment").and_then(Value::as_object);
    let has = |name: &str| has.is_some_and(|has| has.contains_key(name));
    for (name, value) in task["env"].as_object().expect("an object") {
        let value = value.as_str().expect("a text");
        assert!(!value.chars().any(char::is_control), "{name}={value:?}");
        assert!(names::is_name(name) && (name == marker::NAME || !names::is_refused(name)));
        assert!(!has(name) || has(marker::NAME), "`{name}` is the user's");
    }
    for reason in task["reasons"].as_array().expect("a list") {
        held::tidy(reason.as_str().expect("a text"));
    }
}

fn text<'f>(fields: &'f Fields, name: &str) -> &'f str {
    fields[name].as_str().expect("a text")
}

/// One task alone is told as in the plan.
fn are_fields(wanted: &Fields, task: &Fields, render: &Fields) {
    for (name, value) in wanted {
        assert_eq!(task.get(name), Some(value), "`{name}`");
    }
    assert_eq!(render["set"], wanted["env"]);
    assert_eq!(render["task"], wanted["task"]);
    let (set, reasons) = (
        &render["set"],
        render["reasons"].as_object().expect("an object"),
    );
    let unset = render["unset"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|name| name.as_str().expect("a name"));
    for name in unset {
        assert!(
            set.get(name).is_none() && reasons.contains_key(name),
            "`{name}` is set and goes"
        );
    }
}

/// The same as lines: no value makes a line of its own.
fn are_lines(wanted: &Fields, task: &str, render: &str) {
    let facts: Vec<(&str, &str)> = task
        .lines()
        .map(|line| line.split_once('=').expect("a fact"))
        .collect();
    assert_eq!(
        facts.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["gpus", "nics", "cpus", "mems", "fails"]
    );
    let [.., (_, cpus), (_, mems), (_, fails)] = facts[..] else {
        unreachable!()
    };
    assert_eq!((cpus, mems), (text(wanted, "cpus"), text(wanted, "mems")));
    assert_eq!(
        Some(fails),
        wanted["fails"]
            .as_bool()
            .map(|fails| if fails { "true" } else { "false" })
    );
    let set = render.lines().filter_map(|line| line.split_once('='));
    let set: Fields = set
        .map(|(name, value)| (name.to_string(), Value::from(value)))
        .collect();
    assert_eq!(Some(&set), wanted["env"].as_object());
    let mut gone = render.lines().filter(|line| !line.contains('='));
    assert!(gone.all(|name| names::is_name(name) && !set.contains_key(name)));
}

/// One task of a step, and the node's map.
pub fn work(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    let is_of_this_node = is_of_this_node(&text);
    Box::new(move || {
        if !is_of_this_node {
            drop(black_box(calls::plan(&text)));
            drop(black_box(calls::map(&text)));
        }
    })
}
