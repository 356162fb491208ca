//! How the operator's commands reach a server: `cfdot`'s flags and environment variables, checked and made into a client.
//!
//! A flag wins over its variable, and an empty value counts as absent, as in `cfdot`. Three things are ours: with nothing
//! given the address is that of `corkboard up`, plain HTTP is allowed to this machine itself, where nobody is between, and
//! several addresses may stand with commas between them, of which the first that serves is used.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::client::{Client, ClientConfig, ConfigError, TlsFiles};
use url::{Host, Url};

/// Where `corkboard up` listens unless told otherwise.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8889";
/// A health port answers from memory; one that does not is not well. Only for its list of nodes it asks the store, and says
/// what is wrong with that after 10 s or a little more.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(20);

/// Flags that every command for a server has. They may stand before or after the command's name.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The server to talk to")]
pub(crate) struct ReachFlags {
    /// URL of the server [env: BBS_URL] [default: http://127.0.0.1:8889]
    ///
    /// https:// needs the three certificate files; http:// is for this machine only. Of several nodes, give all, with
    /// commas between them: the one that is master is found.
    #[arg(long = "bbsURL", alias = "bbs-url", value_name = "URL")]
    bbs_url: Option<String>,
    #[command(flatten)]
    tls: TlsFlags,
    /// Give up after so many seconds; 0 waits for ever, and event streams always do [env: CFDOT_TIMEOUT] [default: 0]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<String>,
}

/// Who we are, and whom we trust.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TlsFlags {
    /// The authority that signed the server's certificate [env: CA_CERT_FILE]
    #[arg(long = "caCertFile", alias = "ca-cert-file", value_name = "FILE")]
    ca_cert_file: Option<String>,
    /// Our certificate [env: CLIENT_CERT_FILE]
    #[arg(long = "clientCertFile", alias = "client-cert-file", value_name = "FILE")]
    client_cert_file: Option<String>,
    /// The key of our certificate [env: CLIENT_KEY_FILE]
    #[arg(long = "clientKeyFile", alias = "client-key-file", value_name = "FILE")]
    client_key_file: Option<String>,
    /// Do not check who the server is [env: SKIP_CERT_VERIFY]
    #[arg(
        long = "skipCertVerify", alias = "skip-cert-verify", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true"
    )]
    skip_cert_verify: Option<String>,
}

/// The same with what the environment says, not yet looked at.
pub(crate) struct TlsGiven {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    skip_verify: bool,
}

/// A command that talks to a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Remote<A: clap::Args> {
    #[command(flatten)]
    pub(crate) args: A,
    #[command(flatten)]
    pub(crate) reach: ReachFlags,
}

/// The server that a command talks to, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) origin: Origin,
}

/// Who named an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody.
    Default,
    /// `--bbsURL` or its variable.
    Bbs,
    /// `--healthURL` or its variable.
    Health,
    /// No server at all, but the store that a configuration file names.
    File,
}

/// Why there is no client. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    #[error("{url:?} is not a URL; expected for instance https://bbs.service.cf.internal:8889 (--bbsURL or BBS_URL)")]
    Url { url: String },
    #[error(
        "the URL {url:?} is plain HTTP to another machine, where anybody on the way can read and change the traffic; \
         plain HTTP is only for loopback (localhost, 127.0.0.1, [::1]): use https:// with --caCertFile, --clientCertFile and \
         --clientKeyFile"
    )]
    PlainHttp { url: String },
    #[error(
        "{url:?} is not the URL of a health port; expected for instance http://127.0.0.1:8890 (--healthURL or \
         CORKBOARD_HEALTH_URL)"
    )]
    Health { url: String },
    #[error("some of {urls} are http:// and some are https://; expected all of one kind (--bbsURL or BBS_URL)")]
    Mixed { urls: String },
    #[error("--caCertFile (or CA_CERT_FILE) must name the authority of the server, unless --skipCertVerify is set")]
    NoAuthority,
    #[error(
        "--clientCertFile and --clientKeyFile (or CLIENT_CERT_FILE and CLIENT_KEY_FILE) must both be given for https:// and for \
         Locket"
    )]
    NoCertificate,
    #[error("{value:?} is not a value for --skipCertVerify (SKIP_CERT_VERIFY); expected true or false")]
    SkipVerify { value: String },
    #[error("{value:?} is not a value for --timeout (CFDOT_TIMEOUT); expected whole seconds, 0 for no limit")]
    Timeout { value: String },
    #[error("no Locket is named; expected HOST:PORT with --locketAPILocation or LOCKET_API_LOCATION")]
    NoLocket,
    #[error(transparent)]
    Locket(#[from] api::locket::LocketError),
    #[error(transparent)]
    Client(#[from] ConfigError),
}

impl ReachFlags {
    /// These flags, and where one is not given, that of `outer`, which stood before the command's name.
    pub(crate) fn or(self, outer: Self) -> Self {
        Self {
            bbs_url: self.bbs_url.or(outer.bbs_url),
            tls: self.tls.or(outer.tls),
            timeout: self.timeout.or(outer.timeout),
        }
    }

    pub(crate) fn tls(self) -> TlsFlags {
        self.tls
    }

    /// Whether the caller named a server on the command line.
    pub(crate) fn names_a_server(&self) -> bool {
        self.bbs_url.as_ref().is_some_and(|url| !url.is_empty())
    }

    /// The certificates, if all are given, whatever the address of the server: cells may want them even if it does not.
    pub(crate) fn tls_files(&self, env: impl Fn(&str) -> Option<String>) -> Option<TlsFiles> {
        self.tls.clone().given(env).ok()?.files().ok()
    }

    /// Checks everything that can be checked without the network. `env` looks up a variable of the environment.
    pub(crate) fn client(
        self,
        env: impl Fn(&str) -> Option<String>,
        trace_id: String,
    ) -> Result<(Client, Address), ReachError> {
        let url = given(self.bbs_url, "BBS_URL", &env);
        let timeout = given(self.timeout, "CFDOT_TIMEOUT", &env);
        let origin = if url.is_some() { Origin::Bbs } else { Origin::Default };
        let address = Address { origin, url: url.unwrap_or_else(|| DEFAULT_URL.to_owned()) };
        let urls: Vec<String> = address.url.split(',').map(|url| url.trim().to_owned()).collect();
        let parse = |url: &String| Url::parse(url).map_err(|_| ReachError::Url { url: url.clone() });
        let parsed = urls.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let tls = self.tls.given(env)?;
        let timeout = timeout.as_deref().map_or(Ok(None), seconds)?;
        let plain = |url: &&Url| url.scheme() == "http";
        if let Some(far) = parsed.iter().filter(plain).find(|url| !is_loopback(url)) {
            return Err(ReachError::PlainHttp { url: shown(far) });
        }
        let tls = match parsed.iter().map(Url::scheme).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()[..] {
            // Variables for other servers may well be set; to a loopback address they have nothing to say.
            ["http"] => None,
            ["https"] => Some(tls.files()?),
            ["http", "https"] => return Err(ReachError::Mixed { urls: address.url }),
            _ => return Err(ReachError::Url { url: address.url }),
        };
        let once = ClientConfig::once(&address.url, timeout);
        let client = Client::new(ClientConfig { urls, tls, trace_id: Some(trace_id), ..once })?;
        Ok((client, address))
    }
}

/// A flag, or else its variable.
pub(crate) fn given(flag: Option<String>, variable: &str, env: impl Fn(&str) -> Option<String>) -> Option<String> {
    flag.filter(|text| !text.is_empty()).or_else(|| env(variable).filter(|text| !text.is_empty()))
}

impl TlsFlags {
    pub(crate) fn or(self, outer: Self) -> Self {
        Self {
            ca_cert_file: self.ca_cert_file.or(outer.ca_cert_file),
            client_cert_file: self.client_cert_file.or(outer.client_cert_file),
            client_key_file: self.client_key_file.or(outer.client_key_file),
            skip_cert_verify: self.skip_cert_verify.or(outer.skip_cert_verify),
        }
    }

    pub(crate) fn given(self, env: impl Fn(&str) -> Option<String>) -> Result<TlsGiven, ReachError> {
        let path = |flag, variable| given(flag, variable, &env).map(PathBuf::from);
        let skip_verify = given(self.skip_cert_verify, "SKIP_CERT_VERIFY", &env);
        Ok(TlsGiven {
            ca: path(self.ca_cert_file, "CA_CERT_FILE"),
            cert: path(self.client_cert_file, "CLIENT_CERT_FILE"),
            key: path(self.client_key_file, "CLIENT_KEY_FILE"),
            skip_verify: skip_verify.as_deref().map_or(Ok(false), boolean)?,
        })
    }
}

impl TlsGiven {
    pub(crate) fn files(self) -> Result<TlsFiles, ReachError> {
        let Self { ca, cert, key, skip_verify } = self;
        let (Some(cert), Some(key)) = (cert, key) else { return Err(ReachError::NoCertificate) };
        // The client reads the authority even if it does not use it. With none given, our own certificate
        // stands in: it is read anyway.
        let ca = if skip_verify { ca.or_else(|| Some(cert.clone())) } else { ca };
        Ok(TlsFiles { ca: ca.ok_or(ReachError::NoAuthority)?, cert, key, skip_verify })
    }
}

/// A client for a health port, which answers in plain HTTP by design: what it says is no secret, and it changes nothing.
pub(crate) fn health_client(url: String, trace_id: String) -> Result<(Client, Address), ReachError> {
    if Url::parse(&url).map_or(true, |url| url.scheme() != "http") {
        return Err(ReachError::Health { url });
    }
    let once = ClientConfig::once(&url, Some(HEALTH_TIMEOUT));
    let client = Client::new(ClientConfig { trace_id: Some(trace_id), ..once })?;
    Ok((client, Address { url, origin: Origin::Health }))
}

/// As it was given: the parser adds a slash.
fn shown(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// Whether a URL can only mean this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    }
}

/// What Go's `strconv.ParseBool` takes.
fn boolean(text: &str) -> Result<bool, ReachError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(ReachError::SkipVerify { value: text.to_owned() }),
    }
}

fn seconds(text: &str) -> Result<Option<Duration>, ReachError> {
    let seconds: u32 = text.parse().map_err(|_| ReachError::Timeout { value: text.to_owned() })?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds.into())))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn outcome(flags: ReachFlags, env: &[(&str, &str)]) -> String {
        let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        match flags.client(lookup, "trace".into()) {
            Ok((_, address)) => address.url,
            Err(error) => error.to_string(),
        }
    }

    fn url(url: &str) -> ReachFlags {
        ReachFlags { bbs_url: Some(url.into()), ..ReachFlags::default() }
    }

    #[test]
    fn flags_win_over_the_environment_and_empty_is_absent() {
        assert_eq!(outcome(ReachFlags::default(), &[]), DEFAULT_URL);
        assert_eq!(outcome(ReachFlags::default(), &[("BBS_URL", "http://localhost:1")]), "http://localhost:1");
        assert_eq!(outcome(url("http://[::1]:2"), &[("BBS_URL", "http://localhost:1")]), "http://[::1]:2");
        assert_eq!(outcome(url(""), &[("BBS_URL", "http://localhost:1")]), "http://localhost:1");
        assert_eq!(outcome(url("").or(url("http://127.9.9.9")), &[("BBS_URL", "")]), DEFAULT_URL);
        assert_eq!(outcome(ReachFlags::default().or(url("http://127.9.9.9")), &[]), "http://127.9.9.9");
    }

    #[test]
    fn plain_http_is_for_loopback() {
        for elsewhere in ["http://bbs.service.cf.internal:8889", "http://10.0.0.1", "http://localhost.example.org"] {
            assert!(outcome(url(elsewhere), &[]).contains("plain HTTP is only for loopback"), "{elsewhere}");
        }
        // The files would be a contradiction with http, but the environment may be meant for another server.
        assert_eq!(outcome(url("http://localhost"), &[("CA_CERT_FILE", "/nowhere")]), "http://localhost");
    }

    #[test]
    fn each_of_several_addresses_is_checked() {
        assert_eq!(outcome(url("http://[::1]:1, http://localhost:2"), &[]), "http://[::1]:1, http://localhost:2");
        let refusal = |several: &str| outcome(url(several), &[]);
        assert!(refusal("http://localhost:1,http://10.0.0.1:2").contains("\"http://10.0.0.1:2\" is plain HTTP"));
        assert!(refusal("http://localhost:1,what").contains("\"what\" is not a URL"));
        assert!(refusal("http://localhost:1,https://a").contains("expected all of one kind"));
        assert!(refusal("http://localhost:1,").contains("\"\" is not a URL"));
    }

    #[test]
    fn https_needs_its_files() {
        let all =
            [("CLIENT_CERT_FILE", "/nowhere/c"), ("CLIENT_KEY_FILE", "/nowhere/k"), ("CA_CERT_FILE", "/nowhere/ca")];
        expect!["--clientCertFile and --clientKeyFile (or CLIENT_CERT_FILE and CLIENT_KEY_FILE) must both be given for https:// and for Locket"]
            .assert_eq(&outcome(url("https://a"), &all[..1]));
        expect!["--caCertFile (or CA_CERT_FILE) must name the authority of the server, unless --skipCertVerify is set"]
            .assert_eq(&outcome(url("https://a"), &all[..2]));
        expect!["cannot read /nowhere/ca"].assert_eq(&outcome(url("https://a"), &all));
        let unchecked = [all[0], all[1], ("SKIP_CERT_VERIFY", "T")];
        expect!["cannot read /nowhere/c"].assert_eq(&outcome(url("https://a"), &unchecked));
    }

    #[test]
    fn bad_values_are_named() {
        expect![[r#""localhost:8889" is not a URL; expected for instance https://bbs.service.cf.internal:8889 (--bbsURL or BBS_URL)"#]]
            .assert_eq(&outcome(url("localhost:8889"), &[]));
        expect![[r#""10s" is not a value for --timeout (CFDOT_TIMEOUT); expected whole seconds, 0 for no limit"#]]
            .assert_eq(&outcome(ReachFlags::default(), &[("CFDOT_TIMEOUT", "10s")]));
        expect![[r#""yes" is not a value for --skipCertVerify (SKIP_CERT_VERIFY); expected true or false"#]]
            .assert_eq(&outcome(ReachFlags::default(), &[("SKIP_CERT_VERIFY", "yes")]));
    }
}
