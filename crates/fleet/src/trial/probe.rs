//! One task's findings about itself, as a line of JSON, and whether its GPUs are those that the plugin took for its own.

use nic_placement_core::topology::{CpuSet, PciAddress};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub const FORMAT: &str = "nic-placement probe";
pub const VERSION: u32 = 1;

/// Without a marker `taken` and `set_cpus` are `None`, and there are no NICs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    pub format: String,
    pub version: u32,
    pub local_id: Option<u32>,
    pub rank: Option<u32>,
    pub drivers: Vec<ProbedDriver>,
    pub taken: Option<Vec<PciAddress>>,
    /// the NICs of its marker, as `mlx5_0:1`
    pub nics: Vec<String>,
    pub cpus: Option<CpuSet>,
    pub set_cpus: Option<CpuSet>,
    /// its memory policy: `default`, `prefer:NODES`, `bind:NODES` or `other`
    pub memory: Option<String>,
    /// of its first CUDA device
    pub copies: Option<CopyRates>,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbedDriver {
    /// `cuda` or `hip`
    pub name: String,
    pub version: Option<i32>,
    /// in the driver's order
    pub devices: Vec<ProbedDevice>,
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbedDevice {
    /// as the driver writes it
    pub address: String,
    pub uuid: Option<String>,
    pub name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CopyRates {
    pub to_device_mb_s: f64,
    pub to_host_mb_s: f64,
}

/// A task's GPUs by the driver, beside those that the plugin took.
#[derive(Debug, PartialEq)]
pub enum Identity {
    Agrees,
    /// the same GPUs; the driver numbers them in another order
    Order,
    Differs {
        driver: Vec<PciAddress>,
        taken: Vec<PciAddress>,
    },
    /// no driver is there, or none answers: the reason
    NotTried(String),
    NotPlaced,
}

impl Probe {
    pub fn to_json(&self) -> String {
        // no map, no odd number: it cannot fail
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Reads one line; `None` for another text or version.
    pub fn from_json(line: &str) -> Option<Probe> {
        let probe: Probe = serde_json::from_str(line).ok()?;
        (probe.format == FORMAT && probe.version == VERSION).then_some(probe)
    }
}

/// The driver that agrees most counts: an Intel processor's own GPU is beside others.
pub fn judge(probe: &Probe) -> Identity {
    let Some(taken) = &probe.taken else {
        return Identity::NotPlaced;
    };
    let (mut answers, mut errors) = (Vec::new(), Vec::new());
    for ProbedDriver {
        name,
        devices,
        error,
        ..
    } in &probe.drivers
    {
        let devices: Result<Vec<PciAddress>, _> = devices
            .iter()
            .map(|device| device.address.parse())
            .collect();
        match (error, devices) {
            (Some(why), _) => errors.push(format!("{name}: {why}")),
            (None, Err(why)) => errors.push(format!("{name}: {why}")),
            (None, Ok(devices)) => answers.push(identity(devices, taken, name == "hip")),
        }
    }
    let rank = |answer: &Identity| match answer {
        Identity::Agrees => 0,
        Identity::Order => 1,
        Identity::Differs { driver, .. } if driver.iter().any(|device| taken.contains(device)) => 2,
        // the silent driver may have the GPUs that were taken
        _ if !errors.is_empty() => 4,
        Identity::Differs { driver, .. } if !driver.is_empty() => 3,
        _ => 5,
    };
    match answers.into_iter().min_by_key(rank) {
        Some(best) if rank(&best) != 4 => best,
        _ if errors.is_empty() => Identity::NotTried("no driver was asked".to_string()),
        _ => Identity::NotTried(errors.join("; ")),
    }
}

/// Each part of a divided GPU has the address of all; HIP may count them by the function's number.
fn identity(driver: Vec<PciAddress>, taken: &[PciAddress], by_card: bool) -> Identity {
    let once = |addresses: &[PciAddress]| {
        let mut seen = BTreeSet::new();
        let once: Vec<PciAddress> = addresses
            .iter()
            .map(|of| if by_card { of.card() } else { *of })
            .filter(|address| seen.insert(*address))
            .collect();
        (once, seen)
    };
    let (devices, expected) = (once(&driver), once(taken));
    if devices == expected {
        Identity::Agrees
    } else if devices.1 == expected.1 {
        Identity::Order
    } else {
        let taken = taken.to_vec();
        Identity::Differs { driver, taken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn driver(name: &str, addresses: &[&str]) -> ProbedDriver {
        let devices = addresses.iter().map(|address| json!({"address": address}));
        let driver = json!({"name": name, "devices": Vec::from_iter(devices)});
        serde_json::from_value(driver).unwrap()
    }

    fn failed(name: &str) -> ProbedDriver {
        let mut failed = driver(name, &[]);
        failed.error = Some("`init` answered 3".into());
        failed
    }

    fn parsed(addresses: &[&str]) -> Vec<PciAddress> {
        let addresses = addresses.iter();
        addresses.map(|address| address.parse().unwrap()).collect()
    }

    fn probe(drivers: &[ProbedDriver], taken: Option<&[&str]>) -> Probe {
        let probe = json!({"format": FORMAT, "version": VERSION, "local_id": 0, "drivers": drivers, "taken": taken,
            "nics": [], "cpus": "0-3", "memory": "prefer:0", "notes": []});
        Probe::from_json(&probe.to_string()).unwrap()
    }

    const A: &str = "0000:1b:00.0";
    const B: &str = "0000:2b:00.0";

    /// The GPUs that drivers show, `!` where one failed, and those that the task was given.
    #[track_caller]
    fn judged(drivers: &[&[&str]], taken: Option<&[&str]>, expected: Identity) {
        let drivers = drivers.iter().zip(["cuda", "hip"]);
        let driver = |(addresses, name): (&&[&str], &str)| match addresses {
            ["!"] => failed(name),
            addresses => driver(name, addresses),
        };
        let drivers: Vec<ProbedDriver> = drivers.map(driver).collect();
        assert_eq!(judge(&probe(&drivers, taken)), expected);
    }

    fn differs(driver: &[&str], taken: &[&str]) -> Identity {
        Identity::Differs {
            driver: parsed(driver),
            taken: parsed(taken),
        }
    }

    fn not_tried(why: &str) -> Identity {
        Identity::NotTried(why.into())
    }

    #[test]
    fn addresses_are_compared_and_not_their_spellings_and_parts_of_a_gpu_are_one_gpu() {
        let odd = &["00000000:1B:00.0", B];
        judged(&[odd], Some(&[A, B]), Identity::Agrees);
        judged(&[&[B, A]], Some(&[A, B]), Identity::Order);
        judged(&[&[B]], Some(&[A]), differs(&[B], &[A]));
        let why = "gpu".parse::<PciAddress>().unwrap_err();
        judged(&[&["gpu"]], Some(&[A]), not_tried(&format!("cuda: {why}")));
        let parts = &[A, "0000:1b:00.1"];
        judged(&[&[A]], Some(&[A, A]), Identity::Agrees);
        judged(&[&["!"], parts], Some(&[A]), Identity::Agrees);
        judged(&[parts], Some(&[A]), differs(parts, &[A]));
    }

    #[test]
    fn the_driver_that_agrees_most_counts_and_one_that_failed_may_be_the_task_s() {
        judged(&[&[]], Some(&[A]), differs(&[], &[A]));
        judged(&[&[]], Some(&[]), Identity::Agrees);
        judged(&[&[], &[B, A]], Some(&[A, B]), Identity::Order);
        judged(&[&[], &[B]], Some(&[A]), differs(&[B], &[A]));
        let why = "cuda: `init` answered 3";
        judged(&[&["!"], &[B]], Some(&[A]), not_tried(why));
        judged(&[&["!"], &[A]], Some(&[A]), Identity::Agrees);
        judged(&[&[A, B], &["!"]], Some(&[A]), differs(&[A, B], &[A]));
        let why = "cuda: `init` answered 3; hip: `init` answered 3";
        judged(&[&["!"], &["!"]], Some(&[A]), not_tried(why));
        judged(&[], Some(&[A]), not_tried("no driver was asked"));
        judged(&[&[A]], None, Identity::NotPlaced);
    }

    #[test]
    fn a_line_is_read_back_and_another_version_is_none() {
        let mut probe = probe(&[driver("cuda", &[A]), failed("hip")], Some(&[A]));
        assert_eq!(Probe::from_json(&probe.to_json()), Some(probe.clone()));
        probe.version = 2;
        assert_eq!(Probe::from_json(&probe.to_json()), None);
        assert_eq!(Probe::from_json("{}"), None);
    }
}
