//! A client as the examples make it: from the variables that `cfdot` and `corkboard` know.
//!
//! `BBS_URL` may name several addresses with commas between them. `https` needs `CA_CERT_FILE`, `CLIENT_CERT_FILE` and
//! `CLIENT_KEY_FILE`.

use corkboard_api::client::{Client, ClientConfig, ConfigError, TlsFiles};

pub(crate) fn client(name: &str) -> Result<Client, ConfigError> {
    let given = |variable: &str| std::env::var(variable).ok().filter(|text| !text.is_empty());
    let urls = given("BBS_URL").unwrap_or_else(|| "http://127.0.0.1:8889".to_owned());
    let tls = match (given("CA_CERT_FILE"), given("CLIENT_CERT_FILE"), given("CLIENT_KEY_FILE")) {
        (Some(ca), Some(cert), Some(key)) if urls.starts_with("https") => {
            Some(TlsFiles { ca: ca.into(), cert: cert.into(), key: key.into(), skip_verify: false })
        }
        _ => None,
    };
    Client::new(ClientConfig {
        urls: urls.split(',').map(str::to_owned).collect(),
        tls,
        name: name.to_owned(),
        ..ClientConfig::new("")
    })
}
