//! The page about the API lists what the code has.

use api::Route;
use api::event::EventPayload;
use api::models::error::Type;

const PAGE: &str = include_str!("../../../../docs/formats/api.md");

#[test]
fn every_route_is_on_the_page_and_marked_when_old() {
    for route in Route::ALL {
        let row = format!("| `{}` |", route.path());
        let rows: Vec<_> = PAGE.lines().filter(|line| line.starts_with(&row)).collect();
        assert_eq!(rows.len(), 1, "{row}");
        let remark = rows[0].rsplit('|').nth(1).unwrap().trim();
        assert_eq!(remark.starts_with("old"), route.deprecated(), "{}", rows[0]);
        assert_eq!(rows[0].contains("**GET**"), route.method().as_str() == "GET", "{}", rows[0]);
        assert_eq!(route.path().contains("/events"), route.stream(), "{route}");
    }
    assert_eq!(PAGE.lines().filter(|line| line.starts_with("| `/v1/")).count(), Route::ALL.len());
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
