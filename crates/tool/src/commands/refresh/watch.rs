//! `refresh --watch`: writes the node file when the kernel tells of a link or an RDMA device, and regularly besides.
//!
//! Each refresh is a process of its own, since one that waits for hardware cannot be ended. Until then no other is started, and
//! steps see the file's age.

use super::super::{Failure, tell, threads};
use super::this_program;
use netlink_sys::protocols::{NETLINK_RDMA, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use nic_placement_node::discover::Root;
use nic_placement_node::discover::registered::{Registered, registered};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// `RTNLGRP_LINK` of include/uapi/linux/rtnetlink.h: interfaces that come, go, or change their state.
const LINKS: u32 = 1;
/// `RDMA_NL_GROUP_NOTIFY` of include/uapi/rdma/rdma_netlink.h: RDMA devices and their interfaces, since Linux 6.12.
const RDMA_DEVICES: u32 = 4;

/// `ENOBUFS` of include/uapi/asm-generic/errno.h: messages were lost.
const OVERRUN: i32 = 105;

/// One change makes several messages, and a link that goes takes others along; containers' come and go by the dozen.
const DEBOUNCE: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_secs(5);
/// A refresh takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps the node file; ends only where nothing can be heard.
pub(super) fn watch(place: &Path, textfile: Option<&Path>, every: Duration) -> Result<(), Failure> {
    // changes are looked up: one message that waits is enough
    let (news, heard) = sync_channel(1);
    listen(NETLINK_ROUTE, LINKS, news.clone())
        .map_err(|error| format!("cannot hear of links: {error}"))?;
    if let Err(error) = listen(NETLINK_RDMA, RDMA_DEVICES, news) {
        tell(&format!(
            "cannot hear of RDMA devices: {error}; links and the time tell when to write the file"
        ));
    }
    let root = Root::live();
    loop {
        let before = kernel_state(&root);
        let next = match refresh(place, textfile)? {
            true => every,
            false => RETRY.min(every),
        };
        let end = Instant::now() + next;
        loop {
            match heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the kernel's news have ended".into());
                }
                Ok(()) => {
                    thread::sleep(DEBOUNCE);
                    let _ = heard.try_recv();
                    if kernel_state(&root) != before {
                        break;
                    }
                }
            }
        }
    }
}

/// Registered devices, and each interface with its `operstate`.
fn kernel_state(root: &Root) -> Registered {
    const NET: &str = "sys/class/net";
    let mut state = registered(root);
    for (name, inode) in root.numbered(NET, |_| true) {
        let path = format!("{NET}/{name}");
        let link = root.read(&format!("{path}/operstate"));
        state.insert(path, format!("{inode} {}", link.unwrap_or_default()));
    }
    state
}

fn listen(protocol: isize, group: u32, news: SyncSender<()>) -> io::Result<()> {
    let mut socket = Socket::new(protocol)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    socket.add_membership(group)?;
    threads::started(move || {
        let mut message = Vec::with_capacity(8192);
        loop {
            message.clear();
            match socket.recv(&mut message, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // some were lost, which is news too
                Err(error) if error.raw_os_error() == Some(OVERRUN) => {}
                Err(error) => return tell(&format!("cannot hear of changes: {error}")),
                Ok(_) => {}
            }
            // a full channel has news already
            if let Err(TrySendError::Disconnected(())) = news.try_send(()) {
                return;
            }
        }
    });
    Ok(())
}

/// False if it failed.
fn refresh(place: &Path, textfile: Option<&Path>) -> Result<bool, Failure> {
    let mut command = this_program();
    command.args(["refresh", "--output"]).arg(place);
    command.stdin(Stdio::null());
    if let Some(file) = textfile {
        command.arg("--textfile").arg(file);
    }
    let cannot = |error| format!("cannot start a refresh, or wait for it: {error}");
    let mut child = command.spawn().map_err(cannot)?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            return Ok(status.success());
        }
        thread::sleep(Duration::from_millis(10));
    }
    tell(&format!(
        "a refresh has not ended after {} s: hardware that does not answer? `{}` grows old until it does",
        PATIENCE.as_secs(),
        place.display()
    ));
    // it ends when the hardware answers
    let _ = child.kill();
    child.wait().map_err(cannot)?;
    Ok(false)
}
