//! ibsim and the programs that ask it: each test has a simulator of its own, known by the name of its sockets.
#![forbid(unsafe_code)]

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
    ["/usr/bin", "/usr/sbin"]
        .map(|folder| Path::new(folder).join(name))
        .into_iter()
        .find(|path| path.exists())
}

/// The library that stands between the programs and the kernel's umad devices.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib")
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    folders
        .map(|folder| folder.join("umad2sim/libumad2sim.so"))
        .find(|path| path.exists())
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
    let socket = format!(
        "nic-placement-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let (devices, ports) = fabric.sizes();
    let log = std::fs::File::create(folder.join("ibsim.log")).unwrap();
    let mut command = Command::new(ibsim);
    command.args([
        "-s",
        "-n",
        "-N",
        &devices.to_string(),
        "-S",
        &devices.to_string(),
        "-P",
        &ports.to_string(),
    ]);
    command.arg(&net).env("IBSIM_SOCKNAME", &socket);
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
        std::fs::write(
            folder.join(line.replace(' ', "")).with_extension("txt"),
            &text,
        )
        .unwrap();
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
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "ibsim made no socket in a minute"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a program prints.
    fn ask(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = Command::new(program(words.next().unwrap()).unwrap());
        command
            .args(words)
            .env("LD_PRELOAD", &self.preloaded)
            .env("IBSIM_SOCKNAME", &self.socket);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}
