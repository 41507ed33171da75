//! The NIC ports that become rails: `facts` has a row for each port; `judge` excludes ports by one
//! rule after another.

mod facts;

use super::Selection;
use super::solve::MOST_RAILS;
use crate::diagnostic::Diagnostic;
use crate::order::Order;
use crate::placement::{Excluded, NodePlacement, Rail};
use crate::topology::{LinkLayer, NicRole, Topology};
use facts::{Row, Table};
use std::cell::LazyCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The map without its GPUs. Ports in `were` that fail count as broken rails.
pub(crate) fn judge(node: &Topology, selection: &Selection, were: &[Rail]) -> NodePlacement {
    let mut map = NodePlacement::default();
    for pattern in selection.include.iter().chain(&selection.exclude) {
        if !node.nics.iter().any(|nic| pattern.matches(nic)) {
            let finding = "means no NIC of this node";
            map.diagnostics
                .push(Diagnostic::new(pattern.to_string(), finding));
        }
    }
    let table = Table::new(node, selection, were, &mut map);
    let mut good: Vec<&Row> = table.rows.iter().collect();

    let failed = leave_out(&mut good, &mut map, &mut |row| row.failure.clone());

    // if all interfaces are in another network namespace, this process is in a container, and the
    // interfaces are the host's: no port is excluded
    if !good.iter().all(|row| row.port.other_namespace) {
        leave_out(&mut good, &mut map, &mut |row| {
            let is_away = row.port.other_namespace && !row.wanted;
            is_away.then(|| {
                "its interface is in another network namespace: a container has it".to_string()
            })
        });
    }

    if let Some(fabric) = most_bandwidth(&voters(&good), |row| row.port.link_layer) {
        leave_out(&mut good, &mut map, &mut |row| {
            let own = row.port.link_layer;
            (own != fabric && !row.wanted)
                .then(|| format!("it speaks {own}, the node's fabric {fabric}"))
        });
    }

    // a port below half of the fabric's rate is excluded: a far NIC at the full rate gives as much
    let rate = most_bandwidth(&voters(&good), |row| row.port.rate_mbps).flatten();
    let slower = leave_out(&mut good, &mut map, &mut |row| {
        let is_far_slower = row.port.rate_mbps.map(|own| 2 * own) < rate;
        row.slower(rate).filter(|_| is_far_slower)
    });

    let mut against = by_evidence(&table, &good, rate, &mut map.diagnostics).into_iter();
    leave_out(&mut good, &mut map, &mut |_| against.next().flatten());

    let rails = &good[..good.len().min(MOST_RAILS)];
    map.broken = broken(&table, rails, &good, rate, [&failed, &slower]);
    map.degraded = degraded(rails, rate);
    map.rails = rails
        .iter()
        .map(|row| row.rail(row.port.rate_mbps))
        .collect();

    // UCX marks the entries of its device list in a mask of 64 bits (src/ucp/core/ucp_context.c)
    if good.len() > MOST_RAILS {
        let finding = format!(
            "{} usable ports: only the first {MOST_RAILS} are used",
            good.len()
        );
        map.diagnostics
            .push(Diagnostic::new("/sys/class/infiniband", finding));
        let mut positions = 0..;
        leave_out(&mut good, &mut map, &mut |_| {
            (positions.next() >= Some(MOST_RAILS))
                .then(|| format!("it is beyond the {MOST_RAILS} ports that UCX can use"))
        });
    }
    map.excluded
        .order_by_key(|excluded| (node.nic_index(&excluded.name), excluded.port));
    map
}

/// If `why` returns a reason for a port, moves the port from `good` to `map.excluded`. Returns the
/// moved ports.
fn leave_out<'r, 'a>(
    good: &mut Vec<&'r Row<'a>>,
    map: &mut NodePlacement,
    why: &mut dyn FnMut(&Row) -> Option<String>,
) -> Vec<&'r Row<'a>> {
    let mut left_out = Vec::new();
    good.retain(|row| {
        let Some(why) = why(row) else { return true };
        left_out.push(*row);
        map.excluded.push(Excluded {
            name: row.nic.name.clone(),
            port: Some(row.port.number),
            why,
        });
        false
    });
    left_out
}

/// The ports that decide the fabric's link layer and rate: ports without `own_evidence`; if there
/// are none, all ports.
fn voters<'r, 'a>(good: &[&'r Row<'a>]) -> Vec<&'r Row<'a>> {
    Some(unsuspected(good))
        .filter(|free| !free.is_empty())
        .unwrap_or_else(|| good.to_vec())
}

fn unsuspected<'r, 'a>(good: &[&'r Row<'a>]) -> Vec<&'r Row<'a>> {
    let mut free = good.to_vec();
    free.retain(|row| row.own_evidence(good).is_empty());
    free
}

/// The `kind` whose ports have the most bandwidth together; of equals the kind with most ports,
/// then the least by `Ord` (InfiniBand before Ethernet).
fn most_bandwidth<K: Ord>(ports: &[&Row], kind: impl Fn(&Row) -> K) -> Option<K> {
    let mut carried: BTreeMap<K, (u64, usize)> = BTreeMap::new();
    for row in ports {
        let (mbps, ports) = carried.entry(kind(row)).or_default();
        *mbps += row.port.rate_mbps.unwrap_or(0);
        *ports += 1;
    }
    let (kind, _) = carried
        .into_iter()
        .min_by_key(|(_, carried)| Reverse(*carried))?;
    Some(kind)
}

// `most_bandwidth` prefers InfiniBand by this order
const _: () = assert!((LinkLayer::InfiniBand as u8) < (LinkLayer::Ethernet as u8));

/// For each port of `good` the reason to leave it out, if any.
///
/// Evidence suggests that a port serves another purpose than the fabric. A single fact is no proof,
/// since sites run IP over their fabric too: a port with one fact against it stays, with a
/// diagnostic, if the node needs it. Ports are compared only with ports without evidence, so that
/// an excluded port changes no other decision.
fn by_evidence(
    table: &Table,
    good: &[&Row],
    rate: Option<u64>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Option<String>> {
    let evidence = |row: &&Row| -> Vec<String> {
        let slower = row.slower(rate).into_iter();
        slower.chain(row.own_evidence(good)).collect()
    };
    let mut against: Vec<Vec<String>> = good.iter().map(evidence).collect();
    let without_evidence = |against: &[Vec<String>]| {
        let mut against = against.iter();
        let mut free = good.to_vec();
        free.retain(|_| against.next().is_some_and(Vec::is_empty));
        free
    };
    if let Some(common) = common_subnet(&without_evidence(&against)) {
        for (row, pieces) in good.iter().zip(&mut against).filter(|(row, _)| !row.wanted) {
            let own = row.subnet().filter(|own| *own != common);
            pieces.extend(
                own.map(|own| format!("it is on the subnet {own}, the node's fabric on {common}")),
            );
        }
    }
    let others = without_evidence(&against);
    let fabric_device = LazyCell::new(|| most_bandwidth(&others, |row| row.device).flatten());
    let mut left_out = Vec::with_capacity(good.len());
    for (row, mut pieces) in good.iter().zip(against) {
        // another device id counts only beside evidence other than a lower rate, since NIC models
        // differ in rate
        let is_slower = row.is_slower(rate);
        if pieces.len() > usize::from(is_slower) {
            let devices = row.device.zip(*fabric_device);
            let devices = devices.filter(|(own, fabric)| own != fabric);
            pieces.extend(devices.map(|(own, fabric)| {
                format!("it is another device ({own:04x}) than the fabric's ({fabric:04x})")
            }));
        }
        let need = match pieces.as_slice() {
            [_] => need(table, row, &others).or_else(|| card(row, &others).filter(|_| is_slower)),
            _ => None,
        };
        if let Some(need) = &need {
            let (name, piece) = (&row.nic.name, &pieces[0]);
            let finding =
                format!("{piece}; but {need}: it is used, and `exclude={name}` would leave it out");
            diagnostics.push(Diagnostic::new(row.name(), finding));
        }
        let is_left_out = !pieces.is_empty() && need.is_none();
        left_out.push(is_left_out.then(|| pieces.join(", and ")));
    }
    diagnostics.extend(undecided(&others));
    left_out
}

/// The subnet with two or more ports, and more than half of the ports of known subnet. If there is
/// none, different subnets are no evidence: sites may give each rail a subnet.
fn common_subnet(ports: &[&Row]) -> Option<String> {
    let mut subnets: BTreeMap<String, usize> = BTreeMap::new();
    for subnet in ports.iter().filter_map(|row| row.subnet()) {
        *subnets.entry(subnet).or_default() += 1;
    }
    let known: usize = subnets.values().sum();
    let is_common = |&(_, ports): &(String, usize)| ports > 1 && 2 * ports > known;
    Some(subnets.into_iter().find(is_common)?.0)
}

/// The reason why the node needs `row` beside `others`.
fn need(table: &Table, row: &Row, others: &[&Row]) -> Option<String> {
    if row.nic.role == Some(NicRole::Compute) {
        return Some("compute NIC (model or topology file)".to_string());
    }
    if others.is_empty() {
        return Some("there is no better NIC".to_string());
    }
    let gpu = table.needed_by(row, others)?;
    Some(format!("no other NIC is as near to GPU {gpu}"))
}

/// The reason to keep a slower port beside a good port of its card: NCCL merges a card's ports
/// (src/graph/topo.cc, `ncclTopoAutoMerge`), and without the slower port loses more than its rate.
/// `None` if on no card a good port has these function and port numbers: sites often connect each
/// card's second port to a slower network.
fn card(row: &Row, others: &[&Row]) -> Option<String> {
    let mate = others.iter().find(|other| other.card() == row.card())?;
    let mut peers = others.iter().map(|other| other.place_on_card());
    let has_peer = peers.any(|place| place == row.place_on_card());
    has_peer.then(|| {
        format!(
            "it is on the card of {}, and other cards have both",
            mate.name()
        )
    })
}

/// A diagnostic if only two ports are left, on two InfiniBand subnets: one may be for storage.
fn undecided(others: &[&Row]) -> Option<Diagnostic> {
    let &[one, other] = others else { return None };
    let is_asked = |row: &Row| !row.wanted && row.port.link_layer == LinkLayer::InfiniBand;
    if !is_asked(one) || !is_asked(other) || one.subnet()? == other.subnet()? {
        return None;
    }
    let finding = format!(
        "on another subnet than {}, and nothing says which of the two is the fabric: both are used",
        one.name()
    );
    Some(Diagnostic::new(other.name(), finding))
}

/// For [`NodePlacement::broken`]. Rail numbers count these ports, so that a failure changes no
/// other rail's number.
fn broken(
    table: &Table,
    rails: &[&Row],
    good: &[&Row],
    rate: Option<u64>,
    [failed, slower]: [&[&Row]; 2],
) -> Vec<Rail> {
    // a slower port counts only on a rail's card, or if it is nearer to some GPU than all rails: a
    // storage NIC is no nearer than compute NICs
    let is_missed = |row: &&&Row| {
        rails.iter().any(|rail| rail.card() == row.card())
            || !rails.is_empty() && table.needed_by(row, rails).is_some()
    };
    let farthest = LazyCell::new(|| rails.iter().filter_map(|rail| table.to_gpu(rail)).max());
    let others = LazyCell::new(|| unsuspected(good));
    let would_be_a_rail = |row: &&&Row| {
        // subnets are not compared: a port that is down may report another than before
        let evidence = row.own_evidence(good);
        row.was_rail && !rails.is_empty()
            || is_like(row, rails)
                && table.to_gpu(row) <= *farthest
                && evidence.len() <= usize::from(need(table, row, &others).is_some())
    };
    let lost = failed.iter().chain(slower.iter().filter(is_missed));
    // a port that is down may report a lower rate than before
    let rail = |row: &&Row| row.rail(rate.max(row.port.rate_mbps));
    let mut broken: Vec<Rail> = lost.filter(would_be_a_rail).map(rail).collect();
    broken.order_by_key(Rail::at);
    broken
}

/// True if the port's link layer, device id and place on the card each occur among `rails`; unknown
/// link layers and ids count as equal.
fn is_like(row: &Row, rails: &[&Row]) -> bool {
    let any = |is_like: &dyn Fn(&Row) -> bool| rails.iter().any(|rail| is_like(rail));
    let layer = row.port.link_layer;
    (layer == LinkLayer::Unknown || any(&|rail| rail.port.link_layer == layer))
        && (row.device.is_none()
            || any(&|rail| rail.device == row.device)
            || !any(&|rail| rail.device.is_some()))
        && any(&|rail| rail.place_on_card() == row.place_on_card())
}

/// Rails below the fabric's rate, if another rail of the same device model reaches it: a fault of
/// this node, since a slower model would be slow on all nodes.
fn degraded(rails: &[&Row], rate: Option<u64>) -> Vec<Rail> {
    let does_more = |row: &Row| {
        let mut others = rails.iter().filter(|other| other.port.rate_mbps == rate);
        others.any(|other| other.device == row.device)
    };
    let slower = rails
        .iter()
        .filter(|row| row.is_slower(rate) && does_more(row));
    slower.map(|row| row.rail(row.port.rate_mbps)).collect()
}

#[cfg(test)]
mod tests;
