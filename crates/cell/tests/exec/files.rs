//! Downloads, the cache, and uploads, with a server that counts and remembers.

use std::io::Write;
use std::sync::{Arc, Mutex};

use api::models;
use corkboard_cell::executor::{Room, RunSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cell::{Cell, serial, shell, spec};

const SMALL: Room = Room { memory_mb: 10, disk_mb: 10, containers: 1 };

/// Serves one archive under every path but a few, and keeps what is sent to it.
#[derive(Clone, Default)]
struct Server {
    requests: Arc<Mutex<Vec<String>>>,
    body: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        format!("http://user:secret@{address}")
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        let end = loop {
            stream.read_buf(&mut bytes).await.unwrap();
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let field = |name: &str| {
            let line = head.lines().find(|line| line.starts_with(&format!("{name}: ")))?;
            Some(line.split_once(": ").unwrap().1.to_owned())
        };
        let length: usize = field("content-length").map_or(0, |text| text.parse().unwrap());
        while bytes.len() < end + length {
            stream.read_buf(&mut bytes).await.unwrap();
        }
        let line = head.lines().next().unwrap().to_owned();
        let is_known = field("if-none-match").as_deref() == Some("\"v1\"");
        assert_eq!(field("authorization").as_deref(), Some("basic dxnlcjpzzwnyzxq="), "{head}");
        self.requests.lock().unwrap().push(format!("{line}{}", if is_known { " (known)" } else { "" }));
        let answer = |status: &str, extra: &str, body: &[u8]| {
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{extra}\r\n", body.len());
            [head.as_bytes(), body].concat()
        };
        let path = line.split(' ').nth(1).unwrap();
        let answer = match path {
            "/missing" => answer("404 Not Found", "", b"no"),
            "/redirect" => answer("302 Found", "location: /archive\r\n", b""),
            "/upload?x=1" => {
                *self.body.lock().unwrap() = bytes[end..].to_vec();
                answer("201 Created", "", b"")
            }
            "/etag" if is_known => answer("304 Not Modified", "", b""),
            "/etag" => answer("200 OK", "etag: \"v1\"\r\n", &archive()),
            _ => answer("200 OK", "", &archive()),
        };
        let _ = stream.write_all(&answer).await;
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(14);
    header.set_mode(0o755);
    header.set_mtime(0);
    header.set_cksum();
    builder.append_data(&mut header, "bin/run", &b"echo unpacked\n"[..]).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

fn sha256() -> String {
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &archive());
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn download(from: &str, key: &str, checksum: &str) -> models::Action {
    let algorithm = if checksum.is_empty() { "" } else { "sha256" };
    let download = models::DownloadAction {
        artifact: "droplet".to_owned(),
        from: from.to_owned(),
        to: "/app".to_owned(),
        cache_key: key.to_owned(),
        checksum_algorithm: algorithm.to_owned(),
        checksum_value: checksum.to_owned(),
        ..Default::default()
    };
    models::Action { download_action: Some(download), ..Default::default() }
}

async fn fetch(cell: &mut Cell, name: &str, action: models::Action) -> String {
    let given = RunSpec { setup: Some(action), ..spec(shell("/bin/sh app/bin/run")) };
    let guid = cell.run_in(name, SMALL, given).await;
    let ending = cell.end(&guid).await;
    let unpacked = cell.log(&guid).iter().any(|line| line.ends_with("unpacked"));
    format!("{ending}{}", if unpacked { "unpacked" } else { "" })
}

#[tokio::test]
async fn archives_are_fetched_checked_and_kept() {
    let server = Server::default();
    let url = server.start().await;
    let mut cell = Cell::new();
    let from = |path: &str| format!("{url}/{path}");
    assert_eq!(fetch(&mut cell, "plain", download(&from("archive?token=t"), "", "")).await, "unpacked");
    assert_eq!(fetch(&mut cell, "again", download(&from("archive"), "", "")).await, "unpacked");
    assert_eq!(server.requests(), ["get /archive?token=t http/1.1", "get /archive http/1.1"]);

    let sum = sha256();
    assert_eq!(fetch(&mut cell, "key", download(&from("archive"), "key", &sum)).await, "unpacked");
    assert_eq!(fetch(&mut cell, "kept", download(&from("archive"), "key", &sum.to_uppercase())).await, "unpacked");
    assert_eq!(server.requests().len(), 1);

    let damaged = fetch(&mut cell, "damaged", download(&from("archive"), "key2", &"0".repeat(64))).await;
    assert_eq!(damaged, "failed Downloading droplet failed");
    server.requests();

    assert_eq!(fetch(&mut cell, "etag", download(&from("etag"), "etag", "")).await, "unpacked");
    let folder = cell.close().await;
    // The cache is there after a restart.
    let mut cell = Cell::open(folder, |_| {});
    assert_eq!(fetch(&mut cell, "etag2", download(&from("etag"), "etag", "")).await, "unpacked");
    assert_eq!(server.requests(), ["get /etag http/1.1", "get /etag http/1.1 (known)"]);

    assert_eq!(fetch(&mut cell, "moved", download(&from("redirect"), "", "")).await, "unpacked");
    let missing = fetch(&mut cell, "missing", download(&from("missing"), "", "")).await;
    assert_eq!(missing, "failed Downloading droplet failed");
    let odd = fetch(&mut cell, "odd", download("ftp://x/y", "", "")).await;
    assert_eq!(odd, "failed Downloading droplet failed");
}

#[tokio::test]
async fn one_key_is_fetched_once() {
    let server = Server::default();
    let url = server.start().await;
    let mut cell = Cell::new();
    let download = download(&format!("{url}/archive"), "key", &sha256());
    let mut guids = Vec::new();
    for index in 0..8 {
        let given = RunSpec { setup: Some(download.clone()), ..spec(shell("/bin/sh app/bin/run")) };
        guids.push(cell.run_in(&format!("c{index}"), SMALL, given).await);
    }
    for guid in guids {
        assert_eq!(cell.end(&guid).await, "");
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_cache_is_bounded() {
    let server = Server::default();
    let url = server.start().await;
    // Two archives fit, and three do not.
    let bytes = archive().len() as u64;
    let mut cell = Cell::with(|config| config.cache_bytes_max = bytes * 5 / 2);
    let sum = sha256();
    for (turn, key) in ["a", "b", "a", "c", "a", "b"].iter().enumerate() {
        let from = format!("{url}/{key}");
        assert_eq!(fetch(&mut cell, &format!("t{turn}"), download(&from, key, &sum)).await, "unpacked");
        let guid = crate::cell::reservation(&format!("t{turn}"), Default::default()).owner.container();
        cell.delete(&guid).await;
    }
    // When c came, b was not used for longest.
    let asked: Vec<String> = server.requests().iter().map(|line| line[5..6].to_owned()).collect();
    assert_eq!(asked, ["a", "b", "c", "b"]);
    let kept = std::fs::read_dir(cell.folder.path().join("cell/cache")).unwrap().count();
    assert_eq!(kept, 4);
}

#[tokio::test]
async fn files_are_fetched_from_this_machine_too() {
    let mut cell = Cell::new();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&archive()).unwrap();
    let from = format!("file://{}", file.path().display());
    assert_eq!(fetch(&mut cell, "local", download(&from, "", &sha256())).await, "unpacked");
    let missing = fetch(&mut cell, "missing", download("file:///no/such/file", "", "")).await;
    assert_eq!(missing, "failed Downloading droplet failed");
}

#[tokio::test]
async fn https_needs_authorities_and_checks_them() {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let server = server.unwrap().with_no_client_auth();
    let server = server.with_single_cert(vec![signed.cert.der().clone()], key.into()).unwrap();
    let client = |roots| {
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Some(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    };
    let mut trusting = rustls::RootCertStore::empty();
    trusting.add(signed.cert.der().clone()).unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/archive", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = [0; 1_024];
            let _ = stream.read(&mut head).await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", archive().len());
            let _ = stream.write_all(&[head.as_bytes(), &archive()].concat()).await;
            let _ = stream.shutdown().await;
        }
    });
    let refused = "failed Downloading droplet failed";
    for (tls, expected) in
        [(client(trusting), "unpacked"), (client(rustls::RootCertStore::empty()), refused), (None, refused)]
    {
        let mut cell = Cell::with(|config| config.tls = tls);
        assert_eq!(fetch(&mut cell, "tls", download(&url, "", "")).await, expected);
    }
}

#[tokio::test]
async fn cached_dependencies_are_there_before_anything_runs() {
    let server = Server::default();
    let url = server.start().await;
    let mut cell = Cell::new();
    let dependency = |from: String| models::CachedDependency { from, to: "/deps".to_owned(), ..Default::default() };
    let with = |from| RunSpec { cached_dependencies: vec![dependency(from)], ..spec(shell("/bin/sh deps/bin/run")) };
    let guid = cell.run("with", with(format!("{url}/archive"))).await;
    assert_eq!(cell.end(&guid).await, "");
    let guid = cell.run("without", with(format!("{url}/missing"))).await;
    assert_eq!(cell.end(&guid).await, "failed retryable failed to download cached artifacts");
}

#[tokio::test]
async fn layers_of_images_are_there_before_anything_runs() {
    use models::image_layer::{DigestAlgorithm, MediaType, Type};
    let server = Server::default();
    let url = server.start().await;
    let mut cell = Cell::new();
    let layer = |to: &str, kind: Type| models::ImageLayer {
        url: format!("{url}/archive"),
        destination_path: to.to_owned(),
        layer_type: kind.into(),
        media_type: MediaType::Tgz.into(),
        digest_algorithm: DigestAlgorithm::Sha256.into(),
        digest_value: sha256(),
        ..Default::default()
    };
    let layers = vec![layer("/shared", Type::Shared), layer("/own", Type::Exclusive)];
    let script = "/bin/sh shared/bin/run && /bin/sh own/bin/run";
    let given = RunSpec { image_layers: layers, setup: Some(shell("test -d own")), ..spec(shell(script)) };
    let guid = cell.run("layers", given).await;
    assert_eq!(cell.end(&guid).await, "");
    assert_eq!(cell.log(&guid).iter().filter(|line| line.ends_with(" unpacked")).count(), 2);
    // They are the same file, and it was fetched once.
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn files_are_sent_with_their_checksums() {
    let server = Server::default();
    let url = server.start().await;
    let mut cell = Cell::new();
    let upload = |from: &str| {
        let upload = models::UploadAction {
            artifact: "result".to_owned(),
            from: from.to_owned(),
            to: format!("{url}/upload?x=1"),
            ..Default::default()
        };
        models::Action { upload_action: Some(upload), ..Default::default() }
    };
    let action = serial(vec![shell("head -c 200000 /dev/zero > out/result"), upload("/out/result")]);
    let guid = cell.run("up", RunSpec { setup: Some(shell("mkdir out")), ..spec(action) }).await;
    assert_eq!(cell.end(&guid).await, "");
    assert_eq!(server.requests(), ["post /upload?x=1 http/1.1"]);
    assert_eq!(*server.body.lock().unwrap(), vec![0; 200_000]);
    assert!(cell.log(&guid).contains(&"[APP/3] OUT Uploaded result (195.3K)".to_owned()));

    // A link out of the container is not followed.
    let action = serial(vec![shell("ln -s /etc/passwd link"), upload("/link")]);
    let guid = cell.run("steal", spec(action)).await;
    assert_eq!(cell.end(&guid).await, "failed Failed to upload payload");
    assert!(server.requests().is_empty());
}
