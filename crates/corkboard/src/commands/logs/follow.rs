//! Follows an app or a task over all cells that run it: one connection a cell, opened when something runs there and again
//! when it breaks, until the cell itself is gone.
//!
//! Lines are merged by time within [`MERGE_WINDOW`]. Who comes back asks from the time on at which everything before was told,
//! and leaves out what it knows, so that no line comes twice. The queue between cells and the screen is bounded; when the screen
//! is slow the cells are read more slowly, and they say how much was lost by it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use api::cell::logs::{LogMessage, LogQuery, LogsOf};
use api::client::logs::CellLogs;
use model::Cell;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::ask::{self, reason};
use super::show::Show;
use super::whereabouts::{Sight, watch};
use super::{LINES_USUAL, Marks, Sources, Told, present};
use crate::failure::CommandError;

/// How long a line waits for older ones of other cells.
const MERGE_WINDOW: Duration = Duration::from_millis(100);
const MERGED_LINES_MAX: usize = 1_000;
const NEWS_MAX: usize = 1_000;
const SIGHTS_MAX: usize = 16;
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What was shown before.
pub(super) struct Followed {
    pub(super) of: LogsOf,
    pub(super) since_ns: Option<i64>,
    pub(super) marks: Marks,
    /// From when on each cell has to tell.
    pub(super) floors: HashMap<String, i64>,
    /// Who did not answer.
    pub(super) silent: HashSet<String>,
}

enum News {
    Line(Told),
    Lost {
        cell: String,
        lines: u64,
    },
    Away {
        cell: String,
        why: String,
    },
    Back {
        cell: String,
    },
    /// It will never answer.
    Refused {
        cell: String,
        why: String,
    },
}

struct Follower {
    address: String,
    task: AbortHandle,
    is_away: bool,
}

struct Following<'a> {
    logs: &'a CellLogs,
    followed: Followed,
    followers: HashMap<String, Follower>,
    tasks: JoinSet<()>,
    tell: mpsc::Sender<News>,
    /// Lines that wait for older ones.
    merging: Vec<Told>,
    due: Instant,
    show: &'a mut Show,
}

pub(super) async fn follow(sources: Sources<'_>, followed: Followed, show: &mut Show) -> Result<(), CommandError> {
    let (tell, mut news) = mpsc::channel(NEWS_MAX);
    let (tell_sight, mut sights) = mpsc::channel(SIGHTS_MAX);
    let mut tasks = JoinSet::new();
    tasks.spawn(watch(sources.bbs.clone(), followed.of.clone(), tell_sight));
    let (followers, merging, due) = (HashMap::new(), Vec::new(), Instant::now());
    let mut following = Following { logs: sources.cells, followed, followers, tasks, tell, merging, due, show };
    loop {
        let is_merging = !following.merging.is_empty();
        tokio::select! {
            Some(told) = news.recv() => following.hear(told)?,
            () = sleep_until(following.due), if is_merging => following.flush()?,
            sight = sights.recv() => match sight {
                Some(Sight::Seen { cells, hosts }) => {
                    for cell in &cells {
                        following.meet(cell, hosts.contains(cell.id.as_str()))?;
                    }
                    following.part(&cells)?;
                }
                Some(Sight::Away { why }) => {
                    let what = "the state server is not heard; cells that are known go on, and new ones are found when it is back";
                    following.note(&format!("{what}: {why}"))?;
                }
                Some(Sight::Back) => following.note("the state server is back")?,
                Some(Sight::Over) | None => return following.finish(&sources).await,
            },
        }
    }
}

impl Following<'_> {
    fn hear(&mut self, news: News) -> Result<(), CommandError> {
        match news {
            News::Line(told) => self.line(told),
            News::Lost { cell, lines } => {
                self.note(&format!("{lines} lines of {cell} are lost here, because reading was too slow"))
            }
            News::Away { cell, why } => {
                self.mark_away(&cell, true);
                self.note(&format!("{cell} is not heard, and asked again: {why}"))
            }
            News::Back { cell } => {
                self.mark_away(&cell, false);
                self.note(&format!("{cell} is back"))
            }
            News::Refused { cell, why } => self.note(&format!("{cell} does not tell its lines: {why}")),
        }
    }

    fn line(&mut self, told: Told) -> Result<(), CommandError> {
        if !self.followed.marks.knows(&told.line) && !told.line.instance_guid.is_empty() {
            let line = &told.line;
            let what =
                format!("{}/{} on {}: instance {}", line.process_guid, line.index, told.cell, line.instance_guid);
            self.note(&what)?;
        }
        if !self.followed.marks.is_new(&told.line) {
            return Ok(());
        }
        if self.merging.is_empty() {
            self.due = Instant::now() + MERGE_WINDOW;
        }
        self.merging.push(told);
        if self.merging.len() >= MERGED_LINES_MAX { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CommandError> {
        self.merging.sort_by_key(|told| told.line.at_ns);
        for told in self.merging.drain(..) {
            self.show.line(&told.cell, &told.line)?;
        }
        Ok(self.show.flush()?)
    }

    fn note(&mut self, text: &str) -> Result<(), CommandError> {
        self.flush()?;
        self.show.note(text);
        Ok(())
    }

    fn mark_away(&mut self, cell: &str, is_away: bool) {
        if let Some(follower) = self.followers.get_mut(cell) {
            follower.is_away = is_away;
        }
    }

    /// A cell that is there. It is followed if it runs what is followed, and under a new address anew.
    fn meet(&mut self, cell: &Cell, is_host: bool) -> Result<(), CommandError> {
        let address = format!("{} {}", cell.rep_url, cell.rep_address);
        match self.followers.get(cell.id.as_str()) {
            Some(follower) if follower.address == address => return Ok(()),
            Some(follower) => follower.task.abort(),
            None if !is_host => return Ok(()),
            None => {}
        }
        let query = self.query(cell.id.as_str());
        let task = self.tasks.spawn(listen(self.logs.clone(), cell.clone(), query, self.tell.clone()));
        self.followers.insert(cell.id.to_string(), Follower { address, task, is_away: false });
        Ok(())
    }

    fn query(&self, cell: &str) -> LogQuery {
        let floor = self.followed.floors.get(cell).copied();
        // A cell that was asked in vain still has everything to tell; a new one has only what is new.
        let lines = if self.followed.silent.contains(cell) { LINES_USUAL } else { usize::MAX };
        let since_ns = floor.or(self.followed.since_ns);
        LogQuery { of: self.followed.of.clone(), lines: Some(lines), since_ns, follow: true }
    }

    /// Cells that are gone are not asked any more. One that still answers is there, whatever the list says.
    fn part(&mut self, cells: &[Cell]) -> Result<(), CommandError> {
        let is_gone =
            |id: &str, follower: &Follower| follower.is_away && !cells.iter().any(|cell| cell.id.as_str() == id);
        let gone: Vec<String> =
            self.followers.iter().filter(|(id, it)| is_gone(id, it)).map(|(id, _)| id.clone()).collect();
        for cell in gone {
            if let Some(follower) = self.followers.remove(&cell) {
                follower.task.abort();
            }
            self.note(&format!("{cell} is gone"))?;
        }
        Ok(())
    }

    /// What was written up to the end of a task, and was not told yet.
    async fn finish(mut self, sources: &Sources<'_>) -> Result<(), CommandError> {
        self.tasks.abort_all();
        self.flush()?;
        let cells = present(sources.bbs).await.unwrap_or_default();
        let query = LogQuery { follow: false, ..self.query("") };
        let heard = ask::all(self.logs, &cells, &query).await;
        let Followed { marks, .. } = &mut self.followed;
        self.merging.extend(heard.lines.into_iter().filter(|told| marks.is_new(&told.line)));
        self.flush()
    }
}

async fn listen(logs: CellLogs, cell: Cell, query: LogQuery, tell: mpsc::Sender<News>) {
    let name = cell.id.to_string();
    let (mut is_away, mut pause) = (false, PAUSE_FIRST);
    loop {
        let why = match logs.open(&cell, &query).await {
            Err(error) if !error.retryable() => {
                let _ = tell.send(News::Refused { cell: name, why: reason(&error) }).await;
                return;
            }
            Err(error) => reason(&error),
            Ok(mut stream) => loop {
                let message = match stream.next().await {
                    Ok(Some(message)) => message,
                    Ok(None) => break "it ended, or is being restarted".to_owned(),
                    Err(error) => break reason(&error),
                };
                let cell = name.clone();
                if std::mem::take(&mut is_away) && tell.send(News::Back { cell: cell.clone() }).await.is_err() {
                    return;
                }
                pause = PAUSE_FIRST;
                let news = match message {
                    LogMessage::Line(line) => News::Line(Told { cell, line }),
                    LogMessage::Lost { lines } => News::Lost { cell, lines },
                    LogMessage::Hello { .. } | LogMessage::Beat | LogMessage::Unknown => continue,
                };
                if tell.send(news).await.is_err() {
                    return;
                }
            },
        };
        if !std::mem::replace(&mut is_away, true) && tell.send(News::Away { cell: name.clone(), why }).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}
