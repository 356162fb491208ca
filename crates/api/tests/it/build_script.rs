//! The comments in the `.proto` files are the source of the JSON shapes, so a wrong one must stop the build.

#[path = "../../build/schema.rs"]
#[expect(dead_code, reason = "the build script uses more of it than this test")]
mod schema;

/// What the reader says about a message with this field.
fn complaint(field: &str) -> String {
    let dir = tempfile::TempDir::new().unwrap();
    let text = format!("syntax = \"proto3\";\npackage models;\nmessage Thing {{\n  {field}\n}}\n");
    std::fs::write(dir.path().join("thing.proto"), text).unwrap();
    let descriptors = protox::compile([dir.path().join("thing.proto")], [dir.path()]).unwrap();
    schema::read(&descriptors).map_or_else(|complaint| complaint, |_| "fine".into())
}

#[test]
fn a_field_must_say_how_it_looks_in_json() {
    assert_eq!(complaint("string name = 1; // json: name?; deprecated"), "fine");
    assert_eq!(
        complaint("string name = 1;"),
        "thing.proto: field Thing.name has no comment; say how it looks in JSON, as in `// json: key?`"
    );
    assert_eq!(
        complaint("string name = 1; // the name"),
        "thing.proto: field Thing.name: the comment \"the name\" does not begin with `json: `"
    );
    assert_eq!(complaint("string name = 1; // json: ; x"), "thing.proto: field Thing.name: the JSON key is empty");
}
