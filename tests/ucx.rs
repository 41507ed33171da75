//! The real UCX: which IP interfaces it has, and which clients connect by address with the lists that we set.
//!
//! It runs without RDMA, over tcp in a network namespace.  Skipped with a reason where UCX is not installed
//! (Debian: `ucx-utils`, `libucx-dev`).

#[path = "host/harness.rs"]
mod harness;

use harness::{Step, c_compiler, host, manifest_path, private_folder};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Interfaces of every kind: the node's network, one without a route onwards, one that is down, a board's link-local one,
/// one with IPv6 alone, a container network's bridge, and one of its containers'.
///
/// `ip` sets up no routes for a link that is down, so that one goes down later.  The kernel's `operstate`, and IFF_RUNNING by which
/// UCX goes, follow a link by up to a second (net/core/link_watch.c, `linkwatch_schedule_work`).
const LINKS: &str = "mount -t sysfs none /sys && ip link set lo up
    link() { ip link add name $1 type veth peer name p$1 && ip link set p$1 up && ip link set $1 up; }
    for name in net0 ib0 down0 usb0 six0 cali0; do link $name || exit; done
    ip address add 10.0.0.1/24 dev net0 && ip route add default via 10.0.0.2
    ip address add 10.1.0.1/16 dev ib0 && ip address add 10.2.0.1/16 dev down0
    ip address add 169.254.3.1/24 dev usb0 && ip route add 10.4.0.1/32 dev cali0
    ip -6 address add fd00::1/64 dev six0 nodad
    ip link add name docker0 type bridge && ip address add 172.17.0.1/16 dev docker0 && ip link set docker0 up
    ip link set pdown0 down
    state() { cat /sys/class/net/$1/operstate; }
    are_up() { for name in net0 ib0 usb0 six0 cali0; do [ $(state $name) = up ] || return 1; done; }
    tries=100; until are_up && [ $(state down0) != up ]; do [ $((tries -= 1)) -gt 0 ] || exit 78; sleep 0.05; done";

/// Runs a command in a namespace with those links; `None`, and why, where there can be none.
fn among_links(command: &Command) -> Option<Output> {
    let run = |program: &OsStr, command: Option<&Command>| {
        let script = format!("{{ {LINKS}; }} > /dev/null 2>&1 || exit 77\n\"$@\"");
        let mut shell = Command::new("unshare");
        shell
            .args(["--net", "--mount", "sh", "-c", &script, "sh"])
            .arg(program);
        for (name, value) in command.iter().flat_map(|command| command.get_envs()) {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell
            .args(command.iter().flat_map(|command| command.get_args()))
            .output()
    };
    match run("true".as_ref(), None) {
        Ok(probe) if probe.status.success() => {
            return Some(run(command.get_program(), Some(command)).unwrap());
        }
        other => println!("skipped: no namespace with links: {other:?}"),
    }
    None
}

/// Are UCX's own programs there?
fn installed() -> bool {
    let is = Command::new("ucx_info").arg("-v").output().is_ok();
    if !is {
        println!("skipped: no `ucx_info`: Debian has it in `ucx-utils`");
    }
    is
}

/// The program that connects by address; `None` where it cannot be built.
fn connect() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        let program = private_folder("ucx_connect").join("connect");
        let source = manifest_path("tests/ucx/connect.c");
        let mut compiler = Command::new(c_compiler()?);
        compiler
            .args(["-std=gnu11", "-Wall", "-Wextra", "-O1", "-o"])
            .arg(&program);
        let built = compiler
            .arg(source)
            .args(["-lucp", "-lucs"])
            .output()
            .unwrap();
        if !built.status.success() {
            let said = harness::stderr(&built);
            assert!(said.contains("ucp/api/ucp.h"), "{said}");
            println!("skipped: no headers: `libucx-dev`");
            return None;
        }
        Some(program)
    });
    built.as_deref()
}

/// The list that a task of the plugin gets among those links.
fn ours() -> Option<String> {
    Some(variables()?.0)
}

/// That, and by what connections are made beside it.
fn variables() -> Option<(String, String)> {
    let step = Step::on_dgx_h100()
        .arg("default=closest,bind=none")
        .network(Path::new(""));
    let played = among_links(&step.task("CUDA_VISIBLE_DEVICES=0").command(host()?))?;
    let text = String::from_utf8_lossy(&played.stdout).into_owned();
    let value = |name: &str| {
        let begin = format!("task 0: env {name}=");
        let value = text.lines().find_map(|line| line.strip_prefix(&begin));
        value
            .unwrap_or_else(|| panic!("no `{name}`:\n{text}"))
            .to_string()
    };
    Some((value("UCX_NET_DEVICES"), value("UCX_SOCKADDR_TLS_PRIORITY")))
}

#[test]
fn the_interfaces_that_are_named_are_those_that_ucx_has() {
    if !installed() {
        return;
    }
    let mut asks = Command::new("ucx_info");
    let (Some(ours), Some(ucxs)) = (ours(), among_links(asks.arg("-d"))) else {
        return;
    };
    let text = String::from_utf8_lossy(&ucxs.stdout).into_owned();
    let after = |line: &str, word: &str| Some(line.split_once(word)?.1.trim().to_string());
    let mut transport = String::new();
    let mut ucxs = Vec::new();
    for line in text.lines() {
        transport = after(line, "Transport: ").unwrap_or(transport);
        ucxs.extend(after(line, "Device: ").filter(|_| transport == "tcp"));
    }
    assert_eq!(ours, "mlx5_0:1,ib0,lo,net0,six0", "{text}");
    let named: Vec<&str> = ours.split(',').skip(1).collect();
    let missing = named
        .iter()
        .find(|name| !ucxs.iter().any(|known| known == *name));
    assert_eq!(missing, None, "UCX would warn:\n{text}");
    // older releases take a bridge and a link-local address too
    let known = |name: &&String| {
        [&named[..], &["docker0", "usb0"]]
            .concat()
            .contains(&name.as_str())
    };
    assert_eq!(ucxs.iter().find(|name| !known(name)), None, "{text}");
}

#[test]
fn who_connects_by_address_can_with_our_list_and_could_not_with_nics_alone() {
    let Some(connect) = connect() else { return };
    let Some((ours, managers)) = variables() else {
        return;
    };
    let ran = |list: Option<&str>, managers: Option<&str>, address: &str| {
        let mut command = Command::new(connect);
        command.arg(address).env("UCX_WARN_UNUSED_ENV_VARS", "n");
        for (name, value) in [
            ("UCX_NET_DEVICES", list),
            ("UCX_SOCKADDR_TLS_PRIORITY", managers),
        ] {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let ran = among_links(&command).expect("it was possible before");
        (
            ran.status.success(),
            String::from_utf8_lossy(&ran.stdout).into_owned(),
        )
    };
    for address in ["10.0.0.1", "10.1.0.1", "127.0.0.1"] {
        for (list, with, connects) in [
            (None, None, true),
            (Some(&*ours), Some(&*managers), true),
            // UCX reads the variable
            (Some(&ours), Some("none"), false),
            (Some("mlx5_0:1"), None, false),
        ] {
            let (is_connected, said) = ran(list, with, address);
            assert_eq!(
                is_connected, connects,
                "{list:?} {with:?} {address}: {said}"
            );
            let is_alone = list == Some("mlx5_0:1");
            assert!(
                !is_alone || said.contains("unreachable"),
                "{address}: {said}"
            );
        }
    }
}

#[test]
fn a_program_whose_nic_is_missing_runs_on_tcp_as_without_a_list() {
    // this machine has no `mlx5_0`, as a container without devices and a UCX without verbs
    if !installed() {
        return;
    }
    let Some(ours) = ours() else { return };
    let arrives = |list: &str| {
        let script = format!(
            "export UCX_NET_DEVICES={list} UCX_TLS=^sm
            timeout 20 ucx_perftest -p 13337 > /dev/null 2>&1 &
            for try in 1 2 3 4 5 6 7 8; do
                timeout 5 ucx_perftest -p 13337 127.0.0.1 -t tag_lat -n 10 -w 1 && break; sleep 0.2
            done"
        );
        let ran =
            among_links(Command::new("sh").args(["-c", &script])).expect("it was possible before");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &harness::stderr(&ran);
        (ran.status.success() && said.contains("Final:"), said)
    };
    let (found, said) = arrives(&ours);
    assert!(found, "`{ours}`: {said}");
}
