//! What every message knows about itself beyond what prost generates.
//!
//! The build script implements these traits for all messages from the comments in `proto/*.proto`; nobody implements
//! them by hand.

use std::fmt;

use crate::models::Error;

/// A message of the protocol.
pub trait Wire: prost::Message + Clone + Default + PartialEq + fmt::Debug {
    /// The name in the `.proto` file, for error texts: `DesiredLRP`.
    const NAME: &'static str;

    /// Which fields hold text and which hold messages.
    fn layout() -> &'static Layout;

    /// Sets the sub-messages that must be on the wire even when they are empty, here and in everything below.
    ///
    /// Cloud Controller reads `actual_lrp_instance_key.instance_guid` without asking whether the key is there, also on
    /// a crashed instance, whose key is empty. Diego's Go structs hold these sub-messages by value and so cannot leave
    /// them out; ours are `Option`s, so [`crate::encode`] calls this.
    fn complete(&mut self);
}

/// An answer that reports failure in its field 1, as all do but the answer to a ping.
pub trait Response: Wire {
    /// The answer that carries nothing but this error.
    fn failed(error: Error) -> Self;

    /// The error, if the call failed. Field 1 that is present but empty is a failure too: Diego's clients read it so.
    fn take_error(&mut self) -> Option<Error>;
}

/// The fields of a message that matter when its bytes are rewritten, by number.
#[derive(Debug)]
pub struct Layout(pub(crate) &'static [(u32, Part)]);

#[derive(Clone, Copy)]
pub(crate) enum Part {
    Text,
    Message(&'static Layout),
    Other,
}

impl fmt::Debug for Part {
    /// Does not descend: actions contain actions, so the full picture has no end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Text => "Text",
            Part::Message(_) => "Message",
            Part::Other => "Other",
        })
    }
}

impl Layout {
    pub(crate) fn part(&self, number: u32) -> Option<Part> {
        self.0.iter().find(|(candidate, _)| *candidate == number).map(|(_, part)| *part)
    }
}

/// Stands for a secret in the `Debug` output of a message: passwords, environment values, file contents.
pub(crate) enum Hidden {
    Empty,
    Present,
}

impl Hidden {
    pub(crate) fn of(text: &str) -> Self {
        if text.is_empty() { Hidden::Empty } else { Hidden::Present }
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hidden::Empty => "\"\"",
            Hidden::Present => "(hidden)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;

    #[test]
    fn secrets_do_not_reach_debug_output() {
        let lrp = models::DesiredLrp {
            image_username: "ada".into(),
            image_password: "hunter2".into(),
            environment_variables: vec![models::EnvironmentVariable { name: "TOKEN".into(), value: "s3cret".into() }],
            volume_mounted_files: vec![models::File { path: "/creds".into(), content: "topsecret".into() }],
            volume_mounts: vec![models::VolumeMount {
                shared: Some(models::SharedDevice { volume_id: "v".into(), mount_config: "{\"pw\":\"pw1\"}".into() }),
                ..Default::default()
            }],
            ..Default::default()
        };
        let update = models::DesiredLrpUpdate {
            image_password: Some("hunter2".into()),
            desired_lrp: Some(lrp.clone()),
            ..Default::default()
        };
        let task = models::TaskDefinition { image_password: "hunter2".into(), ..Default::default() };
        let text = format!("{lrp:?} {update:?} {task:?}");
        for secret in ["hunter2", "s3cret", "topsecret", "pw1"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
        assert!(text.contains("TOKEN") && text.contains("ada") && text.contains("(hidden)"), "{text}");
    }

    #[test]
    fn layout_debug_ends_although_actions_nest() {
        assert!(format!("{:?}", models::Action::layout()).contains("Message"));
    }
}
