//! A start of a server on a filled store, followed until its records are as they should be, alone or under clients.

use std::time::Duration;

use serde::Serialize;

use crate::clients::Clients;
use crate::course::{self, Course, First, Subject};
use crate::load::steady::Steady;
use crate::quiet::Quiet;
use crate::server::{Ending, Launch, Server};
use crate::sizes::Size;
use crate::stores;

/// One start of a server until what it had to do was over.
#[derive(Debug, Serialize)]
pub struct Run {
    pub course: Course,
    pub first: First,
    pub memory_peak_bytes: u64,
    pub written_bytes: u64,
    /// Processor that neither the server nor this program took meanwhile, in cores.
    pub taken_by_others: f64,
}

impl Run {
    fn of(server: &Server, quiet: &Quiet, course: Course, first: First) -> anyhow::Result<Self> {
        let process = server.process();
        Ok(Self {
            course,
            first,
            memory_peak_bytes: process.memory_peak_bytes()?,
            written_bytes: process.written_bytes()?,
            taken_by_others: quiet.taken_by_others(process.cpu_seconds()?)?,
        })
    }
}

/// Starts the server and follows it to the end of the course.
pub async fn start(launch: &Launch<'_>, subject: &Subject, say: &dyn Fn(&str)) -> anyhow::Result<(Run, Server)> {
    let quiet = Quiet::start()?;
    let mut server = launch.spawn()?;
    let target = server.target(launch.certificates).await?;
    let watch = server.started();
    let (course, first) = both(course::follow(&mut server, subject, say), course::first_calls(&target, watch)).await?;
    Ok((Run::of(&server, &quiet, course, first)?, server))
}

/// What happens under clients, and how long they are watched before and after it.
#[derive(Clone, Copy, Debug)]
pub struct Online<'a> {
    /// The server as it was.
    pub before: Launch<'a>,
    /// The same store, and something to do with it.
    pub then: Launch<'a>,
    pub subject: &'a Subject,
    pub size: Size,
    pub watched: Duration,
}

impl Online<'_> {
    pub async fn run(&self, say: &dyn Fn(&str)) -> anyhow::Result<(Run, Clients, Server)> {
        say(&format!("{} records: clients of the server as it was", self.size));
        let (mut server, _) = self.before.start().await?;
        let steady = Steady::start(&stores::load(&server, self.before.certificates, self.size).await?, 0);
        tokio::time::sleep(self.watched).await;
        let ([before, _], cursor) = steady.finish().await;
        server.end(Ending::Stop).await?;

        say(&format!("{} records: online, with clients", self.size));
        let quiet = Quiet::start()?;
        let mut server = self.then.spawn()?;
        let load = stores::load(&server, self.then.certificates, self.size).await?;
        let watch = server.started();
        let begin = async {
            let first = course::first_calls(&load.target, watch).await;
            (first, Steady::start(&load, cursor))
        };
        let (course, (first, steady)) = both(course::follow(&mut server, self.subject, say), begin).await?;
        let run = Run::of(&server, &quiet, course, first)?;
        steady.next_window();
        tokio::time::sleep(self.watched).await;
        let ([during, after], _) = steady.finish().await;
        stores::everything_is_there(&server, self.then.certificates, self.size).await?;
        Ok((run, Clients { before, during, after }, server))
    }
}

/// Both to their end, unless the first fails: the other might then wait for ever.
async fn both<A, B>(
    first: impl Future<Output = anyhow::Result<A>>,
    second: impl Future<Output = B>,
) -> anyhow::Result<(A, B)> {
    tokio::try_join!(first, async { anyhow::Ok(second.await) })
}
