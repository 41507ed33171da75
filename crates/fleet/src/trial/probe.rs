//! What one task found of itself, as a line of JSON, and whether its GPUs are those that the plugin took for its own.
#![forbid(unsafe_code)]

use nic_placement_core::topology::{CpuSet, PciAddress};
use serde::{Deserialize, Serialize};

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
    /// the GPUs of its marker
    pub taken: Option<Vec<PciAddress>>,
    /// the NICs of its marker, as `mlx5_0:1`
    pub nics: Vec<String>,
    /// the CPUs that the kernel lets it use
    pub cpus: Option<CpuSet>,
    /// the CPUs of its marker
    pub set_cpus: Option<CpuSet>,
    /// its memory policy: `default`, `prefer:NODES`, `bind:NODES` or `other`
    pub memory: Option<String>,
    /// of its first CUDA device
    pub copies: Option<CopyRates>,
    /// NCCL's version, if a communicator was made
    pub nccl: Option<i32>,
    /// why there are no copies, or no communicator
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedDriver {
    /// `cuda`, `hip` or `level-zero`
    pub name: String,
    pub version: Option<i32>,
    /// in the driver's order
    pub devices: Vec<ProbedDevice>,
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Are a task's GPUs those that the plugin took for its own?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Agrees,
    /// the same GPUs; the driver numbers them in another order
    Order,
    Differs {
        driver: Vec<PciAddress>,
        taken: Vec<PciAddress>,
    },
    /// no driver is there, or none answers: why
    NotTried(String),
    /// the task has no marker
    NotPlaced,
}

impl Probe {
    pub fn to_json(&self) -> String {
        // no map, no odd number: it cannot fail
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Reads one line; `None` for what is no probe of this version.
    pub fn from_json(line: &str) -> Option<Probe> {
        let probe: Probe = serde_json::from_str(line).ok()?;
        (probe.format == FORMAT && probe.version == VERSION).then_some(probe)
    }
}

/// Of several drivers with devices the one that agrees most counts: an Intel processor's own GPU stands beside others.
pub fn judge(probe: &Probe) -> Identity {
    let Some(taken) = &probe.taken else {
        return Identity::NotPlaced;
    };
    let mut answers = Vec::new();
    let mut errors = Vec::new();
    for driver in &probe.drivers {
        match addresses(driver) {
            Ok(devices) => answers.push(identity(devices, taken, driver.name == "hip")),
            Err(why) => errors.push(format!("{}: {why}", driver.name)),
        }
    }
    let rank = |answer: &Identity| match answer {
        Identity::Agrees => 0,
        Identity::Order => 1,
        Identity::Differs { driver, .. } if driver.iter().any(|device| taken.contains(device)) => 2,
        // a driver that answers not may be the one with the GPUs that were taken
        _ if !errors.is_empty() => 4,
        Identity::Differs { driver, .. } if !driver.is_empty() => 3,
        _ => 5,
    };
    let best = answers.into_iter().min_by_key(rank);
    match best {
        Some(best) if rank(&best) != 4 => best,
        _ if errors.is_empty() => Identity::NotTried("no driver was asked".to_string()),
        _ => Identity::NotTried(errors.join("; ")),
    }
}

/// A driver's devices; why they are not known, else.
fn addresses(driver: &ProbedDriver) -> Result<Vec<PciAddress>, String> {
    if let Some(error) = &driver.error {
        return Err(error.clone());
    }
    driver
        .devices
        .iter()
        .map(|device| device.address.parse())
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{error}"))
}

/// Of GPUs that are divided each part has the address of all; HIP may count them by the function's number.
fn identity(driver: Vec<PciAddress>, taken: &[PciAddress], by_card: bool) -> Identity {
    let once = |addresses: &[PciAddress]| {
        let mut once = Vec::new();
        for address in addresses
            .iter()
            .map(|address| if by_card { address.card() } else { *address })
        {
            if !once.contains(&address) {
                once.push(address);
            }
        }
        once
    };
    let (devices, expected) = (once(&driver), once(taken));
    let sorted = |addresses: &[PciAddress]| {
        let mut sorted = addresses.to_vec();
        sorted.sort();
        sorted
    };
    if devices == expected {
        Identity::Agrees
    } else if sorted(&devices) == sorted(&expected) {
        Identity::Order
    } else {
        Identity::Differs {
            driver,
            taken: taken.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(name: &str, addresses: &[&str]) -> ProbedDriver {
        let device = |address: &&str| ProbedDevice {
            address: (*address).into(),
            uuid: None,
            name: None,
        };
        ProbedDriver {
            name: name.into(),
            version: None,
            devices: addresses.iter().map(device).collect(),
            error: None,
        }
    }

    fn failed(name: &str) -> ProbedDriver {
        ProbedDriver {
            error: Some("`init` answered 3".into()),
            ..driver(name, &[])
        }
    }

    fn parsed(addresses: &[&str]) -> Vec<PciAddress> {
        addresses
            .iter()
            .map(|address| address.parse().unwrap())
            .collect()
    }

    fn probe(drivers: &[ProbedDriver], taken: Option<&[&str]>) -> Probe {
        Probe {
            format: FORMAT.into(),
            version: VERSION,
            local_id: Some(0),
            rank: None,
            drivers: drivers.to_vec(),
            taken: taken.map(parsed),
            nics: Vec::new(),
            cpus: CpuSet::from_list("0-3").ok(),
            set_cpus: None,
            memory: Some("prefer:0".into()),
            copies: None,
            nccl: None,
            notes: Vec::new(),
        }
    }

    const A: &str = "0000:1b:00.0";
    const B: &str = "0000:2b:00.0";

    #[track_caller]
    fn judged(drivers: &[ProbedDriver], taken: Option<&[&str]>, expected: Identity) {
        assert_eq!(judge(&probe(drivers, taken)), expected);
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
    fn addresses_are_compared_and_not_their_spellings() {
        judged(
            &[driver("cuda", &["00000000:1B:00.0", B])],
            Some(&[A, B]),
            Identity::Agrees,
        );
        judged(&[driver("cuda", &[B, A])], Some(&[A, B]), Identity::Order);
        judged(&[driver("cuda", &[B])], Some(&[A]), differs(&[B], &[A]));
        judged(&[driver("cuda", &["gpu"])], Some(&[A]), {
            let why = "gpu".parse::<PciAddress>().unwrap_err();
            not_tried(&format!("cuda: {why}"))
        });
    }

    #[test]
    fn parts_of_a_gpu_are_one_gpu() {
        judged(&[driver("cuda", &[A])], Some(&[A, A]), Identity::Agrees);
        judged(
            &[driver("hip", &[A, "0000:1b:00.1"])],
            Some(&[A]),
            Identity::Agrees,
        );
        judged(
            &[driver("cuda", &[A, "0000:1b:00.1"])],
            Some(&[A]),
            differs(&[A, "0000:1b:00.1"], &[A]),
        );
    }

    #[test]
    fn a_driver_that_shows_no_gpu_differs_and_a_task_without_gpus_agrees_with_it() {
        judged(&[driver("cuda", &[])], Some(&[A]), differs(&[], &[A]));
        judged(&[driver("cuda", &[])], Some(&[]), Identity::Agrees);
    }

    #[test]
    fn the_driver_that_agrees_most_counts_and_one_that_failed_may_be_the_task_s() {
        judged(
            &[driver("hip", &[]), driver("level-zero", &[B, A])],
            Some(&[A, B]),
            Identity::Order,
        );
        judged(
            &[driver("hip", &[]), driver("level-zero", &[B])],
            Some(&[A]),
            differs(&[B], &[A]),
        );
        judged(
            &[failed("cuda"), driver("level-zero", &[B])],
            Some(&[A]),
            not_tried("cuda: `init` answered 3"),
        );
        judged(
            &[failed("cuda"), driver("level-zero", &[A])],
            Some(&[A]),
            Identity::Agrees,
        );
        judged(
            &[driver("cuda", &[A, B]), failed("hip")],
            Some(&[A]),
            differs(&[A, B], &[A]),
        );
    }

    #[test]
    fn without_a_driver_or_a_marker_nothing_was_tried() {
        judged(&[], Some(&[A]), not_tried("no driver was asked"));
        judged(&[failed("cuda"), failed("hip")], Some(&[A]), {
            not_tried("cuda: `init` answered 3; hip: `init` answered 3")
        });
        judged(&[driver("cuda", &[A])], None, Identity::NotPlaced);
    }

    #[test]
    fn a_line_is_read_back_and_another_version_is_none() {
        let probe = probe(&[driver("cuda", &[A]), failed("hip")], Some(&[A]));
        assert_eq!(Probe::from_json(&probe.to_json()), Some(probe.clone()));
        assert_eq!(
            Probe::from_json(
                &Probe {
                    version: 2,
                    ..probe
                }
                .to_json()
            ),
            None
        );
        assert_eq!(Probe::from_json("{}"), None);
    }
}
