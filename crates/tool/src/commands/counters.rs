//! Reads the counters of all NICs, with a thread for each card: one that does not answer delays no other.

use super::threads;
use nic_placement_core::config::NodeSource;
use nic_placement_formats::describe;
use nic_placement_node::discover::Root;
use nic_placement_traffic::bytes::Readings;
use nic_placement_traffic::counters::{self, Count, OF_SOFT_ROCE, PortCounts, Sample};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const CLASS: &str = "sys/class/infiniband";
const INTERFACES: &str = "sys/class/net";
/// RDMA devices, and interfaces: as many as discovery takes.
const MAX_DEVICES: usize = 256;
const MAX_PORTS: u8 = 16;

/// Opens the node's root in each thread anew, since a [`Root`] belongs to one.
pub(super) type Open = Arc<dyn Fn() -> Option<Root> + Send + Sync>;

/// The files of a node. A description without files, such as a model, is a plan for this node, whose counters are here.
pub(super) fn opener(source: &NodeSource) -> Open {
    match describe::root_of(source) {
        Some(root) if !root.is_live() => {
            let source = source.clone();
            Arc::new(move || describe::root_of(&source))
        }
        _ => Arc::new(|| Some(Root::live())),
    }
}

#[derive(Clone)]
pub(super) struct Counted {
    open: Open,
    readings: Readings,
    begun: Instant,
}

impl Counted {
    pub(super) fn begin(open: &Open, patience: Duration) -> Counted {
        let (after, silent) = read(open, &BTreeSet::new(), patience);
        Counted {
            open: Arc::clone(open),
            readings: Readings {
                after,
                silent,
                ..Readings::default()
            },
            begun: Instant::now(),
        }
    }

    /// From the begin, or the last readings, until now.
    pub(super) fn readings(&mut self, patience: Duration) -> Readings {
        let readings = &mut self.readings;
        readings.seconds = self.begun.elapsed().as_secs_f64();
        let (now, silent) = read(&self.open, &readings.silent, patience);
        self.begun = Instant::now();
        readings.silent.extend(silent);
        readings.before = std::mem::replace(&mut readings.after, now);
        readings.clone()
    }
}

/// Asks all RDMA devices but the silent ones, and all interfaces of cards. An interface of an RDMA device is in that device's
/// counts alone. Returns the devices that have not answered too.
fn read(open: &Open, silent: &BTreeSet<String>, patience: Duration) -> (Sample, BTreeSet<String>) {
    let (sender, answers) = channel();
    let root = open();
    let root = root.as_ref();
    let devices = root.map(|root| root.list(CLASS, |name| !silent.contains(name)));
    let mut devices = devices.unwrap_or_default();
    devices.truncate(MAX_DEVICES);
    for device in devices.clone() {
        let (open, sender) = (Arc::clone(open), sender.clone());
        let ask = move || {
            let sample = open().map(|root| device_of(&root, &device));
            // this fails where the reading has ended without the answer
            let _ = sender.send((device, sample.unwrap_or_default()));
        };
        if !threads::started(ask) {
            break;
        }
    }
    drop(sender);
    let end = Instant::now() + patience;
    let mut sample = root.map_or(Sample::new(), interfaces);
    let mut silent: BTreeSet<String> = devices.into_iter().collect();
    while !silent.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        let Ok((device, answer)) = answers.recv_timeout(left) else {
            break;
        };
        silent.remove(&device);
        let of_cards = answer.values().flat_map(|port| &port.interface);
        of_cards.for_each(|interface| drop(sample.remove(&interface.of)));
        sample.extend(answer);
    }
    (sample, silent)
}

fn device_of(root: &Root, device: &str) -> Sample {
    let path = format!("{CLASS}/{device}");
    let path = root.follow(&path).unwrap_or(path);
    let parent = path.rsplit_once("/infiniband/").map(|(parent, _)| parent);
    let parent = parent.filter(|parent| !parent.ends_with("devices/virtual"));
    let driver = parent.and_then(|parent| root.follow(&format!("{parent}/driver")));
    let driver = driver.as_deref().and_then(|path| path.rsplit('/').next());
    let beside = parent.map(|parent| root.list(&format!("{parent}/net"), |_| true));
    let mut sample = Sample::new();
    for port in 1..=MAX_PORTS {
        let below = format!("{path}/ports/{port}");
        if root.list(&below, |_| true).is_empty() {
            break;
        }
        let read = |file: &str| root.read(&format!("{below}/{file}"));
        let is_name = |name: &String| !(["", ".", ".."].contains(&&**name) || name.contains('/'));
        let interface = match beside.as_deref() {
            Some([only]) => Some(only.clone()),
            _ => read("gid_attrs/ndevs/0").filter(is_name),
        };
        let counts = PortCounts {
            rdma: counters::rdma(driver, &read),
            interface: interface.and_then(|name| interface_of(root, name)),
            is_soft: parent.is_none() || read(OF_SOFT_ROCE).is_some(),
        };
        sample.insert(format!("{device}:{port}"), counts);
    }
    sample
}

fn interface_of(root: &Root, name: String) -> Option<Count> {
    let path = format!("{INTERFACES}/{name}/statistics");
    counters::interface(name, &|file| root.read(&format!("{path}/{file}")))
}

/// Interfaces on devices: others, as bonds and bridges, count their bytes a second time.
fn interfaces(root: &Root) -> Sample {
    let on_a_device = |name: &String| {
        let device = root.follow(&format!("{INTERFACES}/{name}/device"));
        device.is_some()
    };
    let names = root.list(INTERFACES, |_| true).into_iter();
    let names = names.filter(on_a_device).take(MAX_DEVICES);
    let counted = names.filter_map(|name| {
        let counts = PortCounts {
            interface: Some(interface_of(root, name.clone())?),
            ..PortCounts::default()
        };
        Some((name, counts))
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn tree() -> Root {
        let card = |number: u32| {
            let place = format!("devices/pci0000:00/0000:00:0{number}.0/infiniband/mlx5_{number}");
            let port = format!("sys/{place}/ports/1/counters");
            format!(
                "sys/class/infiniband/mlx5_{number} -> ../../{place}\n{port}/port_rcv_data = 1\n\
                 {port}/port_xmit_data = 2\n"
            )
        };
        let text = format!("# nic-placement machine 1\n{}{}", card(0), card(1));
        Root::manifest(nic_placement_formats::manifest::parse(&text).unwrap())
    }

    #[test]
    fn a_card_that_does_not_answer_holds_up_no_other_and_is_not_asked_again() {
        let asked = Arc::new(AtomicUsize::new(0));
        let (release, released) = channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let open: Open = Arc::new(move || {
            // the first call is that of `begin` itself; the second, by one of the two threads, waits as for firmware
            if asked.fetch_add(1, Ordering::SeqCst) == 1 {
                let _ = released.lock().unwrap().recv();
            }
            Some(tree())
        });
        let (sample, silent) = read(&open, &BTreeSet::new(), Duration::from_millis(300));
        assert_eq!((silent.len(), sample.len()), (1, 1));
        let (again, others) = read(&open, &silent, Duration::from_secs(60));
        assert!(others.is_empty(), "the others answer");
        assert!(again.keys().eq(sample.keys()), "{again:?}");
        drop(release);
    }
}
