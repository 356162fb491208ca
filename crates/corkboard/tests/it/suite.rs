//! The short form of the upgrade suite, `cargo xtask upgrade --short`: a whole cluster goes from the former release to this one
//! under load, through a migration and some deaths, and nobody notices.

use std::path::Path;
use std::sync::Arc;

use suite::{Binaries, Form};

use crate::cluster::say;
use crate::upgrade::former::{former, newest};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_an_upgrade() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("suite-{}", std::process::id()));
    let binaries = Binaries { former: former().to_owned(), present: newest().to_owned() };
    let told = Arc::new(|line: &str| say(line));
    let report = Box::pin(suite::run(Form::Short, &binaries, &folder, told)).await.unwrap();
    let logs = folder.display();
    assert!(report.breaches.is_empty(), "{}\n\n{}\n\nall logs are in {logs}", report.table, report.breaches.join("\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}
