//! A program started as a user starts it, and its answer; a folder that is gone with the test.
// Each of the crates that include this file uses a part of it.
#![allow(dead_code)]

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const TOOL: &str = env!("CARGO_BIN_EXE_nic-placement");

/// The tool, as on a terminal that has colours, and as no launcher's process.
pub fn tool() -> Command {
    let mut tool = Command::new(TOOL);
    tool.env_remove("NO_COLOR").env("TERM", "xterm");
    for (name, _) in std::env::vars() {
        if name.starts_with("SLURM") || name.contains("LOCAL") {
            tool.env_remove(name);
        }
    }
    // else that of a slurmd that runs here counts
    tool.env("SLURM_CONF", "/nowhere/slurm.conf");
    tool
}

/// The tool with these words, none of which has a blank in it.
pub fn run(line: &str) -> Answer {
    let words = line.split(' ').filter(|word| !word.is_empty());
    ran(&Vec::from_iter(words))
}

pub fn ran(words: &[&str]) -> Answer {
    Answer::of(tool().args(words))
}

/// The output of a line on which stderr stays empty.
#[track_caller]
pub fn printed(line: &str) -> String {
    let answer = run(line);
    assert_eq!(answer.err, "", "{answer}");
    answer.out
}

#[track_caller]
pub fn json(line: &str) -> Value {
    run(line).json()
}

pub fn machines() -> Vec<String> {
    let list = printed("machines");
    let names = list.lines().filter(|line| !line.starts_with(' '));
    let parts = names.map(|line| line.split(' ').next().unwrap().into());
    parts.collect()
}

/// A text in one line, with one blank between words.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A file of the checkout.
pub fn checkout(path: &str) -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join(path)
}

pub struct Answer {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
    words: String,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Answer {
            status,
            out,
            err,
            words,
        } = self;
        write!(
            f,
            "{words}\n--- ended with {status:?}\n{out}--- stderr\n{err}---"
        )
    }
}

impl Answer {
    pub fn new(words: &str, output: Output) -> Answer {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Answer {
            status: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
            words: words.to_string(),
        }
    }

    #[track_caller]
    pub fn of(command: &mut Command) -> Answer {
        let output = command.output().expect("it starts");
        Answer::new(&format!("{command:?}"), output)
    }

    /// The command's, to this input.
    pub fn to(command: &mut Command, input: &[u8]) -> Answer {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        // it may end before it has read all
        let _ = child.stdin.take().unwrap().write_all(input);
        Answer::new(&format!("{command:?}"), child.wait_with_output().unwrap())
    }

    #[track_caller]
    pub fn ends(&self, status: i32) -> &Answer {
        assert_eq!(self.status, Some(status), "{self}");
        self
    }

    /// Its status and both its streams.
    #[track_caller]
    pub fn is(&self, status: i32, out: &str, err: &str) -> &Answer {
        self.ends(status);
        assert_eq!((&*self.out, &*self.err), (out, err), "{self}");
        self
    }

    /// It ends so, says this and prints nothing.
    #[track_caller]
    pub fn refuses(&self, status: i32, why: &[&str]) -> &Answer {
        assert_eq!(self.ends(status).out, "", "{self}");
        why.iter()
            .for_each(|why| assert!(self.err.contains(why), "no `{why}`\n{self}"));
        self
    }

    /// All that it wrote.
    pub fn both(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Answer {
        let text = flat(&self.both());
        let all = words.iter();
        all.for_each(|word| assert!(text.contains(word), "no `{word}`\n{self}"));
        self
    }

    #[track_caller]
    pub fn lacks(&self, words: &[&str]) -> &Answer {
        let text = flat(&self.both());
        let all = words.iter();
        all.for_each(|word| assert!(!text.contains(word), "`{word}`\n{self}"));
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|bad| panic!("{bad}\n{self}"))
    }
}

/// A folder that is removed with the test.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new(name: &str) -> Place {
        let name = format!("nic-placement-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }

    /// Writes a file, and makes its folder.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.at(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// A shell's program.
    pub fn program(&self, name: &str, lines: &str) -> String {
        let file = self.file(name, format!("#!/bin/sh\n{lines}\n"));
        Place::mode(&file, 0o755);
        file
    }

    pub fn mode(path: impl AsRef<Path>, mode: u32) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(path, mode).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A library by which nothing below `$SILENT` ever answers; `None` where there is no C compiler.
pub fn silent(place: &Place) -> Option<String> {
    let source = place.file("silent.c", include_str!("../silent.c"));
    let library = place.at("silent.so");
    let mut compiler = Command::new("cc");
    let built = compiler.args(["-shared", "-fPIC", "-o", &library, &source]);
    let built = built.status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return None;
    }
    Some(library)
}

/// A shell's line on a terminal of its own, whose input ends at once; `None` without script(1).
pub fn on_a_terminal(line: &str, variables: &[(&str, &str)]) -> Option<String> {
    let mut script = Command::new("script");
    script.args(["-qec", line, "/dev/null"]);
    script.stdin(Stdio::null());
    script.env_remove("NO_COLOR");
    script.env("TERM", "xterm").env("TOOL", TOOL);
    let Ok(output) = script.envs(variables.iter().copied()).output() else {
        println!("skipped: no script(1), of util-linux");
        return None;
    };
    Some(String::from_utf8(output.stdout).unwrap())
}
