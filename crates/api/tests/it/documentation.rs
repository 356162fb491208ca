//! The page about the API lists what the code has.

use std::fmt::Write;

use api::Route;
use api::event::EventPayload;
use api::models::error::Type;
use expect_test::expect_file;

const PAGE: &str = include_str!("../../../../docs/formats/api.md");

fn table() -> String {
    let mut table = String::from(
        "\n| call | revision | since | until | request → answer | deprecated: call instead |\n|---|---|---|---|---|---|\n",
    );
    for route in Route::ALL {
        let instead = route.replaced_by().map(|by| format!(" `{by}`")).unwrap_or_default();
        writeln!(
            table,
            "| `{route}` | {} | {} | {} | {} → {} |{instead} |",
            route.revision(),
            route.since(),
            route.until(),
            route.request().unwrap_or("–"),
            route.response().unwrap_or("events"),
        )
        .unwrap();
    }
    table.push('\n');
    table
}

/// One table for every call, which nobody writes by hand.
#[test]
fn the_table_of_routes_is_on_the_page() {
    let (before, rest) = PAGE.split_once("<!-- routes: begin").expect("the mark before the table");
    let (mark, rest) = rest.split_once("-->\n").expect("the end of the mark before the table");
    let (_, after) = rest.split_once("<!-- routes: end -->").expect("the mark after the table");
    let page = format!("{before}<!-- routes: begin{mark}-->\n{}<!-- routes: end -->{after}", table());
    expect_file!["../../../../docs/formats/api.md"].assert_eq(&page);
}

#[test]
fn the_streams_are_the_paths_with_events() {
    for route in Route::ALL {
        assert_eq!(route.path().contains("/events"), route.stream(), "{route}");
    }
}

#[test]
fn every_event_and_every_error_is_on_the_page() {
    for name in EventPayload::NAMES {
        assert!(PAGE.contains(&format!("`{name}`")), "{name}");
    }
    for kind in (0..100).filter_map(|number| Type::try_from(number).ok()) {
        let row = format!("| {} | {} |", kind as i32, kind.as_str_name());
        assert!(PAGE.contains(&row), "{row}");
    }
}
