//! What stands on the command line of `run-app`, understood or refused.

use std::path::Path;

use super::Here;
use crate::failure::CommandError;

const SHELL: [&str; 2] = ["/bin/sh", "-c"];
const MB_PER_GB: i32 = 1024;
/// A label of a host name is not longer.
const NAME_BYTES_MAX: usize = 63;

pub(super) fn name(text: &str) -> Result<String, String> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_fit) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected 1 to {NAME_BYTES_MAX} letters, digits, - and _"))
    }
}

/// Routers compare host names in lower case.
pub(super) fn route(text: &str) -> Result<String, String> {
    let (host, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'*' | b'_');
    let is_path = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'\'');
    if host.is_empty() || !host.bytes().all(is_host) || !path.bytes().all(is_path) {
        return Err("expected a host name without scheme and port, such as hello.local or hello.local/path".to_owned());
    }
    Ok(format!("{}{}", host.to_ascii_lowercase(), path.trim_end_matches('/')))
}

pub(super) fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("expected a path, such as /healthz".to_owned())
    }
}

pub(super) fn size_mb(text: &str) -> Result<i32, String> {
    let wrong = || "expected megabytes, such as 256, 256M or 2G".to_owned();
    let (digits, factor) = match text.trim_end_matches(['B', 'b']) {
        whole if whole.ends_with(['G', 'g']) => (&whole[..whole.len() - 1], MB_PER_GB),
        whole if whole.ends_with(['M', 'm']) => (&whole[..whole.len() - 1], 1),
        whole => (whole, 1),
    };
    let mb = digits.parse::<i32>().ok().and_then(|number| number.checked_mul(factor));
    mb.filter(|mb| *mb > 0).ok_or_else(wrong)
}

/// The value is never shown again, since it may be a secret.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// The program and its arguments. With `here` the cells are on this machine, so that the program is where the caller's shell
/// would find it; elsewhere only the cell can know.
pub(super) fn command(words: &[String], here: Option<&Here>) -> Result<Vec<String>, CommandError> {
    let (program, arguments) = match words {
        [] => return Err(CommandError::Usage("a command is missing; it stands after --".to_owned())),
        [one] if one.contains(char::is_whitespace) => {
            return Ok(SHELL.iter().map(|word| (*word).to_owned()).chain([one.clone()]).collect());
        }
        [program, arguments @ ..] => (program, arguments),
    };
    if program.is_empty() {
        return Err(CommandError::Usage("the command is empty".to_owned()));
    }
    let program = match here {
        Some(here) => found(program, here)?,
        None => program.clone(),
    };
    Ok([&[program], arguments].concat())
}

fn found(program: &str, here: &Here) -> Result<String, CommandError> {
    if program.starts_with('/') {
        return Ok(program.to_owned());
    }
    let missing = |how: &str| {
        let text = format!("there is no program {program} {how}; give its whole path, or see what stands after --");
        CommandError::Usage(text)
    };
    let text = |path: &Path| path.to_str().map(ToOwned::to_owned);
    if program.contains('/') {
        let path = std::fs::canonicalize(here.folder.join(program)).ok();
        return path.and_then(|path| text(&path)).ok_or_else(|| missing("in this folder"));
    }
    let mut folders = here.search.split(':').filter(|folder| !folder.is_empty()).map(|folder| here.folder.join(folder));
    let path = folders.find_map(|folder| Some(folder.join(program)).filter(|path| is_program(path)));
    path.and_then(|path| text(&path)).ok_or_else(|| missing("in your PATH"))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    const EXECUTABLE: u32 = 0o111;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & EXECUTABLE != 0)
}

#[cfg(test)]
mod tests {
    use api::client::logs::CellLogs;

    use super::*;

    #[test]
    fn sizes_and_routes_as_people_write_them() {
        for (text, expected) in [
            ("64", Some(64)),
            ("64M", Some(64)),
            ("64mb", Some(64)),
            ("2G", Some(2048)),
            ("0", None),
            ("-1", None),
            ("2T", None),
            ("", None),
            ("G", None),
            ("9999999G", None),
        ] {
            assert_eq!(size_mb(text).ok(), expected, "{text}");
        }
        for (text, expected) in [
            ("hello.local", Some("hello.local")),
            ("Hello.Local/Path/", Some("hello.local/Path")),
            ("*.local", Some("*.local")),
            ("http://hello.local", None),
            ("hello.local:8080", None),
            ("/path", None),
            ("a b", None),
            ("hello.local/it's", None),
            ("", None),
        ] {
            assert_eq!(route(text).ok().as_deref(), expected, "{text}");
        }
        assert!(name("hello-1_x").is_ok() && name("").is_err() && name("a.b").is_err() && name("é").is_err());
        assert!(path("/x").is_ok() && path("x").is_err());
        assert_eq!(variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(variable("=b").is_err() && variable("A").is_err());
    }

    #[test]
    fn a_program_is_found_as_a_shell_would() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        std::fs::write(folder.join("tool"), "").unwrap();
        std::fs::write(folder.join("text"), "").unwrap();
        std::fs::set_permissions(folder.join("tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let here = Here {
            cells: CellLogs::new(None),
            folder: folder.clone(),
            search: format!("/nowhere:{}", folder.display()),
        };
        let of = |words: &[&str], here: Option<&Here>| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            command(&words, here).map(|words| words.join(" ").replace(folder.to_str().unwrap(), "DIR")).ok()
        };
        assert_eq!(of(&["tool", "a b"], Some(&here)).as_deref(), Some("DIR/tool a b"));
        assert_eq!(of(&["./tool"], Some(&here)).as_deref(), Some("DIR/tool"));
        assert_eq!(of(&["text"], Some(&here)), None, "it cannot be run");
        assert_eq!(of(&["./nothing"], Some(&here)), None);
        assert_eq!(of(&["/no/matter"], Some(&here)).as_deref(), Some("/no/matter"));
        assert_eq!(of(&["tool"], None).as_deref(), Some("tool"));
        assert_eq!(of(&["run $PORT"], Some(&here)).as_deref(), Some("/bin/sh -c run $PORT"));
        assert_eq!(of(&[""], None), None);
    }
}
