//! The configuration file: arguments as in plugstack.conf, for the cluster, nodes or partitions.
//!
//! A line for nodes or partitions begins with `NodeName=`, `PartitionName=` or both, as in
//! slurm.conf and gres.conf. `#` begins a comment; `\` at a line's end continues the line.

use super::hostlist::HostList;
use super::options::AdminLevel;
use crate::diagnostic::{Diagnostic, Shown};

/// The default of `conf=`.
pub const PATH: &str = "/etc/nic-placement.conf";
/// Limit on the file: room for 600 lines of 100 bytes.
pub const MAX_BYTES: usize = 64 * 1024;
/// Limits the parsing time in every step.
const MAX_ARGUMENTS: usize = 2048;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conf {
    pub lines: Vec<ConfLine>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfLine {
    /// from 1
    number: usize,
    nodes: Option<HostList>,
    partitions: Option<Vec<String>>,
    arguments: Vec<String>,
}

/// The steps that a line applies to; a later variant overrides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Audience {
    Cluster,
    Nodes,
    Partitions,
    Both,
}

impl Audience {
    pub(super) const ALL: [Self; 4] = [Self::Cluster, Self::Nodes, Self::Partitions, Self::Both];

    /// The highest level that an argument on the line may have.
    pub fn level(self) -> AdminLevel {
        match self {
            Self::Partitions | Self::Both => AdminLevel::Partition,
            Self::Cluster | Self::Nodes => AdminLevel::Node,
        }
    }
}

impl ConfLine {
    pub fn audience(&self) -> Audience {
        match (self.partitions.is_some(), self.nodes.is_some()) {
            (false, false) => Audience::Cluster,
            (false, true) => Audience::Nodes,
            (true, false) => Audience::Partitions,
            (true, true) => Audience::Both,
        }
    }

    pub fn is_for_node(&self, node: &str) -> bool {
        // Slurm's name of `gpu1.example.org` is `gpu1`
        let short = node.split('.').next().unwrap_or_default();
        self.nodes
            .as_ref()
            .is_none_or(|nodes| nodes.has(node) || nodes.has(short))
    }

    /// Pairs such as `/etc/nic-placement.conf:7` and `default=off`.
    pub fn arguments<'c>(&'c self, path: &'c str) -> impl Iterator<Item = (String, &'c str)> {
        let texts = self.arguments.iter();
        texts.map(move |text| (format!("{path}:{}", self.number), text.as_str()))
    }
}

impl Conf {
    /// A malformed line yields a diagnostic at `path:number`, with `refuses`: no node places a
    /// step. `Err` refuses the file.
    pub fn parse(bytes: &[u8], path: &str) -> Result<(Self, Vec<Diagnostic>), String> {
        let no_text = |at: usize| {
            let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("is no text: line {line} has bytes that are not UTF-8, or NUL")
        };
        let text = std::str::from_utf8(bytes).map_err(|bad| no_text(bad.valid_up_to()))?;
        text.find('\0').map_or(Ok(()), |at| Err(no_text(at)))?;
        let (mut conf, mut findings) = (Self::default(), Vec::new());
        // Windows editors begin a file with a byte-order mark
        for (number, words) in lines(text.trim_start_matches('\u{feff}')) {
            match line(number, &words) {
                Ok(line) => conf.lines.push(line),
                Err(why) => findings.push(Diagnostic::refusal(format!("{path}:{number}"), why)),
            }
        }
        let counts = conf.lines.iter().map(|line| line.arguments.len());
        if counts.sum::<usize>() > MAX_ARGUMENTS {
            return Err(format!("has more than {MAX_ARGUMENTS} arguments"));
        }
        Ok((conf, findings))
    }

    pub fn names_nodes(&self) -> bool {
        self.lines.iter().any(|line| line.nodes.is_some())
    }

    pub fn names_partitions(&self) -> bool {
        self.lines.iter().any(|line| line.partitions.is_some())
    }

    pub fn lines_for<'c>(
        &'c self,
        audience: Audience,
        node: &'c str,
        partition: Option<&'c str>,
    ) -> impl Iterator<Item = &'c ConfLine> {
        let has_step =
            move |names: &Vec<String>| names.iter().any(|name| Some(&**name) == partition);
        self.lines.iter().filter(move |line| {
            line.audience() == audience
                && line.is_for_node(node)
                && line.partitions.as_ref().is_none_or(has_step)
        })
    }
}

/// The number and words of each non-empty line; continued lines share the first line's number.
fn lines(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut lines: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let continued = line.strip_suffix('\\');
        let words = continued.unwrap_or(line).split_whitespace();
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, begun)) => begun.extend(words),
            None => lines.push((number, words.collect())),
        }
        goes_on = continued.is_some();
    }
    lines.retain(|(_, words)| !words.is_empty());
    lines
}

fn line(number: usize, words: &[&str]) -> Result<ConfLine, String> {
    let mut line = ConfLine {
        number,
        ..ConfLine::default()
    };
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let wrong = |why: &str| format!("`{}`{why}", Shown::word(word, 80));
        // slurm.conf's keys ignore case
        match name.to_ascii_lowercase().as_str() {
            "nodename" | "partitionname" if !line.arguments.is_empty() => {
                return Err(wrong(" stands at the beginning of a line"));
            }
            // `ALL` (scontrol(1)) and `DEFAULT` (slurm.conf(5)) name no node
            "nodename" if ["all", "default"].contains(&value.to_ascii_lowercase().as_str()) => {
                return Err(wrong(" is no node's name: for all nodes leave it out"));
            }
            "nodename" if line.nodes.is_none() => {
                let nodes = HostList::parse(value).map_err(|why| wrong(&format!(": {why}")))?;
                line.nodes = Some(nodes);
            }
            "partitionname" if line.partitions.is_none() => {
                if value.split(',').any(str::is_empty) {
                    return Err(wrong(": a name of a partition is missing"));
                }
                line.partitions = Some(value.split(',').map(str::to_string).collect());
            }
            "nodename" | "partitionname" => return Err(wrong(" stands there twice")),
            _ => line.arguments.push(word.to_string()),
        }
    }
    match line.arguments.is_empty() {
        true => Err("no argument stands behind it".to_string()),
        false => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Conf, Vec<String>) {
        let (conf, findings) = Conf::parse(text.as_bytes(), "/c").unwrap();
        (conf, findings.iter().map(ToString::to_string).collect())
    }

    fn held(conf: &Conf, node: &str, partition: Option<&str>) -> Vec<String> {
        let audiences = Audience::ALL.into_iter();
        let lines = audiences.flat_map(|audience| conf.lines_for(audience, node, partition));
        lines.flat_map(|line| line.arguments.clone()).collect()
    }

    const TEXT: &str = "\
# the whole cluster
default=observe   exclude=mlx5_9 # storage

PartitionName=train,Debug default=closest rollout=10%
NodeName=gpu[001-004] topology=/etc/a.json \\
    trust-topology
nodename=gpu002 PARTITIONNAME=train default=off
";

    #[test]
    fn a_line_holds_for_the_nodes_and_partitions_at_its_beginning_and_the_nearest_comes_last() {
        let (conf, findings) = parse(TEXT);
        assert_eq!(findings, [""; 0]);
        let cluster = "default=observe exclude=mlx5_9";
        let node = "default=observe exclude=mlx5_9 topology=/etc/a.json trust-topology";
        let all = format!("{node} default=closest rollout=10%");
        for (name, partition, expected) in rows! {
            "login", None, cluster; "gpu001", None, node; "gpu001", Some("train"), &all;
            // names as they are
            "gpu001", Some("debug"), node;
            "gpu002", Some("train"), &format!("{all} default=off");
            // the name with its domain
            "gpu002.example.org", Some("train"), &format!("{all} default=off");
        } {
            let held = held(&conf, name, partition).join(" ");
            assert_eq!(held, expected, "{name} {partition:?}");
        }
        assert!(conf.names_nodes() && !parse("default=off").0.names_nodes());
        let of_node = conf.lines_for(Audience::Nodes, "gpu001", None);
        let places = of_node.flat_map(|line| line.arguments("/c"));
        assert!(places.map(|(place, _)| place).eq(["/c:5", "/c:5"]));
    }

    #[test]
    fn a_line_that_is_wrong_is_named_and_the_others_hold() {
        let (conf, findings) = parse(
            "NodeName=gpu[1- default=all\nexclude=a\ndefault=all NodeName=gpu1\nNodeName=gpu1\n\
             PartitionName= default=all\nNodeName=a NodeName=b default=all\n",
        );
        assert_eq!(held(&conf, "gpu1", None), ["exclude=a"]);
        let parts = rows! {
            1, "has no `]`"; 3, "at the beginning"; 4, "no argument"; 5, "is missing"; 6, "twice";
        };
        assert_eq!(findings.len(), parts.len(), "{findings:?}");
        for (finding, (line, part)) in findings.iter().zip(parts) {
            let start = format!("`/c:{line}`: ");
            let is_right = finding.starts_with(&start) && finding.contains(part);
            assert!(is_right, "{finding}");
        }
    }

    #[test]
    fn a_file_that_is_no_text_is_refused_as_a_whole() {
        let bad = |bytes: &[u8]| Conf::parse(bytes, "/c").unwrap_err().to_string();
        assert!(bad(b"default=off\ndef\0ault=on\n").contains("line 2"));
        assert!(bad(b"\xff\xfe").contains("line 1"));
        assert!(bad("disable ".repeat(3000).as_bytes()).contains("more than 2048"));
        assert_eq!(Conf::parse(b"", "/c"), Ok((Conf::default(), Vec::new())));
    }
}
