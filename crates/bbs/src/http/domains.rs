//! Domains.

use api::Route;
use api::models::{DomainsResponse, UpsertDomainRequest, UpsertDomainResponse};
use model::DomainName;

use super::{Answer, App, Call, Failure, errors, failed, intake, message, write_failure};
use crate::commands::{Command, UpsertDomain};

pub(super) async fn handle(app: &App, call: Call) -> Result<Answer, Failure> {
    if call.route == Route::Domains {
        let board = app.board.load();
        let domains = board.fresh_domains(app.clock.now_ns()).map(ToString::to_string).collect();
        return app.proven(message(DomainsResponse { error: None, domains }));
    }
    let request: UpsertDomainRequest = match intake::parse(&call.body) {
        Ok(request) => request,
        Err(error) => return Ok(failed::<UpsertDomainResponse>(error)),
    };
    let name = match DomainName::parse(&request.domain) {
        Ok(name) => name,
        Err(error) => return Ok(failed::<UpsertDomainResponse>(errors::of_id(&error))),
    };
    let command = Command::UpsertDomain(UpsertDomain { name, ttl_s: request.ttl });
    match app.writer.submit(command, call.trace).await {
        Ok(_) => Ok(message(UpsertDomainResponse::default())),
        Err(error) => write_failure(&error).map(failed::<UpsertDomainResponse>),
    }
}
