//! Forms of the upgrade suite that are short enough. `cargo xtask upgrade --short`: a whole cluster goes from the former release
//! to this one under load, through a migration and some deaths, and nobody notices. And `--updates`: an app under load gets
//! other definitions, good ones and bad ones, and nobody notices either.

use std::path::Path;
use std::sync::Arc;

use suite::{Binaries, Form};

use crate::cluster::say;
use crate::upgrade::former::{former, newest};

async fn check(form: Form, binaries: Binaries) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("suite-{}", std::process::id()));
    let told = Arc::new(|line: &str| say(line));
    let report = Box::pin(suite::run(form, &binaries, &folder, told)).await.unwrap();
    let logs = folder.display();
    assert!(report.breaches.is_empty(), "{}\n\n{}\n\nall logs are in {logs}", report.table, report.breaches.join("\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_an_upgrade() {
    check(Form::Short, Binaries { former: former().to_owned(), present: newest().to_owned() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_an_update() {
    check(Form::Updates, Binaries { former: newest().to_owned(), present: newest().to_owned() }).await;
}
