//! What the libraries read, on a node of four GPUs and four NICs; one NIC carries storage.

mod addresses;
mod degraded;
mod left_out;
mod libfabric;
mod libraries;
mod meanings;
mod nested;
mod nvshmem;
mod openmp;
mod sockets;
mod templates;
mod ucx;

use super::wanted::{Fabric, Template};
use super::*;
use crate::placement::{Excluded, Rail, RailIndex};
use crate::policy::{self, Pattern};
use crate::step::Step;
use crate::topology::*;
use crate::wish::Wish;
use std::cell::RefCell;

fn node(storage: PortState) -> (Topology, NodePlacement) {
    use PortState::Active;
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    let mut placement = NodePlacement::default();
    for (index, state) in [Active, Active, Active, storage].into_iter().enumerate() {
        let name: crate::topology::DeviceName = format!("mlx5_{index}").parse().unwrap();
        let address = format!("{index}0:00.0").parse().unwrap();
        topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
        let port = Port::new(1, state, LinkLayer::InfiniBand, None);
        topology.nics.push(Nic {
            address: Some(format!("{index}1:00.0").parse().unwrap()),
            ports: vec![port],
            ..Nic::new(name.clone(), NicKind::Verbs)
        });
        let (nic, port, why) = (NicIndex(index), None, "test".into());
        match index {
            3 => placement.excluded.push(Excluded { name, port, why }),
            _ => placement.rails.push(rail(nic, name.as_str(), 1)),
        }
    }
    (topology, placement)
}

fn rail(nic: NicIndex, name: &str, port: u8) -> Rail {
    let (name, rate_mbps) = (name.parse().unwrap(), None);
    Rail {
        nic,
        name,
        port,
        rate_mbps,
    }
}

fn task(gpus: &[usize], rails: &[usize]) -> TaskPlacement {
    let gpus: Vec<GpuIndex> = gpus.iter().copied().map(GpuIndex).collect();
    let near = |&rail: &usize| (RailIndex(rail), PathType::Pix);
    TaskPlacement {
        seen: gpus.clone(),
        gpus,
        rails: rails.iter().map(near).collect(),
        ..TaskPlacement::default()
    }
}

/// A task of a step with what is wanted, its environment, and files.  A `…` at a text's end: the file is longer.
#[derive(Clone)]
struct Situation {
    topology: Topology,
    node: NodePlacement,
    task: TaskPlacement,
    wish: Wish,
    step: Step,
    present: Present,
    files: Vec<(String, String)>,
}

/// GPU 1 and its NIC, on a node that has one NIC for storage, which must be left out.
fn here() -> Situation {
    Situation::new(node(PortState::Active))
}

/// The port of the storage NIC is down: libraries find no NIC but those that may be used.
fn whole() -> Situation {
    Situation::new(node(PortState::Down))
}

/// A built-in machine without these NICs, and a task with this GPU and its first NIC.
fn model(name: &str, exclude: &[&str], gpu: usize) -> Situation {
    let topology = nic_placement_node::platform::model(name).unwrap();
    mapped(topology, exclude, gpu)
}

fn mapped(topology: Topology, exclude: &[&str], gpu: usize) -> Situation {
    let mut wish = Wish::default();
    let patterns = exclude.iter().map(|word| Pattern::parse(word).unwrap());
    wish.admin.selection.exclude = patterns.collect();
    let node = policy::map(&topology, &wish);
    let rails = node.gpus[gpu].choices.first().map(|choice| choice.rail.0);
    Situation::new((topology, node)).task(&[gpu], &Vec::from_iter(rails))
}

impl Situation {
    fn new((topology, node): (Topology, NodePlacement)) -> Situation {
        Situation {
            topology,
            node,
            task: task(&[1], &[1]),
            wish: Wish::default(),
            step: Step::default(),
            present: Present::new(),
            files: Vec::new(),
        }
    }

    /// A node whose routes are not among its files has none.
    fn read(&self, path: &str) -> Option<FileText> {
        let found = self.files.iter().find(|(name, _)| name == path);
        let found = found.map(|(_, text)| file_text(text));
        found.or_else(|| (path == "/proc/net/route").then(FileText::default))
    }

    fn prepared(&self) -> Prepared {
        self.prepared_by(&|path| self.read(path))
    }

    fn prepared_by(&self, read: ReadFile) -> Prepared {
        let wish = self.wish.clone().into();
        Prepared::new(&self.topology, &self.node, wish, &self.step, read)
    }

    /// Each file that is opened while the task's variables are found, for the step and for the task.
    fn opened(&self) -> [Vec<String>; 2] {
        let opened = RefCell::new(Vec::new());
        let read = |path: &str| {
            opened.borrow_mut().push(path.to_string());
            self.read(path)
        };
        let prepared = self.prepared_by(&read);
        let for_the_step = opened.take();
        self.answers_by(&prepared, &read, |_| ());
        [for_the_step, opened.take()]
    }

    /// Name, change and reason of every variable.
    fn told(&self) -> Vec<(String, Change, String)> {
        let of = |of: &Variable| (of.name.to_string(), of.change.clone(), of.why.to_string());
        self.answers(|variables| variables.iter().map(of).collect())
    }

    fn answers<T>(&self, of: impl FnOnce(&[Variable]) -> T) -> T {
        self.answers_by(&self.prepared(), &|path| self.read(path), of)
    }

    fn answers_by<T>(
        &self,
        prepared: &Prepared,
        read: ReadFile,
        of: impl FnOnce(&[Variable]) -> T,
    ) -> T {
        let (node, task, present) = (&self.node, &self.task, &self.present);
        let evidence = Evidence { present, read };
        of(&environment(prepared, &self.topology, node, task, evidence))
    }

    fn caveats(&self) -> Vec<String> {
        self.answers(|variables| texts(&caveats(&self.topology, variables)))
    }

    /// `NAME=VALUE` for what is set, `NAME` for what is removed, without the marker.
    fn changes(&self) -> Vec<String> {
        let told = self.told().into_iter();
        let ours = told.filter(|(name, ..)| name != marker::NAME);
        ours.filter_map(|(name, change, _)| match change {
            Change::Set(value) => Some(format!("{name}={value}")),
            Change::Remove => Some(name),
            Change::KeepUsers(_) | Change::Leave => None,
        })
        .collect()
    }

    /// The value that is set; empty if none is, which no value of ours is.
    fn value(&self, name: &str) -> String {
        let told = self.told().into_iter().find(|(told, ..)| told == name);
        match told {
            Some((_, Change::Set(value), _)) => {
                assert_ne!(value, "", "`{name}`");
                value
            }
            _ => String::new(),
        }
    }

    fn sets(&self, name: &str) -> bool {
        !self.value(name).is_empty()
    }

    /// The reason why a variable is set or not; empty if there is no answer for it.
    fn why(&self, name: &str) -> String {
        let told = self.told().into_iter().find(|(told, ..)| told == name);
        told.map(|told| told.2).unwrap_or_default()
    }

    /// Checks a part of the reason.
    #[track_caller]
    fn says(&self, name: &str, part: &str) {
        let why = self.why(name);
        assert!(why.contains(part), "{why}");
    }

    #[track_caller]
    fn ends(&self, name: &str, end: &str) {
        let why = self.why(name);
        assert!(why.ends_with(end), "{why}");
    }

    #[track_caller]
    fn begins(&self, name: &str, start: &str) {
        let why = self.why(name);
        assert!(why.starts_with(start), "{why}");
    }

    fn withdrawn(&self, names: &[&str]) -> Vec<String> {
        let withdrawn = withdrawal(names, &self.present);
        withdrawn.iter().map(|of| of.name.to_string()).collect()
    }

    /// The environment of this task, for a step in it.
    fn handed_down(&self) -> Present {
        let mut present = self.present.clone();
        for (name, change, _) in self.told() {
            match change {
                Change::Set(value) => present.insert(name, value),
                Change::Remove => present.remove(&name),
                Change::KeepUsers(_) | Change::Leave => None,
            };
        }
        present
    }

    fn gpus(self, gpus: &[usize]) -> Situation {
        self.task(gpus, gpus)
    }

    fn task(mut self, gpus: &[usize], rails: &[usize]) -> Situation {
        self.task = task(gpus, rails);
        self
    }

    /// `NAME=VALUE` of each variable.
    fn env(mut self, variables: &[&str]) -> Situation {
        let parts = variables.iter().map(|text| text.split_once('=').unwrap());
        let parts = parts.map(|(name, value)| (name.to_string(), value.to_string()));
        self.present.extend(parts);
        self
    }

    fn file(mut self, path: &str, text: &str) -> Situation {
        self.files.insert(0, (path.to_string(), text.to_string()));
        self
    }

    /// Two IP interfaces and the loopback.
    fn routed(self) -> Situation {
        let table = "Iface\nib0 0 0 0001 0 0 0 0\neth0 0 0100A8C0 0003 0 0 0 0\n";
        let situation = self.file("/proc/net/route", table);
        situation.file("/sys/class/net/lo/operstate", "unknown\n")
    }

    /// `env=`, with blanks between the words.
    fn libraries(mut self, words: &str) -> Situation {
        let named = |word| wanted::Libraries::named(word).expect("a library");
        let (none, words) = (wanted::Libraries::NONE, words.split(' '));
        self.wish.libraries = words.fold(none, |all, word| all.with(named(word)));
        self
    }

    fn set(mut self, text: &str) -> Situation {
        let (template, _) = Template::parse(text).expect("a template");
        self.wish.admin.templates.push(template);
        self
    }

    fn fabric(mut self, fabric: Fabric) -> Situation {
        self.wish.admin.fabric = fabric;
        self
    }

    fn no_env(mut self, names: &[&str]) -> Situation {
        self.wish.no_env = names.iter().map(ToString::to_string).collect();
        self
    }

    fn amd(self) -> Situation {
        self.gpus_are(GpuVendor::Amd)
    }

    fn gpus_are(mut self, vendor: GpuVendor) -> Situation {
        let gpus = self.topology.gpus.iter_mut();
        gpus.for_each(|gpu| gpu.vendor = vendor);
        self
    }

    fn nics_are(mut self, kind: NicKind) -> Situation {
        let nics = self.topology.nics.iter_mut();
        nics.for_each(|nic| nic.kind = kind);
        self
    }

    /// The ports that are not the task's have this state.
    fn other_ports_are(&mut self, state: PortState) {
        for nic in [0, 2, 3] {
            self.port(nic).state = state;
        }
    }

    fn port(&mut self, nic: usize) -> &mut Port {
        &mut self.topology.nics[nic].ports[0]
    }
}

fn texts<T: ToString>(found: &[T]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

/// A file with this text; with `…` at its end it is longer.
pub(super) fn file_text(text: &str) -> FileText {
    FileText {
        text: text.to_string(),
        is_cut: text.ends_with('…'),
        ..FileText::default()
    }
}

/// The cells of a row, which ` | ` separates.
pub(super) fn cells<const N: usize>(row: &str) -> [&str; N] {
    let cells: Vec<&str> = row.split(" | ").collect();
    cells.try_into().expect("a cell for each column")
}

#[test]
fn no_configuration_file_is_opened_twice_for_a_step_nor_for_a_task() {
    let mut situation = here().env(&["HOME=/home/me"]).fabric(Fabric::IsolatedRails);
    for judges_files in [false, true] {
        situation.wish.verbose = judges_files;
        let files = ["/etc/nccl.conf", "/home/me/.nccl.conf"];
        for (mut paths, file) in situation.opened().into_iter().zip(files) {
            assert!(paths.iter().any(|path| path == file), "{paths:?}");
            let all = paths.len();
            paths.sort();
            paths.dedup();
            assert_eq!(paths.len(), all, "{paths:?}");
        }
    }
}

const UCX: &str = "UCX_NET_DEVICES=mlx5_1:1";
const NCCL: &str = "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1";
const NVSHMEM: &str = "NVSHMEM_HCA_LIST=mlx5_0:1,mlx5_1:1,mlx5_2:1";

#[test]
fn no_variable_that_can_be_set_is_one_that_never_may() {
    for name in variables() {
        // these follow from what the admin says of the fabric, and from the routes
        let has_other_ground = name == "NCCL_CROSS_NIC" || name.ends_with("_SOCKET_IFNAME");
        let is_doubtful = names::is_doubtful(name) && !has_other_ground;
        assert!(!names::is_refused(name) && !is_doubtful, "`{name}`");
    }
    let never = "NCCL_IB_TC NCCL_IB_SL NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT NCCL_IB_QPS_PER_CONNECTION
        NCCL_IB_GID_INDEX NCCL_IB_DISABLE NCCL_NSOCKS_PERTHREAD NCCL_SOCKET_NTHREADS NCCL_ALGO
        NCCL_PROTO NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_NVLS_ENABLE NCCL_P2P_DISABLE
        NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_NET NCCL_NET_PLUGIN NCCL_DMABUF_ENABLE NCCL_DEBUG
        NCCL_IGNORE_NET_MISMATCH NCCL_HOSTID NCCL_IB_FIFO_TC FI_PROVIDER FI_EFA_IFACE";
    for name in never.split_whitespace() {
        let is_right = names::is_doubtful(name);
        assert!(is_right, "`{name}` follows from no topology");
        assert!(variables().all(|ours| ours != name), "`{name}`");
    }
}

#[test]
fn every_variable_that_an_answer_rests_on_is_read_from_the_environment() {
    let never = LIBRARIES.iter().filter_map(|of| of.never);
    let evidence = LIBRARIES.iter().flat_map(|of| of.evidence).copied();
    let known = variables().chain(evidence).chain([marker::NAME]);
    let mut known: Vec<&str> = known.chain(never.map(|of| of.0)).collect();
    known.sort_unstable();
    let (empty, names) = NAMES.split_at(NAMES.len() - known.len());
    assert_eq!(names, known);
    assert!(empty.iter().all(|name| name.is_empty()));
    for name in ["UCX_TLS", "UCX_CONFIG_DIR", "NCCL_CONF_FILE", "HOME"] {
        assert!(NAMES.contains(&name), "`{name}`");
    }
}

#[test]
fn nccl_gets_no_list_that_it_would_cut() {
    for (count, is_set) in [(32, true), (33, false)] {
        let mut situation = here();
        let rails = (0..count).map(|nic| rail(NicIndex(0), &format!("roce{nic}"), 1));
        situation.node.rails = rails.collect();
        assert_eq!(situation.sets("NCCL_IB_HCA"), is_set, "{count} rails");
        let why = situation.why("NCCL_IB_HCA");
        let found = why.starts_with("33 ports") && why.contains("32 at most");
        assert_eq!(found, !is_set, "{why}");
    }
}
