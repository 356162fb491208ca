//! Users by name, as the file `passwd` has them.
//!
//! The file is read and not the name service of the machine: inside a root file system there is no other.

/// What is needed to run as somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: String,
}

pub(crate) fn find(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [found, _, uid, gid, _, home, ..] = fields[..] else { return None };
        (found == name).then_some(())?;
        Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: home.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_something_else_are_passed_over() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n\n# vcap\nvcap:x:2000:2001:v:/home/vcap:/bin/sh\n";
        assert_eq!(find(passwd, "vcap"), Some(User { uid: 2000, gid: 2001, home: "/home/vcap".into() }));
        assert_eq!(find(passwd, "# vcap"), None);
        assert_eq!(find(passwd, "nobody"), None);
    }
}
