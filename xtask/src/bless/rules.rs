//! What may not happen to a released message, and what to do instead.
//!
//! A tag belongs to one name and one type for ever, because somewhere there is a client, or a stored record, that was
//! written with it. Old bytes read under a new meaning are not an error anybody sees; they are wrong data. The same holds
//! for the keys of JSON. A finding names the rule first, then the field, then whom it breaks, then the edit to make.
//!
//! Free are: new files, messages, fields, values and reserved tags; order, comments and remarks; moving a message to
//! another file of its package; retiring a member by `reserved TAG; // why`.
//!
//! When you add a rule: two cases in `rules/tests.rs`, one that it refuses and a neighbour that it lets through.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::effect;
use super::schema::{Declaration, Json, Kind, Member, Place, Schema};
use crate::tidy::Finding;

/// Every way in which `current` breaks what `released` promised.
pub(crate) fn broken(released: &Schema, current: &Schema) -> Vec<Finding> {
    let mut found = Vec::new();
    let moved = heads(released, current, &mut found);
    for (name, before) in &released.declarations {
        match current.declarations.get(name) {
            Some(now) if now.kind == before.kind => {
                Comparison { name, before, now, released, current, found: &mut found }.run();
            }
            Some(now) => {
                let what = format!(
                    "kind: `{name}` was released as {} and is now {}; every field of this type is read as something else",
                    before.kind.word(),
                    now.kind.word()
                );
                found.push(finding(&now.at, what, "give the new one a new name and keep the old"));
            }
            // The finding about the package of the file says it all.
            None if moved.contains(before.at.file()) => {}
            None => found.push(gone(name, before, released, current)),
        }
    }
    found
}

/// How much there is in `current` that was not released.
pub(crate) fn additions(released: &Schema, current: &Schema) -> usize {
    let new_in = |(name, now): (&String, &Declaration)| match released.declarations.get(name) {
        None => 1 + now.members.len() + now.reserved.len(),
        Some(before) => {
            let members = now.members.keys().filter(|tag| !before.members.contains_key(tag)).count();
            members + now.reserved.keys().filter(|tag| !before.reserved.contains_key(tag)).count()
        }
    };
    current.declarations.iter().map(new_in).sum()
}

fn finding(at: &Place, what: String, instead: impl Into<String>) -> Finding {
    Finding::new(&at.path, at.line, what, instead)
}

/// Compares package and syntax of the files that are still there; returns those whose package changed.
fn heads<'a>(released: &'a Schema, current: &Schema, found: &mut Vec<Finding>) -> BTreeSet<&'a str> {
    let mut moved = BTreeSet::new();
    for (file, before) in &released.files {
        let Some(now) = current.files.get(file) else { continue };
        if now.package != before.package {
            moved.insert(file.as_str());
            let what = format!(
                "package: `{file}` was in `{}` and is in `{}`; whoever generated code from the file finds none of its \
                 messages",
                before.package, now.package
            );
            let instead = format!("restore `package {};` and put what is new into a file of its own", before.package);
            found.push(finding(&now.at, what, instead));
        }
        if now.syntax != before.syntax {
            let what = format!(
                "syntax: `{file}` was \"{}\" and is \"{}\"; presence and packing of all its fields change",
                before.syntax, now.syntax
            );
            found.push(finding(&now.at, what, format!("restore `syntax = \"{}\";`", before.syntax)));
        }
    }
    moved
}

/// A message or enum that is not there any more, or is there under another name.
fn gone(name: &str, before: &Declaration, released: &Schema, current: &Schema) -> Finding {
    let word = before.kind.word();
    let is_twin = |(other, now): &(&String, &Declaration)| {
        !released.declarations.contains_key(*other)
            && now.kind == before.kind
            && !before.members.is_empty()
            && now
                .members
                .iter()
                .map(|(tag, member)| (tag, &member.name))
                .eq(before.members.iter().map(|(tag, member)| (tag, &member.name)))
    };
    if let Some((other, now)) = current.declarations.iter().find(is_twin) {
        let what = format!(
            "renamed: the {word} `{name}` is called `{other}`; the bytes are the same, but whoever generated code from the \
             file does not find it"
        );
        return finding(&now.at, what, format!("call it `{name}` again"));
    }
    let what = format!("removed: the {word} `{name}` is gone; clients of that release still send or expect it");
    finding(&before.at, what, "put it back as it stands there")
}

/// One declaration, then and now.
struct Comparison<'a> {
    name: &'a str,
    before: &'a Declaration,
    now: &'a Declaration,
    released: &'a Schema,
    current: &'a Schema,
    found: &'a mut Vec<Finding>,
}

impl Comparison<'_> {
    fn run(&mut self) {
        let (before, now) = (self.before, self.now);
        for (tag, old) in &before.members {
            match (now.members.get(tag), now.named(&old.name)) {
                (Some(new), _) if new.name == old.name => self.same_place(*tag, old, new),
                (_, Some((new_tag, new))) => self.renumbered(*tag, new_tag, new),
                (Some(new), None) => self.other_name(*tag, old, new),
                (None, None) => self.removed(*tag, old),
            }
            self.key_reused(*tag, old);
        }
        self.reserved();
    }

    fn say(&mut self, at: &Place, what: String, instead: impl Into<String>) {
        self.found.push(finding(at, what, instead));
    }

    /// `field `models.Task.state` (7)`
    fn title(&self, tag: i32, member: &str) -> String {
        format!("{} `{}.{member}` ({tag})", self.now.kind.member_word(), self.name)
    }

    fn next_free(&self) -> i32 {
        self.before.last_tag().max(self.now.last_tag()) + 1
    }

    fn same_place(&mut self, tag: i32, old: &Member, new: &Member) {
        let title = self.title(tag, &old.name);
        if let (Some(before), Some(now)) = (&old.shape, &new.shape)
            && let Some(effect) = effect::of_change(self.released, before, self.current, now)
        {
            let what = format!("retyped: {title} was `{before}` and is `{now}`; {effect}");
            let instead = format!(
                "keep {tag} as `{before}` and add the new form under a new name with the number {}",
                self.next_free()
            );
            self.say(&new.at, what, instead);
        }
        self.json(&title, old.json.as_ref(), new);
    }

    fn json(&mut self, title: &str, before: Option<&Json>, new: &Member) {
        let (Some(before), now) = (before, new.json.as_ref()) else { return };
        let key = |json: &Json| format!("{}{}", json.key, if json.omitted_when_empty { "?" } else { "" });
        if now.is_none_or(|now| now.key != before.key) {
            let now = now.map_or("nothing".to_owned(), |now| format!("`{}`", now.key));
            let what = format!(
                "json key: {title} was `{}` and is {now}; scripts and callbacks that read the old key find nothing, and \
                 what they write is ignored",
                before.key
            );
            self.say(&new.at, what, format!("restore `// json: {}`", key(before)));
            return;
        }
        let Some(now) = now else { return };
        if now.omitted_when_empty != before.omitted_when_empty {
            let (was, is) = if now.omitted_when_empty { ("printed", "left out") } else { ("left out", "printed") };
            let what = format!(
                "json empty: {title} was {was} when empty and is {is}; a reader that tells absent from empty sees a change"
            );
            self.say(&new.at, what, format!("restore `// json: {}`", key(before)));
        }
        if now.always_emitted != before.always_emitted {
            let (is, edit) = if before.always_emitted { ("left out", "write back") } else { ("sent", "take away") };
            let what = format!(
                "emission: {title} is now {is} when it is empty; clients that read through it without a look, or compare \
                 bytes, break"
            );
            self.say(&new.at, what, format!("{edit} the remark `; always emitted`"));
        }
    }

    fn renumbered(&mut self, tag: i32, new_tag: i32, new: &Member) {
        let json =
            if self.now.kind == Kind::Enum { "JSON, which has the name, is the same" } else { "JSON is the same" };
        let what = format!(
            "renumbered: {} is now {new_tag}; bytes written with {tag} are lost or read as something else, {json}",
            self.title(tag, &new.name)
        );
        self.say(&new.at, what, format!("give it the number {tag} again; order in the file is free, numbers are not"));
    }

    /// The tag is there and has another name: the same thing renamed, or another thing.
    fn other_name(&mut self, tag: i32, old: &Member, new: &Member) {
        let title = self.title(tag, &old.name);
        if old.shape != new.shape {
            let what = format!(
                "reused: {title} was `{}` and is `{}`; old bytes are read under the new meaning",
                old.shape.as_ref().map_or(old.name.clone(), ToString::to_string),
                new.shape.as_ref().map_or(new.name.clone(), |shape| format!("{shape} {}", new.name)),
            );
            let instead =
                format!("keep {tag} for `{}` and give `{}` the number {}", old.name, new.name, self.next_free());
            self.say(&new.at, what, instead);
            return;
        }
        let effect = if self.now.kind == Kind::Enum || old.json != new.json {
            "the bytes are the same, JSON is not: whoever reads or writes the old name is not understood"
        } else {
            "bytes and JSON are the same, but code that was generated from the file does not find it"
        };
        let what = format!("renamed: {title} is called `{}`; {effect}", new.name);
        let instead = format!(
            "call it `{}` again; if `{}` is something else, give it the number {}",
            old.name,
            new.name,
            self.next_free()
        );
        self.say(&new.at, what, instead);
    }

    /// A member may go only by leaving a reserved tag with its reason behind.
    fn removed(&mut self, tag: i32, old: &Member) {
        let title = self.title(tag, &old.name);
        match self.now.reserved.get(&tag) {
            Some(reserved) if reserved.has_reason => {}
            Some(reserved) => {
                let what = format!("unexplained: {title} is retired, and nobody will know why");
                let at = reserved.at.clone();
                self.say(&at, what, format!("write on the line: `reserved {tag}; // removed `{}`: why`", old.name));
            }
            None => {
                let what = format!(
                    "removed: {title} is gone; the number is free for somebody to use, and old bytes would be read as that"
                );
                let instead = format!("put it back, or replace it by `reserved {tag}; // removed `{}`: why`", old.name);
                let at = self.now.at.clone();
                self.say(&at, what, instead);
            }
        }
    }

    /// A key of JSON that another field has now. Fields that moved or were renamed were found by their tag.
    fn key_reused(&mut self, tag: i32, old: &Member) {
        let Some(json) = old.json.as_ref().filter(|json| json.key != "flatten") else { return };
        let has_the_key = |new: &Member| new.json.as_ref().is_some_and(|now| now.key == json.key);
        let taker = self.now.members.iter().find(|(other, new)| {
            **other != tag && new.name != old.name && has_the_key(new) && !self.before.members.contains_key(other)
        });
        let Some((_, new)) = taker else { return };
        let what = format!(
            "reused: the JSON key `{}` belongs to {} and is given to `{}`; JSON of that release is read under the new meaning",
            json.key,
            self.title(tag, &old.name),
            new.name
        );
        let (at, instead) = (new.at.clone(), format!("give `{}` a key of its own", new.name));
        self.say(&at, what, instead);
    }

    fn reserved(&mut self) {
        let (before, now) = (self.before, self.now);
        for tag in before.reserved.keys() {
            if let Some(new) = now.members.get(tag) {
                let what = format!(
                    "reused: {} takes a retired number; bytes of the field that had it are read as this one",
                    self.title(*tag, &new.name)
                );
                let instead = format!("take {} and put `reserved {tag}; // why` back", self.next_free());
                self.say(&new.at, what, instead);
            } else if !now.reserved.contains_key(tag) {
                let what = format!("forgotten: {tag} of `{}` is retired and no longer reserved", self.name);
                self.say(&now.at, what, format!("put `reserved {tag}; // why` back, or somebody will use it again"));
            }
        }
        for name in &before.reserved_names {
            if let Some((_, new)) = now.named(name) {
                let what =
                    format!("reused: `{}.{name}` is a retired name; JSON that has it is read as this", self.name);
                self.say(&new.at, what, "take another name");
            } else if !now.reserved_names.contains(name) {
                let what = format!("forgotten: the name `{name}` of `{}` is retired and no longer reserved", self.name);
                self.say(&now.at, what, format!("put `reserved \"{name}\";` back, or somebody will use it again"));
            }
        }
    }
}
