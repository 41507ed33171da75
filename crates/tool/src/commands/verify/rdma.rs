//! Asks the kernel what processes hold of RDMA devices, by netlink.

use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_RDMA;
use nic_placement_traffic::resources::{Holdings, Object, Objects, holdings, read};
use std::collections::BTreeMap;
use std::io;

/// Objects of one kind on one device, at most: 100,000 queue pairs are many.
const MOST: usize = 1 << 20;
/// Bytes of one datagram, at most: the kernel fills the reader's room up to 32 KiB (net/netlink/af_netlink.c,
/// `netlink_dump`).
const DATAGRAM: usize = 64 * 1024;
/// `EPROTONOSUPPORT` of include/uapi/asm-generic/errno.h: the kernel has no RDMA.
const NO_RDMA: i32 = 93;

/// Objects that each thread of the node holds; else the reason why that is not known.  Waits for the devices, which are
/// asked for the state of their queue pairs.
pub(super) fn held() -> Result<Holdings, String> {
    let untold = |error| format!("the kernel does not tell of RDMA devices by netlink: {error}");
    let devices = match ask(Objects::DEVICES, None) {
        Err(error) if error.raw_os_error() == Some(NO_RDMA) => return Ok(Holdings::default()),
        answer => answer.map_err(untold)?,
    };
    let mut answers: BTreeMap<Objects, Vec<Object>> = BTreeMap::new();
    for objects in [
        Objects::CONTEXTS,
        Objects::DOMAINS,
        Objects::REGIONS,
        Objects::QUEUE_PAIRS,
    ] {
        for device in devices.iter().filter_map(Object::device_index) {
            match ask(objects, Some(device)) {
                Ok(found) => answers.entry(objects).or_default().extend(found),
                Err(error) if objects == Objects::QUEUE_PAIRS => return Err(untold(error)),
                // an older kernel tells less of the others, or a device has gone
                Err(_) => {}
            }
        }
    }
    Ok(holdings(&answers))
}

fn ask(objects: Objects, device: Option<u32>) -> io::Result<Vec<Object>> {
    let socket = Socket::new(NETLINK_RDMA)?;
    socket.send(&objects.request(device), 0)?;
    let mut found = Vec::new();
    let mut datagram = Vec::with_capacity(DATAGRAM);
    loop {
        datagram.clear();
        match socket.recv(&mut datagram, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            received => received?,
        };
        match read(objects, &datagram, &mut found) {
            Ok(true) if found.len() < MOST => {}
            Ok(_) => return Ok(found),
            Err(number) => return Err(io::Error::from_raw_os_error(number)),
        }
    }
}
