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

use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objects {
    Devices,
    /// the kernel asks the device for the state of each
    QueuePairs,
    /// registered memory
    Regions,
    Domains,
    /// one for each time that a process opened the device; since Linux 5.15
    Contexts,
}

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
    /// The command, the list and an entry of it; a device is its own entry.
    fn numbers(self) -> (u16, Option<(u16, u16)>) {
        match self {
            Objects::Devices => (1, None),
            Objects::QueuePairs => (10, Some((19, 20))),
            Objects::Regions => (13, Some((40, 41))),
            Objects::Domains => (14, Some((46, 47))),
            Objects::Contexts => (22, Some((86, 87))),
        }
    }

    pub fn request(self, device: Option<u32>) -> Vec<u8> {
        /// `NLM_F_REQUEST | NLM_F_DUMP` of include/uapi/linux/netlink.h.
        const FLAGS: u16 = 0x301;
        /// `RDMA_NL_NLDEV << 10`, to which a command is added.
        const NLDEV: u16 = 5 << 10;
        let mut message = vec![0; 4];
        message.extend((NLDEV + self.numbers().0).to_ne_bytes());
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
#[derive(Default)]
pub struct Object {
    pub device: String,
    numbers: BTreeMap<u16, u32>,
    is_kernels: bool,
}

impl Object {
    fn new(bytes: &[u8], device: String) -> Object {
        let mut object = Object {
            device,
            ..Object::default()
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    More,
    Done,
    /// the kernel refuses, with a number of errno(3)
    Refused(i32),
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

pub fn read(objects: Objects, mut datagram: &[u8], found: &mut Vec<Object>) -> Answer {
    /// `NLMSG_ERROR` and `NLMSG_DONE`, with an error number behind, or 0.
    const ENDS: [u16; 2] = [2, 3];
    while let Some(length) = u32_at(datagram, 0).map(|length| length as usize) {
        let (Some(body), Some(kind)) = (datagram.get(HEADER..length), u16_at(datagram, 4)) else {
            break;
        };
        if ENDS.contains(&kind) {
            return match u32_at(body, 0).unwrap_or(0) as i32 {
                error if error < 0 => Answer::Refused(-error),
                _ => Answer::Done,
            };
        }
        let device = Object::new(body, String::new());
        match objects.numbers().1 {
            None => found.push(device),
            Some((list, entry)) => {
                let entries = attributes(body)
                    .filter(|(number, _)| *number == list)
                    .flat_map(|(_, list)| attributes(list))
                    .filter(|(number, _)| *number == entry);
                found.extend(entries.map(|(_, of)| Object::new(of, device.device.clone())));
            }
        }
        let rest = datagram.get(length.next_multiple_of(4)..);
        datagram = rest.unwrap_or_default();
    }
    Answer::More
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// queue pairs with a peer that are ready to send, by port
    pub connected: BTreeMap<u32, u32>,
    /// queue pairs ready to send without a peer of their own: datagrams, and a driver's kinds, as
    /// EFA's
    pub unconnected: BTreeMap<u32, u32>,
    /// pieces of memory that the device may reach
    pub regions: u32,
}

impl Held {
    pub fn add(&mut self, other: &Held) {
        self.with(other, |mine, others| mine + others);
    }

    /// Keeps the larger number of each kind at two times.
    pub fn most(&mut self, other: &Held) {
        self.with(other, u32::max);
    }

    fn with(&mut self, other: &Held, join: fn(u32, u32) -> u32) {
        for (mine, others) in [
            (&mut self.connected, &other.connected),
            (&mut self.unconnected, &other.unconnected),
        ] {
            for (port, count) in others {
                let of_port = mine.entry(*port).or_default();
                *of_port = join(*of_port, *count);
            }
        }
        self.regions = join(self.regions, other.regions);
    }
}

#[derive(Default)]
pub struct Holdings {
    pub threads: BTreeMap<u32, BTreeMap<String, Held>>,
    /// queue pairs of programs whose owner the kernel does not tell
    pub unowned: u32,
}

pub fn holdings(answers: &BTreeMap<Objects, Vec<Object>>) -> Holdings {
    let of = |objects| answers.get(&objects).map_or(&[][..], Vec::as_slice).iter();
    let threads: BTreeMap<_, _> = of(Objects::Contexts)
        .map(|of| (of.named(CONTEXT), of.number(THREAD)))
        .collect();
    let contexts: BTreeMap<_, _> = of(Objects::Domains)
        .map(|of| (of.named(DOMAIN), of.named(CONTEXT)))
        .collect();
    let of_context = |object: &Object| {
        let context = contexts.get(&Some(object.named(DOMAIN)?))?;
        *threads.get(&Some((*context)?))?
    };
    let mut all = Holdings::default();
    for objects in [Objects::QueuePairs, Objects::Regions, Objects::Contexts] {
        for object in of(objects).filter(|object| !object.is_kernels) {
            let Some(thread) = object.number(THREAD).or_else(|| of_context(object)) else {
                all.unowned += u32::from(objects == Objects::QueuePairs);
                continue;
            };
            let held = all
                .threads
                .entry(thread)
                .or_default()
                .entry(object.device.clone())
                .or_default();
            match objects {
                Objects::QueuePairs => count(held, object),
                Objects::Regions => held.regions += 1,
                _ => {}
            }
        }
    }
    all
}

fn count(held: &mut Held, queue_pair: &Object) {
    /// `IB_UVERBS_QPT_RC`, `UC`, `XRC_INI` and `XRC_TGT` of include/uapi/rdma/ib_user_verbs.h.
    const CONNECTED: [u32; 4] = [2, 3, 9, 10];
    /// `IB_QPS_RTS`, ready to send, of include/rdma/ib_verbs.h.
    const READY: u32 = 3;
    // others cannot send yet, or no more
    if queue_pair.number(STATE) != Some(READY) {
        return;
    }
    let kind = queue_pair.number(TYPE);
    let of_kind = if kind.is_some_and(|kind| CONNECTED.contains(&kind)) {
        &mut held.connected
    } else {
        &mut held.unconnected
    };
    *of_kind
        .entry(queue_pair.number(PORT).unwrap_or(1))
        .or_default() += 1;
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
        let (list, entry) = objects.numbers().1.unwrap();
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
        assert_eq!(read(objects, &bytes, &mut found), Answer::Done);
        (objects, found)
    }

    #[test]
    fn queue_pairs_are_counted_by_port_and_by_whether_they_can_send() {
        let pair =
            |kind, state, port| vec![(PORT, port), (TYPE, kind), (STATE, state), (THREAD, 42)];
        let pairs = [(2, 3, 1), (2, 3, 2), (2, 1, 1), (4, 3, 1), (255, 3, 1)];
        let pairs = pairs.map(|(kind, state, port)| pair(kind, state, port));
        let held = holdings(&[answered(Objects::QueuePairs, &pairs)].into());
        let held = &held.threads[&42]["mlx5_3"];
        assert_eq!(held.connected, BTreeMap::from([(1, 1), (2, 1)]));
        assert_eq!(held.unconnected[&1], 2, "datagrams and EFA's own kind");
    }

    #[test]
    fn what_the_kernel_itself_holds_is_nobody_s_and_what_an_ended_thread_left_is_its_context_s() {
        let kernel = vec![(TYPE, 4), (STATE, 3), (KERNEL_NAME, 0)];
        let left = vec![(TYPE, 2), (STATE, 3), (DOMAIN, 5)];
        let lost = vec![(TYPE, 2), (STATE, 3), (DOMAIN, 6)];
        let domains = [(5, 1), (6, 2)].map(|(domain, of)| vec![(DOMAIN, domain), (CONTEXT, of)]);
        let contexts = [vec![(CONTEXT, 1), (THREAD, 42)], vec![(CONTEXT, 2)]];
        let answers = BTreeMap::from([
            answered(Objects::QueuePairs, &[kernel, left, lost]),
            answered(Objects::Domains, &domains),
            answered(Objects::Contexts, &contexts),
        ]);
        let all = holdings(&answers);
        assert_eq!(all.unowned, 1, "the context's own thread has ended too");
        assert_eq!(all.threads.keys().collect::<Vec<_>>(), [&42]);
        let held = &all.threads[&42]["mlx5_3"];
        assert_eq!(held.connected[&1], 1);
    }

    #[test]
    fn a_refusal_is_told_by_its_number_and_a_device_by_its_index() {
        let refusal = message(2, &(-22i32).to_ne_bytes());
        let refused = read(Objects::Contexts, &refusal, &mut Vec::new());
        assert_eq!(refused, Answer::Refused(22));
        let mut found = Vec::new();
        let more = read(Objects::Devices, &message(5121, &device()), &mut found);
        assert_eq!(more, Answer::More);
        let index = found[0].device_index();
        assert_eq!((&*found[0].device, index), ("mlx5_3", Some(7)));
        assert_eq!(Objects::QueuePairs.request(Some(7)).len(), 24);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..300) {
            let mut found = Vec::new();
            read(Objects::QueuePairs, &bytes, &mut found);
            let pairs: Vec<Vec<(u16, u32)>> = vec![vec![(TYPE, 2), (STATE, 3), (THREAD, 42)]; 9];
            let mut datagram = listed(Objects::QueuePairs, &pairs);
            datagram.truncate(cut);
            datagram.extend(bytes);
            read(Objects::QueuePairs, &datagram, &mut found);
            prop_assert!(found.len() <= 200);
        }
    }
}
