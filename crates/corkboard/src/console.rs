//! How the commands of migrations, keys, quarantine and the store speak with the operator: text for people, JSON when asked
//! for, and the question before a step that cannot be taken back.
//!
//! Unlike `cfdot`'s commands these print for people also into a pipe, since they are mostly read over the shoulder of some
//! other program; `--json` gives the documents as the server wrote them, one a line.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::CommandError;
use crate::output::{Tabular, laid_out, table};

/// For a terminal that does not say how wide it is.
const WIDTH_USUAL: usize = 80;

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct JsonFlag {
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl JsonFlag {
    pub(crate) fn is_set(self) -> bool {
        self.json
    }
}

/// What the process is connected to.
pub(crate) struct Console {
    out: Box<dyn Write>,
    json: bool,
    /// The width of the terminal that shows the output, if one does.
    width: Option<usize>,
    /// Somebody can read a question and answer it.
    has_operator: bool,
}

impl Console {
    pub(crate) fn of_process(flag: JsonFlag) -> Self {
        let width = io::stdout().is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(io::stdout());
            size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(WIDTH_USUAL)
        });
        Self {
            out: Box::new(io::BufWriter::new(io::stdout())),
            json: flag.json,
            width,
            has_operator: io::stdin().is_terminal() && io::stderr().is_terminal(),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// `None` off a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// As it is, and at once.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.write(format!("{text}\n").as_bytes())
    }

    /// To people beside the answer; a program that reads JSON finds it elsewhere.
    pub(crate) fn note(&self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { writeln!(io::stderr(), "{text}") }
    }

    pub(crate) fn rows<T: Tabular>(&mut self, items: &[T]) -> io::Result<()> {
        if items.is_empty() {
            return self.line(&format!("no {}", T::PLURAL));
        }
        let mut table = table();
        table.set_header(T::COLUMNS.iter().copied());
        table.add_rows(items.iter().map(Tabular::row));
        self.line(&laid_out(table))
    }

    /// Says what is about to end, and goes on only if the operator types one of `answers`.
    pub(crate) fn confirm(&self, warning: &str, answers: &[String]) -> Result<(), CommandError> {
        if !self.has_operator {
            return Err(CommandError::Usage(format!(
                "{warning}\nThis wants an answer, and there is no terminal to give it on. Nothing was changed. Add --yes to \
                 go on without the question"
            )));
        }
        let mut typed = String::new();
        write!(io::stderr(), "{warning}\nType {} to go on: ", answers.join(" or "))?;
        io::stdin().lock().read_line(&mut typed)?;
        if answers.iter().any(|answer| answer == typed.trim()) {
            Ok(())
        } else {
            Err(CommandError::Usage("that is not what was asked for; nothing was changed".to_owned()))
        }
    }
}
