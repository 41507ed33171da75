//! The step's own key-value store: the tasks of a step tell each other short texts through slurmstepd, and need no network.
//!
//! The protocol is PMI-1, which Slurm's `--mpi=pmi2` speaks besides PMI-2 (src/plugins/mpi/pmi2/pmi1.c): lines such as
//! `cmd=put kvsname=K key=A value=B`, each answered by one, over the socket whose number is in `PMI_FD`.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes of a value in one line, at most: Slurm reads 1024 bytes as one request (`MAX_READLINE` of pmi1.c).
const MOST_VALUE: usize = 800;
/// Parts of a text, at most.
const MOST_PARTS: usize = 100;

pub(super) struct Pmi {
    stream: BufReader<UnixStream>,
    rank: usize,
    size: usize,
    space: String,
}

impl Pmi {
    /// Greets slurmstepd; each answer may take `patience`.
    pub(super) fn new(
        socket: UnixStream,
        rank: usize,
        size: usize,
        patience: Duration,
    ) -> io::Result<Pmi> {
        socket.set_read_timeout(Some(patience))?;
        let mut pmi = Pmi {
            stream: BufReader::new(socket),
            rank,
            size,
            space: String::new(),
        };
        pmi.ask("init pmi_version=1 pmi_subversion=1")?;
        let answer = pmi.ask("get_my_kvsname")?;
        pmi.space = value(&answer, "kvsname").unwrap_or_default().to_string();
        Ok(pmi)
    }

    /// Sends `text`, without spaces and line ends, to the step's first task, which gets all texts in order.
    pub(super) fn gather(mut self, text: &str) -> io::Result<Option<Vec<String>>> {
        let parts = text.as_bytes().chunks(MOST_VALUE);
        let count = parts.len();
        if count > MOST_PARTS {
            return Err(io::Error::other("more is to be told than fits"));
        }
        for (part, value) in parts.map(String::from_utf8_lossy).enumerate() {
            let (space, rank, left) = (&self.space, self.rank, count - part - 1);
            let request =
                format!("put kvsname={space} key=nicp.{rank}.{part} value={left:02}{value}");
            self.ask(&request)?;
        }
        self.ask("barrier_in")?;
        let all = (self.rank == 0).then(|| (0..self.size).map(|rank| self.text_of(rank)).collect());
        let all = all.transpose()?;
        self.ask("finalize")?;
        Ok(all)
    }

    fn text_of(&mut self, rank: usize) -> io::Result<String> {
        let mut text = String::new();
        for part in 0..MOST_PARTS {
            let request = format!("get kvsname={} key=nicp.{rank}.{part}", self.space);
            let answer = self.ask(&request)?;
            let (left, rest) = value(&answer, "value")
                .and_then(|value| value.split_at_checked(2))
                .unwrap_or_default();
            text += rest;
            if left.parse() == Ok(0) {
                break;
            }
        }
        Ok(text)
    }

    fn ask(&mut self, request: &str) -> io::Result<String> {
        self.stream
            .get_mut()
            .write_all(format!("cmd={request}\n").as_bytes())?;
        let mut answer = String::new();
        if self.stream.read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match value(&answer, "rc") {
            None | Some("0") => Ok(answer),
            Some(code) => {
                let command = request.split(' ').next().unwrap_or_default();
                Err(io::Error::other(format!(
                    "it answers {code} to `{command}`"
                )))
            }
        }
    }
}

fn value<'a>(answer: &'a str, key: &str) -> Option<&'a str> {
    answer
        .split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}
