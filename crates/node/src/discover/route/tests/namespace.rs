//! The routing tables of the kernel itself, in a network namespace with ten thousand real routes.

use crate::discover::Root;
use crate::discover::route::{Tables, tables};
use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Set in the process that runs inside the namespace: this test program again.
const INSIDE: &str = "NIC_PLACEMENT_TEST_INSIDE";

/// Makes two pairs of interfaces and takes routes from standard input; 77 where this kernel or user may not.
const SETUP: &str = r#"
ip link add pod0 type veth peer name pod1 && ip link add fabric0 type veth peer name fabric1 || exit 77
for each in lo pod0 pod1 fabric0 fabric1; do ip link set "$each" up || exit 77; done
ip -batch - || exit 1
exec "$@"
"#;

/// Routes of each protocol to pods.
const PODS: usize = 10_000;

/// What a node of a large cluster has: a route for each pod, and behind them the fabric's network and the default routes.
fn routes(default: &str) -> String {
    let mut routes = String::new();
    for pod in 0..PODS {
        let (high, low) = (pod / 250, pod % 250 + 1);
        writeln!(routes, "route add 10.244.{high}.{low}/32 dev pod0").unwrap();
        writeln!(routes, "route add fd00::{pod:x}/128 dev pod0").unwrap();
    }
    writeln!(routes, "route add 192.168.7.0/24 dev fabric0").unwrap();
    writeln!(routes, "route add ::/0 dev fabric0 metric 1024").unwrap();
    routes + default
}

/// Runs the test `name` of this program in a namespace with these routes; says where that cannot be.
fn in_a_namespace(name: &str, routes: &str) {
    if !std::path::Path::new("/proc/net/ipv6_route").exists() {
        return println!("skipped: no IPv6");
    }
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SETUP, "sh"]).arg(own);
    command.args(["--exact", name, "--nocapture"]);
    command.env(INSIDE, "1").stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return println!("skipped: no `unshare`: {error}"),
    };
    let mut input = child.stdin.take().unwrap();
    // a child that cannot make its namespace is gone before it reads
    let written = input.write_all(routes.as_bytes());
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let refused = said.contains("unshare failed") || said.contains("ip: not found");
    if refused || output.status.code() == Some(77) {
        return println!("skipped: no network namespace: {said}");
    }
    let passed = output.status.success() && said.contains("1 passed");
    assert!(written.is_ok() && passed, "{said}");
}

/// The number of lines in both tables, and the facts from them.
fn read() -> ([usize; 2], Tables) {
    let root = Root::live();
    let count = |path: &str| {
        let mut lines = 0;
        root.lines(path, |_| lines += 1);
        lines
    };
    let lines = [count("proc/net/route"), count("proc/net/ipv6_route")];
    let found = tables(&root);
    assert_eq!(root.notes(), [], "nothing is cut");
    (lines, found)
}

/// The interfaces of the default routes, and each interface with the number of its networks.
fn facts(tables: &Tables) -> (Vec<&str>, Vec<(&str, usize)>) {
    let interfaces = tables.default.interfaces.iter();
    let networks = tables.networks.iter();
    let networks = networks.map(|(interface, networks)| (interface.as_str(), networks.len()));
    (interfaces.map(String::as_str).collect(), networks.collect())
}

const TESTS: &str = "discover::route::tests::namespace";

#[test]
fn the_fabrics_network_and_the_ipv6_default_route_are_found_behind_ten_thousand_routes() {
    if std::env::var_os(INSIDE).is_none() {
        let name =
            "the_fabrics_network_and_the_ipv6_default_route_are_found_behind_ten_thousand_routes";
        return in_a_namespace(&format!("{TESTS}::{name}"), &routes(""));
    }
    let (lines, found) = read();
    assert!(lines.iter().all(|&lines| lines > PODS), "{lines:?}");
    // of routes to pods nothing is kept
    assert_eq!(facts(&found), (vec!["fabric0"], vec![("fabric0", 1)]));
    let network = found.networks["fabric0"].first().unwrap();
    assert_eq!(network.to_string(), "192.168.7.0/24");
}

#[test]
fn an_ipv4_default_route_is_found_among_ten_thousand_routes() {
    if std::env::var_os(INSIDE).is_none() {
        let name = format!("{TESTS}::an_ipv4_default_route_is_found_among_ten_thousand_routes");
        let default =
            "route add default dev pod1 metric 50\nroute add default dev fabric1 metric 60\n";
        return in_a_namespace(&name, &routes(default));
    }
    let (_, found) = read();
    assert_eq!(facts(&found), (vec!["pod1"], vec![("fabric0", 1)]));
}
