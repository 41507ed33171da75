//! What the admin of a node says, as a process finds it: plugstack.conf's arguments, the configuration file on disk, the
//! switch beside it, and the maps beside the node file.
#![forbid(unsafe_code)]

use super::admin::is_bounded;
use super::place::{Place, Thing};
use super::work::Work;
use super::{held, machines};
use nic_placement_core::config::{Admin, Conf};
use nic_placement_core::maps::{self, KEPT, Subject};
use nic_placement_core::placement::Change;
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::topology::GpuIndex;
use nic_placement_node::discover::root::Author;
use nic_placement_process::admin::{self, Found, Off};
use nic_placement_process::maps as kept;
use std::cell::RefCell;
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// More bytes than a kept map may have.
static TOO_LONG: [u8; kept::MAX_BYTES + 1] = [b' '; kept::MAX_BYTES + 1];

thread_local! {
    static PLACE: RefCell<Place> = RefCell::new(place());
}

fn place() -> Place {
    let place = Place::new("layers");
    place.lay("folder/file", b"default=closest");
    place.lay("empty", b"");
    place
}

/// The parts between NULs: arguments, one on each line; letters that choose what stands where; a kept map; the partition; the
/// rest is the configuration file.
struct Given {
    arguments: Vec<String>,
    how: Vec<u8>,
    map: Vec<u8>,
    partition: Option<String>,
    conf: Vec<u8>,
}

impl Given {
    fn of(data: &[u8], place: &Path) -> Given {
        let mut parts = data.splitn(5, |byte| *byte == 0).map(<[u8]>::to_vec);
        let mut next = || parts.next().unwrap_or_default();
        let (arguments, how, map, partition, conf) = (
            held::text(&next()),
            next(),
            next(),
            held::text(&next()),
            next(),
        );
        // neither leads to files of the user that runs this
        let is_place =
            |argument: &&str| argument.starts_with("conf=") || argument.starts_with("node-file=");
        let arguments = arguments
            .split('\n')
            .filter(|argument| !argument.is_empty() && !is_place(argument));
        let mut arguments: Vec<String> = arguments.map(str::to_string).collect();
        arguments.push(format!("conf={}", place.join("conf").display()));
        arguments.push(format!("node-file={}", place.join("node.json").display()));
        let partition = Some(partition).filter(|partition| !partition.is_empty());
        Given {
            arguments,
            how,
            map,
            partition,
            conf,
        }
    }

    /// Lays out what the letters say.
    fn lay(&self, place: &mut Place) {
        let letter = |nth: usize| self.how.get(nth).copied().unwrap_or_default();
        let elsewhere = |name: &str| place.path().join(name);
        let (file, folder) = (elsewhere("elsewhere"), elsewhere("folder"));
        let conf = match letter(0) % 8 {
            1 => Thing::Nothing,
            2 => Thing::Folder,
            3 => Thing::Socket,
            4 => Thing::Link(Path::new("conf")),
            5 => Thing::Link(&folder),
            6 => Thing::Link(&file),
            _ => Thing::File(&self.conf),
        };
        place.put(Path::new("elsewhere"), Thing::File(&self.conf));
        place.put(Path::new("conf"), conf);
        match letter(1) % 8 {
            1 => drop(place.put(Path::new("conf.disabled"), Thing::File(b""))),
            2 => drop(place.put(
                Path::new("conf.disabled"),
                Thing::Link(Path::new("/nowhere")),
            )),
            _ => {}
        }
        for (nth, (_, extension)) in KEPT.iter().enumerate() {
            let map = match letter(2 + nth) % 8 {
                1 => Thing::Nothing,
                2 => Thing::Folder,
                3 => Thing::Socket,
                4 => Thing::Link(&file),
                5 => Thing::File(&TOO_LONG),
                _ => Thing::File(&self.map),
            };
            place.put(&Path::new("node.json").with_extension(extension), map);
        }
    }

    fn is_off_by_switch(&self) -> bool {
        matches!(self.how.get(1).map(|letter| letter % 8), Some(1 | 2))
    }

    fn is_file(&self) -> bool {
        !matches!(self.how.first().map(|letter| letter % 8), Some(1..=5))
    }

    fn found(&self) -> Found {
        let arguments = self.arguments.iter().map(String::as_str);
        admin::find(arguments, || self.partition.clone(), Author::Anyone)
    }
}

fn with<T>(data: &[u8], look: impl FnOnce(&Given, &Path) -> T) -> T {
    PLACE.with_borrow_mut(|place| {
        // a run before may have been broken
        place.undo();
        let given = Given::of(data, place.path());
        given.lay(place);
        let seen = look(&given, place.path());
        place.undo();
        seen
    })
}

pub fn run(data: &[u8]) {
    with(data, |given, place| {
        let found = given.found();
        is_found(given, &found, &place.join("conf"));
        if held::has_turn(data, 0, 4) {
            let again = given.found();
            assert_eq!(
                (&found.admin, &found.findings, &found.off),
                (&again.admin, &again.findings, &again.off)
            );
        }
        let mut admin = found.admin;
        // a line of the file may have moved it, to files of the user that runs this
        admin.node_file.path = place.join("node.json").display().to_string();
        kept::find(&mut admin, Some(Author::Anyone));
        are_maps(given, &admin, place);
        if held::has_turn(data, 1, 4) && !admin.templates.is_empty() {
            let files = admin.map_files.clone();
            machines::for_tasks(admin, data.len(), |plan, task| {
                let told = files.iter().filter(|file| is_told(plan, task, &file.path));
                told.for_each(|file| {
                    assert_eq!(
                        file.text.as_ref(),
                        map_of(plan, file.format).as_ref(),
                        "another's map"
                    )
                });
            });
        }
    });
}

fn is_found(given: &Given, found: &Found, path: &Path) {
    held::findings(&found.findings);
    is_bounded(&found.admin);
    let path_text = path.display().to_string();
    assert_eq!(
        found.admin.conf.as_deref(),
        Some(path_text.as_str()),
        "no line of the file moves it"
    );
    let read = given
        .is_file()
        .then(|| Conf::parse(&given.conf, &path_text));
    let is_unusable = !matches!(read, Some(Ok(_)));
    assert_eq!(found.file.is_none(), is_unusable);
    let is_refused = is_unusable || found.findings.iter().any(|found| found.refuses);
    match &found.off {
        Some(off) => {
            held::message(&off.to_string());
            let is_disabled = found.admin.disabled || given.is_off_by_switch();
            assert!(is_disabled || is_refused, "{off}");
            assert_eq!(matches!(off, Off::Refused(_)), !is_disabled, "{off}");
        }
        None => assert!(!found.admin.disabled && !is_refused && !given.is_off_by_switch()),
    }
    // what its arguments turn off stays off
    let (alone, _) = Admin::parse(given.arguments.iter().map(String::as_str));
    assert!(!alone.disabled || found.off.is_some());
    assert!(!alone.trust_topology || found.admin.trust_topology);
}

/// Files that stand where they should, themselves, and hold no more than they may.
fn are_maps(given: &Given, admin: &Admin, place: &Path) {
    let places: Vec<(_, PathBuf)> = kept::places(admin);
    for file in &admin.map_files {
        let at = places
            .iter()
            .find(|(format, _)| *format == file.format)
            .map(|(_, at)| at);
        assert_eq!(
            at.map(|at| at.display().to_string()),
            Some(file.path.clone()),
            "named by a template"
        );
        let nth = KEPT
            .iter()
            .position(|(format, _)| *format == file.format)
            .expect("it is kept");
        let letter = given.how.get(2 + nth).copied().unwrap_or_default() % 8;
        assert!(
            !(1..=5).contains(&letter) && Path::new(&file.path).starts_with(place),
            "no file of its own"
        );
        let text = file.text.as_ref().expect("it was read");
        assert_eq!(*text, held::text(&given.map));
    }
}

fn is_told(plan: &Plan, task: &TaskPlan, path: &str) -> bool {
    let names = |change: &Change| matches!(change, Change::Set(value) if value.contains(path));
    let by_file = plan
        .wish
        .admin
        .templates
        .iter()
        .filter(|template| template.map_files().next().is_some());
    let by_file: Vec<&str> = by_file.map(|template| template.name()).collect();
    task.variables
        .iter()
        .any(|of| by_file.contains(&of.name.as_ref()) && names(&of.change))
}

fn map_of(plan: &Plan, format: maps::Format) -> Option<String> {
    let gpus: Vec<GpuIndex> = plan.node.gpu_indices().collect();
    maps::write(
        format,
        Subject {
            topology: &plan.node,
            node: &plan.map,
            gpus: &gpus,
        },
    )
    .ok()
}

/// What a process reads of its admin before it is placed.
pub fn work(data: &[u8]) -> Work<'_> {
    Box::new(move || {
        with(data, |given, _| {
            let mut found = given.found();
            kept::find(&mut found.admin, Some(Author::Anyone));
            black_box(found.admin);
        });
    })
}
