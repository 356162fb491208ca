//! `logs`: what an app or a task wrote, asked of the cells themselves.
//!
//! The state server says which cells there are; each is asked for the lines that it keeps, also those of instances that ended,
//! and the answers are merged by time. A cell that does not answer is named, and the others are shown. [`follow`] goes on from
//! there.

mod ask;
mod follow;
pub(crate) mod harmless;
mod show;
mod whereabouts;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use api::cell::logs::{LogLine, LogQuery, LogsOf};
use api::client::Client;
use api::client::logs::CellLogs;
use model::Cell;

use self::show::Show;
use super::guid;
use crate::cli::one_thread;
use crate::console::JsonFlag;
use crate::failure::{CommandError, Failure};
use crate::reach::{ReachFlags, Remote};

/// Shown when neither a number nor a time is given.
const LINES_USUAL: usize = 100;
/// Marks of containers that are remembered; beyond twice as many, those that were silent for longest are forgotten.
const MARKS_MAX: usize = 5_000;

pub(crate) const HELP: &str = "Examples:\n  corkboard logs hello\n  corkboard logs hello -f -i 0\n  \
    corkboard logs hello --since 5m --json\n  corkboard logs --task once\n\n\
    Cells keep the last lines of each instance, about 512 KiB, also when it has ended or crashed: of the last 1000 on\n\
    each cell. Cells want the same certificates as the server. A cell that does not answer is named, and the rest is shown.";

#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    /// The process guid of the app
    #[arg(value_name = "APP", value_parser = guid, required_unless_present = "task", conflicts_with = "task")]
    app: Option<String>,
    /// Go on with what is written from now on, wherever the instances move, until Ctrl-C or the end of the task
    #[arg(short, long)]
    follow: bool,
    /// Show at most the last so many lines; 100 unless --since is given
    #[arg(short = 'n', long, value_name = "LINES")]
    lines: Option<usize>,
    /// Only of the instance with this index
    #[arg(short, long, conflicts_with = "task", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    index: Option<i32>,
    /// Only lines of this last time, such as 30s, 5m or 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Duration>,
    /// Of a task instead of an app
    #[arg(long, value_name = "GUID", value_parser = guid)]
    task: Option<String>,
    #[command(flatten)]
    json: JsonFlag,
}

fn time(text: &str) -> Result<Duration, String> {
    crate::duration::parse(text).map_err(|error| error.to_string())
}

/// Who is asked: the state server for cells, and cells for lines.
struct Sources<'a> {
    bbs: &'a Client,
    cells: &'a CellLogs,
}

/// A line, and the cell that told it.
#[derive(Clone, Debug)]
struct Told {
    cell: String,
    line: LogLine,
}

/// How far the lines of each container were told.
#[derive(Debug, Default)]
struct Marks(HashMap<String, i64>);

impl Marks {
    fn is_new(&mut self, line: &LogLine) -> bool {
        let mark = self.0.get(line.container()).copied();
        if mark.is_some_and(|mark| line.at_ns <= mark) {
            return false;
        }
        self.0.insert(line.container().to_owned(), line.at_ns);
        if self.0.len() > 2 * MARKS_MAX {
            let mut times: Vec<i64> = self.0.values().copied().collect();
            times.sort_unstable();
            let oldest = times[times.len() - MARKS_MAX];
            self.0.retain(|_, mark| *mark >= oldest);
        }
        true
    }

    fn knows(&self, line: &LogLine) -> bool {
        self.0.contains_key(line.container())
    }
}

pub(crate) fn run(
    remote: Remote<Logs>,
    outer: ReachFlags,
    env: impl Fn(&str) -> Option<String>,
    trace_id: String,
) -> Result<(), Failure> {
    let Remote { args, reach } = remote;
    let reach = reach.or(outer);
    let cells = CellLogs::new(reach.tls_files(&env).as_ref());
    let mut show = Show::of_process(args.json, env("NO_COLOR").is_some_and(|value| !value.is_empty()));
    let (client, address) = reach.client(env, trace_id)?;
    let sources = Sources { bbs: &client, cells: &cells };
    #[expect(clippy::disallowed_methods, reason = "the edge of the process is where the time of day comes from")]
    let now = SystemTime::now();
    match one_thread()?.block_on(logs(sources, args, now, &mut show)) {
        Ok(()) => Ok(()),
        Err(error) => Failure::of_command(error, address).map_or(Ok(()), Err),
    }
}

async fn logs(sources: Sources<'_>, args: Logs, now: SystemTime, show: &mut Show) -> Result<(), CommandError> {
    let of = match (args.task, args.app) {
        (Some(guid), _) => LogsOf::Task { guid },
        (None, app) => LogsOf::Process { guid: app.unwrap_or_default(), index: args.index },
    };
    let since_ns = args.since.map(|since| {
        let from = now.checked_sub(since).and_then(|from| from.duration_since(SystemTime::UNIX_EPOCH).ok());
        from.and_then(|from| i64::try_from(from.as_nanos()).ok()).unwrap_or(0)
    });
    let lines_max = args.lines.or(if since_ns.is_some() { None } else { Some(LINES_USUAL) });
    let query = LogQuery { of, lines: Some(lines_max.unwrap_or(usize::MAX)), since_ns, follow: false };

    let is_known = known(sources.bbs, &query.of).await?;
    let cells = present(sources.bbs).await?;
    let mut heard = ask::all(sources.cells, &cells, &query).await;
    for (cell, why) in &heard.silent {
        show.note(&format!("{cell} is not heard, so its lines are missing: {why}"));
    }
    if heard.lost > 0 {
        show.note(&format!("{} older lines are too many and left out", heard.lost));
    }
    let mut marks = Marks::default();
    heard.lines.retain(|told| marks.is_new(&told.line));
    let first = heard.lines.len().saturating_sub(lines_max.unwrap_or(usize::MAX));
    for told in &heard.lines[first..] {
        show.line(&told.cell, &told.line)?;
    }
    show.flush()?;
    let is_app = matches!(query.of, LogsOf::Process { .. });
    if args.follow && (is_known || is_app) {
        if let LogsOf::Process { guid, .. } = &query.of
            && !is_known
        {
            show.note(&format!("there is no app {guid} yet; waiting for it"));
        }
        let silent = heard.silent.into_iter().map(|(cell, _)| cell).collect();
        let followed = follow::Followed { of: query.of, since_ns, marks, floors: heard.clocks, silent };
        return follow::follow(sources, followed, show).await;
    }
    if !cells.is_empty() && heard.silent.len() == cells.len() {
        return Err(CommandError::Unfinished("none of the cells could be asked".to_owned()));
    }
    if heard.lines.is_empty() {
        return nothing(&query.of, is_known, cells.len(), since_ns.is_some(), show);
    }
    Ok(())
}

fn nothing(of: &LogsOf, is_known: bool, cells: usize, is_recent: bool, show: &mut Show) -> Result<(), CommandError> {
    let what = match of {
        LogsOf::Process { guid, .. } => format!("app {guid}"),
        LogsOf::Task { guid } => format!("task {guid}"),
    };
    if !is_known {
        return Err(CommandError::NotFound(format!(
            "there is no {what}, and no cell keeps lines of one; `corkboard desired-lrps` and `corkboard tasks` list what is there"
        )));
    }
    let why = match (cells, is_recent) {
        (0, _) => format!("there are no cells, so nobody has lines of {what}; `corkboard cells` lists them"),
        (_, true) => format!("{what} wrote nothing in that time"),
        (_, false) => format!("no cell keeps lines of {what}: it wrote nothing yet, or that was too long ago"),
    };
    show.note(&why);
    Ok(())
}

/// Whether the state server knows it. Lines may be there all the same, since cells keep them for longer.
async fn known(bbs: &Client, of: &LogsOf) -> Result<bool, CommandError> {
    let found = match of {
        LogsOf::Process { guid, .. } => bbs.desired_lrp_by_process_guid(guid).await.map(|_| ()),
        LogsOf::Task { guid } => bbs.task_by_guid(guid).await.map(|_| ()),
    };
    match found {
        Ok(()) => Ok(true),
        Err(error) if error.is(api::models::error::Type::ResourceNotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn present(bbs: &Client) -> Result<Vec<Cell>, CommandError> {
    let cells = bbs.cells().await?;
    // A cell without a name cannot be named either.
    Ok(cells.into_iter().filter_map(|cell| api::convert::cell_from_wire(cell).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_once_and_old_marks_are_forgotten() {
        let line =
            |container: &str, at_ns: i64| LogLine { instance_guid: container.into(), at_ns, ..LogLine::default() };
        let mut marks = Marks::default();
        assert!(marks.is_new(&line("a", 5)));
        assert!(!marks.is_new(&line("a", 5)) && !marks.is_new(&line("a", 4)));
        assert!(marks.is_new(&line("b", 1)) && marks.is_new(&line("a", 6)));
        for number in 0..4 * MARKS_MAX as i64 {
            assert!(marks.is_new(&line(&number.to_string(), 10 + number)));
        }
        assert!(marks.0.len() <= 2 * MARKS_MAX);
        assert!(!marks.knows(&line("a", 0)));
    }
}
