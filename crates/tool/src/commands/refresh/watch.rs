//! `refresh --watch`: writes the node file when the kernel tells of a link or an RDMA device, and regularly besides.
//!
//! Each refresh is a process of its own, since one that waits for hardware cannot be ended. Until then no other is started, and
//! steps see the file's age.

use super::super::{Failure, tell, threads};
use super::Files;
use netlink_sys::protocols::{NETLINK_RDMA, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use nic_placement_node::discover::Root;
use nic_placement_node::discover::registered::{Registered, registered};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// `RTNLGRP_LINK` of include/uapi/linux/rtnetlink.h: interfaces that come, go, or change their state.
const LINKS: u32 = 1;
/// `RDMA_NL_GROUP_NOTIFY` of include/uapi/rdma/rdma_netlink.h: RDMA devices and their interfaces, since Linux 6.12.
const RDMA_DEVICES: u32 = 4;

/// `ENOBUFS` of include/uapi/asm-generic/errno.h: messages were lost.
const OVERRUN: i32 = 105;

/// One change makes several messages, and a link that goes takes others along.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// Between two refreshes for interfaces on no device: containers' come and go by the dozen.
const PAUSE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(5);
/// A refresh takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps the node file; ends only where nothing can be heard.
pub(super) fn watch(files: &Files, every: Duration) -> Result<(), Failure> {
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
    let mut others_from = Instant::now();
    loop {
        let before = kernel_state(&root);
        let next = if refresh(files)? {
            every
        } else {
            RETRY.min(every)
        };
        if wait(&root, &before, &heard, Instant::now() + next, others_from)? == Reason::Others {
            others_from = Instant::now() + PAUSE;
        }
    }
}

#[derive(PartialEq, Eq)]
enum Reason {
    Time,
    Devices,
    Others,
}

/// Waits for a reason to write the file: the time is `end`, or the state is not `then`; for interfaces on no device not
/// before `others_from`.
fn wait(
    root: &Root,
    then: &KernelState,
    heard: &Receiver<()>,
    end: Instant,
    others_from: Instant,
) -> Result<Reason, Failure> {
    let (mut end, mut at_end) = (end, Reason::Time);
    loop {
        match heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => return Ok(at_end),
            Err(RecvTimeoutError::Disconnected) => {
                return Err("the kernel's news have ended".into());
            }
            Ok(()) => {
                thread::sleep(DEBOUNCE);
                let _ = heard.try_recv();
                let now = kernel_state(root);
                if now.devices != then.devices {
                    return Ok(Reason::Devices);
                }
                if now.others != then.others && others_from < end {
                    (end, at_end) = (others_from, Reason::Others);
                }
            }
        }
    }
}

struct KernelState {
    /// registered devices, and each interface on a device with its `operstate`
    devices: Registered,
    /// other interfaces: bonds, VLANs, containers'
    others: Registered,
}

fn kernel_state(root: &Root) -> KernelState {
    const NET: &str = "sys/class/net";
    let (mut devices, mut others) = (registered(root), Registered::new());
    for (name, inode) in root.numbered(NET, |_| true) {
        let Some(path) = root.follow(&format!("{NET}/{name}")) else {
            continue;
        };
        let state = root.read(&format!("{path}/operstate")).unwrap_or_default();
        let to = if path.contains("/virtual/") {
            &mut others
        } else {
            &mut devices
        };
        to.insert(format!("{NET}/{name}"), format!("{inode} {state}"));
    }
    KernelState { devices, others }
}

fn listen(protocol: isize, group: u32, news: SyncSender<()>) -> io::Result<()> {
    let mut socket = Socket::new(protocol)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    socket.add_membership(group)?;
    threads::start(move || {
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
            if let Err(std::sync::mpsc::TrySendError::Disconnected(())) = news.try_send(()) {
                return;
            }
        }
    })
}

/// False if it failed.
fn refresh(files: &Files) -> Result<bool, Failure> {
    let &Files {
        place,
        plugstack,
        textfile,
    } = files;
    // this program, also where an upgrade has put another in its place
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("nic-placement")
        .args(["refresh", "--output"])
        .arg(place)
        .stdin(Stdio::null());
    if let Some(file) = plugstack {
        command.arg("--plugstack").arg(file);
    }
    if let Some(file) = textfile {
        command.arg("--textfile").arg(file);
    }
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start a refresh: {error}"))?;
    let begun = Instant::now();
    if let Some(status) = end_of(&mut child, PATIENCE)? {
        return Ok(status.success());
    }
    tell(&format!(
        "a refresh has not ended after {} s: hardware that does not answer? `{}` grows old until it does",
        begun.elapsed().as_secs(),
        place.display()
    ));
    // it ends when the hardware answers
    let _ = child.kill();
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for a refresh: {error}"))?;
    tell(&format!(
        "the refresh has ended after {} s: {status}",
        begun.elapsed().as_secs()
    ));
    Ok(false)
}

/// `None` if it has not ended within `patience`.
fn end_of(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>, Failure> {
    let begun = Instant::now();
    loop {
        let status = child
            .try_wait()
            .map_err(|error| format!("cannot wait for a refresh: {error}"))?;
        if status.is_some() || begun.elapsed() > patience {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
}
