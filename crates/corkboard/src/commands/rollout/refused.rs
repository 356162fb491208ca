//! What the server says no to, in words and with the next command.
//!
//! Its messages say what is safe and mostly what to do; where they do not, that is added here.

use api::client::{ClientError, OperatorError, Refusal};
use api::models::error::Type;

use crate::failure::CommandError;

const NOT_FOUND: u16 = 404;

pub(crate) fn in_words(guid: &str, error: ClientError) -> CommandError {
    match &error {
        ClientError::Bbs { error: said, .. } if said.kind() == Type::ResourceNotFound => {
            // The bare answer is about the app itself; one about a definition has words of its own.
            if said.message == api::errors::resource_not_found().message {
                refused("no-such-app", &format!("there is no app {guid}"), Some("corkboard desired-lrps".to_owned()))
            } else {
                refused("no-such-definition", &said.message, Some(format!("corkboard rollout history {guid}")))
            }
        }
        ClientError::Bbs { error: said, .. } if said.kind() == Type::ResourceConflict => {
            let next = (!said.message.contains("`corkboard ")).then(|| format!("corkboard rollout status {guid}"));
            refused("conflict", &said.message, next)
        }
        ClientError::Status { status: NOT_FOUND, .. } => CommandError::Unfinished(
            "the server does not know rollouts: it is not Corkboard, or of an older release. Nothing was changed"
                .to_owned(),
        ),
        _ => error.into(),
    }
}

pub(super) fn refused(code: &str, message: &str, next: Option<String>) -> CommandError {
    const CONFLICT: u16 = 409;
    let refusal = Refusal { code: code.to_owned(), message: message.to_owned(), next, document: String::new() };
    OperatorError::Refused { status: CONFLICT, refusal: Box::new(refusal) }.into()
}

#[cfg(test)]
mod tests {
    use api::Route;
    use api::models::Error;
    use expect_test::expect;

    use super::*;
    use crate::failure::Failure;
    use crate::reach::{Address, Origin};

    fn told(kind: Type, message: &str) -> String {
        let error = Error::new(kind, message.to_owned());
        let error = ClientError::Bbs { route: Route::CancelUpdate, error, attempts: Box::default() };
        let address = Address { url: String::new(), origin: Origin::Bbs };
        Failure::of_command(in_words("hello", error), address).unwrap().report()
    }

    /// What names a command already gets no second one.
    #[test]
    fn a_refusal_ends_with_a_command() {
        let older = "this needs data version 1794700800 (lrp_definitions), and the store still has an older one. Nothing was \
                     changed. `corkboard migrate finalize` ends it";
        let texts = [
            told(Type::ResourceConflict, older),
            told(Type::ResourceConflict, "no update of hello is under way; nothing was changed"),
            told(Type::ResourceNotFound, "hello has no former definition to go back to"),
            told(Type::ResourceNotFound, &api::errors::resource_not_found().message),
            told(Type::Deadlock, "the request failed due to deadlock"),
        ];
        expect![[r#"
            corkboard: this needs data version 1794700800 (lrp_definitions), and the store still has an older one. Nothing was changed. `corkboard migrate finalize` ends it
            corkboard: no update of hello is under way; nothing was changed
            Next: corkboard rollout status hello
            corkboard: hello has no former definition to go back to
            Next: corkboard rollout history hello
            corkboard: there is no app hello
            Next: corkboard desired-lrps
            BBS error
            Type 28: Deadlock
            Message: the request failed due to deadlock
        "#]].assert_eq(&texts.concat());
    }
}
