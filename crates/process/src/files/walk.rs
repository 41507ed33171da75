//! Follows a path one directory at a time. A child process calls remote file systems, so that the
//! task cannot hang.

use super::mounts::{Kind, Mounts};
use nic_placement_node::discover::root::FileKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Nothing,
    /// the path with links resolved, or unchanged if all file systems are local
    Local(String),
    /// the path with links resolved
    Remote(String),
    Unanswered(&'static str),
}

pub(super) trait FileSystems {
    /// the present text of /proc/self/mountinfo
    fn mounts(&mut self) -> String;
    fn local(&mut self, path: &str) -> FileKind;
    /// `Err`: the reason why the kind is unknown
    fn remote(&mut self, path: &str) -> Result<FileKind, &'static str>;
    /// opens a directory, so that automount(8) mounts there
    fn enter(&mut self, path: &str) -> Result<FileKind, &'static str>;
}

pub(super) const ON_FUSE: &str =
    "it is on a FUSE file system, for which a process can wait without end";

/// Most symbolic links on a path: the kernel's limit (path_resolution(7)).
const MAX_LINKS: usize = 40;

pub(super) fn walk(path: &str, asked: &mut impl FileSystems) -> End {
    let mut mounts = Mounts::new(&asked.mounts());
    if mounts.are_local() {
        return End::Local(path.to_string());
    }
    let names = |path: &str| -> Vec<String> { path.split('/').rev().map(str::to_string).collect() };
    let (mut here, mut left, mut links) = (String::new(), names(path), 0);
    while let Some(name) = left.pop() {
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                here.truncate(here.rfind('/').unwrap_or(0));
                continue;
            }
            _ => {}
        }
        let next = format!("{here}/{name}");
        let is_last = left.iter().all(String::is_empty);
        let stands = match mounts.kind(&here) {
            Kind::Fuse => Err(ON_FUSE),
            // a mount point needs no look-up: within the path it counts as a directory, at the end
            // as a file
            _ if mounts.begins(&next) => Ok(if is_last {
                FileKind::File
            } else {
                FileKind::Directory
            }),
            Kind::Local => Ok(asked.local(&next)),
            Kind::Remote => asked.remote(&next),
            Kind::Automount => {
                let entered = asked.enter(&next);
                mounts = Mounts::new(&asked.mounts());
                entered
            }
        };
        match stands {
            Err(why) => return End::Unanswered(why),
            Ok(FileKind::Nothing) => return End::Nothing,
            Ok(FileKind::Directory) => here = next,
            Ok(FileKind::Link(target)) => {
                links += 1;
                if links > MAX_LINKS {
                    return End::Nothing;
                }
                if target.starts_with('/') {
                    here.clear();
                }
                left.extend(names(&target));
            }
            Ok(FileKind::File) if !is_last => return End::Nothing,
            Ok(FileKind::File) => {
                return match mounts.kind(&next) {
                    Kind::Local => End::Local(next),
                    Kind::Remote => End::Remote(next),
                    Kind::Automount => End::Nothing,
                    Kind::Fuse => End::Unanswered(ON_FUSE),
                };
            }
        }
    }
    End::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with these files; what another machine is asked is noted.
    struct Node {
        mounts: &'static [&'static str],
        files: &'static [(&'static str, &'static str)],
        /// mounted when automount(8) is asked
        later: Option<&'static str>,
        asked: Vec<String>,
        is_deaf: bool,
    }

    fn node(
        mounts: &'static [&'static str],
        files: &'static [(&'static str, &'static str)],
    ) -> Node {
        Node {
            mounts,
            files,
            later: None,
            asked: Vec::new(),
            is_deaf: false,
        }
    }

    impl FileSystems for Node {
        fn mounts(&mut self) -> String {
            let entered = self.asked.iter().any(|asked| asked.starts_with("enter "));
            let later = self.later.filter(|_| entered);
            let lines = self.mounts.iter().copied().chain(later);
            lines.map(|line| format!("{line}\n")).collect()
        }

        fn local(&mut self, path: &str) -> FileKind {
            let below = format!("{path}/");
            let is_above = self.files.iter().any(|(file, _)| file.starts_with(&below));
            match self.files.iter().find(|(file, _)| *file == path) {
                Some((_, "")) => FileKind::File,
                Some((_, target)) => FileKind::Link(target.to_string()),
                None if is_above => FileKind::Directory,
                None => FileKind::Nothing,
            }
        }

        fn remote(&mut self, path: &str) -> Result<FileKind, &'static str> {
            self.asked.push(path.to_string());
            let kind = self.local(path);
            (!self.is_deaf).then_some(kind).ok_or("deaf")
        }

        fn enter(&mut self, path: &str) -> Result<FileKind, &'static str> {
            self.asked.push(format!("enter {path}"));
            (!self.is_deaf).then_some(FileKind::Directory).ok_or("deaf")
        }
    }

    fn local(path: &str) -> End {
        End::Local(path.to_string())
    }

    fn remote(path: &str) -> End {
        End::Remote(path.to_string())
    }

    const ROOT: &str = "1 0 8:1 / / rw - ext4 /dev/sda1 rw";
    const NFS: &str = "2 1 0:40 / /nfs rw - nfs server:/ rw";
    const AUTOFS: &[&str] = &[ROOT, "2 1 0:40 / /home rw - autofs auto.home rw"];
    const FUSE: &str = "3 1 0:41 / /fuse rw - fuse.x x rw";

    #[test]
    fn a_file_of_this_node_is_left_to_its_reader_whatever_else_is_mounted() {
        let mut there = node(&[ROOT, NFS, FUSE], &[("/home/a/f", "")]);
        // a directory is no file
        for (path, end) in rows! {
            "/home/a/f", local("/home/a/f"); "/home/a/none", End::Nothing;
            "/home/a/f/none", End::Nothing; "/home/a", End::Nothing;
        } {
            assert_eq!(walk(path, &mut there), end, "{path}");
        }
        assert!(there.asked.is_empty());
        // its reader asks as ever
        let any = walk("/whatever", &mut node(&[ROOT], &[]));
        assert_eq!(any, local("/whatever"));
    }

    #[test]
    fn no_process_asks_fuse_also_behind_a_link_and_a_way_back() {
        const FILES: [(&str, &str); 4] = rows! {
            "/home", "/fuse/home"; "/u/l", "../fuse/f"; "/fuse/f", ""; "/nfs/l", "/u/../fuse/x";
        };
        for path in ["/fuse/f", "/home/a/f", "/u/l", "/u/./../fuse/f", "/nfs/l"] {
            let mut there = node(&[ROOT, NFS, FUSE], &FILES);
            assert_eq!(walk(path, &mut there), End::Unanswered(ON_FUSE), "{path}");
            let by_nfs = there.asked.iter().all(|asked| asked.starts_with("/nfs/"));
            assert!(by_nfs, "{path}: {:?}", there.asked);
        }
    }

    #[test]
    fn another_machine_is_asked_by_another_process_and_may_say_nothing() {
        const FILES: [(&str, &str); 5] = rows! {
            "/home", "nfs"; "/nfs/a/f", ""; "/nfs/a/l", "f"; "/nfs/a/out", "/etc/f"; "/etc/f", "";
        };
        let mut there = node(&[ROOT, NFS], &FILES);
        assert_eq!(walk("/home/a/f", &mut there), remote("/nfs/a/f"));
        assert_eq!(there.asked, ["/nfs/a", "/nfs/a/f"]);
        assert_eq!(walk("/nfs/a/l", &mut there), remote("/nfs/a/f"));
        assert_eq!(walk("/nfs/a/out", &mut there), local("/etc/f"));
        assert_eq!(walk("/nfs/b/f", &mut there), End::Nothing);
        there.is_deaf = true;
        assert_eq!(walk("/nfs/a/f", &mut there), End::Unanswered("deaf"));
        // a circle of links leads nowhere
        let mut circle = node(&[ROOT, NFS], &[("/a", "b"), ("/b", "/a")]);
        assert_eq!(walk("/a", &mut circle), End::Nothing);
    }

    #[test]
    fn a_mount_that_automount_brings_is_looked_at_anew() {
        let by_nfs = "3 2 0:41 / /home/a rw - nfs server:/a rw";
        for (later, expected) in rows! {
            by_nfs, remote("/home/a/f");
            "3 2 0:41 / /home/a rw - fuse.x x rw", End::Unanswered(ON_FUSE);
        } {
            let files: &[(&str, &str)] = &[("/home/a/f", "")];
            let mut there = node(AUTOFS, files);
            there.later = Some(later);
            assert_eq!(walk("/home/a/f", &mut there), expected);
            assert_eq!(there.asked[0], "enter /home/a");
        }
        let mut deaf = node(AUTOFS, &[]);
        deaf.is_deaf = true;
        assert_eq!(walk("/home/a/f", &mut deaf), End::Unanswered("deaf"));
    }
}
