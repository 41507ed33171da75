//! The words of the option, of the environment and of `default=`.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_core::config::{Admin, Words, replaces_the_allocations};
use nic_placement_core::libraries::wanted::Libraries;
use nic_placement_core::placement::{Bind, GpuUse, Mem, NicsEach};
use nic_placement_core::wish::{Switch, Wish};

/// Bytes of one text of words, at most: longer ones are refused, as `words.rs` says.
const MAX_BYTES: usize = 1024;

pub fn run(data: &[u8]) {
    let text = held::text(data);
    let mut parsed = Vec::new();
    for line in text.split('\n').take(3) {
        let read = Words::parse(line);
        assert_eq!(read, Words::parse(line), "the same answer twice");
        match read {
            Ok(words) => {
                assert!(line.len() <= MAX_BYTES);
                means_the_same_when_written(&words);
                parsed.push(words);
            }
            Err(bad) => held::message(&bad.to_string()),
        }
    }
    for words in &parsed {
        // no words change nothing
        assert_eq!(&Words::default().overlaid(words), words);
        assert_eq!(&words.overlaid(&Words::default()), words);
    }
    let none = Words::default();
    let at = |place: usize| parsed.get(place);
    for (default, variable, option) in [
        (at(0), at(1), at(2)),
        (None, at(0), at(1)),
        (None, at(1), at(0)),
        (at(0), None, None),
    ] {
        let admin = Admin {
            default: default.unwrap_or(&none).clone(),
            ..Admin::default()
        };
        let settings = Wish::new(admin, variable, option);
        assert!(
            settings.enabled || !settings.observe,
            "what is off is not observed"
        );
        assert_eq!(settings.by_user, variable.or(option).is_some());
        let nearest = option.or(variable).or(default).unwrap_or(&none);
        if nearest.policy == Some(Switch::Off) {
            assert!(!settings.enabled, "the nearest word says off");
        }
        if let Some(Switch::On(policy)) = nearest.policy {
            assert!(
                settings.enabled && settings.policy == policy,
                "the nearest word names the policy"
            );
        }
        if let Some(strictness) = nearest.strictness {
            assert_eq!(settings.strictness, strictness);
        }
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let (variable, before) = (lines.first().copied(), lines.get(1).copied());
    assert!(!replaces_the_allocations(variable, variable));
    let _ = replaces_the_allocations(variable, before);
}

fn means_the_same_when_written(words: &Words) {
    let written = written(words);
    if written.len() <= MAX_BYTES {
        assert_eq!(
            Words::parse(&written).as_ref(),
            Ok(words),
            "written as `{written}`"
        );
    }
}

/// Words as a user would write them.
fn written(words: &Words) -> String {
    let mut said: Vec<String> = Vec::new();
    match words.policy {
        Some(Switch::On(policy)) => said.push(policy.to_string()),
        Some(Switch::Off) => said.push("off".into()),
        None => {}
    }
    for (is_said, word) in [
        (words.observe, "observe"),
        (words.help, "help"),
        (words.verbose, "verbose"),
        (words.dry_run, "dry-run"),
    ] {
        said.extend(is_said.then(|| word.to_string()));
    }
    said.extend(words.strictness.map(|strictness| strictness.to_string()));
    said.extend(words.gpu.map(|gpu| match gpu {
        GpuUse::Visible => "gpu=visible".to_string(),
        GpuUse::LocalId => "gpu=local-id".to_string(),
    }));
    said.extend(words.bind.map(|bind| {
        let word = match bind {
            Bind::Auto => "auto",
            Bind::None => "none",
            Bind::Numa => "numa",
            Bind::Core => "core",
        };
        format!("bind={word}")
    }));
    said.extend(words.mem.map(|mem| {
        let word = match mem {
            Mem::None => "none",
            Mem::Prefer => "prefer",
            Mem::Strict => "strict",
        };
        format!("mem={word}")
    }));
    said.extend(
        words
            .omp
            .map(|omp| format!("omp={}", if omp { "on" } else { "off" })),
    );
    said.extend(words.nics_per_task.map(|each| match each {
        NicsEach::Auto => "nics-per-task=auto".to_string(),
        NicsEach::Number(number) => format!("nics-per-task={number}"),
    }));
    said.extend(
        words
            .env
            .map(|libraries| format!("env={}", list(libraries, &words.env_names))),
    );
    if words.forgets_no_env || !words.no_env.is_empty() {
        let mut names: Vec<&str> = words.no_env.iter().map(String::as_str).collect();
        if words.forgets_no_env {
            names.insert(0, "none");
        }
        said.push(format!("no-env={}", names.join("+")));
    }
    said.join(",")
}

fn list(libraries: Libraries, names: &[String]) -> String {
    let known = Libraries::words();
    let mut entries: Vec<&str> = known
        .split(", ")
        .filter(|word| {
            Libraries::named(word).is_some_and(|one| one != Libraries::NONE && libraries.has(one))
        })
        .collect();
    if entries.is_empty() {
        entries.push("none");
    }
    entries
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join("+")
}
