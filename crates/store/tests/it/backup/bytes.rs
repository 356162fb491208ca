//! The file itself: its layout is frozen, and whatever bytes somebody brings are read without harm.

use std::io::Cursor;

use bytes::Bytes;
use expect_test::expect;
use proptest::prelude::*;
use store::backup::{BLOCK_BYTES, BackupError, Encoder, Header, Parser, Part, check};
use store::record::DataVersion;

fn header(records: u64) -> Header {
    Header {
        release: "1.2.3".to_owned(),
        taken_ns: 7,
        cluster_id: Some("c".to_owned()),
        revision: 42,
        data_version: DataVersion(1),
        target_version: DataVersion(5),
        keys: vec!["A".to_owned()],
        records,
    }
}

fn encoded(records: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut encoder, first) = Encoder::begin(&header(records.len() as u64));
    let mut file = first.to_vec();
    for (key, value) in records {
        encoder.push(key, value).into_iter().for_each(|block| file.extend_from_slice(&block));
    }
    let (last, summary) = encoder.finish();
    file.extend_from_slice(&last);
    assert_eq!((summary.records, summary.bytes), (records.len() as u64, file.len() as u64));
    file
}

fn whole() -> Vec<u8> {
    let records = [("/cluster-id", "c"), ("/v1/task/t", "value"), ("/version", "{}")];
    encoded(&records.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())))
}

/// Feeds the bytes in pieces and gives all records back.
fn parsed(file: &[u8], piece: usize) -> Result<Vec<(String, Bytes)>, BackupError> {
    let mut parser = Parser::default();
    let mut records = Vec::new();
    for bytes in file.chunks(piece) {
        parser.feed(bytes);
        while let Some(part) = parser.part()? {
            if let Part::Records(found) = part {
                records.extend(found);
            }
        }
    }
    let summary = parser.finish()?;
    assert_eq!((summary.records, summary.bytes), (records.len() as u64, file.len() as u64));
    Ok(records)
}

/// Files of this format lie on disks for years.
#[test]
fn the_layout_is_frozen() {
    let hex: Vec<String> =
        whole().chunks(32).map(|row| row.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    expect![[r#"
        636f726b626b7570010000007c0000007b2272656c65617365223a22312e322e
        33222c2274616b656e5f6e73223a372c22636c75737465725f6964223a226322
        2c227265766973696f6e223a34322c22646174615f76657273696f6e223a312c
        227461726765745f76657273696f6e223a352c226b657973223a5b2241225d2c
        227265636f726473223a337db22f336001370000000b00010000002f636c7573
        7465722d6964630a00050000002f76312f7461736b2f7476616c756508000200
        00002f76657273696f6e7b7d2a6074f602300000000300000000000000090100
        0000000000d5bee208ba2a0ead390907317bfcf9d2e0a5a64dcf56c9e927a13d
        592324b488d7a8ee84"#]]
    .assert_eq(&hex.join("\n"));
}

#[test]
fn the_digest_is_that_of_the_whole_file() {
    let file = whole();
    let found = check(&mut Cursor::new(&file), |_, _| {}).unwrap();
    let expected = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &file);
    let hex: String = expected.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found.summary.sha256, hex);
    assert_eq!((found.header, found.summary.records, found.plain), (header(3), 3, 1));
}

#[test]
fn every_way_to_break_a_file_has_its_words() {
    let file = whole();
    let told = |file: &[u8]| check(&mut Cursor::new(file), |_, _| {}).unwrap_err().to_string();
    let changed = |at: usize| {
        let mut file = file.clone();
        file[at] ^= 1;
        told(&file)
    };
    let records =
        |keys: &[&str]| told(&encoded(&keys.iter().map(|key| ((*key).to_owned(), Vec::new())).collect::<Vec<_>>()));
    let rows = [
        told(b""),
        told(b"corkboard"),
        told(&file[..4]),
        told(&file[..file.len() - 1]),
        told(&[&file[..], b"x"].concat()),
        changed(8),
        changed(15),
        changed(40),
        changed(file.len() - 80),
        changed(file.len() - 1),
        records(&["/b", "/a", "/version"]),
        records(&["/a", "/a", "/version"]),
        records(&["", "/version"]),
        records(&["/restoring", "/version"]),
        records(&["/a"]),
    ];
    expect![[r#"
        the backup is cut off after 0 bytes: its end mark is missing, so records are missing too. Nothing was changed. Copy it again from where it was taken, or use another backup
        this is not a backup: it does not begin like one. Nothing was changed. Is it the right file?
        the backup is cut off after 4 bytes: its end mark is missing, so records are missing too. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is cut off after 264 bytes: its end mark is missing, so records are missing too. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 265: something follows its end mark. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup has format 0, and this release reads format 1 only. Nothing was changed. Use the release that took it, or a newer one
        the backup is damaged at byte 12: its header is longer than headers are. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 0: its bytes do not fit their checksum. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 144: its bytes do not fit their checksum. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 208: its bytes do not fit their checksum. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 144: its records are not in order. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 144: its records are not in order. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 144: the key of a record is empty or too long. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 144: it is of a store that was being restored. Nothing was changed. Copy it again from where it was taken, or use another backup
        the backup is damaged at byte 218: it has no /version, so it is not of a whole store. Nothing was changed. Copy it again from where it was taken, or use another backup"#]].assert_eq(&rows.join("\n"));
}

#[test]
fn parts_of_two_backups_do_not_make_one() {
    let record = |value: u8| ("/version".to_owned(), vec![value; BLOCK_BYTES]);
    let (one, other) = (encoded(&[record(1)]), encoded(&[record(2)]));
    assert_eq!(one.len(), other.len());
    let mixed = [&one[..300], &other[300..]].concat();
    assert!(check(&mut Cursor::new(&mixed), |_, _| {}).is_err());
    // Also when they meet between two blocks, where every checksum is right.
    let end = one.len() - 57;
    let mixed = [&one[..end], &other[end..]].concat();
    let error = check(&mut Cursor::new(&mixed), |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("its SHA-256 is another"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read(
        records in prop::collection::btree_map("[a-zA-Zä/]{1,40}", prop::collection::vec(any::<u8>(), 0..3_000), 0..60),
        piece in 1usize..5_000,
    ) {
        let records: Vec<(String, Vec<u8>)> = records.into_iter().collect();
        let read = parsed(&encoded(&records), piece).unwrap();
        prop_assert_eq!(read.into_iter().map(|(key, value)| (key, value.to_vec())).collect::<Vec<_>>(), records);
    }

    #[test]
    fn bytes_of_nobody_are_refused(noise in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..50) {
        prop_assert!(parsed(&noise, piece).is_err());
    }

    #[test]
    fn noise_behind_a_good_beginning_is_refused(
        kept in 0usize..250, noise in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..50,
    ) {
        let file = whole();
        let spoiled = [&file[..kept.min(file.len())], &noise[..]].concat();
        prop_assert!(spoiled == file || parsed(&spoiled, piece).is_err());
    }

    #[test]
    fn a_changed_bit_is_noticed(at in 0usize..100_000, bit in 0u8..8, piece in 1usize..400) {
        let mut file = whole();
        let at = at % file.len();
        file[at] ^= 1 << bit;
        prop_assert!(parsed(&file, piece).is_err());
    }

    #[test]
    fn a_missing_end_is_noticed(left in 0usize..100_000, piece in 1usize..400) {
        let file = whole();
        let error = parsed(&file[..left % file.len()], piece).unwrap_err();
        prop_assert!(matches!(error, BackupError::CutOff { .. }), "{error}");
    }
}
