//! Objects of RDMA devices that processes hold, by the kernel's netlink messages, which `rdma resource show` prints too.
//!
//! Commands and attributes are those of include/uapi/rdma/rdma_netlink.h; each object's owner is told by
//! drivers/infiniband/core/nldev.c (`fill_res_name_pid`) and restrack.c:
//!
//! * The owner is the thread that made the object, by its number in the reader's PID namespace. A thread that has ended, or has
//!   no number there, leaves an object without owner.
//! * A queue pair's owner is its protection domain's. Where that thread has ended, the domain's context may have another.
//! * Objects that the driver makes by commands of its own (mlx5's DEVX) are not listed: UCX's connections on ConnectX cards are
//!   of this kind (`MLX5_DEVX_OBJECTS`, src/uct/ib/base/ib_md.c), its memory is not.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The command, the list and an entry of it; a device is its own entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Objects(u16, u16, u16);

const DEVICE_INDEX: u16 = 1;
const DEVICE_NAME: u16 = 2;
const PORT: u16 = 3;
const TYPE: u16 = 26;
const STATE: u16 = 27;
const THREAD: u16 = 28;
const KERNEL_NAME: u16 = 29;
const DOMAIN: u16 = 60;
const CONTEXT: u16 = 64;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

impl Objects {
    pub const DEVICES: Objects = Objects(1, 0, 0);
    /// the kernel asks the device for the state of each
    pub const QUEUE_PAIRS: Objects = Objects(10, 19, 20);
    /// registered memory
    pub const REGIONS: Objects = Objects(13, 40, 41);
    pub const DOMAINS: Objects = Objects(14, 46, 47);
    /// one for each time that a process opened the device; since Linux 5.15
    pub const CONTEXTS: Objects = Objects(22, 86, 87);

    pub fn request(self, device: Option<u32>) -> Vec<u8> {
        /// `NLM_F_REQUEST | NLM_F_DUMP` of include/uapi/linux/netlink.h.
        const FLAGS: u16 = 0x301;
        /// `RDMA_NL_NLDEV << 10`, to which a command is added.
        const NLDEV: u16 = 5 << 10;
        let mut message = vec![0; 4];
        message.extend((NLDEV + self.0).to_ne_bytes());
        message.extend(FLAGS.to_ne_bytes());
        // the number of the request, and of its sender, which the kernel fills in
        message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        if let Some(device) = device {
            message.extend(8u16.to_ne_bytes());
            message.extend(DEVICE_INDEX.to_ne_bytes());
            message.extend(device.to_ne_bytes());
        }
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message
    }
}

/// An object: its device, and the kernel's numbers of it.
pub struct Object {
    device: String,
    numbers: BTreeMap<u16, u32>,
    is_kernels: bool,
}

impl Object {
    fn new(bytes: &[u8], device: String) -> Object {
        let mut object = Object {
            device,
            numbers: BTreeMap::new(),
            is_kernels: false,
        };
        for (number, payload) in attributes(bytes) {
            match (number, payload) {
                (DEVICE_NAME, text) => {
                    let text = String::from_utf8_lossy(text);
                    object.device = text.trim_end_matches('\0').to_string();
                }
                (KERNEL_NAME, _) => object.is_kernels = true,
                (_, [byte]) => drop(object.numbers.insert(number, u32::from(*byte))),
                (_, payload) if payload.len() == 4 => {
                    let value = u32_at(payload, 0).map(|value| (number, value));
                    object.numbers.extend(value);
                }
                _ => {}
            }
        }
        object
    }

    fn number(&self, attribute: u16) -> Option<u32> {
        self.numbers.get(&attribute).copied()
    }

    /// The device and one number, by which other objects name this one.
    fn named(&self, attribute: u16) -> Option<(&str, u32)> {
        Some((&self.device, self.number(attribute)?))
    }

    /// By which a device's objects are asked for.
    pub fn device_index(&self) -> Option<u32> {
        self.number(DEVICE_INDEX)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Attributes with their numbers; one that is cut off ends them.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// Without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
    const NUMBER: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let payload = bytes.get(4..length)?;
        let number = u16_at(bytes, 2)? & NUMBER;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((number, payload))
    })
}

/// True if more datagrams follow; else the kernel's refusal, by a number of errno(3).
pub fn read(objects: Objects, mut datagram: &[u8], found: &mut Vec<Object>) -> Result<bool, i32> {
    /// `NLMSG_ERROR` and `NLMSG_DONE`, with an error number behind, or 0.
    const ENDS: [u16; 2] = [2, 3];
    while let Some(length) = u32_at(datagram, 0).map(|length| length as usize) {
        let (Some(body), Some(kind)) = (datagram.get(HEADER..length), u16_at(datagram, 4)) else {
            break;
        };
        if ENDS.contains(&kind) {
            return match u32_at(body, 0).unwrap_or(0) as i32 {
                error if error < 0 => Err(-error),
                _ => Ok(false),
            };
        }
        let device = Object::new(body, String::new());
        let Objects(_, list, entry) = objects;
        let entries = attributes(body).filter(|(number, _)| *number == list);
        let entries = entries.flat_map(|(_, list)| attributes(list));
        let entries = entries.filter(|(number, _)| *number == entry);
        found.extend(entries.map(|(_, of)| Object::new(of, device.device.clone())));
        if objects == Objects::DEVICES {
            found.push(device);
        }
        let rest = datagram.get(length.next_multiple_of(4)..);
        datagram = rest.unwrap_or_default();
    }
    Ok(true)
}

/// Evidence that a NIC is used, the best first: only a task's best counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// queue pairs with a peer that are ready to send
    QueuePairs,
    /// queue pairs ready to send without a peer of their own: datagrams, of which UCX has some on each NIC of its list, and a
    /// driver's kinds, as EFA's
    Datagrams,
    /// registered memory: the kernel may not list the queue pairs
    Memory,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldNic {
    pub by: By,
    pub device: String,
    /// `None`: of memory it is not known
    pub port: Option<u32>,
}

#[derive(Default)]
pub struct Holdings {
    pub threads: BTreeMap<u32, BTreeSet<HeldNic>>,
    /// true if there are queue pairs of programs whose owner the kernel does not tell
    pub has_unowned: bool,
}

pub fn holdings(answers: &BTreeMap<Objects, Vec<Object>>) -> Holdings {
    let of = |objects| answers.get(&objects).map_or(&[][..], Vec::as_slice).iter();
    let threads: BTreeMap<_, _> = of(Objects::CONTEXTS)
        .map(|of| (of.named(CONTEXT), of.number(THREAD)))
        .collect();
    let contexts: BTreeMap<_, _> = of(Objects::DOMAINS)
        .map(|of| (of.named(DOMAIN), of.named(CONTEXT)))
        .collect();
    let of_context = |object: &Object| {
        let context = contexts.get(&Some(object.named(DOMAIN)?))?;
        *threads.get(&Some((*context)?))?
    };
    let mut all = Holdings::default();
    for objects in [Objects::QUEUE_PAIRS, Objects::REGIONS] {
        for object in of(objects).filter(|object| !object.is_kernels) {
            let Some(thread) = object.number(THREAD).or_else(|| of_context(object)) else {
                all.has_unowned |= objects == Objects::QUEUE_PAIRS;
                continue;
            };
            let held = match objects {
                Objects::QUEUE_PAIRS => sends(object),
                _ => Some((By::Memory, None)),
            };
            all.threads
                .entry(thread)
                .or_default()
                .extend(held.map(|(by, port)| HeldNic {
                    by,
                    device: object.device.clone(),
                    port,
                }));
        }
    }
    all
}

/// `None` for a queue pair that cannot send yet, or no more.
fn sends(queue_pair: &Object) -> Option<(By, Option<u32>)> {
    /// `IB_UVERBS_QPT_RC`, `UC`, `XRC_INI` and `XRC_TGT` of include/uapi/rdma/ib_user_verbs.h.
    const CONNECTED: [u32; 4] = [2, 3, 9, 10];
    /// `IB_QPS_RTS`, ready to send, of include/rdma/ib_verbs.h.
    const READY: u32 = 3;
    let kind = queue_pair.number(TYPE);
    let by = match kind.is_some_and(|kind| CONNECTED.contains(&kind)) {
        true => By::QueuePairs,
        false => By::Datagrams,
    };
    let port = queue_pair.number(PORT).unwrap_or(1);
    (queue_pair.number(STATE) == Some(READY)).then_some((by, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(number: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + payload.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(number.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn device() -> Vec<u8> {
        let index = attribute(DEVICE_INDEX, &[7, 0, 0, 0]);
        [index, attribute(DEVICE_NAME, b"mlx5_3\0")].concat()
    }

    fn listed(objects: Objects, entries: &[Vec<(u16, u32)>]) -> Vec<u8> {
        let Objects(_, list, entry) = objects;
        let entry = |of: &Vec<(u16, u32)>| {
            let of = of.iter().flat_map(|(number, value)| match *number {
                TYPE | STATE => attribute(*number, &[*value as u8]),
                KERNEL_NAME => attribute(*number, b"ib_core\0"),
                _ => attribute(*number, &value.to_ne_bytes()),
            });
            attribute(entry, &of.collect::<Vec<u8>>())
        };
        let entries: Vec<u8> = entries.iter().flat_map(entry).collect();
        message(5130, &[device(), attribute(list, &entries)].concat())
    }

    fn answered(objects: Objects, entries: &[Vec<(u16, u32)>]) -> (Objects, Vec<Object>) {
        let mut found = Vec::new();
        let bytes = [listed(objects, entries), message(3, &[0; 4])].concat();
        assert_eq!(read(objects, &bytes, &mut found), Ok(false));
        (objects, found)
    }

    #[test]
    fn queue_pairs_are_told_apart_by_port_and_by_whether_they_can_send() {
        let pair =
            |kind, state, port| vec![(PORT, port), (TYPE, kind), (STATE, state), (THREAD, 42)];
        let pairs = [(2, 3, 1), (2, 3, 2), (2, 1, 1), (4, 1, 1), (255, 3, 2)];
        let pairs = pairs.map(|(kind, state, port)| pair(kind, state, port));
        let held = holdings(&[answered(Objects::QUEUE_PAIRS, &pairs)].into());
        let held = held.threads[&42].iter().map(|of| (of.by, of.port));
        let (pairs, datagrams) = (By::QueuePairs, By::Datagrams);
        let wanted = [(pairs, Some(1)), (pairs, Some(2)), (datagrams, Some(2))];
        let held: Vec<_> = held.collect();
        assert_eq!(held, wanted, "EFA's own kind is no pair");
    }

    #[test]
    fn what_the_kernel_itself_holds_is_nobody_s_and_what_an_ended_thread_left_is_its_context_s() {
        let kernel = vec![(TYPE, 4), (STATE, 3), (KERNEL_NAME, 0)];
        let left = vec![(TYPE, 2), (STATE, 3), (DOMAIN, 5)];
        let lost = vec![(TYPE, 2), (STATE, 3), (DOMAIN, 6)];
        let domains = [(5, 1), (6, 2)].map(|(domain, of)| vec![(DOMAIN, domain), (CONTEXT, of)]);
        let contexts = [vec![(CONTEXT, 1), (THREAD, 42)], vec![(CONTEXT, 2)]];
        let answers = BTreeMap::from([
            answered(Objects::QUEUE_PAIRS, &[kernel, left, lost]),
            answered(Objects::DOMAINS, &domains),
            answered(Objects::CONTEXTS, &contexts),
        ]);
        let all = holdings(&answers);
        assert!(all.has_unowned, "the context's own thread has ended too");
        assert_eq!(all.threads.keys().collect::<Vec<_>>(), [&42]);
        let held = all.threads[&42].first().unwrap();
        assert_eq!((held.by, &*held.device), (By::QueuePairs, "mlx5_3"));
    }

    #[test]
    fn a_refusal_is_told_by_its_number_and_a_device_by_its_index() {
        let refusal = message(2, &(-22i32).to_ne_bytes());
        let refused = read(Objects::CONTEXTS, &refusal, &mut Vec::new());
        assert_eq!(refused, Err(22));
        let mut found = Vec::new();
        let more = read(Objects::DEVICES, &message(5121, &device()), &mut found);
        assert_eq!(more, Ok(true));
        let index = found[0].device_index();
        assert_eq!((&*found[0].device, index), ("mlx5_3", Some(7)));
        assert_eq!(Objects::QUEUE_PAIRS.request(Some(7)).len(), 24);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..300) {
            let mut found = Vec::new();
            let _ = read(Objects::QUEUE_PAIRS, &bytes, &mut found);
            let pairs: Vec<Vec<(u16, u32)>> = vec![vec![(TYPE, 2), (STATE, 3), (THREAD, 42)]; 9];
            let mut datagram = listed(Objects::QUEUE_PAIRS, &pairs);
            datagram.truncate(cut);
            datagram.extend(bytes);
            let _ = read(Objects::QUEUE_PAIRS, &datagram, &mut found);
            prop_assert!(found.len() <= 200);
        }
    }
}
