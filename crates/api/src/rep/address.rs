//! Where to call a cell, chosen from its presence as Diego chooses it. A test prints the whole table.

use model::Cell;

/// Why a cell cannot be called. The texts are Diego's, word for word, because operators search for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("https scheme is required but none of the addresses support it")]
    TlsRequired,
    #[error("https scheme not supported since certificates aren't provided")]
    NoCertificates,
}

/// The newer address if there is one, else the older.
///
/// Beyond Diego's table: without certificates an https address is refused wherever it stands, since nothing else could
/// come of it.
pub fn address(cell: &Cell, require_tls: bool, have_certificates: bool) -> Result<&str, AddressError> {
    let is_https = |address: &str| address.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    let chosen = if cell.rep_url.is_empty() { &cell.rep_address } else { &cell.rep_url };
    if require_tls && !is_https(&cell.rep_url) {
        Err(AddressError::TlsRequired)
    } else if is_https(chosen) && !have_certificates {
        Err(AddressError::NoCertificates)
    } else {
        Ok(chosen)
    }
}
