//! `trial --probe` with the vendors' libraries played in C: what a task tells of itself, and what it says where a call fails.

#[path = "trial/first.rs"]
mod first;
#[path = "trial/report.rs"]
mod report;

use nic_placement_fleet::trial::probe::{Identity, Probe, ProbedDriver, judge};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FIRST: &str = "0000:1b:00.0";
const SECOND: &str = "0000:2b:00.0";

/// A folder with played libraries, for LD_LIBRARY_PATH alone.
struct Played(PathBuf);

impl Drop for Played {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Played {
    /// `(source, library)`, each compiled with these words; `None` where there is no C compiler.
    fn new(name: &str, libraries: &[(&str, &str)], words: &[&str]) -> Option<Played> {
        let folder = format!("trial-{name}-{}", std::process::id());
        let played = Played(Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder));
        fs::create_dir_all(&played.0).unwrap();
        let sources = Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/trial");
        for (source, library) in libraries {
            let mut compiler = Command::new("cc");
            compiler
                .args(["-shared", "-fPIC", "-Wall", "-Werror", "-Wno-parentheses"])
                .args(words)
                .arg("-o");
            let output = match compiler
                .arg(played.0.join(library))
                .arg(sources.join(source))
                .output()
            {
                Ok(output) => output,
                Err(error) => {
                    println!("skipped: no C compiler: {error}");
                    return None;
                }
            };
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Some(played)
    }

    fn cuda(name: &str) -> Option<Played> {
        Played::new(name, &[("libcuda.c", "libcuda.so.1")], &[])
    }

    /// A task that was placed with these GPUs; none, without a marker.
    fn run(&self, taken: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
        tool.args(["trial", "--probe"]).args(arguments);
        tool.env("LD_LIBRARY_PATH", &self.0)
            .env("SLURM_LOCALID", "1")
            .env("SLURM_PROCID", "9");
        tool.env_remove("NIC_PLACEMENT");
        if !taken.is_empty() {
            let marker = format!(
                "v1 policy=closest gpus={} nics=mlx5_0:1 cpus=0-3",
                taken.join(",")
            );
            tool.env("NIC_PLACEMENT", marker);
        }
        tool.envs(variables.iter().copied()).output().unwrap()
    }

    #[track_caller]
    fn probe(&self, taken: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Probe {
        let output = self.run(taken, arguments, variables);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            (output.status.code(), said.lines().count()),
            (Some(0), 1),
            "{output:?}"
        );
        Probe::from_json(&said).unwrap_or_else(|| panic!("{said}"))
    }
}

#[track_caller]
fn driver<'p>(probe: &'p Probe, name: &str) -> &'p ProbedDriver {
    probe
        .drivers
        .iter()
        .find(|driver| driver.name == name)
        .unwrap_or_else(|| panic!("{probe:?}"))
}

fn addresses(driver: &ProbedDriver) -> Vec<&str> {
    driver
        .devices
        .iter()
        .map(|device| &*device.address)
        .collect()
}

#[test]
fn a_task_tells_what_the_driver_the_kernel_and_the_marker_say() {
    let Some(played) = Played::cuda("agrees") else {
        return;
    };
    let probe = played.probe(&[FIRST, SECOND], &[], &[("PLAYED_NOISE", "1")]);
    assert_eq!(judge(&probe), Identity::Agrees);
    assert_eq!((probe.local_id, probe.rank), (Some(1), Some(9)));
    assert_eq!(probe.nics, ["mlx5_0:1"]);
    assert_eq!(
        probe.set_cpus.as_ref().map(ToString::to_string).as_deref(),
        Some("0-3")
    );
    assert_eq!(probe.cpus, nic_placement_sys::affinity().ok());
    assert_eq!(probe.memory.as_deref(), Some("default"));
    assert_eq!((probe.copies, &probe.notes), (None, &Vec::new()));
    let cuda = driver(&probe, "cuda");
    assert_eq!((cuda.version, &cuda.error), (Some(12040), &None));
    assert_eq!(addresses(cuda), ["00000000:1b:00.0", "00000000:2b:00.0"]);
    assert_eq!(cuda.devices[1].name.as_deref(), Some("played GPU 1"));
    assert_eq!(
        cuda.devices[1].uuid.as_deref(),
        Some("GPU-01020304-0506-0708-090a-0b0c0d0e0f10")
    );
}

#[test]
fn what_a_library_prints_goes_to_stderr() {
    let Some(played) = Played::cuda("noise") else {
        return;
    };
    let output = played.run(&[FIRST], &[], &[("PLAYED_NOISE", "1")]);
    assert!(
        output.stderr.starts_with(b"libcuda says hello\n"),
        "{output:?}"
    );
    assert!(
        output
            .stdout
            .starts_with(b"{\"format\":\"nic-placement probe\",\"version\":1,"),
        "{output:?}"
    );
}

#[test]
fn another_order_and_another_gpu_are_told_and_a_task_without_a_marker_was_not_placed() {
    let Some(played) = Played::cuda("differs") else {
        return;
    };
    let reversed = [("PLAYED_ORDER", "reversed")];
    assert_eq!(
        judge(&played.probe(&[FIRST, SECOND], &[], &reversed)),
        Identity::Order
    );
    let other = "0000:3b:00.0";
    let Identity::Differs { driver, taken } = judge(&played.probe(&[FIRST, other], &[], &[]))
    else {
        panic!()
    };
    assert_eq!(
        driver,
        [FIRST, SECOND].map(|address| address.parse().unwrap())
    );
    assert_eq!(
        taken,
        [FIRST, other].map(|address| address.parse().unwrap())
    );
    assert_eq!(judge(&played.probe(&[], &[], &[])), Identity::NotPlaced);
}

#[test]
fn without_a_driver_each_that_was_looked_for_is_named() {
    let Some(played) = Played::new("absent", &[], &[]) else {
        return;
    };
    let probe = played.probe(&[FIRST], &["--copies", "1"], &[]);
    let absent = "its library is not installed, or cannot be loaded";
    if probe
        .drivers
        .iter()
        .any(|driver| driver.error.as_deref() != Some(absent))
    {
        return println!("skipped: this machine has a driver");
    }
    let names: Vec<&str> = probe.drivers.iter().map(|driver| &*driver.name).collect();
    assert_eq!(names, ["cuda", "hip"]);
    assert_eq!(probe.notes, [format!("copies: {absent}")]);
    let why = format!("cuda: {absent}; hip: {absent}");
    assert_eq!(judge(&probe), Identity::NotTried(why));
}

#[test]
fn a_call_that_fails_is_named_with_its_number() {
    let Some(played) = Played::cuda("fails") else {
        return;
    };
    let asked = [
        "cuInit",
        "cuDriverGetVersion",
        "cuDeviceGetCount",
        "cuDeviceGet",
        "cuDeviceGetPCIBusId",
        "cuDeviceGetName",
        "cuDeviceGetUuid_v2",
    ];
    for function in asked {
        let probe = played.probe(&[FIRST, SECOND], &[], &[("PLAYED_FAIL", function)]);
        let cuda = driver(&probe, "cuda");
        let error = format!("`{}` answered 999", function.trim_end_matches("_v2"));
        assert_eq!((cuda.error.as_ref(), cuda.devices.len()), (Some(&error), 0));
        assert_eq!(judge(&probe), Identity::NotTried(format!("cuda: {error}")));
    }
}

#[test]
fn a_driver_that_shows_no_device_is_no_failure() {
    let Some(played) = Played::cuda("none") else {
        return;
    };
    let probe = played.probe(
        &[FIRST],
        &[],
        &[("PLAYED_FAIL", "cuInit"), ("PLAYED_NUMBER", "100")],
    );
    assert_eq!(driver(&probe, "cuda").error, None);
    let taken = vec![FIRST.parse().unwrap()];
    assert_eq!(
        judge(&probe),
        Identity::Differs {
            driver: Vec::new(),
            taken
        }
    );
}

#[test]
fn numbers_and_texts_of_a_library_are_bounded() {
    let Some(played) = Played::cuda("bounded") else {
        return;
    };
    let probe = played.probe(
        &[FIRST],
        &[],
        &[("PLAYED_COUNT", "1000"), ("PLAYED_NO_END", "1")],
    );
    let cuda = driver(&probe, "cuda");
    assert_eq!(cuda.devices.len(), 256);
    assert!(
        cuda.devices
            .iter()
            .all(|device| device.name == Some("x".repeat(256)))
    );
    assert!(matches!(judge(&probe), Identity::Differs { .. }));
    let probe = played.probe(&[FIRST], &[], &[("PLAYED_COUNT", "-5")]);
    assert_eq!(driver(&probe, "cuda").devices, []);
}

#[test]
fn an_older_cuda_has_the_older_function() {
    let libraries = [("libcuda.c", "libcuda.so.1")];
    let Some(played) = Played::new("old", &libraries, &["-DOLD"]) else {
        return;
    };
    let probe = played.probe(&[FIRST, SECOND], &[], &[]);
    assert_eq!(judge(&probe), Identity::Agrees);
    let uuid = driver(&probe, "cuda").devices[0].uuid.as_deref();
    assert_eq!(uuid, Some("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"));
}

#[test]
fn a_library_without_a_function_is_told() {
    let Some(played) = Played::new("foreign", &[("libamdhip64.c", "libcuda.so.1")], &[]) else {
        return;
    };
    let probe = played.probe(&[FIRST], &[], &[]);
    assert_eq!(
        driver(&probe, "cuda").error.as_deref(),
        Some("its library has no `cuInit`")
    );
}

#[test]
fn copies_are_timed_and_what_they_took_is_given_back_also_where_one_fails() {
    let Some(played) = Played::cuda("copies") else {
        return;
    };
    let copies = ["--copies", "4"];
    let given_back = "freed on device\nfreed on host\nreleased context 0\n";
    let output = played.run(&[FIRST], &copies, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), given_back);
    let rates = played.probe(&[FIRST], &copies, &[]).copies.unwrap();
    assert!(
        rates.to_device_mb_s > 1.0 && rates.to_host_mb_s > 1.0,
        "{rates:?}"
    );
    for (function, is_given_back) in [
        ("cuDevicePrimaryCtxRetain", ""),
        ("cuCtxSetCurrent", "released context 0\n"),
        ("cuMemAlloc_v2", "released context 0\n"),
        ("cuMemHostAlloc", "freed on device\nreleased context 0\n"),
        ("cuMemcpyHtoD_v2", given_back),
        ("cuMemcpyDtoH_v2", given_back),
    ] {
        let fails = [("PLAYED_FAIL", function)];
        let probe = played.probe(&[FIRST, SECOND], &copies, &fails);
        assert_eq!(probe.copies, None);
        assert_eq!(probe.notes, [format!("copies: `{function}` answered 999")]);
        assert_eq!(
            judge(&probe),
            Identity::Agrees,
            "the driver's list has no part in it"
        );
        let output = played.run(&[FIRST], &copies, &fails);
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            is_given_back,
            "{function}"
        );
    }
}

#[test]
fn rocm_is_asked_too() {
    let libraries = [("libamdhip64.c", "libamdhip64.so.6")];
    let Some(played) = Played::new("others", &libraries, &[]) else {
        return;
    };
    let probe = played.probe(&[FIRST, SECOND], &[], &[]);
    assert_eq!(driver(&probe, "hip").version, Some(60342134));
    assert_eq!(judge(&probe), Identity::Agrees);
    assert_eq!(addresses(driver(&probe, "hip")), [FIRST, SECOND]);
    for function in [
        "hipInit",
        "hipDriverGetVersion",
        "hipGetDeviceCount",
        "hipDeviceGetPCIBusId",
    ] {
        let probe = played.probe(&[FIRST], &[], &[("PLAYED_FAIL", function)]);
        let error = format!("`{function}` answered 999");
        assert_eq!(driver(&probe, "hip").error.as_deref(), Some(&*error));
    }
}
