//! What a shim says to an OCI runtime.
//!
//! A runtime makes a process and ends; the process becomes a child of the shim, like everything that loses its parent there. So
//! the shim sees itself how an app ended, signals reach the app and nobody between, and no runtime waits beside each app.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::files::Launch;

/// The most that is read of what a runtime complains about.
const COMPLAINT_BYTES_MAX: u64 = 64 * 1024;

/// Waits for a runtime, and gives the process that it made.
pub(super) fn process_of(runtime: &mut Child, pid_file: &Path) -> io::Result<i32> {
    match runtime.wait()?.success() {
        true => fs::read_to_string(pid_file)?.trim().parse().map_err(io::Error::other),
        false => Err(io::Error::other("the runtime cannot make the process")),
    }
}

/// What the runtime wrote in the place of a process that it could not make. To be asked when nobody can write any more.
pub(super) fn complaint(runtime: &mut Child) -> Option<String> {
    let mut said = Vec::new();
    runtime.stderr.take()?.take(COMPLAINT_BYTES_MAX).read_to_end(&mut said).ok()?;
    message(&String::from_utf8_lossy(&said))
}

/// Runs a command of the runtime to its end.
pub(super) fn tell(launch: &Launch, command: &[String]) -> io::Result<()> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(launch.env.iter().map(|(name, value)| (name, value)));
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(message(&String::from_utf8_lossy(&output.stderr)).unwrap_or_default())),
    }
}

/// The last line, without what `runc` writes around it.
pub(crate) fn message(said: &str) -> Option<String> {
    let line = said.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let quoted = line.split_once(" msg=").and_then(|(_, quoted)| serde_json::from_str(quoted).ok());
    Some(quoted.unwrap_or_else(|| line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_for_people() {
        let check = |said: &str, expected: Option<&str>| assert_eq!(message(said).as_deref(), expected);
        check("", None);
        check("hybrid mode not supported\n\n", Some("hybrid mode not supported"));
        let line = r#"time="2026-01-01T00:00:00Z" level=error msg="exec: \"/x\": no such file""#;
        check(&format!("a warning\n{line}\n"), Some(r#"exec: "/x": no such file"#));
        check("level=error msg=bare", Some("level=error msg=bare"));
    }
}
