//! Ping, domains, cells.

use bytes::Bytes;

use super::{Client, ClientError};
use crate::models::{
    CellPresence, CellsResponse, DomainsResponse, PingResponse, UpsertDomainRequest, UpsertDomainResponse,
};
use crate::routes::Route;

impl Client {
    /// Whether the server says that it serves. A server that cannot be reached is an error here, and `false` in
    /// Diego's client.
    pub async fn ping(&self) -> Result<bool, ClientError> {
        let (answer, _): (PingResponse, _) = self.exchange(Route::Ping, Bytes::new()).await?;
        Ok(answer.available)
    }

    /// The domains that are fresh.
    pub async fn domains(&self) -> Result<Vec<String>, ClientError> {
        let answer: DomainsResponse = self.call_without_body(Route::Domains).await?;
        Ok(answer.domains)
    }

    /// Declares a domain fresh for a time; 0 is for ever.
    pub async fn upsert_domain(&self, domain: &str, ttl_s: u32) -> Result<(), ClientError> {
        let request = UpsertDomainRequest { domain: domain.to_owned(), ttl: ttl_s };
        let _: UpsertDomainResponse = self.call(Route::UpsertDomain, request).await?;
        Ok(())
    }

    /// The cells that are alive, in no particular order.
    pub async fn cells(&self) -> Result<Vec<CellPresence>, ClientError> {
        let answer: CellsResponse = self.call_without_body(Route::Cells).await?;
        Ok(answer.cells)
    }
}
