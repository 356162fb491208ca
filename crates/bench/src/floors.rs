//! What the machine can do at best, measured in the same run as the server, because clouds change under one's feet.
//!
//! A floor is the part of the work that no server can avoid: one synced append, one encrypted round trip, one pass of the
//! bytes through the cipher and the loopback device. The report divides by them.

mod aes;
mod disk;
mod memory;
mod tls;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::certificates::Certificates;
use crate::latency::Summary;
use crate::table::{Table, grouped, milliseconds};

pub use self::aes::{Cipher, cipher, per_call_ns};
pub use self::disk::{RECORD_BYTES, disk_mb_per_s, disk_ratio, disk_table, synced_appends};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Floors {
    /// An append of 1.5 KB with fdatasync, in the file system of the store.
    pub sync: Summary,
    pub copy_mb_per_s: f64,
    pub cipher_mb_per_s: f64,
    pub echo_one: Echo,
    pub echo_many: Echo,
    /// Connections of `echo_many`.
    pub connections: u64,
    pub bulk_mb_per_s: f64,
}

/// Round trips over TLS of the size of a claim.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Echo {
    pub per_s: f64,
    pub latency: Summary,
}

/// Takes some ten seconds. `dir` must be in the file system that the store will use.
pub async fn measure(dir: &Path, certificates: &Certificates, connections: u64) -> anyhow::Result<Floors> {
    let sync = disk::synced_appends(&dir.join("floor"))?;
    let tls = tls::Loopback::start(certificates).await?;
    Ok(Floors {
        sync,
        copy_mb_per_s: memory::copy_mb_per_s(),
        cipher_mb_per_s: memory::cipher_mb_per_s()?,
        echo_one: tls.echo(1).await?,
        echo_many: tls.echo(connections).await?,
        connections,
        bulk_mb_per_s: tls.bulk_mb_per_s().await?,
    })
}

impl Floors {
    /// A plausible machine, for the tests of reports.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        let latency = Summary { count: 1, p50_ms: 0.05, p99_ms: 0.1, max_ms: 0.1 };
        let echo = Echo { per_s: 40_000.0, latency };
        Self {
            sync: latency,
            copy_mb_per_s: 9e3,
            cipher_mb_per_s: 4e3,
            echo_one: echo,
            echo_many: echo,
            connections: 64,
            bulk_mb_per_s: 1e3,
        }
    }

    pub fn table(&self) -> String {
        let echo = |echo: &Echo| {
            let Summary { p50_ms, p99_ms, .. } = echo.latency;
            format!("{} /s, p50 {}, p99 {}", grouped(echo.per_s), milliseconds(p50_ms), milliseconds(p99_ms))
        };
        let mut table = Table::new(["floor", "measured"]);
        let sync = format!("p50 {}, p99 {}", milliseconds(self.sync.p50_ms), milliseconds(self.sync.p99_ms));
        table.row(["append of 1.5 KB and fdatasync, one after the other", &sync]);
        table.row(["copying memory, one thread", &format!("{} MB/s", grouped(self.copy_mb_per_s))]);
        table.row(["AES-256-GCM in TLS records, one thread", &format!("{} MB/s", grouped(self.cipher_mb_per_s))]);
        table.row(["TLS echo on loopback, 1 connection", &echo(&self.echo_one)]);
        table.row([format!("TLS echo on loopback, {} connections", self.connections), echo(&self.echo_many)]);
        table.row(["TLS on loopback in bulk, one connection", &format!("{} MB/s", grouped(self.bulk_mb_per_s))]);
        table.to_string()
    }
}
