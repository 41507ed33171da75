//! `trial --probe` with the vendors' libraries played in C: what a task tells of itself, and what it says where a call fails.

#[path = "tool/answer.rs"]
mod answer;
#[path = "trial/first.rs"]
mod first;
#[path = "trial/report.rs"]
mod report;

use answer::{Answer, Place, checkout, tool};
use nic_placement_fleet::trial::probe::{Identity, Probe, ProbedDriver, judge};
use std::process::Command;

const FIRST: &str = "0000:1b:00.0";
const SECOND: &str = "0000:2b:00.0";

/// A folder with played libraries, for LD_LIBRARY_PATH alone.
struct Played(Place);

impl Played {
    /// `(source, library)`, each compiled with these words; `None` where there is no C compiler.
    fn new(name: &str, libraries: &[(&str, &str)], words: &[&str]) -> Option<Played> {
        let played = Played(Place::new(&format!("trial-{name}")));
        for (source, library) in libraries {
            let mut compiler = Command::new("cc");
            compiler.args("-shared -fPIC -Wall -Werror -Wno-parentheses".split(' '));
            compiler.args(words);
            compiler.args(["-o", &played.0.at(library)]);
            match compiler.arg(checkout("tests/trial").join(source)).output() {
                Ok(output) => _ = Answer::new("cc", output).ends(0),
                Err(error) => {
                    println!("skipped: no C compiler: {error}");
                    return None;
                }
            }
        }
        Some(played)
    }

    fn cuda(name: &str) -> Option<Played> {
        Played::new(name, &[("libcuda.c", "libcuda.so.1")], &[])
    }

    /// A task that was placed with these GPUs; none, without a marker.
    fn run(&self, taken: &[&str], words: &str, variables: &[(&str, &str)]) -> Answer {
        let mut tool = tool();
        tool.args(["trial", "--probe"])
            .args(words.split_whitespace());
        tool.env("LD_LIBRARY_PATH", &self.0.0)
            .env_remove("NIC_PLACEMENT");
        tool.env("SLURM_LOCALID", "1").env("SLURM_PROCID", "9");
        if !taken.is_empty() {
            let gpus = taken.join(",");
            let marker = format!("v1 policy=closest gpus={gpus} nics=mlx5_0:1 cpus=0-3");
            tool.env("NIC_PLACEMENT", marker);
        }
        Answer::of(tool.envs(variables.iter().copied()))
    }

    #[track_caller]
    fn probe(&self, taken: &[&str], words: &str, variables: &[(&str, &str)]) -> Probe {
        let answer = self.run(taken, words, variables);
        assert_eq!(answer.ends(0).out.lines().count(), 1, "{answer}");
        Probe::from_json(&answer.out).unwrap_or_else(|| panic!("{answer}"))
    }
}

#[track_caller]
fn driver<'p>(probe: &'p Probe, name: &str) -> &'p ProbedDriver {
    let mut drivers = probe.drivers.iter();
    let found = drivers.find(|driver| driver.name == name);
    found.unwrap_or_else(|| panic!("{probe:?}"))
}

fn addresses(driver: &ProbedDriver) -> Vec<&str> {
    let devices = driver.devices.iter();
    devices.map(|device| &*device.address).collect()
}

#[test]
fn a_task_tells_what_the_driver_the_kernel_and_the_marker_say() {
    let played = Played::cuda("agrees");
    let Some(played) = played else { return };
    let probe = played.probe(&[FIRST, SECOND], "", &[("PLAYED_NOISE", "1")]);
    assert_eq!(judge(&probe), Identity::Agrees);
    assert_eq!((probe.local_id, probe.rank), (Some(1), Some(9)));
    assert_eq!(probe.nics, ["mlx5_0:1"]);
    let set = probe.set_cpus.as_ref().map(ToString::to_string);
    assert_eq!(set.as_deref(), Some("0-3"));
    assert_eq!(probe.cpus, nic_placement_sys::affinity().ok());
    assert_eq!(probe.memory.as_deref(), Some("default"));
    assert_eq!((probe.copies, &probe.notes), (None, &Vec::new()));
    let cuda = driver(&probe, "cuda");
    assert_eq!((cuda.version, &cuda.error), (Some(12040), &None));
    assert_eq!(addresses(cuda), ["00000000:1b:00.0", "00000000:2b:00.0"]);
    assert_eq!(cuda.devices[1].name.as_deref(), Some("played GPU 1"));
    let uuid = cuda.devices[1].uuid.as_deref();
    assert_eq!(uuid, Some("GPU-01020304-0506-0708-090a-0b0c0d0e0f10"));
    // what a library prints goes to stderr
    let answer = played.run(&[FIRST], "", &[("PLAYED_NOISE", "1")]);
    assert!(answer.err.starts_with("libcuda says hello\n"), "{answer}");
    let begin = "{\"format\":\"nic-placement probe\",\"version\":1,";
    assert!(answer.out.starts_with(begin), "{answer}");
}

#[test]
fn another_order_and_another_gpu_are_told_and_a_task_without_a_marker_was_not_placed() {
    let played = Played::cuda("differs");
    let Some(played) = played else { return };
    let reversed = [("PLAYED_ORDER", "reversed")];
    let probe = played.probe(&[FIRST, SECOND], "", &reversed);
    assert_eq!(judge(&probe), Identity::Order);
    let other = "0000:3b:00.0";
    let parsed = |addresses: [&str; 2]| addresses.map(|address| address.parse().unwrap()).to_vec();
    let differs = judge(&played.probe(&[FIRST, other], "", &[]));
    let (driver, taken) = (parsed([FIRST, SECOND]), parsed([FIRST, other]));
    assert_eq!(differs, Identity::Differs { driver, taken });
    assert_eq!(judge(&played.probe(&[], "", &[])), Identity::NotPlaced);
}

#[test]
fn without_a_driver_each_that_was_looked_for_is_named() {
    let played = Played::new("absent", &[], &[]);
    let Some(played) = played else { return };
    let probe = played.probe(&[FIRST], "--copies 1", &[]);
    let absent = "its library is not installed, or cannot be loaded";
    let is_absent = |driver: &ProbedDriver| driver.error.as_deref() == Some(absent);
    if !probe.drivers.iter().all(is_absent) {
        return println!("skipped: a driver is here");
    }
    let names: Vec<&str> = probe.drivers.iter().map(|driver| &*driver.name).collect();
    assert_eq!(names, ["cuda", "hip"]);
    assert_eq!(probe.notes, [format!("copies: {absent}")]);
    let why = format!("cuda: {absent}; hip: {absent}");
    assert_eq!(judge(&probe), Identity::NotTried(why));
}

#[test]
fn a_call_that_fails_is_named_with_its_number() {
    let played = Played::cuda("fails");
    let Some(played) = played else { return };
    let asked = "cuInit,cuDriverGetVersion,cuDeviceGetCount,cuDeviceGet,cuDeviceGetPCIBusId,cuDeviceGetName,cuDeviceGetUuid_v2";
    for function in asked.split(',') {
        let probe = played.probe(&[FIRST, SECOND], "", &[("PLAYED_FAIL", function)]);
        let cuda = driver(&probe, "cuda");
        let error = format!("`{}` answered 999", function.trim_end_matches("_v2"));
        assert_eq!((cuda.error.as_ref(), cuda.devices.len()), (Some(&error), 0));
        assert_eq!(judge(&probe), Identity::NotTried(format!("cuda: {error}")));
    }
}

#[test]
fn a_driver_that_shows_no_device_is_no_failure_and_its_numbers_and_texts_are_bounded() {
    let played = Played::cuda("none");
    let Some(played) = played else { return };
    let shows_none = [("PLAYED_FAIL", "cuInit"), ("PLAYED_NUMBER", "100")];
    let probe = played.probe(&[FIRST], "", &shows_none);
    assert_eq!(driver(&probe, "cuda").error, None);
    let (driver_s, taken) = (Vec::new(), vec![FIRST.parse().unwrap()]);
    assert_eq!(
        judge(&probe),
        Identity::Differs {
            driver: driver_s,
            taken
        }
    );
    let endless = [("PLAYED_COUNT", "1000"), ("PLAYED_NO_END", "1")];
    let probe = played.probe(&[FIRST], "", &endless);
    let names = driver(&probe, "cuda");
    let names = names.devices.iter().map(|device| device.name.clone());
    assert_eq!(names.collect::<Vec<_>>(), vec![Some("x".repeat(256)); 256]);
    assert!(matches!(judge(&probe), Identity::Differs { .. }));
    let probe = played.probe(&[FIRST], "", &[("PLAYED_COUNT", "-5")]);
    assert_eq!(driver(&probe, "cuda").devices, []);
}

#[test]
fn an_older_cuda_has_the_older_function_and_a_library_without_a_function_is_told() {
    let libraries = [("libcuda.c", "libcuda.so.1")];
    let played = Played::new("old", &libraries, &["-DOLD"]);
    let Some(played) = played else { return };
    let probe = played.probe(&[FIRST, SECOND], "", &[]);
    assert_eq!(judge(&probe), Identity::Agrees);
    let uuid = driver(&probe, "cuda").devices[0].uuid.as_deref();
    assert_eq!(uuid, Some("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"));
    let foreign = [("libamdhip64.c", "libcuda.so.1")];
    let probe = Played::new("foreign", &foreign, &[])
        .unwrap()
        .probe(&[FIRST], "", &[]);
    let error = driver(&probe, "cuda").error.as_deref();
    assert_eq!(error, Some("its library has no `cuInit`"));
}

#[test]
fn copies_are_timed_and_what_they_took_is_given_back_also_where_one_fails() {
    let played = Played::cuda("copies");
    let Some(played) = played else { return };
    let copies = "--copies 4";
    let given_back = "freed on device\nfreed on host\nreleased context 0\n";
    assert_eq!(played.run(&[FIRST], copies, &[]).err, given_back);
    let rates = played.probe(&[FIRST], copies, &[]).copies.unwrap();
    let is_so = rates.to_device_mb_s > 1.0 && rates.to_host_mb_s > 1.0;
    assert!(is_so, "{rates:?}");
    for (function, is_given_back) in [
        ("cuDevicePrimaryCtxRetain", ""),
        ("cuCtxSetCurrent", "released context 0\n"),
        ("cuMemAlloc_v2", "released context 0\n"),
        ("cuMemHostAlloc", "freed on device\nreleased context 0\n"),
        ("cuMemcpyHtoD_v2", given_back),
        ("cuMemcpyDtoH_v2", given_back),
    ] {
        let fails = [("PLAYED_FAIL", function)];
        let probe = played.probe(&[FIRST, SECOND], copies, &fails);
        assert_eq!(probe.copies, None);
        assert_eq!(probe.notes, [format!("copies: `{function}` answered 999")]);
        // the driver's list has no part in it
        assert_eq!(judge(&probe), Identity::Agrees);
        let said = played.run(&[FIRST], copies, &fails).err;
        assert_eq!(said, is_given_back, "{function}");
    }
}

#[test]
fn rocm_is_asked_too() {
    let libraries = [("libamdhip64.c", "libamdhip64.so.6")];
    let played = Played::new("others", &libraries, &[]);
    let Some(played) = played else { return };
    let probe = played.probe(&[FIRST, SECOND], "", &[]);
    assert_eq!(driver(&probe, "hip").version, Some(60342134));
    assert_eq!(judge(&probe), Identity::Agrees);
    assert_eq!(addresses(driver(&probe, "hip")), [FIRST, SECOND]);
    let all = "hipInit hipDriverGetVersion hipGetDeviceCount hipDeviceGetPCIBusId";
    for function in all.split(' ') {
        let probe = played.probe(&[FIRST], "", &[("PLAYED_FAIL", function)]);
        let error = format!("`{function}` answered 999");
        assert_eq!(driver(&probe, "hip").error.as_deref(), Some(&*error));
    }
}
