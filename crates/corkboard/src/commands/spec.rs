//! A definition given on the command line: JSON itself, or `@FILE`.

use serde::de::DeserializeOwned;

use crate::failure::CommandError;

pub(super) fn read<T: DeserializeOwned>(argument: &str) -> Result<T, CommandError> {
    let (text, place) = match argument.strip_prefix('@') {
        None => (argument.to_owned(), String::new()),
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| CommandError::Usage(format!("cannot read the file {path}: {error}")))?;
            (text, format!(" (in {path})"))
        }
    };
    api::json::from_str(&text).map_err(|error| CommandError::Usage(format!("Invalid JSON: {error}{place}")))
}

#[cfg(test)]
mod tests {
    use api::models::DesiredLrpUpdate;
    use expect_test::expect;

    use super::*;

    fn complaint(argument: &str) -> String {
        read::<DesiredLrpUpdate>(argument).map_or_else(|error| error.to_string(), |_| "fine".to_owned())
    }

    #[test]
    fn json_or_a_file_with_json() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("update.json");
        std::fs::write(&path, "{\"instances\": 3}\n").unwrap();
        let update: DesiredLrpUpdate = read(&format!("@{}", path.display())).unwrap();
        assert_eq!(update.instances, Some(3));
        assert_eq!(complaint("{}"), "fine");
        expect!["Invalid JSON: EOF while parsing an object at line 1 column 1"].assert_eq(&complaint("{"));
        expect!["cannot read the file /nowhere/x: No such file or directory (os error 2)"]
            .assert_eq(&complaint("@/nowhere/x"));
    }
}
