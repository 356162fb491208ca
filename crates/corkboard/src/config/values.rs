//! Reading one value of the configuration. An error is a half sentence that follows the name of the key.

use std::net::SocketAddr;
use std::time::Duration;

use model::rollout::OLDER_MAX;
use toml::Value;
use url::Url;

use crate::data_version::resolve_known_version;

pub(crate) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if text.is_empty() => Err("is empty; leave the key out, or give it a value".to_owned()),
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong_type(other, "text in quotes")),
    }
}

pub(crate) fn text_list(value: &Value) -> Result<Vec<String>, String> {
    const EXPECTED: &str = "a list of texts in quotes, such as [\"a\", \"b\"]";
    let Value::Array(items) = value else { return Err(wrong_type(value, EXPECTED)) };
    if items.is_empty() {
        return Err(format!("is empty; expected {EXPECTED}"));
    }
    items.iter().map(text).collect()
}

pub(crate) fn address(value: &Value) -> Result<SocketAddr, String> {
    const EXPECTED: &str = "an IP address and a port, such as \"127.0.0.1:8889\" or \"[::1]:8889\"";
    let text = text(value).map_err(|what| if value.is_str() { what } else { wrong_type(value, EXPECTED) })?;
    text.parse().map_err(|_| format!("{text:?} is not an address; expected {EXPECTED}"))
}

/// How long something may take or waits. Zero would mean never or at once, depending on who reads it, so it is refused.
pub(crate) fn duration(value: &Value) -> Result<Duration, String> {
    const EXPECTED: &str = "a duration in quotes, such as \"500ms\", \"30s\", \"5m\" or \"2h\"";
    let text = text(value).map_err(|what| if value.is_str() { what } else { wrong_type(value, EXPECTED) })?;
    let duration = crate::duration::parse(&text).map_err(|error| format!("{text:?} {error}"))?;
    if duration.is_zero() { Err(format!("{text:?} is zero; expected more")) } else { Ok(duration) }
}

/// The URL of a server. The messages do not repeat it, since it may hold a password.
pub(crate) fn web_url(value: &Value) -> Result<Url, String> {
    const EXPECTED: &str = "expected http:// or https:// with a host, such as \"https://board.example.org:8889\"";
    let url: Url = text(value)?.parse().map_err(|error| format!("is not a URL ({error}); {EXPECTED}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("is not the URL of a web server; {EXPECTED}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "holds a user name or a password, which would show up in logs; expected a URL without them".to_owned()
        );
    }
    Ok(url)
}

/// Several URLs in one text, with commas between them.
pub(crate) fn web_urls(value: &Value) -> Result<Vec<Url>, String> {
    text(value)?.split(',').map(|url| web_url(&Value::String(url.trim().to_owned()))).collect()
}

pub(crate) fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wrong_type(value, "true or false"))
}

/// One or more.
pub(crate) fn count(value: &Value) -> Result<usize, String> {
    const EXPECTED: &str = "a whole number, 1 or more";
    let number = value.as_integer().ok_or_else(|| wrong_type(value, EXPECTED))?;
    match usize::try_from(number) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("{number} is out of range; expected {EXPECTED}")),
    }
}

/// Zero or more, and zero has a meaning of its own.
pub(crate) fn rate(value: &Value) -> Result<u64, String> {
    const EXPECTED: &str = "a whole number, or 0 for no limit";
    let number = value.as_integer().ok_or_else(|| wrong_type(value, EXPECTED))?;
    u64::try_from(number).map_err(|_| format!("{number} is negative; expected {EXPECTED}"))
}

/// One of a few words.
pub(crate) fn word<T: Copy>(value: &Value, words: &[(&str, T)]) -> Result<T, String> {
    let listed: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    let expected = listed.join(" or ");
    let Value::String(text) = value else { return Err(wrong_type(value, &expected)) };
    let found = words.iter().find(|(word, _)| word == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| format!("{text:?} is not known; expected {expected}"))
}

/// A data version of this release, by number or by name.
pub(crate) fn data_version(value: &Value) -> Result<u64, String> {
    match value {
        Value::Integer(number) => resolve_known_version(&number.to_string()),
        Value::String(text) => resolve_known_version(text),
        other => Err(wrong_type(other, "the number or the name of a data version")),
    }
}

/// Zero or more.
pub(crate) fn number(value: &Value) -> Result<i32, String> {
    const EXPECTED: &str = "a whole number, 0 or more";
    let number = value.as_integer().ok_or_else(|| wrong_type(value, EXPECTED))?;
    match i32::try_from(number) {
        Ok(small) if small >= 0 => Ok(small),
        Ok(_) => Err(format!("{number} is negative; expected {EXPECTED}")),
        Err(_) => Err(format!("{number} is too large or too small; expected {EXPECTED}")),
    }
}

/// How many former definitions are kept.
pub(crate) fn definition_count(value: &Value) -> Result<usize, String> {
    let count = usize::try_from(number(value)?).unwrap_or_default();
    if count > OLDER_MAX { Err(format!("{count} is more than {OLDER_MAX}, the most that are kept")) } else { Ok(count) }
}

pub(crate) fn wrong_type(value: &Value, expected: &str) -> String {
    let article = if matches!(value, Value::Array(_) | Value::Integer(_)) { "an" } else { "a" };
    format!("is {article} {}; expected {expected}", value.type_str())
}
