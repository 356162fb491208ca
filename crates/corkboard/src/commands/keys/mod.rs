//! `keys`: which keys there are, how often each sealed, what still needs it, and the way from one to the next.
//!
//! One file per command; `document.rs` is what the server says, `ask.rs` who is asked. The server decides everything: above
//! all whether a key is safe to remove, which is shown in its very words. Bytes of a key are shown by `generate` alone, once.

mod ask;
mod document;
mod forget;
mod generate;
mod rotate;
mod status;
mod verify;

pub(crate) use forget::forget;
pub(crate) use generate::generate;
pub(crate) use rotate::rotate;
pub(crate) use status::status;
pub(crate) use verify::verify;

use crate::reach::Remote;

/// When you add one: its function in a file of its own, an arm in `cli.rs`, and a case in `tests/it/keys/`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeysCommand {
    /// Show which key seals, what is left under the others, and which can be removed
    #[command(after_help = "Examples:\n  corkboard keys status\n  corkboard keys status --watch\n  \
        corkboard keys status --healthURL http://127.0.0.1:8890\n  corkboard keys status --config board.toml\n\n\
        Exit codes: 0 all records are under the active key, or nothing is encrypted; 10 records are being rewritten or \
        opened; 11 some are not under the active key, and no server runs that brings them there; 12 records cannot be \
        opened; 3, 4, 5 and 8 as for every command about keys.")]
    Status(Remote<status::Status>),
    /// Take up the keys that are configured now, and bring every record under the active one
    #[command(after_help = "Examples:\n  corkboard keys rotate\n  corkboard keys rotate --watch\n  \
        corkboard keys rotate --config board.toml\n  corkboard keys rotate --keep-missing\n\n\
        A server reads its configuration file again for this; the rest of the file takes effect at the next start.\n\
        Exit code 0 if it has begun; with --watch or --config those of corkboard keys status at its end; 8 if a key is \
        missing that records need.")]
    Rotate(Remote<rotate::Rotate>),
    /// Open every record, and count by key; no record is changed
    #[command(
        after_help = "Examples:\n  corkboard keys verify\n  corkboard keys verify --config board.toml --json\n\n\
        Exit code 0 if every record can be opened, 7 if one cannot."
    )]
    Verify(Remote<verify::Verify>),
    /// Give up a key that is lost, so that servers start without it
    #[command(after_help = "Examples:\n  corkboard keys forget A --config board.toml\n\n\
        Only while no server runs. Records that only this key opens stay in quarantine.")]
    Forget(Remote<forget::Forget>),
    /// Make a new key: 32 random bytes in base64
    #[command(
        after_help = "Examples:\n  corkboard keys generate --out keys/B\n  CORKBOARD_KEY_B=$(corkboard keys generate)"
    )]
    Generate(generate::Generate),
}
