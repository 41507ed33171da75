//! Searches for a better way to deal GPUs to NICs, independently of the project's solver.
//!
//! A GPU's share of a NIC is what the kind of path lets through, divided by the GPUs on that NIC.  The better answer has the
//! larger worst share; with equal worst shares, the larger sum.

/// The unit of shares: this part of a rate, a multiple of 1 to 16.
const PARTS: u64 = 720_720;
/// The most partial answers that are looked at.  A search that needs more has proven nothing, and says so.
const MOST_STEPS: u64 = 30_000_000;

/// The worst share and the sum of an answer.
pub fn figures(values: &[Vec<u64>], rail_of: &[usize]) -> (u64, u64) {
    let mut users = vec![0u64; values[0].len()];
    rail_of.iter().for_each(|&rail| users[rail] += 1);
    let shares = rail_of.iter().enumerate().map(|(gpu, &rail)| values[gpu][rail] * PARTS / users[rail]);
    let shares: Vec<u64> = shares.collect();
    (shares.iter().copied().min().unwrap_or(0), shares.iter().sum())
}

/// A better answer than one with these figures, where there is one.
pub fn better(values: &[Vec<u64>], than: (u64, u64)) -> Result<Option<Vec<usize>>, String> {
    let rails = values.first().map_or(0, Vec::len);
    let column = |rail: usize| -> Vec<u64> { values.iter().map(|row| row[rail]).collect() };
    let same =
        (0..rails).map(|rail| (0..rail).filter(|&other| column(other) == column(rail)).collect()).collect();
    let mut search = Search {
        values,
        than,
        same,
        carried: (0..rails).map(|rail| column(rail).into_iter().max().unwrap_or(0) * PARTS).sum(),
        users: vec![0; rails],
        rail_of: Vec::new(),
        steps: 0,
    };
    match search.descend() {
        _ if search.steps > MOST_STEPS => Err(format!("{MOST_STEPS} steps show nothing")),
        true => Ok(Some(search.rail_of)),
        false => Ok(None),
    }
}

struct Search<'a> {
    values: &'a [Vec<u64>],
    than: (u64, u64),
    /// for each rail, the earlier rails interchangeable with it: they look the same to every GPU
    same: Vec<Vec<usize>>,
    /// what all rails can give together
    carried: u64,
    users: Vec<u64>,
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
        if self.rail_of.len() == self.values.len() {
            return figures(self.values, &self.rail_of) > self.than;
        }
        for rail in 0..self.users.len() {
            // of unused NICs that are interchangeable, one is enough
            if self.users[rail] == 0 && self.same[rail].iter().any(|&other| self.users[other] == 0) {
                continue;
            }
            self.users[rail] += 1;
            self.rail_of.push(rail);
            if self.descend() {
                return true;
            }
            self.rail_of.pop();
            self.users[rail] -= 1;
        }
        false
    }

    /// Can no answer that begins like this be better?  Further GPUs only lessen the shares of GPUs that have a NIC.
    fn hopeless(&self) -> bool {
        let (mut worst, mut sum) = (u64::MAX, 0);
        for (gpu, row) in self.values.iter().enumerate() {
            let most = match self.rail_of.get(gpu) {
                Some(&rail) => row[rail] * PARTS / self.users[rail],
                None => row
                    .iter()
                    .zip(&self.users)
                    .map(|(value, users)| value * PARTS / (users + 1))
                    .max()
                    .unwrap_or(0),
            };
            worst = worst.min(most);
            sum += most;
        }
        (worst, sum.min(self.carried)) <= self.than
    }
}
