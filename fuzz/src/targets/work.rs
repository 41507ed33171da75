//! What `fuzz/run.sh slow` measures: each parser and the solver, alone, without the targets' checks.
#![forbid(unsafe_code)]

use super::built::{self, Bytes};
use super::{directory, environment, held, kept, layers, machines, ranks, request, tables, tree};
use nic_placement_core::config::hostlist::HostList;
use nic_placement_core::config::plugstack::patterns;
use nic_placement_core::config::{Admin, Conf, Words, cpu_bind};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::libraries::wanted::Template;
use nic_placement_core::maps::Subject;
use nic_placement_core::plan::Plan;
use nic_placement_core::step::Step;
use nic_placement_core::topology::{CpuSet, GpuIndex, Provenance, Topology, file};
use nic_placement_fleet::audit::Audit;
use nic_placement_fleet::audit::kinds::Bad;
use nic_placement_fleet::audit::stream::{self, StreamPiece};
use nic_placement_fleet::fabric::cabling::Cabling;
use nic_placement_fleet::fabric::sources;
use nic_placement_formats::{archive, import, manifest, node_file};
use nic_placement_launch::formats::FORMATS;
use nic_placement_launch::gpu_list::gpus_named;
use nic_placement_launch::step;
use nic_placement_node::discover::{Root, Scope};
use nic_placement_node::platform;
use nic_placement_node::{cache, read_root};
use std::hint::black_box;

/// Work on one input that may be done again: what it needs is made before.
pub type Work<'d> = Box<dyn FnMut() + 'd>;

/// Makes the work of an input.
pub type Make = for<'d> fn(&'d [u8]) -> Work<'d>;

/// Bytes of an input that the project reads, at most; where it is less than the format's limit, a longer one is too slow to
/// search with.
const KIB: usize = 1024;

/// `(name of the target, bytes of an input at most, its work)`.
pub const WORKS: [(&str, usize, Make); 24] = [
    ("words", KIB, words),
    ("plugstack", 64 * KIB, plugstack),
    ("conf", 64 * KIB, conf),
    ("environment", 128 * KIB, environment::work),
    ("sysfs", KIB, sysfs),
    ("tables", 64 * KIB, tables::work),
    ("node_file", 1024 * KIB, node_file),
    ("topology", 1024 * KIB, topology),
    ("snapshot", 1024 * KIB, snapshot),
    ("archive", 1024 * KIB, tar),
    ("hwloc", 1024 * KIB, hwloc),
    ("nccl", 1024 * KIB, nccl),
    ("matrix", 1024 * KIB, matrix),
    ("audit", 1024 * KIB, audit),
    ("template", 64 * KIB, template),
    ("maps", KIB, kept_maps),
    ("solver", KIB, solver),
    ("lists", 128 * KIB, lists),
    ("request", 1024 * KIB, request::work),
    ("layers", 64 * KIB, layers::work),
    ("kept", KIB, kept::work),
    ("directory", KIB, directory::work),
    ("ranks", 4096 * KIB, ranks::work),
    ("fabric", 1024 * KIB, fabric),
];

fn made() -> Provenance {
    Provenance::File("made".to_string())
}

fn printed(findings: &[Diagnostic]) {
    findings
        .iter()
        .for_each(|finding| drop(black_box(finding.to_string())));
}

/// The map of a node, as a step makes it.
fn mapped(node: Topology, admin: Admin) -> Plan {
    let step = Step {
        tasks: 1,
        total_tasks: 1,
        ..Step::default()
    };
    Plan::new(
        node,
        machines::wish("closest", admin),
        step,
        &machines::no_file,
    )
}

fn words(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    Box::new(move || {
        drop(black_box(
            Words::parse(&text).map_err(|bad| bad.to_string()),
        ))
    })
}

fn plugstack(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    let node = platform::model("dgx-h100").expect("a model");
    Box::new(move || {
        let (admin, findings) =
            Admin::parse(text.split('\n').filter(|argument| !argument.is_empty()));
        printed(&findings);
        printed(&mapped(node.clone(), admin).diagnostics());
    })
}

fn conf(data: &[u8]) -> Work<'_> {
    let node = platform::model("dgx-h100").expect("a model");
    Box::new(move || {
        let Ok((conf, findings)) = Conf::parse(data, "/etc/nic-placement.conf") else {
            return;
        };
        printed(&findings);
        let mut admin = Admin::default();
        printed(&admin.add_conf(&conf, "/etc/nic-placement.conf", "gpu001", Some("train")));
        printed(&mapped(node.clone(), admin).diagnostics());
    })
}

fn template(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    Box::new(move || {
        let Ok((template, _)) = Template::parse(&text) else {
            return;
        };
        let admin = Admin {
            templates: vec![template],
            ..Admin::default()
        };
        machines::for_tasks(admin, 1, |_, task| drop(black_box(task.lines("n1", ""))));
    })
}

fn sysfs(data: &[u8]) -> Work<'_> {
    let (manifest, scope) = tree::hostile(data);
    let root = Root::manifest(manifest);
    Box::new(move || {
        let (topology, findings) = read_root(&root, scope, made());
        printed(&findings);
        black_box(topology);
    })
}

fn node_file(data: &[u8]) -> Work<'_> {
    let bytes = node_file::sealed(data);
    Box::new(move || {
        if let Ok(read) = cache::from_bytes(&bytes, made()) {
            black_box(mapped(read.topology, Admin::default()));
        }
    })
}

fn topology(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    Box::new(move || {
        if let Ok(read) = file::from_json(&text, made()) {
            black_box(mapped(read, Admin::default()));
        }
    })
}

fn snapshot(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    Box::new(move || {
        if let Ok(manifest) = manifest::parse(&text) {
            black_box(read_root(&Root::manifest(manifest), Scope::Full, made()));
        }
    })
}

fn tar(data: &[u8]) -> Work<'_> {
    Box::new(move || {
        if let Ok(manifest) = archive::read(data) {
            black_box(read_root(&Root::manifest(manifest), Scope::Full, made()));
        }
    })
}

type Read = fn(&str, Provenance) -> Result<(Topology, Vec<Diagnostic>), import::BadText>;

fn imported(data: &[u8], read: Read) -> Work<'_> {
    let text = held::text(data);
    Box::new(move || {
        if let Ok((topology, findings)) = read(&text, made()) {
            printed(&findings);
            black_box(topology);
        }
    })
}

fn hwloc(data: &[u8]) -> Work<'_> {
    imported(data, import::hwloc::read)
}

fn nccl(data: &[u8]) -> Work<'_> {
    imported(data, import::nccl::read)
}

fn matrix(data: &[u8]) -> Work<'_> {
    imported(data, import::smi::read)
}

fn audit(data: &[u8]) -> Work<'_> {
    Box::new(move || {
        let mut audit = Audit::default();
        let mut bad = Vec::new();
        let mut take = |(line, piece): StreamPiece<'_>| {
            if let Err(why) = piece
                .map_err(str::to_string)
                .and_then(|piece| audit.add(piece))
            {
                bad.push(Bad {
                    input: "-".into(),
                    line: Some(line),
                    why,
                });
            }
        };
        stream::read(data, &mut take).expect("memory can be read");
        black_box(audit.finish().to_json(bad.len(), &bad));
    })
}

fn fabric(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    Box::new(move || {
        let mut cabling = Cabling::default();
        drop(black_box(sources::read("n1.txt", &text, &mut cabling)));
        black_box(cabling);
    })
}

fn kept_maps(data: &[u8]) -> Work<'_> {
    let mut bytes = Bytes::new(data);
    let chosen = usize::from(bytes.next());
    let node = built::topology(&mut bytes);
    let gpus: Vec<GpuIndex> = node.gpu_indices().collect();
    if gpus.is_empty() {
        return Box::new(|| {});
    }
    let (_, write, _) = FORMATS[chosen % FORMATS.len()];
    let step = step::for_engines(&node, &gpus);
    let plan = Plan::new(
        node,
        machines::wish("closest", Admin::default()),
        step,
        &machines::no_file,
    );
    Box::new(move || {
        let subject = Subject {
            topology: &plan.node,
            node: &plan.map,
            gpus: &gpus,
        };
        drop(black_box(write(subject)));
    })
}

fn solver(data: &[u8]) -> Work<'_> {
    let (node, words) = machines::asked(data);
    let step = Step {
        tasks: 1,
        total_tasks: 1,
        alone_on_node: true,
        ..Step::default()
    };
    Box::new(move || {
        let wish = machines::wish(words, Admin::default());
        black_box(Plan::new(
            node.clone(),
            wish,
            step.clone(),
            &machines::no_file,
        ));
    })
}

fn lists(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    let node = platform::model("dgx-h100").expect("a model");
    Box::new(move || {
        let line = text.split('\n').next().unwrap_or_default();
        let words: Vec<String> = text.split('\n').map(str::to_string).collect();
        drop(black_box(CpuSet::from_list(line)));
        drop(black_box(CpuSet::from_mask(line)));
        drop(black_box(
            gpus_named(&node, line).map_err(|bad| bad.to_string()),
        ));
        if let Ok(patterns) = patterns(line) {
            black_box(
                node.nics
                    .iter()
                    .filter(|nic| patterns.iter().any(|one| one.matches(nic)))
                    .count(),
            );
        }
        if let Ok(list) = HostList::parse(line) {
            black_box(
                words
                    .iter()
                    .skip(1)
                    .take(2)
                    .filter(|name| list.has(name))
                    .count(),
            );
        }
        black_box(cpu_bind::word_of_srun(&words, Some(line)));
        black_box(cpu_bind::masks(|name| {
            Some(if name == cpu_bind::TYPE {
                "mask_cpu:"
            } else {
                line
            })
        }));
    })
}
