//! Lists of whole names of devices: UCX's, NVSHMEM's and Mooncake's.

use super::lists::entries;
use super::{Checked, entries_in_doubt, space_in, when};
use nic_placement_core::diagnostic::Shown;

/// For a whole name of a device, with or without a port.
fn unknown_device(checked: &Checked, entry: &str, device: &str) -> Option<String> {
    let port = entry.split_once(':').map(|(_, port)| port);
    let Some(nic) = checked.verbs().find(|nic| nic.name == device) else {
        let shown = Shown::word(entry, 64);
        return Some(format!(
            "`{shown}` is no device of this node: `nic-placement show` lists them"
        ));
    };
    let number: u8 = port?.parse().ok()?;
    let is_missing = !nic.ports.is_empty() && nic.ports.iter().all(|port| port.number != number);
    is_missing.then(|| {
        format!(
            "`{}` names a port that the device lacks",
            Shown::word(entry, 64)
        )
    })
}

/// Whole names of verbs devices: none with a range or a star, and none on a node without such
/// devices.
fn whole_names<'l>(checked: &Checked, list: &'l str) -> impl Iterator<Item = &'l str> {
    let list = if checked.has_verbs() { list } else { "" };
    entries(list.strip_prefix('^').unwrap_or(list)).filter(|entry| !entry.contains(['[', '*']))
}

pub fn ucx(checked: &Checked, list: &str) -> Vec<String> {
    if list == "all" {
        return Vec::new();
    }
    let mut found = entries_in_doubt(whole_names(checked, list), |entry| not_ucx(checked, entry));
    // GPUs that send by themselves have devices of their own, which a list of NICs rules out
    let names_gda = |tls: &str| {
        tls.split(',')
            .any(|item| item.strip_prefix('\\').unwrap_or(item) == "rc_gda")
    };
    let is_named = checked
        .value("UCX_TLS")
        .is_some_and(|tls| !tls.starts_with('^') && names_gda(tls));
    let rules_out = is_named && !list.starts_with('^') && !list.contains("cuda");
    found.extend(when(
        rules_out,
        "`UCX_TLS` names `rc_gda`, whose devices are called `cuda0-NIC:1`, and the list has none of them",
    ));
    found
}

fn not_ucx(checked: &Checked, entry: &str) -> Option<String> {
    if let Some(text) = space_in(entry, entry) {
        return Some(text);
    }
    let (name, port) = entry
        .split_once(':')
        .map_or((entry, None), |(name, port)| (name, Some(port)));
    // `cuda0-mlx5_0:1`: a GPU that sends by itself (src/uct/ib/mlx5/gdaki/gdaki.c)
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let device = name
        .strip_prefix("cuda")
        .and_then(|rest| rest.split_once('-'))
        .filter(|(gpu, _)| is_number(gpu))
        .map_or(name, |(_, nic)| nic);
    // a name without a port may be an IP interface
    let is_interface = port.is_none() && checked.interfaces.iter().any(|known| known == device);
    let is_unknown = port.is_none() && checked.interfaces.is_empty();
    if (is_interface || is_unknown) && !checked.verbs().any(|nic| nic.name == device) {
        return None;
    }
    unknown_device(checked, entry, device).or_else(|| {
        let (shown, name) = (Shown::word(entry, 64), Shown::word(name, 64));
        match port.map(str::parse::<u8>) {
            None if is_interface => None,
            None => Some(format!(
                "before UCX 1.21 `{shown}` means nothing without a port: write `{name}:1`"
            )),
            Some(Err(_)) => Some(format!("`{shown}` names no port: write `{name}:1`")),
            Some(Ok(_)) => None,
        }
    })
}

pub fn nvshmem(checked: &Checked, list: &str) -> Vec<String> {
    let mut found = entries_in_doubt(whole_names(checked, list), |entry| {
        // the number of a port may have a space
        let device = entry.split(':').next().unwrap_or_default();
        space_in(device, entry).or_else(|| unknown_device(checked, entry, device))
    });
    // src/util/env_vars.cpp, `nvshmemi_getenv_bool`
    let is_read = checked
        .value("NVSHMEM_ENABLE_NIC_PE_MAPPING")
        .is_some_and(|value| !value.starts_with(['0', 'N', 'n', 'F', 'f']))
        || !checked.has_verbs();
    found.extend(when(
        !is_read && found.is_empty(),
        "NVSHMEM 3.8 reads it only beside `NVSHMEM_ENABLE_NIC_PE_MAPPING=1`, with which the tasks get its NICs by number",
    ));
    found
}

pub fn mooncake(checked: &Checked, list: &str) -> Vec<String> {
    // whether spaces are taken away is not known
    let names = whole_names(checked, list)
        .map(str::trim)
        .filter(|name| !name.is_empty());
    entries_in_doubt(names, |name| {
        unknown_device(checked, name, name.split(':').next().unwrap_or_default())
    })
}
