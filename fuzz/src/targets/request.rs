//! Requests of the C interface, as a launcher hands them in, below the pointers of it.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_capi::failure::Failure;
use nic_placement_capi::{calls, wall};
use nic_placement_core::libraries::{marker, names};
use nic_placement_core::topology::CpuSet;
use nic_placement_node::platform;
use serde_json::Value;

/// The number of a failure that is a bug of ours (`include/nic_placement.h`).
const BUG: i32 = 5;

/// The same answer twice, and a text that C can take.
fn answer(call: fn(&str) -> Result<String, Failure>, text: &str) -> Result<String, String> {
    let answered = call(text);
    assert_eq!(answered, call(text), "the same answer twice");
    let is_answered = answered.is_ok();
    let (status, told) = wall::told(answered);
    let told = told.into_string().expect("UTF-8");
    assert_ne!(status, BUG);
    assert_eq!(is_answered, status == 0);
    if is_answered {
        return Ok(told);
    }
    assert!(!told.is_empty(), "a reason");
    held::message(&told);
    Err(told)
}

pub fn run(data: &[u8]) {
    let text = std::str::from_utf8(data);
    let Ok(text) = text else { return };
    let request: Value = serde_json::from_str(text).unwrap_or_default();
    if request.is_object() && request.get("node").is_none_or(Value::is_null) {
        // the answer would rest on the node of this process
        return;
    }
    if let Ok(map) = answer(calls::map, text) {
        assert!(map.ends_with('\n'));
        map.lines().for_each(held::tidy);
    }
    if let Ok(process) = answer(calls::process, text) {
        assert!(!list(&read(&process)["reasons"]).is_empty());
    }
    let plan = answer(calls::plan, text);
    let (task, render) = (answer(calls::task, text), answer(calls::render, text));
    match plan {
        Ok(plan) => {
            let plan = read(&plan);
            let tasks = list(&plan["tasks"]);
            let id = request.get("task").and_then(Value::as_u64).unwrap_or(0);
            let is_there = id < tasks.len() as u64;
            assert_eq!((task.is_ok(), render.is_ok()), (is_there, is_there));
            let gpus = list(&plan["gpus"]).len() as u64;
            tasks.iter().for_each(|task| is_task(&request, gpus, task));
        }
        Err(why) => assert_eq!((task, render), (Err(why.clone()), Err(why))),
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// An entry of a plan's `tasks`: devices and CPUs that are there, variables that may be set.
fn is_task(request: &Value, gpus: u64, task: &Value) {
    for gpu in list(&task["gpus"]) {
        assert!(gpu["index"].as_u64().expect("a number") < gpus);
    }
    let list_of = |text: &str| CpuSet::from_list(text).expect("a list of CPUs");
    let may = match (&request["cpus"], &request["node"]["machine"]) {
        (Value::String(may), _) => Some(list_of(may)),
        (_, Value::String(name)) => platform::model(name).map(|model| model.cpus()),
        _ => None,
    };
    let cpus = list_of(text(&task["cpus"]));
    assert!(may.is_none_or(|may| cpus.is_subset(&may)), "another CPU");
    let has = |name: &str| request["environment"].get(name).is_some();
    for (name, value) in task["env"].as_object().expect("an object") {
        assert!(!text(value).chars().any(char::is_control), "`{name}`");
        assert!(names::is_name(name) && (name == marker::NAME || !names::is_refused(name)));
        assert!(!has(name) || has(marker::NAME), "`{name}` is the user's");
    }
    let reasons = list(&task["reasons"]).iter();
    reasons.for_each(|reason| held::tidy(text(reason)));
}
