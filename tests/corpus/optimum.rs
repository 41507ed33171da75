//! Searches for a better way to deal GPUs to NICs, independently of the project's solver.
//!
//! A GPU's share of a NIC is the least of what the kind of path lets through, of what the GPUs on that NIC leave to it, and
//! of what those leave that cross the same two sockets; one answer is better than another if its shares, from the least to
//! the greatest, come later in the order of a dictionary.

/// The unit of shares: this part of a rate, a multiple of 1 to 16.
const PARTS: u64 = 720_720;
/// Partial answers, at most; a search that needs more has not shown anything and says so.
const MOST_STEPS: u64 = 30_000_000;

/// What a machine's ways let through.
pub struct Paths {
    /// `[gpu][rail]`, in thousandths of a NIC's rate
    pub values: Vec<Vec<u64>>,
    /// `[gpu][rail]`: the number of the connection of two sockets that the way crosses
    pub connections: Vec<Vec<Option<usize>>>,
    /// what two sockets' connection carries, in thousandths of a NIC's rate: what one flow has, where nothing else is known
    pub connection: u64,
}

/// What each can have of a place at most, where all of these want some of it and none can use more than this.
fn level(capacity: u64, mut wants: Vec<u64>) -> u64 {
    wants.sort_unstable();
    let (mut left, mut users) = (capacity * PARTS, wants.len() as u64);
    for want in wants {
        if want * PARTS * users > left {
            return left / users;
        }
        left -= want * PARTS;
        users -= 1;
    }
    u64::MAX
}

impl Paths {
    /// The shares of the first GPUs, which have these NICs, in ascending order.
    pub fn shares(&self, rail_of: &[usize]) -> Vec<u64> {
        let dealt = || rail_of.iter().copied().enumerate();
        let others = |gpu: usize| dealt().filter(move |(other, _)| *other != gpu);
        let mut shares: Vec<u64> = dealt()
            .map(|(gpu, rail)| self.share(others(gpu), gpu, rail))
            .collect();
        shares.sort_unstable();
        shares
    }

    /// What one GPU has of a NIC beside these others on their NICs.
    fn share(
        &self,
        others: impl Iterator<Item = (usize, usize)> + Clone,
        gpu: usize,
        rail: usize,
    ) -> u64 {
        let value = |(gpu, rail): (usize, usize)| self.values[gpu][rail];
        let own = value((gpu, rail));
        let on_rail = others.clone().filter(|(_, other)| *other == rail);
        let port = level(1000, on_rail.map(value).chain([own]).collect());
        let connection = self.connections[gpu][rail];
        let between = connection.map_or(u64::MAX, |connection| {
            let crossing =
                others.filter(|(gpu, rail)| self.connections[*gpu][*rail] == Some(connection));
            level(self.connection, crossing.map(value).chain([own]).collect())
        });
        (own * PARTS).min(port).min(between)
    }

    /// A better answer than one with these shares, where there is one.
    pub fn better(&self, than: &[u64]) -> Result<Option<Vec<usize>>, String> {
        let rails = self.values.first().map_or(0, Vec::len);
        let column = |rail: usize| -> Vec<(u64, Option<usize>)> {
            self.values
                .iter()
                .zip(&self.connections)
                .map(|(row, across)| (row[rail], across[rail]))
                .collect()
        };
        let same = |rail: usize| {
            (0..rail)
                .filter(|&other| column(other) == column(rail))
                .collect()
        };
        let mut search = Search {
            ways: self,
            than,
            same: (0..rails).map(same).collect(),
            rails,
            rail_of: Vec::new(),
            steps: 0,
        };
        match search.descend() {
            _ if search.steps > MOST_STEPS => Err(format!("{MOST_STEPS} steps show nothing")),
            true => Ok(Some(search.rail_of)),
            false => Ok(None),
        }
    }
}

struct Search<'a> {
    ways: &'a Paths,
    than: &'a [u64],
    /// for each rail the earlier ones that look the same to every GPU
    same: Vec<Vec<usize>>,
    rails: usize,
    rail_of: Vec<usize>,
    steps: u64,
}

impl Search<'_> {
    /// Finds a better answer; `rail_of` then holds it.
    fn descend(&mut self) -> bool {
        self.steps += 1;
        if self.steps > MOST_STEPS || self.hopeless() {
            return false;
        }
        if self.rail_of.len() == self.ways.values.len() {
            return self.ways.shares(&self.rail_of).as_slice() > self.than;
        }
        for rail in 0..self.rails {
            // of unused NICs that are alike for every GPU one is enough
            let unused = |rail: &usize| !self.rail_of.contains(rail);
            if unused(&rail) && self.same[rail].iter().any(unused) {
                continue;
            }
            self.rail_of.push(rail);
            if self.descend() {
                return true;
            }
            self.rail_of.pop();
        }
        false
    }

    /// Can nothing that begins like this be better?  Further GPUs only lessen the shares of those that have a NIC, and all
    /// together have no more than the NICs carry.
    fn hopeless(&self) -> bool {
        let dealt = self.rail_of.iter().copied().enumerate();
        let joining = |gpu: usize, rail: usize| self.ways.share(dealt.clone(), gpu, rail);
        let open = self.rail_of.len()..self.ways.values.len();
        let open = open.map(|gpu| {
            (0..self.rails)
                .map(|rail| joining(gpu, rail))
                .max()
                .unwrap_or(0)
        });
        let mut most: Vec<u64> = self
            .ways
            .shares(&self.rail_of)
            .into_iter()
            .chain(open)
            .collect();
        most.sort_unstable();
        let (mut left, mut users) = (self.rails as u64 * 1000 * PARTS, most.len() as u64);
        for share in &mut most {
            *share = (*share).min(left.div_ceil(users));
            left = left.saturating_sub(*share);
            users -= 1;
        }
        most.as_slice() <= self.than
    }
}
