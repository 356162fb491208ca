//! What the cluster asks of `etcdctl`, and what it lets a test ask.
//!
//! Promise: a question goes to the members that were named and to no others, with the certificates and the user of the
//! cluster, and is answered within a bounded time.

use std::path::Path;
use std::process::Command;

use super::Cluster;

const CTL_WAIT: &str = "10s";
/// For questions that are asked again until the answer pleases.
const PROBE_WAIT: &str = "1s";

type User = (String, String);

impl Cluster {
    #[track_caller]
    pub(super) fn ctl_to(&self, members: &[usize], arguments: &[&str]) -> String {
        self.ctl_as(self.options.user.as_ref(), members, arguments)
    }

    /// Makes etcd ask for users from here on. Only `root` may switch that on, so there is one.
    pub(super) fn ask_for_users(&self, user: &User) {
        let (name, password) = user;
        let all = self.reachable();
        let mut names = vec!["root"];
        names.extend((name != "root").then_some(name.as_str()));
        for name in names {
            self.ctl_as(None, &all, &["user", "add", &format!("{name}:{password}")]);
            self.ctl_as(None, &all, &["user", "grant-role", name, "root"]);
        }
        self.ctl_as(None, &all, &["auth", "enable"]);
    }

    /// Whether each of these members reads through the leader.
    pub(super) fn health(&self, members: &[usize], user: Option<&User>) -> Result<(), String> {
        if members.is_empty() {
            return Err("no member is running".to_owned());
        }
        self.try_ctl(user, members, PROBE_WAIT, &["endpoint", "health"]).map(drop)
    }

    /// The term in which this member says it leads.
    pub(super) fn claimed_term(&self, member: usize) -> Option<u64> {
        let user = self.options.user.as_ref();
        let text = self.try_ctl(user, &[member], PROBE_WAIT, &["endpoint", "status", "--write-out=json"]).ok()?;
        let answer: serde_json::Value = serde_json::from_str(&text).ok()?;
        let status = answer.get(0)?.get("Status")?;
        let itself = status.get("header")?.get("member_id")?.as_u64()?;
        (status.get("leader")?.as_u64()? == itself).then(|| status.get("raftTerm")?.as_u64())?
    }

    #[track_caller]
    fn ctl_as(&self, user: Option<&User>, members: &[usize], arguments: &[&str]) -> String {
        let answer = self.try_ctl(user, members, CTL_WAIT, arguments);
        answer.unwrap_or_else(|reason| panic!("etcdctl {} failed: {reason}", arguments.join(" ")))
    }

    fn try_ctl(
        &self,
        user: Option<&User>,
        members: &[usize],
        wait: &str,
        arguments: &[&str],
    ) -> Result<String, String> {
        let endpoints: Vec<_> = members.iter().map(|member| self.endpoint(*member)).collect();
        let mut command = Command::new("etcdctl");
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).env("ETCDCTL_API", "3");
        command.arg(format!("--endpoints={}", endpoints.join(",")));
        command.args([format!("--command-timeout={wait}"), format!("--dial-timeout={wait}")]);
        if let Some((name, password)) = user {
            command.arg(format!("--user={name}:{password}"));
        }
        if self.pki.is_some() {
            let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
            command.args([flag("cacert", &self.ca()), flag("cert", &self.cert()), flag("key", &self.key())]);
        }
        let output = command.args(arguments).output().map_err(|error| {
            format!("etcdctl cannot be run: {error}; install etcd 3.4 or newer with etcdctl, and put both on PATH")
        })?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        Err(format!("{}\n{}{said}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}
