//! `nic-placement refresh`: reads the node, which may wait for hardware, and writes the node file.

pub(super) mod textfile;
mod watch;

use super::page::Page;
use super::request::{NodeOptions, number, whole_node};
use super::{Failure, output};
use nic_placement_core::config::NodeFileUse;
use nic_placement_core::maps::{Format, Subject, write};
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{GpuIndex, Topology};
use nic_placement_formats::import::nccl;
use nic_placement_formats::node_file;
use nic_placement_node::discover::Root;
use nic_placement_node::discover::root::{Author, read_unlinked};
use nic_placement_process::maps;
use nic_placement_program::try_lock;
use nic_placement_sys as sys;
use nic_placement_traffic::exposition;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// read the node and write the node file, which steps read instead of asking hardware
///
/// To read the state and rate of an RDMA port, the kernel asks the card's firmware, for which a sick card can take a minute. So
/// this asks outside of any job: at boot, by a timer, by Slurm's HealthCheckProgram. A step uses the file if root wrote it
/// since the system was started and not too long ago, and if it names the devices that are there; else it reads the node
/// itself.
///
/// If the bus hides which GPU and NIC share a switch, a topology file for NCCL is kept beside it: node.nccl.xml, unless
/// there is one that no refresh has written.
///
/// For each {map_file:FORMAT} in plugstack.conf's set= the node's map is kept there too: node.map-FORMAT.json.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement refresh
  nic-placement refresh --watch
  nic-placement refresh --output node.cache; nic-placement show --topology node.cache")]
pub(super) struct RefreshOptions {
    /// where to write it, instead of /run/nic-placement/node.cache
    ///
    /// Its folder must exist. A FILE that is no regular file, as a link, is refused.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// also write metrics of the node for Prometheus: a file ending with .prom in a folder of the node exporter
    ///
    /// Ports that GPUs would use if they worked, GPUs without a NIC, pairs on different sockets. The folder is that of its
    /// --collector.textfile.directory.
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// go on: write it again within a second of a change, and regularly
    ///
    /// Changes are those of which the kernel tells: links that come up or go down, and, since Linux 6.12, RDMA devices. The state of
    /// an InfiniBand port without an interface is not among them.
    #[arg(long, help_heading = "The node's agent")]
    watch: bool,
    /// how often to write it where nothing changes (default 300)
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "watch",
        default_value = "300",
        hide_default_value = true,
        value_parser = number(1, 86_400),
        help_heading = "The node's agent"
    )]
    every: u32,
}

pub(super) fn run(options: &RefreshOptions, _: &mut Page) -> Result<(), Failure> {
    let place = options
        .output
        .clone()
        .unwrap_or_else(|| NodeFileUse::default().path.into());
    // before anything is made beside it
    output::check(&place)?;
    let textfile = options.textfile.as_deref();
    textfile.map_or(Ok(()), textfile::check)?;
    match options.watch {
        true => watch::watch(&place, textfile, Duration::from_secs(options.every.into())),
        false => refresh(&place, textfile),
    }
}

fn refresh(place: &Path, textfile: Option<&Path>) -> Result<(), Failure> {
    let shown = place.display();
    let (folder, name) = output::split(place)?;
    let cannot = |error: io::Error| format!("cannot write `{shown}`: {error}");
    // to make a folder of a wrong name would hide the mistake
    if !folder.is_dir() && Path::new(&NodeFileUse::default().path).parent() != Some(folder) {
        return Err(format!(
            "cannot write `{shown}`: the folder `{}` does not exist",
            folder.display()
        )
        .into());
    }
    make_folder(folder).map_err(cannot)?;
    let _lock = lock(&folder.join(format!(".{name}.lock")))
        .map_err(cannot)?
        .ok_or_else(|| {
            format!(
                "another refresh writes `{shown}` and has not ended: hardware that does not answer?"
            )
        })?;
    // the age counts from before the first question: what is read may be as old as that
    let (node, diagnostics) = node_file::make(
        &Root::live(),
        sys::seconds_since_boot(),
        humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    )?;
    for diagnostic in diagnostics {
        super::tell(&diagnostic.to_string());
    }
    output::write(place, &node_file::to_bytes(&node))?;
    for_nccl(&node.topology, place)?;
    let mut admin = NodeOptions::default().admin();
    admin.node_file.path = place.display().to_string();
    let maps = maps::places(&admin);
    if maps.is_empty() && textfile.is_none() {
        return Ok(());
    }
    let plan = whole_node(node.topology, admin)?;
    for_engines(&plan, maps)?;
    // last: its file system may not answer
    if let Some(textfile) = textfile {
        let text = exposition::write(&textfile::metrics(&plan));
        output::write(textfile, text.as_bytes())?;
    }
    Ok(())
}

/// The first line of the file for NCCL, by which a later refresh knows it: a comment to NCCL (src/graph/xml.cc,
/// `xmlSkipComment`).
const HEADING: &str = "<!-- written by nic-placement refresh, which keeps it as the node is -->";

/// Keeps a file for NCCL beside the node file, for the admin's `set=NCCL_TOPO_FILE=`, if the bus hides pairs of GPU and NIC.
fn for_nccl(topology: &Topology, place: &Path) -> Result<(), String> {
    let file = place.with_extension("nccl.xml");
    let is_needed = !topology.stated_paths.is_empty();
    let is_anothers = match read_unlinked(&file, maps::MAX_BYTES, Author::Anyone) {
        Ok(bytes) => !bytes.starts_with(HEADING.as_bytes()),
        Err(unreadable) => !unreadable.problem.is_absent(),
    };
    if is_anothers && is_needed {
        super::tell(&format!(
            "no file for NCCL: `{}` was not written by `refresh`, and stays: remove it to get one",
            file.display()
        ));
    }
    match (is_anothers, is_needed) {
        (true, _) => Ok(()),
        (false, false) => remove(&file),
        (false, true) => {
            let written = nccl::write(topology).map(|text| format!("{HEADING}\n{text}"));
            keep(&file, written.map_err(|unwritable| unwritable.to_string()))
        }
    }
}

/// Keeps the maps that the admin's templates name, as for a step without words. Other files stay: another program may have
/// written them.
fn for_engines(plan: &Plan, maps: Vec<(Format, PathBuf)>) -> Result<(), String> {
    let gpus: Vec<GpuIndex> = plan.node.gpu_indices().collect();
    let subject = Subject {
        topology: &plan.node,
        node: &plan.map,
        gpus: &gpus,
    };
    let written = |format: Format| match gpus.is_empty() {
        true => Err("the node has no GPU".to_string()),
        false => write(format, subject).map_err(|why| why.to_string()),
    };
    let mut maps = maps.into_iter();
    maps.try_for_each(|(format, file)| keep(&file, written(format)))
}

/// Writes a file, unless it is there: a job that starts now may be reading it. Removes one that cannot be made.
fn keep(file: &Path, text: Result<String, String>) -> Result<(), String> {
    let old = read_unlinked(file, maps::MAX_BYTES, Author::Anyone);
    match text {
        Ok(text) if old.is_ok_and(|old| old == text.as_bytes()) => Ok(()),
        Ok(text) => output::write(file, text.as_bytes()),
        Err(why) => {
            super::tell(&format!("no `{}`: {why}", file.display()));
            remove(file)
        }
    }
}

fn remove(file: &Path) -> Result<(), String> {
    output::check(file)?;
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove `{}`: {error}", file.display()))
        }
        _ => Ok(()),
    }
}

/// This program, also where an upgrade has replaced its file.
pub(super) fn this_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("nic-placement");
    command
}

pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().mode(0o755).create(folder)?;
    // whatever the umask said
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// The lock, until it is dropped; `None` if another process holds it, perhaps one that waits for hardware.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = output::open_to_lock(path)?;
    Ok(try_lock(&file)?.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_core::config::Admin;
    use nic_placement_core::topology::Provenance;
    use std::os::unix::fs::MetadataExt;

    /// An empty folder.
    fn place(name: &str) -> PathBuf {
        let name = format!("nic-placement-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        make_folder(&folder).unwrap();
        folder
    }

    /// A machine whose bus hides pairs, and one whose bus does not.
    fn models() -> [Topology; 2] {
        let model = |name| nic_placement_node::platform::model(name).unwrap();
        ["azure-nd96isr-h100-v5", "dgx-h100"].map(model)
    }

    #[test]
    fn a_file_for_nccl_is_kept_where_the_bus_hides_pairs_goes_where_not_and_anothers_stays() {
        let folder = place("for-nccl");
        let (node, beside) = (folder.join("node.json"), folder.join("node.nccl.xml"));
        let [azure, dgx] = models();
        for_nccl(&azure, &node).unwrap();
        let first = fs::metadata(&beside).unwrap();
        assert_eq!(first.permissions().mode() & 0o7777, 0o644);
        let text = fs::read_to_string(&beside).unwrap();
        assert_eq!(text, format!("{HEADING}\n{}", nccl::write(&azure).unwrap()));
        nccl::read(&text, Provenance::ThisSystem).expect("a comment is no element");
        // the same is not written again
        for_nccl(&azure, &node).unwrap();
        assert_eq!(fs::metadata(&beside).unwrap().ino(), first.ino());
        for _ in 0..2 {
            for_nccl(&dgx, &node).unwrap();
            assert!(!beside.exists(), "this bus hides nothing");
        }
        let stays = |is_there: &dyn Fn() -> bool| {
            for model in models() {
                for_nccl(&model, &node).unwrap();
                assert!(is_there(), "{}", model.name);
            }
            fs::remove_file(&beside).unwrap();
        };
        for theirs in ["<system version=\"1\"/>\n", ""] {
            fs::write(&beside, theirs).unwrap();
            stays(&|| fs::read_to_string(&beside).unwrap() == theirs);
        }
        // our own, behind a link
        let elsewhere = folder.join("elsewhere");
        fs::write(&elsewhere, format!("{HEADING}\n")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &beside).unwrap();
        stays(&|| beside.is_symlink() && elsewhere.exists());
        // a pipe without a writer: to open it as a file would not return
        let mkfifo = std::process::Command::new("mkfifo").arg(&beside).status();
        assert!(mkfifo.unwrap().success());
        stays(&|| !fs::metadata(&beside).unwrap().is_file());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_map_is_kept_for_each_template_that_names_one_and_goes_where_it_cannot_be_had() {
        let folder = place("for-engines");
        let kept_for = |mut admin: Admin| {
            admin.node_file.path = folder.join("node.json").display().to_string();
            let dgx = nic_placement_node::platform::model("dgx-h100").unwrap();
            let maps = maps::places(&admin);
            for_engines(&whole_node(dgx, admin).unwrap(), maps)
        };
        let kept = |arguments: &[&str]| {
            let (admin, doubts) = Admin::parse(arguments.iter().copied());
            assert!(doubts.is_empty(), "{doubts:?}");
            kept_for(admin).unwrap();
            let entries = fs::read_dir(&folder).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        let both = ["node.map-json.json", "node.map-sglang.json"];
        assert_eq!(kept(&["set=X={nic}"]), [""; 0]);
        let arguments = ["set=X={map_file:sglang}", "set=Y={map_file:json}"];
        assert_eq!(kept(&arguments), both);
        let sglang = folder.join("node.map-sglang.json");
        let text = || fs::read_to_string(&sglang).unwrap();
        assert!(text().starts_with(r#"{"0":"mlx5_0","1":"mlx5_3","2":"#));
        let first = fs::metadata(&sglang).unwrap();
        assert_eq!(first.permissions().mode() & 0o7777, 0o644);
        kept(&["set=X={map_file:sglang}"]);
        // the same is not written again
        assert_eq!(fs::metadata(&sglang).unwrap().ino(), first.ino());
        kept(&["set=X={map_file:sglang}", "exclude=mlx5_0"]);
        assert!(!text().contains(r#""mlx5_0""#), "the admin's word counts");
        // no map without NICs
        let without = kept(&["set=X={map_file:sglang}", "exclude=*"]);
        assert_eq!(without, both[..1]);
        // no template asks for it
        fs::write(&sglang, "another's").unwrap();
        assert_eq!(kept(&[]), both);
        assert_eq!(text(), "another's");
        fs::remove_file(&sglang).unwrap();
        std::os::unix::fs::symlink("elsewhere", &sglang).unwrap();
        let sglang_alone = ["set=X={map_file:sglang}", "exclude=*"];
        for arguments in [&sglang_alone[..1], &sglang_alone] {
            let (admin, _) = Admin::parse(arguments.iter().copied());
            let why = kept_for(admin).unwrap_err();
            assert!(why.contains("is a symbolic link") && sglang.is_symlink());
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_is_written_whole_readable_for_all_and_by_one_at_a_time() {
        let folder = place("refresh");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&folder), 0o755);
        for text in ["first", "second"] {
            output::write(&folder.join("node.json"), text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(folder.join("node.json")).unwrap(), text);
        }
        assert_eq!(mode(&folder.join("node.json")), 0o644);
        let place = folder.join(".node.json.lock");
        let held = lock(&place).unwrap();
        assert!(held.is_some() && lock(&place).unwrap().is_none());
        drop(held);
        assert!(lock(&place).unwrap().is_some());
        fs::remove_dir_all(&folder).unwrap();
    }
}
