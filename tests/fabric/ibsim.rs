//! ibsim and the programs that ask it: each test has a simulator of its own, known by the name of its sockets.
#![forbid(unsafe_code)]

use super::answer::Answer;
use super::made::Made;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The programs with their options, whose texts must tell the same.
const PROGRAMS: [&str; 2] = ["ibnetdiscover", "ibnetdiscover -f"];

/// A simulator, which ends with this.
struct Ibsim {
    child: Child,
    socket: String,
    preloaded: PathBuf,
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program's path; Debian has some where only root looks.
fn program(name: &str) -> Option<PathBuf> {
    let places = ["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(name));
    places.into_iter().find(|path| path.exists())
}

/// The library that stands between the programs and the kernel's umad devices.
fn library() -> Option<PathBuf> {
    let mut folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders.find_map(|folder| {
        let library = folder.path().join("umad2sim/libumad2sim.so");
        library.exists().then_some(library)
    })
}

/// Plays a fabric to all programs.  The answer: `(program with options, its text)`, which are in the folder too.
pub fn play(folder: &Path, fabric: &Made) -> Option<Vec<(String, String)>> {
    let (Some(ibsim), Some(library)) = (program("ibsim"), library()) else {
        println!("skipped: no `ibsim`: Debian has it in `ibsim-utils`");
        return None;
    };
    if program("ibnetdiscover").is_none() {
        println!("skipped: no `ibnetdiscover`: Debian has it in `infiniband-diags`");
        return None;
    }
    let net = folder.join("net");
    std::fs::write(&net, fabric.net()).unwrap();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let socket = format!("nic-placement-{}-{number}", std::process::id());
    let (devices, ports) = fabric.sizes();
    let log = std::fs::File::create(folder.join("ibsim.log")).unwrap();
    let mut command = Command::new(ibsim);
    let sizes = format!("-s -n -N {devices} -S {devices} -P {ports}");
    command
        .args(sizes.split(' '))
        .arg(&net)
        .env("IBSIM_SOCKNAME", &socket);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let child = command.spawn().unwrap();
    let mut ibsim = Ibsim {
        child,
        socket,
        preloaded: library,
    };
    ibsim.wait();
    let texts = PROGRAMS.map(|line| {
        let text = ibsim.ask(line);
        let name = line.replace(' ', "");
        std::fs::write(folder.join(name).with_extension("txt"), &text).unwrap();
        (line.to_string(), text)
    });
    Some(texts.into())
}

impl Ibsim {
    /// Waits for its sockets, which it makes when it has read the file.
    fn wait(&mut self) {
        let begin = Instant::now();
        loop {
            let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
            if sockets.contains(&format!("@{}:ctl", self.socket)) {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("ibsim ended: {status}");
            }
            assert!(begin.elapsed().as_secs() < 60, "ibsim makes no socket");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a program prints.
    fn ask(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = Command::new(program(words.next().unwrap()).unwrap());
        command.args(words).env("LD_PRELOAD", &self.preloaded);
        let answer = Answer::of(
            command
                .env("IBSIM_SOCKNAME", &self.socket)
                .stdin(Stdio::null()),
        );
        answer.ends(0);
        answer.out
    }
}
