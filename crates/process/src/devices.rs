//! Device files that a process may open, checked without opening them.

use nic_placement_core::libraries::ReadFile;
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{Gpu, Nic, NicIndex, NicKind, Topology};
use nic_placement_node::discover::root;
use nic_placement_sys::{self as sys, Refusal};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::path::Path;

/// `/dev` and the mount namespace at [`DeviceFiles::open`].
pub struct DeviceFiles {
    pub(crate) directory: Option<File>,
    /// each GPU's path below `/dev`, in the topology's order
    pub(crate) gpus: Vec<Option<CString>>,
    nics: Vec<Option<CString>>,
    lacks_rdma: bool,
    /// device and inode of [`MOUNTS`]
    mounts: Option<(u64, u64)>,
    tops: [Option<(u64, u64)>; TOPS.len()],
}

const MOUNTS: &str = "/proc/self/ns/mnt";
/// A container replaces at least one of these directories; Slurm's job_container/tmpfs replaces
/// only /tmp and /dev/shm.
const TOPS: [&str; 4] = ["/", "/etc", "/dev", "/dev/infiniband"];

impl DeviceFiles {
    pub fn open(node: &Topology) -> DeviceFiles {
        let directory = root::directory_descriptor(Path::new("/dev"));
        let tell = |error: &_| {
            log::warn!(
                "cannot look into `/dev`: {error}; the tasks' GPUs are told by their variables alone"
            )
        };
        let directory = directory.inspect_err(tell).ok();
        let lacks_rdma =
            |directory: &File| sys::may_open(directory, c"infiniband") == Err(Refusal::Absent);
        let path = |name: Option<String>| CString::new(name?).ok();
        DeviceFiles {
            lacks_rdma: directory.as_ref().is_some_and(lacks_rdma),
            directory,
            gpus: node.gpus.iter().map(Gpu::device_node).map(path).collect(),
            nics: node.nics.iter().map(verbs_file).map(path).collect(),
            mounts: root::identity(MOUNTS),
            tops: TOPS.map(root::identity),
        }
    }

    /// The container's device files, if this process has entered a container since `open`.
    fn of_the_container(&self, node: &Topology) -> Option<DeviceFiles> {
        let has_other_mounts = root::identity(MOUNTS) != self.mounts;
        (has_other_mounts && TOPS.map(root::identity) != self.tops).then(|| DeviceFiles::open(node))
    }
}

/// The file below `/dev` that libibverbs opens (rdma-core's libibverbs/device.c).
fn verbs_file(nic: &Nic) -> Option<String> {
    let uverbs = nic.uverbs.as_ref().filter(|_| nic.kind == NicKind::Verbs)?;
    Some(format!("infiniband/{uverbs}"))
}

/// True if even `/dev/null` is refused: a refusal then proves nothing. Seccomp filters older than
/// faccessat2(2) refuse every path.
pub(crate) fn is_answer_to_all(directory: &File) -> bool {
    matches!(
        sys::may_open(directory, c"null"),
        Err(Refusal::User | Refusal::Cgroup)
    )
}

pub(crate) type Unusable = Vec<(NicIndex, String)>;

/// The plan, without verbs NICs if this node has no `/dev/infiniband`: a library limited to
/// them would not fall back to Ethernet. A model's or topology file's plan is unchanged.
pub fn without_missing(plan: Plan, devices: &DeviceFiles, read: ReadFile) -> Plan {
    if !devices.lacks_rdma || plan.map.rails.is_empty() {
        return plan;
    }
    log::warn!("`/dev/infiniband` is missing: no RDMA device of this node can be opened");
    match plan.node.provenance.is_this_system() {
        true => plan.without(all_verbs(&plan.node, "on this node"), read),
        false => plan,
    }
}

/// All verbs NICs, each with the reason: no `/dev/infiniband` at `place` ("on this node").
fn all_verbs(node: &Topology, place: &str) -> Unusable {
    let nics = node.numbered_nics();
    let verbs = nics.filter(|(_, nic)| nic.kind == NicKind::Verbs);
    let why = |(index, _)| (index, format!("`/dev/infiniband` is missing {place}"));
    verbs.map(why).collect()
}

#[derive(Default)]
pub(crate) struct Closed {
    /// NICs that no task of the job can open
    pub(crate) to_the_job: Unusable,
    /// NICs that this task's device cgroup refuses; another task's may allow them
    pub(crate) to_this_task: Vec<NicIndex>,
    /// true if the process has entered a container since `/dev` was opened
    pub(crate) is_in_container: bool,
}

/// Checks the rails' NICs. If the job cannot open one, checks all others too, since any may replace
/// it.
///
/// The node's `/dev` is checked for permissions and the device cgroup, a container's `/dev` only
/// for the files' existence.
pub(crate) fn closed(devices: &DeviceFiles, plan: &Plan) -> Closed {
    let container = devices.of_the_container(&plan.node);
    let mut closed = Closed {
        is_in_container: container.is_some(),
        ..Closed::default()
    };
    if container.as_ref().is_some_and(|of| of.lacks_rdma) && plan.node.provenance.is_this_system() {
        closed.to_the_job = all_verbs(&plan.node, "in the task's container");
        return closed;
    }
    let (Some(directory), false) = (&devices.directory, devices.lacks_rdma) else {
        return closed;
    };
    let shown = container.and_then(|container| container.directory);
    let ask = |closed: &mut Closed, nics: Vec<NicIndex>| {
        for nic in nics {
            if let Some(Some(path)) = devices.nics.get(nic.0) {
                closed.ask(nic, path, directory, shown.as_ref());
            }
        }
    };
    let is_rail = |nic: &NicIndex| plan.map.rails.iter().any(|rail| rail.nic == *nic);
    let nics = plan.node.numbered_nics().map(|(nic, _)| nic);
    let (rails, others) = nics.partition(is_rail);
    ask(&mut closed, rails);
    if !closed.to_the_job.is_empty() {
        ask(&mut closed, others);
    }
    if !closed.to_this_task.is_empty() && is_answer_to_all(directory) {
        closed.to_this_task.clear();
    }
    closed
}

impl Closed {
    fn ask(&mut self, nic: NicIndex, path: &CStr, directory: &File, shown: Option<&File>) {
        let is_hidden =
            shown.is_some_and(|shown| sys::may_open(shown, path) == Err(Refusal::Absent));
        let name = || path.to_string_lossy();
        let why = match sys::may_open(directory, path) {
            _ if is_hidden => format!("there is no `/dev/{}` in the task's container", name()),
            Err(Refusal::User) => format!("the job's user may not open `/dev/{}`", name()),
            Err(Refusal::Absent) => format!("there is no `/dev/{}`", name()),
            Err(Refusal::Cgroup) => return self.to_this_task.push(nic),
            Err(Refusal::Other) | Ok(()) => return,
        };
        self.to_the_job.push((nic, why));
    }

    pub(crate) fn tell(&self, node: &Topology) {
        // the user chose the container, so an admin has nothing to repair
        let level = if self.is_in_container {
            log::Level::Info
        } else {
            log::Level::Warn
        };
        for (nic, why) in &self.to_the_job {
            log::log!(level, "`{}` is not used: {why}", node.nic(*nic).name);
        }
    }
}
