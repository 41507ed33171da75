//! What users can put into a step, put there to harm: no hook answers Slurm anything but 0 on a node, no text forges a line
//! of slurmd's log, and the job runs.  The fake Slurm complains of such answers and lines in every test.

use super::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Ends the line, begins another, colours it, turns its direction, and comes back.
const FORGED: &str =
    "none\n[2026-01-01T00:00:00.000] error: FORGED\u{1b}[31m\r\u{7f}\u{9b}2J\u{2028}\u{202e}x";

#[test]
fn no_text_of_a_user_ends_a_line_of_the_log_or_of_the_terminal() {
    let variables = "SLURM_CPU_BIND_TYPE,SLURM_CPU_BIND_LIST,SLURM_MEM_BIND_TYPE,SLURM_STEP_GPUS,SLURM_NIC_PLACEMENT,\
                     SLURMD_NODENAME,SLURMD_TRES_BIND,NIC_PLACEMENT,NCCL_IB_HCA,NCCL_SOCKET_IFNAME,NCCL_CONF_FILE,\
                     NVSHMEM_HCA_LIST,UCX_NET_DEVICES,UCX_TLS,OMP_NUM_THREADS,HOME,ROCR_VISIBLE_DEVICES";
    let forged = |step: Step, name: &str| step.env(&format!("{name}={FORGED}"));
    for variable in variables.split(',') {
        forged(dgx("--option verbose"), variable).eight().ok();
    }
    let all = variables.split(',');
    let all = all.fold(dgx("--option verbose"), forged).eight();
    all.ok().says(&["none\\n[2026-01-01T00"]);
    let begins = |line: &LogLine| line.text.starts_with("[2026");
    assert!(!all.log().iter().any(begins), "{all}");
    // a line of changes is split at blanks, so this one has none
    let list = "GPU-1\n[2026-01-01T00:00:00.000]\u{9}error:FORGED\u{1b}[31m\u{202e}";
    let step = dgx("--option verbose").env(&format!("CUDA_VISIBLE_DEVICES={list}"));
    step.task("").play().ok().shows(&["\\n[2026"]);
}

#[test]
fn a_forged_word_of_the_option_or_of_plugstack_conf_does_not_end_a_line() {
    let variable = format!("SLURM_NIC_PLACEMENT={FORGED}");
    for context in ["local", "allocator"] {
        Step::in_context(context).option(FORGED).play();
        Step::in_context(context).env(&variable).play().ok();
    }
    let admin = ",default=,topology=/,sysfs=/,machine=,set=,set=A={,include=,fabric=";
    let step = admin
        .split(',')
        .fold(on(""), |step, word| step.arg(&format!("{word}{FORGED}")));
    step.eight().ok();
    // nor is an argument that is no text taken for one
    let step = on("").word("--arg", OsString::from_vec(b"exclude=\xff".to_vec()));
    step.gpu("0").untouched().one_error(&["plugstack.conf"]);
}

#[test]
fn a_very_long_line_is_cut_and_says_so() {
    let long = "x".repeat(100_000);
    let played = on("--option verbose");
    let played = played.env(&format!("SLURM_MEM_BIND_TYPE={long}")).eight();
    let longest = played.ok().log().iter().map(|line| line.text.len()).max();
    assert!(longest < Some(4096), "{longest:?}");
}

/// Some texts that no user would write, the same in every run.
fn generated() -> Vec<OsString> {
    let pieces = b"closest|off|help|verbose|dry-run|strict|env=|no-env=|bind=|mem=|nics-per-task=|omp=on|,|=|+| |\n|\x1b[2J|\xff\xfe|\
        \xe2\x80\xae|\xc2\x9b|(null)|99999999999999999999|-1|%s%n%p|single-numa-node|\xf0\x9f\x98\x80|\\|`|UCX_NET_DEVICES";
    let pieces: Vec<&[u8]> = pieces.split(|byte| *byte == b'|').collect();
    // a linear congruential generator, by Knuth's constants
    let mut state = 20_260_101u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005);
        state = state.wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut text = |_| {
        let parts = (0..next(12)).map(|_| pieces[next(pieces.len())]);
        OsString::from_vec(parts.collect::<Vec<_>>().concat())
    };
    let mut texts: Vec<OsString> = (0..400).map(&mut text).collect();
    texts.extend([128, 129, 16_000].map(|words| OsString::from("closest,".repeat(words))));
    texts
}

#[test]
fn whatever_the_option_says_a_node_is_answered_0_and_the_job_runs() {
    let texts = generated();
    let step = texts
        .iter()
        .fold(on(""), |step, text| step.word("--option", text));
    let played = step.option("closest").eight();
    let events = played.near().events("option").into_iter();
    let answers = events.filter(|event| event.starts_with("returned"));
    let answers: Vec<&str> = answers.collect();
    assert_eq!(answers, vec!["returned 0"; texts.len() + 1], "{played}");
    // some of them alone, as what sbatch left and as the variable
    for text in texts.iter().step_by(13) {
        let left = "_SLURM_SPANK_OPTION_nic_placement_nic_placement=";
        let names = [left, "SLURM_NIC_PLACEMENT="];
        let step = names.iter().fold(on(""), |step, name| {
            let mut assignment = OsString::from(name);
            assignment.push(text);
            step.word("--env", assignment)
        });
        let played = step.gpu("0");
        let answers = ["option", "init_post_opt"].map(|hook| played.returned(hook));
        assert_eq!(answers, [Some(0); 2], "{played}");
        let task = Some(0).filter(|_| played.exit(0) == Some(0));
        assert_eq!(played.returned("task 0"), task, "{played}");
    }
}

#[test]
fn a_panic_in_any_hook_or_in_the_callback_is_answered_0() {
    let library = harness::panicking_plugin();
    let Some(library) = library else { return };
    for hook in ["init", "option", "init_post_opt", "task_init"] {
        for text in ["closest", "typo\nx", "closest,strict"] {
            let step = on(&format!("--arg panic={hook}")).plugin_file(&library);
            // a panic in init leaves the option unregistered
            let option = Some(text).filter(|_| hook != "init");
            let step = option.iter().fold(step, |step, text| step.option(text));
            let played = step.gpu("0");
            let answers = ["init", "init_post_opt"].map(|when| played.returned(when));
            assert_eq!(answers, [Some(0); 2], "{played}");
            played.says(&["asked to panic"]);
            // a task may end where its user asked for that; no hook may answer by it
            let is_so = matches!(played.returned("task 0"), Some(0) | None);
            assert!(is_so, "{played}");
        }
    }
}

#[test]
fn thousands_of_variables_and_a_megabyte_of_gpus_cost_nobody_the_job() {
    // as large as one word of a command line may be: the kernel's MAX_ARG_STRLEN
    let long = "1,".repeat(65_000);
    let file = private_folder("thousands").join("environment");
    let all: String = (0..9_000).map(|n| format!("V{n}={n}\n")).collect();
    fs::write(&file, all).unwrap();
    let names = "SLURM_STEP_GPUS,SLURM_CPU_BIND_LIST,SLURMD_TRES_BIND,UCX_NET_DEVICES,NCCL_IB_HCA";
    let step = on("--option closest,verbose,bind=core,omp=on").env("SLURM_CPU_BIND_TYPE=mask_cpu:");
    let step = names
        .split(',')
        .fold(step, |step, name| step.env(&format!("{name}={long}")));
    let step = step.word("--env-file", file);
    let no_text: [&[u8]; 2] = [b"HOME=/\xff\xfe", b"NIC_PLACEMENT=\xff"];
    let step = no_text.iter().fold(step, |step, each| {
        step.word("--env", OsString::from_vec(each.to_vec()))
    });
    step.with("--gpu 0 --gpu 1").play().ok();
    // the list itself, and our own line
    let long = "1,".repeat(10_000);
    let step = on(&format!("--env NIC_PLACEMENT={long} --gpu {long}"));
    step.play().ok();
}

#[test]
fn a_task_is_counted_as_slurm_counts_it_whatever_its_variables_say() {
    let lies = "SLURM_LOCALID=7 SLURM_LOCALID=-1 SLURM_PROCID=99999999999 -SLURM_LOCALID";
    let step = on("--option closest,bind=core");
    let step = lies.split(' ').fold(step, |step, lie| {
        step.task(&format!("CUDA_VISIBLE_DEVICES=0 {lie}"))
    });
    step.play().ok();
    for count in ["4294967295", "1000000", "0"] {
        let words = "--option closest,verbose,bind=core --nnodes 4000000000 --local-tasks";
        on(&format!("{words} {count}")).gpu("0").ok();
    }
}
