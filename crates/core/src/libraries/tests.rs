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
use crate::topology::{
    CpuSet, Gpu, GpuIndex, GpuVendor, LinkLayer, Nic, NicIndex, NicKind, PathType, Port, PortState,
    Provenance, Topology,
};
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
        let text = found.map(|(_, text)| text.clone());
        let text = text.or_else(|| (path == "/proc/net/route").then(String::new))?;
        let is_cut = text.ends_with('…');
        Some(FileText {
            text,
            is_cut,
            unanswered: None,
        })
    }

    fn prepared(&self) -> Prepared {
        let wish = self.wish.clone().into();
        Prepared::new(&self.topology, &self.node, wish, &self.step, &|path| {
            self.read(path)
        })
    }

    /// Each file that is opened while the task's variables are found, for the step and for the task.
    fn opened(&self) -> [Vec<String>; 2] {
        let opened = RefCell::new(Vec::new());
        let read = |path: &str| {
            opened.borrow_mut().push(path.to_string());
            self.read(path)
        };
        let wish = self.wish.clone().into();
        let prepared = Prepared::new(&self.topology, &self.node, wish, &self.step, &read);
        let for_the_step = opened.take();
        let evidence = Evidence {
            present: &self.present,
            read: &read,
        };
        environment(&prepared, &self.topology, &self.node, &self.task, evidence);
        [for_the_step, opened.take()]
    }

    /// Name, change and reason of every variable.
    fn told(&self) -> Vec<(String, Change, String)> {
        self.answers(|variables| {
            let told = variables.iter().map(|variable| {
                let (name, why) = (variable.name.to_string(), variable.why.to_string());
                (name, variable.change.clone(), why)
            });
            told.collect()
        })
    }

    fn answers<T>(&self, of: impl FnOnce(&[Variable]) -> T) -> T {
        let (prepared, read) = (self.prepared(), |path: &str| self.read(path));
        let evidence = Evidence {
            present: &self.present,
            read: &read,
        };
        of(&environment(
            &prepared,
            &self.topology,
            &self.node,
            &self.task,
            evidence,
        ))
    }

    fn caveats(&self) -> Vec<String> {
        self.answers(|variables| texts(&caveats(&self.topology, variables)))
    }

    /// `NAME=VALUE` for what is set, `NAME` for what is removed, without the marker.
    fn changes(&self) -> Vec<String> {
        let told = self
            .told()
            .into_iter()
            .filter(|(name, ..)| name != marker::NAME);
        told.filter_map(|(name, change, _)| match change {
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

    fn withdrawn(&self, names: &[&str]) -> Vec<String> {
        let withdrawn = withdrawal(names, &self.present);
        withdrawn
            .iter()
            .map(|variable| variable.name.to_string())
            .collect()
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
        self.present
            .extend(parts.map(|(name, value)| (name.to_string(), value.to_string())));
        self
    }

    fn file(mut self, path: &str, text: &str) -> Situation {
        self.files.insert(0, (path.to_string(), text.to_string()));
        self
    }

    /// `env=`, with blanks between the words.
    fn libraries(mut self, words: &str) -> Situation {
        let named = words
            .split(' ')
            .map(|word| wanted::Libraries::named(word).expect("a library"));
        self.wish.libraries = named.fold(wanted::Libraries::NONE, wanted::Libraries::with);
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

    fn amd(mut self) -> Situation {
        self.topology
            .gpus
            .iter_mut()
            .for_each(|gpu| gpu.vendor = GpuVendor::Amd);
        self
    }

    fn nics_are(mut self, kind: NicKind) -> Situation {
        self.topology
            .nics
            .iter_mut()
            .for_each(|nic| nic.kind = kind);
        self
    }

    /// The ports that are not the task's have this state.
    fn other_ports_are(&mut self, state: PortState) {
        [0, 2, 3]
            .into_iter()
            .for_each(|nic| self.port(nic).state = state);
    }

    fn port(&mut self, nic: usize) -> &mut Port {
        &mut self.topology.nics[nic].ports[0]
    }
}

fn texts<T: ToString>(found: &[T]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
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
fn a_gpu_task_gets_its_own_nic_for_ucx_and_the_nodes_lists_for_nccl_and_nvshmem() {
    assert_eq!(here().changes(), [UCX, NCCL, NVSHMEM]);
}

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
        assert!(
            names::is_doubtful(name),
            "`{name}` follows from no topology"
        );
        assert!(variables().all(|ours| ours != name), "`{name}`");
    }
}

#[test]
fn every_variable_that_an_answer_rests_on_is_read_from_the_environment() {
    let never = LIBRARIES.iter().filter_map(|of| of.never);
    let known = variables().chain(evidence()).chain(never.map(|of| of.0));
    let mut known: Vec<&str> = known.collect();
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
        assert_eq!(
            why.starts_with("33 ports") && why.contains("32 at most"),
            !is_set,
            "{why}"
        );
    }
}
