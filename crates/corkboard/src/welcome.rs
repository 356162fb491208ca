//! What `corkboard up` prints when it is ready: where everything is, and commands that work when they are copied.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::reach::DEFAULT_URL;
use crate::up::DEFAULT_ROUTER;

/// The smallest LRP that a server accepts. A test sends it through validation.
const DEMO_LRP: &str = concat!(
    r#"{"process_guid":"hello","domain":"demo","rootfs":"preloaded:cflinuxfs4","instances":2,"#,
    r#""action":{"run":{"path":"/bin/sh","user":"vcap"}},"metric_tags":{"source_id":{"static":"hello"}}}"#,
);

/// Where the commands will be typed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shell<'a> {
    /// How this binary was called.
    pub(crate) program: &'a str,
    /// The environment's BBS_URL, which the commands would obey.
    pub(crate) bbs_url: Option<&'a str>,
}

impl Shell<'_> {
    /// A command for the server at this address. `rest` is what must stand last.
    fn call(&self, api: SocketAddr, command: &str, rest: &str) -> String {
        let url = format!("http://{api}");
        let program = quoted(self.program);
        let is_known = self.bbs_url.unwrap_or(DEFAULT_URL) == url;
        let named = if is_known { String::new() } else { format!(" --bbsURL {url}") };
        format!("{program} {command}{named}{rest}")
    }
}

/// Where the parts of a cluster are.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) api: SocketAddr,
    pub(crate) health: SocketAddr,
    pub(crate) router: SocketAddr,
    pub(crate) cells: Vec<String>,
    pub(crate) records: PathBuf,
    pub(crate) runs_as_root: bool,
}

pub(crate) fn cluster(shell: Shell<'_>, places: &Places) -> String {
    let Places { api, health, router, cells, records, runs_as_root } = places;
    let call = |command: &str, rest: &str| shell.call(*api, command, rest);
    let at_router = if *router == DEFAULT_ROUTER { String::new() } else { format!(" --router http://{router}") };
    let warning = "Apps run as root, and whoever can connect to this machine from itself can start one. \
                   Choose another user with --run-as.\n\n";
    format!(
        "\
Corkboard is up. Stop it with Ctrl-C; apps are stopped with it, and run again after the next start.

  API      http://{api}
  health   http://{health}
  router   http://{router}
  cells    {cells}
  records  {records}

{warning}Try, in another terminal:

  {run}
  curl -H 'Host: hello.local' http://{router}
  {stop}

and to see what happens while it happens:

  {events}

",
        cells = cells.join(", "),
        records = records.display(),
        warning = if *runs_as_root { warning } else { "" },
        run = call(
            &format!("run-app --route hello.local --instances 2{at_router}"),
            &format!(" -- {} demo-app", quoted(shell.program))
        ),
        stop = call("stop-app hello", ""),
        events = call("lrp-events -x", ""),
    )
}

pub(crate) fn board_only(shell: Shell<'_>, ready: &bbs::Ready, dir: &Path) -> String {
    let call = |command: &str| shell.call(ready.api, command, "");
    format!(
        "\
The state server is up, alone. Stop it with Ctrl-C.

  API      http://{api}
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
        api = ready.api,
        health = ready.health,
        dir = dir.display(),
        set_domain = call("set-domain demo"),
        create = call("create-desired-lrp"),
        list = call("actual-lrps"),
        events = call("lrp-events -x"),
    )
}

/// For a POSIX shell, when it is needed.
pub(crate) fn quoted(word: &str) -> String {
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
    use expect_test::expect;

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

    #[test]
    fn at_its_defaults_commands_are_short() {
        let shell = Shell { program: "corkboard", bbs_url: None };
        let places = Places {
            api: ([127, 0, 0, 1], 8889).into(),
            health: ([127, 0, 0, 1], 8890).into(),
            router: DEFAULT_ROUTER,
            cells: vec!["cell-1".into(), "cell-2".into()],
            records: "data/board".into(),
            runs_as_root: true,
        };
        expect![[r#"
            Corkboard is up. Stop it with Ctrl-C; apps are stopped with it, and run again after the next start.

              API      http://127.0.0.1:8889
              health   http://127.0.0.1:8890
              router   http://127.0.0.1:8080
              cells    cell-1, cell-2
              records  data/board

            Apps run as root, and whoever can connect to this machine from itself can start one. Choose another user with --run-as.

            Try, in another terminal:

              corkboard run-app --route hello.local --instances 2 -- corkboard demo-app
              curl -H 'Host: hello.local' http://127.0.0.1:8080
              corkboard stop-app hello

            and to see what happens while it happens:

              corkboard lrp-events -x

        "#]].assert_eq(&cluster(shell, &places));
        let elsewhere = Shell { bbs_url: Some("https://elsewhere:8889"), ..shell };
        assert!(cluster(elsewhere, &places).contains("corkboard stop-app hello --bbsURL http://127.0.0.1:8889"));
    }
}
