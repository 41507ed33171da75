//! The library as Python calls it: all calls by ctypes, and those of the module in python/.

use super::*;

/// Output of a Python text that may use raw.py, the module and its example; `None` without Python.
pub fn python(text: &str) -> Option<String> {
    let mut command = Command::new("python3");
    command.args(["-B", "-c", text]);
    command.env("PYTHONPATH", search_path());
    match command.env("LD_LIBRARY_PATH", installed()).output() {
        Ok(output) => Some(stdout(&output)),
        Err(error) => {
            println!("skipped: no `python3`: {error}");
            None
        }
    }
}

/// PYTHONPATH with all of them.
pub fn search_path() -> std::ffi::OsString {
    let folders = ["tests/capi", "python", "examples/python"].map(manifest_path);
    std::env::join_paths(folders).unwrap()
}

/// Python's `request` in these tests.
pub const HEAD: &str = "
from raw import NicPlacement, Failure
library = NicPlacement()
dgx = {'node': {'machine': 'dgx-h100'}}
";

#[test]
fn each_gpu_has_its_nic_and_the_cpus_beside_it_also_in_the_example() {
    let text = python("import workers; workers.main('dgx-h100')");
    let Some(text) = text else { return };
    let nics = [0, 3, 4, 5, 6, 9, 10, 11].into_iter().enumerate();
    let lines = nics.map(|(gpu, nic)| format!("GPU {gpu}  mlx5_{nic}:1\n"));
    let lines: String = lines.collect();
    assert_eq!(text, lines);
    let text = "
for task in (0, 7):
    task = library.task(tasks=8, gpus_per_task=1, task=task, **dgx)
    print(task['nics'][0]['name'], task['cpus'])
";
    let text = python(&format!("{HEAD}{text}")).unwrap();
    assert_eq!(text, "mlx5_0 0-55,112-167\nmlx5_11 56-111,168-223\n");
}

/// Each line begins so.
#[track_caller]
fn begin(lines: &[String], expected: &[&str]) {
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\nexpected {expected}");
    }
}

/// The calls of a table, and the beginning of each answer.
fn cells(cases: &'static str) -> (Vec<&'static str>, Vec<&'static str>) {
    let cases = cases.lines();
    let cases = cases.map(|case| case.trim_start().split_once(" => "));
    cases.map(|case| case.expect("two cells")).unzip()
}

/// The answers of the module to these calls, a line each, failures too.
fn module(calls: &[&str]) -> Option<Vec<String>> {
    let mut text = "from nic_placement import Failure, map, plan\n".to_string();
    for call in calls {
        text += &format!("try:\n    print({call})\n");
        text += "except Failure as failure:\n    print(failure.status, failure)\n";
    }
    Some(python(&text)?.lines().map(str::to_string).collect())
}

#[test]
fn the_module_takes_a_machine_by_its_name_and_refuses_a_rank_that_is_not_below_the_size() {
    // the last plan is printed in lines that say what changes and why
    let cases = "\
        plan(local_rank=3, local_size=8, node='dgx-h100').nics => ('mlx5_5:1',)
        map('vllm', node='dgx-h100') == map('vllm', node={'machine': 'dgx-h100'}) => True
        plan(local_rank=8, local_size=8, node='dgx-h100') => 2 `local_rank` 8 is not below
        plan(node='dgx-h1000') => 3 `node`: `dgx-h1000`: no such machine
        plan(local_rank=3, local_size=8, node='dgx-h100') => GPU 0000:61:00.0  NIC mlx5_5:1  CPUs ";
    let (calls, expected) = cells(cases);
    let Some(lines) = module(&calls) else { return };
    begin(&lines[..5], &expected);
    for line in ["  UCX_NET_DEVICES=mlx5_5:1", "  GPU 3: `local rank 3`"] {
        let is_so = lines.iter().any(|other| other.starts_with(line));
        assert!(is_so, "{lines:?}");
    }
}

#[test]
fn a_process_that_is_placed_gets_no_plan_for_another_machine() {
    let own = "plan(local_rank=3, local_size=8, node='dgx-h100', words='bind=none')";
    let own = ["apply()", "reasons"].map(|of| format!("{own}.{of}"));
    let lines = module(&[&own[0], &own[1], "plan(node='frontier')", "plan()"]);
    let Some(lines) = lines else { return };
    let other = "2 this process is placed already";
    begin(&lines[1..], &["('it is placed already: ", other, other]);
}

#[test]
fn a_task_is_placed_by_the_list_of_its_gpus_and_the_users_own_variable_stays() {
    let text = format!(
        "{HEAD}
task = library.task(tasks=[{{'gpus': '5'}}, {{'gpus': '0000:1b:00.0'}}], task=1, **dgx)
print(task['format'], task['gpus'][0]['index'], task['nics'][0]['name'], task['mems'], task['fails'])
print(task['reasons'][0])
mine = library.environment({{'UCX_NET_DEVICES': 'mine'}}, tasks=[{{'gpus': '5'}}], **dgx)
print(mine['UCX_NET_DEVICES'], mine['NIC_PLACEMENT'].split()[2:4])
# a nested launcher hands on what the outer one set, which is ours and not a choice
outer = library.environment({{}}, tasks=[{{'gpus': '5'}}], **dgx)
inner = library.environment(outer, tasks=[{{'gpus': '0'}}], **dgx)
print(outer['UCX_NET_DEVICES'], inner['UCX_NET_DEVICES'])
"
    );
    let Some(text) = python(&text) else { return };
    let expected = [
        "nic-placement task 0 mlx5_0 0 False",
        "GPU 0: its launcher names them",
        "mine ['gpus=0000:c3:00.0', 'nics=mlx5_9:1']",
        "mlx5_9:1 mlx5_0:1",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_wrong_with_a_request_is_said_with_its_number() {
    let cases = r#"'plan', no_such_field=1 => 2 unknown field `no_such_field`
'plan', version=2 => 2 expected `"format": "nic-placement request", "version": 1`
'plan', words='closet', **dgx => 2 `words`:
'plan', words='off', **dgx => 2 `words`: plans nothing
'plan', arguments=['colour=red'], **dgx => 2 `arguments`: `colour=red`: unknown argument
'plan', tasks=4097, **dgx => 2 4097 tasks: expected 1 to 4096
'plan', tasks=-1, **dgx => 2 `tasks`: expected a number
'plan', tasks=9, gpus_per_task=1, **dgx => 2 9 tasks of 1 GPU each
'task', task=8, gpus_per_task=1, **dgx => 2 `task`: there is no task 8
'task', gpus='0', tasks=[{'gpus': '1'}], **dgx => 2 `tasks`: GPU 1 is not among
'task', cpus='a', **dgx => 2 `cpus`:
'process', words='fastest', **dgx => 2 `words`: unknown word `fastest`
'process', local_rank=4096, **dgx => 2 `local_rank`: 4096, expected 4095 at most
'process', arguments=['colour=red'] => 2 `arguments`: `colour=red`: unknown argument
'map', map='toml', **dgx => 2 `map`: no format is called so
'map', host='n1', words='bind=numa', **dgx => answered
'map', arguments=['exclude=*'], map='sglang', **dgx => 4 GPU 0 has no NIC
'plan', node={'topology': {'format': 'nic-placement topology', 'version': 9}} => 2
'plan', arguments=['topology=/no/such/file'] => 3 cannot read `/no/such/file`
'plan', environment={'A': 'x' * (11 << 20)}, **dgx => 1 the request has"#;
    let (calls, expected) = cells(cases);
    let tell = "
def tell(call, **fields):
    try:
        library.ask(call, **fields)
        print('answered')
    except Failure as failure:
        print(failure.status, failure)
";
    let calls = calls.iter().map(|call| format!("tell({call})\n"));
    let text = format!("{HEAD}{tell}{}", calls.collect::<String>());
    let Some(text) = python(&text) else { return };
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    begin(&lines, &expected);
}

#[test]
fn a_process_that_asks_for_itself_is_found_by_its_launchers_variables_and_is_placed_once() {
    let text = format!(
        "{HEAD}
def tell(environment, **fields):
    said = library.ask('process', environment=environment, **fields, **dgx)
    said = json.loads(said)
    print(said['gpus'], said['nics'], said['set'].get('UCX_NET_DEVICES'), said['strict'], said['reasons'][0])
    return {{**environment, **said['set']}}
import json
ours = tell({{'LOCAL_RANK': '5', 'LOCAL_WORLD_SIZE': '8', 'SLURM_NIC_PLACEMENT': 'strict,bind=none'}})
tell(ours)
tell({{**ours, 'LOCAL_RANK': '6'}})
tell({{'LOCAL_RANK': '5', 'LOCAL_WORLD_SIZE': '8'}}, local_rank=4, words='rail,bind=none')
tell({{}}, local_rank=4, words='off')
# a task of Slurm's that the plugin placed by words that are not here
slurm = {{'SLURM_LOCALID': '5', 'SLURM_NODEID': '0', 'SLURM_STEP_TASKS_PER_NODE': '8'}}
marker = 'v1 policy=rail gpus=0000:1b:00.0 nics=mlx5_9:1 set:UCX_NET_DEVICES=mlx5_9:1'
tell({{**slurm, 'NIC_PLACEMENT': marker, 'UCX_NET_DEVICES': 'mlx5_9:1'}})
tell({{**slurm, 'LOCAL_RANK': '5', 'NIC_PLACEMENT': marker, 'UCX_NET_DEVICES': 'mlx5_9:1'}})
"
    );
    let Some(text) = python(&text) else { return };
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let expected = "\
        ['0000:c3:00.0'] ['mlx5_9:1'] mlx5_9:1 True GPU 5: `LOCAL_RANK=5` means
        ['0000:c3:00.0'] ['mlx5_9:1'] None False it is placed
        ['0000:d1:00.0'] ['mlx5_10:1'] mlx5_10:1 True GPU 6: `LOCAL_RANK=6` means
        ['0000:9d:00.0'] ['mlx5_6:1'] mlx5_6:1 False GPU 4: `local rank 4` means
        [] [] None False `off`: nothing changes
        ['0000:1b:00.0'] ['mlx5_9:1'] None False it is placed
        ['0000:1b:00.0'] ['mlx5_9:1'] None False it is placed";
    begin(&lines, &Vec::from_iter(expected.lines().map(str::trim)));
}

#[test]
fn on_this_node_a_process_gets_no_cpu_that_its_launcher_has_not() {
    let text = format!(
        "{HEAD}
import os
one = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {{one}})
# the admin says that this node is a DGX H100, whose CPUs are more than this thread has; none of the NICs is here
task = library.task(arguments=['machine=dgx-h100', 'trust-topology'], gpus='0', tasks=1)
print(task['cpus'] == str(one), task['nics'])
"
    );
    let Some(text) = python(&text) else { return };
    assert_eq!(text, "True []\n");
}
