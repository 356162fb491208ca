//! An owner says that it has told us everything it wants, and for how long that holds.

use model::{Domain, DomainName, Refusal};

use super::{Done, Draft};

#[derive(Clone, Debug)]
pub struct UpsertDomain {
    pub name: DomainName,
    pub ttl_s: u32,
}

impl UpsertDomain {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let unknown = draft.board.domains.get(&self.name).map(|known| known.unknown.clone()).unwrap_or_default();
        let domain = Domain { unknown, ..Domain::upsert(self.name, self.ttl_s, draft.now_ns()) };
        draft.put_domain(domain);
        Ok(Done::Ok)
    }
}
