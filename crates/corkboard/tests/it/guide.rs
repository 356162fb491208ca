//! `docs/how-to/run-a-cluster.md`, done to the letter: its files are written, its commands are run, in their order. Only ports are
//! others, so that tests can run beside each other and beside a cluster.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};
use tempfile::TempDir;

/// The ports of the document.
const PORTS: &[u16] = &[2379, 2380, 4222, 8889, 8890, 8891, 9016, 9017, 1800, 1801, 17011, 8080, 8082];
const CELL_PORTS: [&str; 2] = ["61001-62000", "62001-63000"];
const CELL_PORTS_EACH: u32 = 50;
/// Everything together takes some seconds; a machine that has much else to do gets more.
const LIMIT_S: u32 = 240;

/// Files by their names, and all commands as one script.
struct Guide {
    files: Vec<(String, String)>,
    script: String,
}

impl Guide {
    /// A block is a file if the paragraph before it begins with its name.
    fn read(text: &str) -> Self {
        let (mut files, mut script, mut name) = (Vec::new(), String::new(), None);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            match line.strip_prefix("```") {
                Some(kind) => {
                    let block: String =
                        lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
                    match kind {
                        "toml" | "json" => files.push((name.take().expect("a file has a name"), block)),
                        "sh" => script.push_str(&block),
                        _ => {}
                    }
                }
                None => {
                    let named = line.strip_prefix('`').and_then(|rest| rest.split_once('`'));
                    name = named.map(|(name, _)| name).filter(|name| name.contains('.')).map(str::to_owned).or(name);
                }
            }
        }
        Self { files, script }
    }
}

/// Other ports for those of the document, the same in files and commands.
fn moved(text: &str, ports: &[(u16, u16)]) -> String {
    let mut text = text.to_owned();
    for (old, new) in ports {
        // An app sees the port that it asked for, whatever the cluster is like.
        text = text
            .replace(&format!(":{old}"), &format!(":{new}"))
            .replace(&format!("--port {old}"), &format!("--port {new}"));
    }
    // Tests run beside each other, so that each has ports of its own.
    let first = 20_000 + std::process::id() % 100 * 2 * CELL_PORTS_EACH;
    for (at, old) in (0..).zip(CELL_PORTS) {
        let from = first + at * CELL_PORTS_EACH;
        text = text.replace(old, &format!("{from}-{}", from + CELL_PORTS_EACH - 1));
    }
    text
}

fn free_ports() -> Vec<(u16, u16)> {
    let held: Vec<TcpListener> = PORTS.iter().map(|_| TcpListener::bind("0.0.0.0:0").unwrap()).collect();
    PORTS.iter().copied().zip(held.iter().map(|port| port.local_addr().unwrap().port())).collect()
}

/// Whatever was started in a folder, gone with it.
struct Place {
    dir: TempDir,
    shell: Option<Child>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(shell) = &mut self.shell else { return };
        let _ = kill_process_group(Pid::from_child(shell), Signal::KILL);
        let _ = shell.wait();
        // Instances outlive their cells, and are not to outlive the test.
        let dir = self.dir.path();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = process.file_name().to_string_lossy().parse::<i32>() else { continue };
            let folder = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let is_shim = String::from_utf8_lossy(&command).contains(&format!("shim\0{}", dir.display()));
            if folder.starts_with(dir) || is_shim {
                let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }
}

/// The ends of all logs, for whoever has to find out what went wrong.
fn logs(dir: &Path) -> String {
    let mut text = String::new();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "log")) {
        let log = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let _ = writeln!(text, "──── {}\n{}", path.display(), lines[lines.len().saturating_sub(15)..].join("\n"));
    }
    text
}

#[test]
fn a_cluster_by_the_book() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/how-to/run-a-cluster.md")).unwrap();
    let guide = Guide::read(&moved(&text, &free_ports()));
    let names: Vec<&str> = guide.files.iter().map(|(name, _)| name.as_str()).collect();
    let expected =
        ["board-1.toml", "auctioneer.toml", "cell-1.toml", "route-emitter.toml", "router.toml", "hello.json"];
    assert_eq!(names, expected);

    let mut place = Place { dir: TempDir::new().unwrap(), shell: None };
    let dir = place.dir.path().to_owned();
    for (name, block) in &guide.files {
        // As the document says for a cell that is started by root; who runs tests has no `nobody` everywhere.
        let kind = "kind = \"process\"\n";
        let block =
            if geteuid().is_root() { block.replace(kind, &format!("{kind}user = \"root\"\n")) } else { block.clone() };
        std::fs::write(dir.join(name), block).unwrap();
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_corkboard")).parent().unwrap();
    let path = format!("{}:{}:/usr/sbin", binary.display(), std::env::var("PATH").unwrap_or_default());
    let out = std::fs::File::create(dir.join("shell.out")).unwrap();
    let shell = Command::new("timeout")
        .args([&LIMIT_S.to_string(), "bash", "-euo", "pipefail", "-c", &guide.script])
        .current_dir(&dir)
        .env_clear()
        .env("PATH", path)
        .env("CORKBOARD_LOG", "info")
        .stdin(Stdio::null())
        .stderr(out.try_clone().unwrap())
        .stdout(out)
        .process_group(0)
        .spawn()
        .unwrap();
    let status = place.shell.insert(shell).wait().unwrap();
    let shown = std::fs::read_to_string(dir.join("shell.out")).unwrap();
    assert!(status.success(), "{status}\n{shown}\n{}", logs(&dir));
    for line in ["master", "standby", "cell-1", "cell-2", "message: Hello from Corkboard", "cell: cell-2", "hello/1"] {
        assert!(shown.contains(line), "{line:?} is not in:\n{shown}");
    }
    // Every command that the document shows was understood.
    assert!(!shown.contains("error:"), "{shown}");
}
