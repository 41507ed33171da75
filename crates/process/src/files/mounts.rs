//! The kind of file system under a path, from the kernel's table of mounts; no file system is
//! asked.

/// A file system's kind, by what a system call on it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// memory or a disk; also any root file system, without which no program starts
    Local,
    /// a server. SIGKILL ends a process that waits for NFS (net/sunrpc/sched.c
    /// `rpc_wait_bit_killable`), CIFS (fs/smb/client/transport.c `wait_for_response`), Ceph
    /// (fs/ceph/mds_client.c `ceph_mdsc_wait_request`), or Lustre once the request is overdue
    /// (lustre/ptlrpc/client.c `ptlrpc_set_wait`). Storage Scale's source is not public
    Remote,
    /// automount(8) mounts a file system over the path; SIGKILL ends a process that waits
    /// (fs/autofs/waitq.c `autofs_wait`)
    Automount,
    /// a process in user space. Once it has read a request, not even SIGKILL ends the caller
    /// (fs/fuse/dev.c `request_wait_answer`). The caller would stay in the step's cgroup, and Slurm
    /// would drain the node ("Kill task failed")
    Fuse,
}

/// Types of [`Kind::Local`]; unknown types count as remote.
const LOCAL: &str = "bcachefs binfmt_misc bpf btrfs cgroup cgroup2 configfs debugfs devpts devtmpfs ecryptfs efivarfs \
    erofs exfat ext2 ext3 ext4 f2fs fusectl hugetlbfs jfs mqueue nsfs overlay proc pstore ramfs \
    resctrl rootfs securityfs selinuxfs squashfs sysfs tmpfs tracefs xfs zfs";

fn kind(file_system: &str) -> Kind {
    match file_system {
        "autofs" => Kind::Automount,
        // sshfs is `fuse.sshfs`; virtiofs speaks FUSE to a virtual machine's host
        // (fs/fuse/virtio_fs.c)
        "fuse" | "fuseblk" | "virtiofs" => Kind::Fuse,
        _ if file_system.starts_with("fuse.") || file_system.starts_with("fuseblk.") => Kind::Fuse,
        _ if LOCAL.split(' ').any(|local| local == file_system) => Kind::Local,
        _ => Kind::Remote,
    }
}

struct Mount {
    id: u64,
    parent: u64,
    at: String,
    kind: Kind,
}

/// The mounts of this process: /proc/self/mountinfo (proc_pid_mountinfo(5)).
pub(super) struct Mounts(Vec<Mount>);

impl Mounts {
    pub(super) fn new(table: &str) -> Mounts {
        let mount = |line: &str| {
            let (mount, file_system) = line.split_once(" - ")?;
            let mut words = mount.split(' ');
            let (id, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let at = unescaped(words.nth(2)?);
            // no program starts if `/` does not answer
            let kind = if at == "/" {
                Kind::Local
            } else {
                kind(file_system.split(' ').next()?)
            };
            Some(Mount {
                id,
                parent,
                at,
                kind,
            })
        };
        Mounts(table.lines().filter_map(mount).collect())
    }

    pub(super) fn are_local(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|mount| mount.kind == Kind::Local)
    }

    /// The kind for `path`, which has no links, `.` or `..`. Every directory on the path counts: a
    /// look-up calls each one's file system.
    pub(super) fn kind(&self, path: &str) -> Kind {
        let Some(mut mount) = self.at_root() else {
            return Kind::Remote;
        };
        let ends = path
            .match_indices('/')
            .map(|(at, _)| at)
            .skip(1)
            .chain([path.len()]);
        let mut kind = Kind::Local;
        for end in ends {
            mount = self.top(mount, &path[..end]);
            kind = match (kind, mount.kind) {
                (Kind::Fuse, _) | (_, Kind::Fuse) => Kind::Fuse,
                (Kind::Local, own) | (_, own @ Kind::Automount) => own,
                (Kind::Remote | Kind::Automount, Kind::Local | Kind::Remote) => Kind::Remote,
            };
        }
        kind
    }

    pub(super) fn begins(&self, path: &str) -> bool {
        self.0.iter().any(|mount| mount.at == path)
    }

    fn at_root(&self) -> Option<&Mount> {
        let mut roots = self.0.iter().filter(|mount| mount.at == "/");
        let bottom = roots.find(|root| {
            !self
                .0
                .iter()
                .any(|other| other.id == root.parent && other.at == "/")
        })?;
        Some(self.top(bottom, "/"))
    }

    /// The topmost mount stacked on `below` at `path`, or `below` itself.
    fn top<'m>(&'m self, below: &'m Mount, path: &str) -> &'m Mount {
        let mut top = below;
        // bounds the loop if parents form a circle
        for _ in 0..self.0.len() {
            let is_on =
                |mount: &&Mount| mount.parent == top.id && mount.at == path && mount.id != top.id;
            let Some(next) = self.0.iter().find(is_on) else {
                break;
            };
            top = next;
        }
        top
    }
}

/// Decodes the kernel's octal escapes of blanks (`\040`), tabs, line feeds and backslashes
/// (fs/proc_namespace.c `show_mountinfo`, `mangle`).
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.map_or('\\', char::from));
        plain.push_str(code.map_or(part, |_| &part[3..]));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(lines: &[&str]) -> Mounts {
        Mounts::new(&lines.join("\n"))
    }

    const NODE: [&str; 5] = [
        "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
        "2 1 0:5 / /proc rw - proc proc rw",
        "3 1 0:40 / /home rw - autofs auto.home rw,fd=5",
        "4 3 0:41 /alice /home/alice rw shared:7 - nfs4 server:/alice rw,vers=4.2",
        "5 4 0:42 / /home/alice/my\\040data rw - fuse.sshfs host: rw,user_id=7",
    ];

    #[test]
    fn a_path_is_on_the_nearest_mount_above_it() {
        let mounts = mounts(&NODE);
        for (path, expected) in rows! {
            "/", Kind::Local; "/etc/passwd", Kind::Local; "/homes", Kind::Local;
            "/home", Kind::Automount; "/home/bob", Kind::Automount; "/home/alice", Kind::Remote;
            "/home/alice/x/y", Kind::Remote; "/home/alice/my data", Kind::Fuse;
            "/home/alice/my data/x", Kind::Fuse;
        } {
            assert_eq!(mounts.kind(path), expected, "{path}");
        }
        assert!(!mounts.are_local() && Mounts::new(NODE[0]).are_local());
        assert!(mounts.begins("/home/alice") && !mounts.begins("/home/bob"));
    }

    #[test]
    fn a_mount_that_another_one_covers_is_not_asked() {
        for (cover, expected) in [
            ("6 3 0:50 / /home rw - tmpfs tmpfs rw", Kind::Local),
            ("6 3 0:50 / /home rw - fuse x rw", Kind::Fuse),
        ] {
            let covered = mounts(&[&NODE[..], &[cover]].concat());
            assert_eq!(covered.kind("/home/alice"), expected, "{cover}");
        }
    }

    #[test]
    fn the_root_is_local_whatever_it_is_and_a_table_that_says_nothing_is_not() {
        let are_local = |table: &str| Mounts::new(table).are_local();
        let image = "1 0 0:9 / / rw - fuse.squashfuse x ro\n2 1 0:5 / /proc rw - proc proc rw\n";
        assert!(are_local(image));
        let by_nfs = mounts(&["1 0 0:9 / / rw - nfs s:/root ro"]);
        assert_eq!(by_nfs.kind("/root/x"), Kind::Local);
        assert!(!are_local("nonsense\n") && !are_local(""));
        assert_eq!(mounts(&[]).kind("/root/x"), Kind::Remote);
    }

    #[test]
    fn what_lies_on_another_file_system_is_reached_through_that_one() {
        for (above, expected) in rows! {
            "nfs", Kind::Remote; "autofs", Kind::Remote; "fuse", Kind::Fuse; "xfs", Kind::Local;
        } {
            let outer = format!("2 1 0:40 / /home rw - {above} x rw");
            let mounts = mounts(&[NODE[0], &outer, "3 2 8:2 / /home/a rw - xfs /dev/sdb rw"]);
            assert_eq!(mounts.kind("/home/a/f"), expected, "{above}");
        }
    }

    #[test]
    fn file_systems_of_other_machines_and_unknown_ones_are_remote() {
        for name in "nfs nfs4 lustre gpfs beegfs ceph cifs 9p of-the-future".split(' ') {
            assert_eq!(kind(name), Kind::Remote, "{name}");
        }
        for name in ["fuse", "fuseblk", "fuse.glusterfs", "virtiofs"] {
            assert_eq!(kind(name), Kind::Fuse, "{name}");
        }
    }
}
