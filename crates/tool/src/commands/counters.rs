//! Reads the counters of all NICs, with a thread for each card: one that does not answer delays no other.

use super::threads;
use nic_placement_core::config::NodeSource;
use nic_placement_formats::describe;
use nic_placement_node::discover::Root;
use nic_placement_traffic::bytes::Readings;
use nic_placement_traffic::counters::{self, CountedPort, OF_SOFT_ROCE, PortCounts, Sample};
use std::collections::BTreeSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
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

/// Readings from a begin until now.
#[derive(Clone)]
pub(super) struct Counted {
    open: Open,
    readings: Readings,
    begun: Instant,
}

impl Counted {
    pub(super) fn begin(open: &Open, patience: Duration) -> Counted {
        let Reading {
            sample,
            silent,
            is_unasked,
        } = read(open, &BTreeSet::new(), patience);
        if !silent.is_empty() && !is_unasked {
            let names: Vec<&str> = silent.iter().map(String::as_str).collect();
            let (names, seconds) = (names.join(", "), patience.as_secs());
            super::tell(&format!(
                "verify: {names} did not answer in {seconds} s and is left out"
            ));
        }
        Counted {
            open: Arc::clone(open),
            readings: Readings {
                after: sample,
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
        let now = read(&self.open, &readings.silent, patience);
        self.begun = Instant::now();
        readings.silent.extend(now.silent);
        readings.before = std::mem::replace(&mut readings.after, now.sample);
        readings.clone()
    }
}

pub(super) struct Reading {
    pub(super) sample: Sample,
    silent: BTreeSet<String>,
    /// true if no thread could be started: then no card was asked
    is_unasked: bool,
}

type Left = Mutex<std::vec::IntoIter<String>>;

/// Asks all RDMA devices but the silent ones, and all interfaces of cards. An interface of an RDMA device is in that device's
/// counts alone.
pub(super) fn read(open: &Open, silent: &BTreeSet<String>, patience: Duration) -> Reading {
    let (sender, answers) = channel();
    let root = open();
    let devices = root
        .as_ref()
        .map(|root| root.list(CLASS, |name| !silent.contains(name)));
    let mut devices = devices.unwrap_or_default();
    devices.truncate(MAX_DEVICES);
    let left: Arc<Left> = Arc::new(Mutex::new(devices.clone().into_iter()));
    let ask = || {
        let (left, open, sender) = (Arc::clone(&left), Arc::clone(open), sender.clone());
        move || ask_all(&left, &open, &sender)
    };
    let is_unasked = !devices.is_empty() && !threads::started(ask());
    // fewer threads than cards ask all the same, as long as cards answer
    if !is_unasked {
        let mut others = devices.iter().skip(1);
        let _ = others.try_for_each(|_| threads::start(ask()));
    }
    drop(sender);
    let end = Instant::now() + patience;
    let mut sample = root.as_ref().map_or(Sample::new(), interfaces);
    let mut silent: BTreeSet<String> = devices.into_iter().collect();
    while !silent.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        let Ok((device, answer)) = answers.recv_timeout(left) else {
            break;
        };
        silent.remove(&device);
        sample.extend(answer);
    }
    let cards = sample.iter().filter(|(place, _)| place.port > 0);
    let of_cards = cards.filter_map(|(_, counted)| Some(counted.interface.as_ref()?.0.clone()));
    let of_cards: BTreeSet<String> = of_cards.collect();
    sample.retain(|place, _| place.port > 0 || !of_cards.contains(&place.device));
    Reading {
        sample,
        silent,
        is_unasked,
    }
}

/// Asks card after card, until all are asked or one does not answer.
fn ask_all(left: &Left, open: &Open, sender: &Sender<(String, Sample)>) {
    loop {
        let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(device) = next else { return };
        let sample = open().map(|root| device_of(&root, &device));
        // this fails where the reading has ended without the answer
        let _ = sender.send((device, sample.unwrap_or_default()));
    }
}

fn device_of(root: &Root, device: &str) -> Sample {
    let path = format!("{CLASS}/{device}");
    let path = root.follow(&path).unwrap_or(path);
    let parent = path.rsplit_once("/infiniband/").map(|(parent, _)| parent);
    let parent = parent.filter(|parent| !parent.ends_with("devices/virtual"));
    let driver = parent.and_then(|parent| root.follow(&format!("{parent}/driver")));
    let driver = driver.as_deref().and_then(|path| path.rsplit('/').next());
    let beside = parent.map_or(Vec::new(), |parent| {
        root.list(&format!("{parent}/net"), |_| true)
    });
    let mut sample = Sample::new();
    for port in 1..=MAX_PORTS {
        let below = format!("{path}/ports/{port}");
        if root.list(&below, |_| true).is_empty() {
            break;
        }
        let read = |file: &str| root.read(&format!("{below}/{file}"));
        let is_name = |name: &String| !(["", ".", ".."].contains(&&**name) || name.contains('/'));
        let interface = match &beside[..] {
            [only] => Some(only.clone()),
            // soft RoCE names the interface that it uses (drivers/infiniband/sw/rxe/rxe_verbs.c, `parent_show`)
            _ => (root.read(&format!("{path}/parent")).filter(is_name))
                .or_else(|| read("gid_attrs/ndevs/0").filter(is_name)),
        };
        let counts = PortCounts {
            rdma: counters::rdma(driver, &read),
            interface: interface.and_then(|name| interface_of(root, name)),
            is_soft: parent.is_none() || read(OF_SOFT_ROCE).is_some(),
        };
        let device = device.to_string();
        sample.insert(CountedPort { device, port }, counts);
    }
    sample
}

fn interface_of(root: &Root, name: String) -> Option<(String, counters::Count)> {
    let read = |file: &str| root.read(&format!("{INTERFACES}/{name}/statistics/{file}"));
    let count = counters::interface(&read)?;
    Some((name, count))
}

/// Interfaces on devices: others, as bonds and bridges, count their bytes a second time.
fn interfaces(root: &Root) -> Sample {
    let on_a_device = |name: &String| {
        let device = root.follow(&format!("{INTERFACES}/{name}/device"));
        device.is_some()
    };
    let names = root.list(INTERFACES, |_| true).into_iter();
    let names = names.filter(on_a_device).take(MAX_DEVICES);
    let counted = names.filter_map(|device| {
        let counts = PortCounts {
            interface: Some(interface_of(root, device.clone())?),
            ..PortCounts::default()
        };
        Some((CountedPort { device, port: 0 }, counts))
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
        let first = read(&open, &BTreeSet::new(), Duration::from_millis(300));
        assert_eq!((first.silent.len(), first.sample.len()), (1, 1));
        let again = read(&open, &first.silent, Duration::from_secs(60));
        assert!(again.silent.is_empty(), "the others answer");
        let mut places = again.sample.keys();
        assert!(places.all(|place| !first.silent.contains(&place.device)));
        drop(release);
    }
}
