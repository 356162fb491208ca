//! What `corkboard up` prints when it is ready: where it listens, and commands that work when they are copied.

use std::path::Path;

use crate::reach::DEFAULT_URL;

/// The smallest LRP that a server accepts. A test sends it through validation.
const DEMO_LRP: &str = concat!(
    r#"{"process_guid":"hello","domain":"demo","rootfs":"preloaded:cflinuxfs4","instances":2,"#,
    r#""action":{"run":{"path":"/bin/sh","user":"vcap"}},"metric_tags":{"source_id":{"static":"hello"}}}"#,
);

/// `program` is how this binary was called, `bbs_url` the environment's BBS_URL, which the commands would obey.
pub(crate) fn text(program: &str, bbs_url: Option<&str>, ready: &bbs::Ready, dir: &Path) -> String {
    let url = format!("http://{}", ready.api);
    let call = if bbs_url.unwrap_or(DEFAULT_URL) == url {
        |program: &str, _: &str, command: &str| format!("{program} {command}")
    } else {
        |program: &str, url: &str, command: &str| format!("{program} {command} --bbsURL {url}")
    };
    let program = quoted(program);
    let call = |command: &str| call(&program, &url, command);
    format!(
        "\
Corkboard is up. Stop it with Ctrl-C.

  API      {url}
  health   http://{health}
  records  {dir}

Try, in another terminal:

  {set_domain}
  {create} \\
    '{DEMO_LRP}'
  {list}

and to see what happens while it happens:

  {events}

",
        health = ready.health,
        dir = dir.display(),
        set_domain = call("set-domain demo"),
        create = call("create-desired-lrp"),
        list = call("actual-lrps"),
        events = call("lrp-events -x"),
    )
}

/// For a POSIX shell, when it is needed.
fn quoted(word: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | '=' | ':' | '@' | '%');
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use api::models::{DesireLrpRequest, DesiredLrp};

    use super::*;

    #[test]
    fn the_demo_is_valid() {
        let desired_lrp: DesiredLrp = api::json::from_str(DEMO_LRP).unwrap();
        api::validate::check(&DesireLrpRequest { desired_lrp: Some(desired_lrp) }).unwrap();
        assert!(!DEMO_LRP.contains('\''), "it stands between single quotes");
    }

    #[test]
    fn words_are_quoted_when_a_shell_would_break_them() {
        assert_eq!(quoted("target/release/corkboard"), "target/release/corkboard");
        assert_eq!(quoted("/tmp/my tools/corkboard"), "'/tmp/my tools/corkboard'");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }
}
