//! Stores of a size: filled by a server, copied so that every way gets the same one, and counted so that none is fast because
//! something is missing.

use std::fs;
use std::path::Path;

use api::Route;
use bytes::Bytes;

use crate::certificates::Certificates;
use crate::load::{Load, Settings};
use crate::server::{Ending, Launch, Server};
use crate::sizes::Size;
use crate::stopwatch::Stopwatch;

/// Starts a server on a new directory, fills the store and stops it. Returns how long that took.
pub async fn fill(launch: &Launch<'_>, size: Size) -> anyhow::Result<f64> {
    fs::create_dir(launch.dir)?;
    let watch = Stopwatch::start();
    let (mut server, _) = launch.start().await?;
    let report = load(&server, launch.certificates, size).await?.fill(size.tasks()).await;
    anyhow::ensure!(!report.failed(), "The store could not be filled:\n{}", crate::load::table(&[report]));
    everything_is_there(&server, launch.certificates, size).await?;
    server.end(Ending::Stop).await?;
    Ok(watch.seconds())
}

pub async fn load(server: &Server, certificates: &Certificates, size: Size) -> anyhow::Result<Load> {
    let target = server.target(certificates).await?;
    Ok(Load::new(target, size.fleet(), Settings::default(), Some(server.process())))
}

/// All lists are read and counted.
pub async fn everything_is_there(server: &Server, certificates: &Certificates, size: Size) -> anyhow::Result<()> {
    let mut connection = server.target(certificates).await?.connect().await?;
    let lists = [
        (Route::DesiredLrps, size.lrps()),
        (Route::ActualLrps, size.fleet().instances()),
        (Route::Tasks, size.tasks()),
    ];
    for (route, wanted) in lists {
        let found = connection.call(route, Bytes::new()).await?.records;
        anyhow::ensure!(found == wanted, "{} lists {found} records, and {wanted} should be there", route.path());
    }
    Ok(())
}

/// A directory with everything in it, durable.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
            // What the kernel still has to write must not be written while we measure.
            fs::File::open(&to)?.sync_all()?;
        }
    }
    Ok(())
}

pub fn bytes_below(dir: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { bytes_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
