//! Asks this node's agent of LLDP which switch each network interface hears.

use super::health::printed;
use nic_placement_fleet::audit::report::NeighbourReport;
use nic_placement_fleet::fabric::cabling::Cabling;
use nic_placement_fleet::fabric::sources;
use nic_placement_process::admin;
use nic_placement_sys as sys;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// lldpd's sockets (its src/lldpd.h, `LLDPD_CTL_SOCKET`), or in a folder of its own.
const SOCKETS: [&str; 2] = ["/run/lldpd.socket", "/run/lldpd/lldpd.socket"];
const PROGRAMS: [&str; 2] = ["/usr/sbin/lldpctl", "/usr/bin/lldpctl"];
const PATIENCE: Duration = Duration::from_secs(2);

/// By interface; `None` if no agent runs, or none answers this user.
pub(super) fn neighbours() -> Option<BTreeMap<String, NeighbourReport>> {
    SOCKETS.iter().find(|socket| Path::new(socket).exists())?;
    let program = PROGRAMS
        .iter()
        .map(Path::new)
        .find(|program| program.exists())?;
    ask(program, PATIENCE)
}

/// Root runs the program as the user that may write its file: on Debian the agent's own.
fn ask(program: &Path, patience: Duration) -> Option<BTreeMap<String, NeighbourReport>> {
    const OTHERS: u32 = 0o022;
    let file = fs::metadata(program)
        .ok()
        .filter(|file| file.is_file() && file.mode() & OTHERS == 0)?;
    let mut asked = Command::new(program);
    asked.args(["-f", "json0"]).env_clear();
    if sys::is_root() && file.uid() != 0 {
        asked.uid(file.uid()).gid(file.gid());
    }
    let (status, said) = printed(asked, patience)?;
    // an interface may hear its own node, which the reader tells by the name
    let name = format!(
        "{}.json",
        admin::hostname().split('.').next().unwrap_or_default()
    );
    let mut cabling = Cabling::default();
    sources::read(&name, &said, &mut cabling)
        .ok()
        .filter(|_| status.success())?;
    let heard = cabling.cables.into_iter().map(|cable| {
        let at = cable.to;
        let switch = cabling.switches.get(&at.switch).unwrap_or(&at.switch);
        let neighbour = NeighbourReport {
            switch: switch.clone(),
            id: at.switch,
            port: at.port,
        };
        (cable.nic.nic, neighbour)
    });
    Some(heard.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// A program that prints this.
    fn program(name: &str, script: &str, mode: u32) -> PathBuf {
        let name = format!("nic-placement-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn what_the_agent_hears_is_read_by_interface() {
        let said = r#"{"lldp": [{"interface": [{"name": "eth0", "via": "LLDP", "chassis": [{"id": [{"type": "mac",
            "value": "0e:36:65:4d:f4:aa"}], "name": [{"value": "leaf0"}], "capability": [{"type": "Bridge",
            "enabled": true}]}], "port": [{"id": [{"type": "ifname", "value": "swp20"}]}]}]}]}"#.replace('\n', "");
        let script = format!("[ \"$*\" = '-f json0' ] && echo '{said}'");
        let path = program("lldpctl", &script, 0o755);
        let heard = ask(&path, Duration::from_secs(600));
        fs::remove_file(&path).unwrap();
        let heard = heard.unwrap();
        let of = &heard["eth0"];
        let found = (heard.len(), &*of.switch, &*of.id, &*of.port);
        assert_eq!(found, (1, "leaf0", "0e:36:65:4d:f4:aa", "swp20"));
    }

    #[test]
    fn an_agent_that_does_not_answer_or_that_others_may_write_is_not_waited_for() {
        let cases = [
            ("waits", "exec sleep 1000", 0o755, 20),
            ("fails", "exit 1", 0o755, 600_000),
            ("open", "echo '{\"lldp\": [{}]}'", 0o777, 600_000),
        ];
        for (name, script, mode, patience) in cases {
            let path = program(name, script, mode);
            let heard = ask(&path, Duration::from_millis(patience));
            fs::remove_file(&path).unwrap();
            assert_eq!(heard, None, "{name}");
        }
    }
}
