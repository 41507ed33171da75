//! What the libraries read, on a node of four GPUs and four NICs; one NIC carries storage.

mod addresses;
mod degraded;
mod left_out;
mod libfabric;
mod libraries;
mod meanings;
mod nested;
mod nvshmem;
mod sockets;
mod templates;
mod ucx;

use super::wanted::{Fabric, Template};
use super::*;
use crate::placement::{Excluded, Policy, Rail, RailIndex};
use crate::step::Step;
use crate::topology::{
    CpuSet, DeviceName, Gpu, GpuIndex, GpuVendor, LinkLayer, Nic, NicIndex, NicKind, PathType,
    Port, PortState, Provenance, Topology,
};
use crate::wish::Wish;
use std::cell::RefCell;

fn node(storage: PortState) -> (Topology, NodePlacement) {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    let mut placement = NodePlacement {
        policy: Policy::Closest,
        rails: Vec::new(),
        numbered_by_admin: Vec::new(),
        broken: Vec::new(),
        degraded: Vec::new(),
        left_to_libfabric: Vec::new(),
        excluded: Vec::new(),
        gpus: Vec::new(),
        diagnostics: Vec::new(),
    };
    for index in 0..4usize {
        let name: DeviceName = format!("mlx5_{index}").parse().unwrap();
        let state = if index == 3 {
            storage
        } else {
            PortState::Active
        };
        let port = Port::new(1, state, LinkLayer::InfiniBand, None);
        let address = format!("{index}0:00.0").parse().unwrap();
        topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
        topology.nics.push(Nic {
            address: Some(format!("{index}1:00.0").parse().unwrap()),
            ports: vec![port],
            ..Nic::new(name.clone(), NicKind::Verbs)
        });
        match index {
            3 => placement.excluded.push(Excluded {
                name,
                port: None,
                why: "test".into(),
            }),
            nic => placement.rails.push(Rail {
                nic: NicIndex(nic),
                name,
                port: 1,
                rate_mbps: None,
            }),
        }
    }
    (topology, placement)
}

fn task(gpus: &[usize], rails: &[usize]) -> TaskPlacement {
    TaskPlacement {
        gpus: gpus.iter().copied().map(GpuIndex).collect(),
        seen: gpus.iter().copied().map(GpuIndex).collect(),
        rails: rails
            .iter()
            .map(|&rail| (RailIndex(rail), PathType::Pix))
            .collect(),
        ..TaskPlacement::default()
    }
}

fn present(values: &[(&str, &str)]) -> Present {
    values
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

/// The files of a node or of its user: `(path, text)`; `…` at a text's end means that it was cut there.  A node whose
/// routes are not among them has none.
type Files = &'static [(&'static str, &'static str)];

fn reader(files: Files) -> impl Fn(&str) -> Option<FileText> {
    |path| {
        let none = Some(&("/proc/net/route", "")).filter(|_| path == "/proc/net/route");
        let (_, text) = files.iter().find(|(name, _)| *name == path).or(none)?;
        Some(FileText {
            text: text.to_string(),
            is_cut: text.ends_with('…'),
            unanswered: None,
        })
    }
}

/// One task of a step with what is wanted, its environment, and files.
#[derive(Clone)]
struct Situation {
    topology: Topology,
    node: NodePlacement,
    wish: Wish,
    step: Step,
    present: Present,
    files: Files,
}

impl Situation {
    /// One of the four NICs carries storage, and its port is in this state.
    fn new(storage: PortState) -> Situation {
        let (topology, node) = node(storage);
        Situation {
            topology,
            node,
            wish: Wish::default(),
            step: Step::default(),
            present: Present::new(),
            files: &[],
        }
    }

    fn prepared(&self) -> Prepared {
        Prepared::new(
            &self.topology,
            &self.node,
            self.wish.clone().into(),
            &self.step,
            &reader(self.files),
        )
    }

    /// Name, change and reason of every variable.
    fn told(&self, task: &TaskPlacement) -> Vec<(String, Change, String)> {
        let prepared = self.prepared();
        let read = reader(self.files);
        let evidence = Evidence {
            present: &self.present,
            read: &read,
        };
        let variables = environment(&prepared, &self.topology, &self.node, task, evidence);
        variables
            .into_iter()
            .map(|variable| {
                (
                    variable.name.into_owned(),
                    variable.change,
                    variable.why.into_owned(),
                )
            })
            .collect()
    }

    /// `NAME=VALUE` for what is set, `NAME` for what is removed, without the marker.
    fn changes(&self, task: &TaskPlacement) -> Vec<String> {
        let told = self
            .told(task)
            .into_iter()
            .filter(|(name, ..)| name != marker::NAME);
        told.filter_map(|(name, change, _)| match change {
            Change::Set(value) => Some(format!("{name}={value}")),
            Change::Remove => Some(name),
            Change::KeepUsers(_) | Change::Leave => None,
        })
        .collect()
    }

    fn value(&self, task: &TaskPlacement, name: &str) -> Option<String> {
        self.told(task)
            .into_iter()
            .find_map(|(told, change, _)| match change {
                Change::Set(value) if told == name => Some(value),
                _ => None,
            })
    }

    /// Why a variable is set or not; empty if there is no answer for it.
    fn why(&self, task: &TaskPlacement, name: &str) -> String {
        self.told(task)
            .into_iter()
            .find(|(told, ..)| told == name)
            .map(|told| told.2)
            .unwrap_or_default()
    }

    fn with(mut self, values: &[(&str, &str)]) -> Situation {
        self.present.extend(present(values));
        self
    }

    fn libraries(mut self, words: &[&str]) -> Situation {
        let named = words
            .iter()
            .map(|word| wanted::Libraries::named(word).expect("a library"));
        self.wish.libraries = named.fold(wanted::Libraries::NONE, wanted::Libraries::with);
        self
    }

    fn set(mut self, text: &str) -> Situation {
        self.wish
            .admin
            .templates
            .push(Template::parse(text).expect("a template").0);
        self
    }
}

#[test]
fn no_configuration_file_is_opened_twice_for_a_step_nor_for_a_task() {
    let mut situation = Situation::new(PortState::Active).with(&[("HOME", "/home/me")]);
    situation.wish.admin.fabric = Fabric::IsolatedRails;
    for judges_files in [false, true] {
        situation.wish.verbose = judges_files;
        let opened = RefCell::new(Vec::new());
        let read = |path: &str| {
            opened.borrow_mut().push(path.to_string());
            reader(&[])(path)
        };
        let prepared = Prepared::new(
            &situation.topology,
            &situation.node,
            situation.wish.clone().into(),
            &situation.step,
            &read,
        );
        let for_the_step = opened.take();
        let evidence = Evidence {
            present: &situation.present,
            read: &read,
        };
        environment(
            &prepared,
            &situation.topology,
            &situation.node,
            &task(&[1], &[1]),
            evidence,
        );
        for (mut paths, file) in [
            (for_the_step, "/etc/nccl.conf"),
            (opened.take(), "/home/me/.nccl.conf"),
        ] {
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
    assert_eq!(
        Situation::new(PortState::Active).changes(&task(&[1], &[1])),
        [UCX, NCCL, NVSHMEM]
    );
}

#[test]
fn no_variable_that_can_be_set_is_one_that_never_may() {
    for name in variables() {
        // these follow from what the admin says of the fabric, and from the routes
        let has_other_ground = name == "NCCL_CROSS_NIC" || name.ends_with("_SOCKET_IFNAME");
        let is_doubtful = names::is_doubtful(name) && !has_other_ground;
        assert!(!names::is_refused(name) && !is_doubtful, "`{name}`");
    }
    for (library, words) in [
        (
            "NCCL",
            "IB_TC IB_SL IB_TIMEOUT IB_RETRY_CNT IB_QPS_PER_CONNECTION IB_GID_INDEX IB_DISABLE NSOCKS_PERTHREAD",
        ),
        (
            "NCCL",
            "SOCKET_NTHREADS ALGO PROTO MIN_NCHANNELS MAX_NCHANNELS NVLS_ENABLE P2P_DISABLE P2P_LEVEL",
        ),
        (
            "NCCL",
            "SHM_DISABLE NET NET_PLUGIN DMABUF_ENABLE IGNORE_NET_MISMATCH HOSTID DEBUG IB_FIFO_TC",
        ),
        ("FI", "PROVIDER EFA_IFACE"),
    ] {
        for word in words.split(' ') {
            let name = format!("{library}_{word}");
            assert!(
                names::is_doubtful(&name),
                "`{name}` follows from no topology"
            );
            assert!(
                variables().all(|settable| settable != name),
                "`{name}` is never ours"
            );
        }
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
    for (count, expected) in [(32, true), (33, false)] {
        let mut situation = Situation::new(PortState::Active);
        let rails = (0..count).map(|nic| Rail {
            nic: NicIndex(0),
            name: format!("roce{nic}").parse().unwrap(),
            port: 1,
            rate_mbps: None,
        });
        situation.node.rails = rails.collect();
        let task = task(&[1], &[1]);
        let why = situation.why(&task, "NCCL_IB_HCA");
        assert_eq!(
            situation.value(&task, "NCCL_IB_HCA").is_some(),
            expected,
            "{count} rails"
        );
        assert_eq!(
            why == "33 ports may be used, and NCCL reads a list of 32 at most",
            !expected,
            "{why}"
        );
    }
}
