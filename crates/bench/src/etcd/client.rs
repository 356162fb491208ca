//! A client of etcd that does as little as possible: puts in a transaction, and reading a range. For floors and for counting.
//!
//! It shares no code with the store, so that what the store does badly does not look as if etcd did. There are no comparisons,
//! no repetitions and no other members: it talks to the one it was given.

use anyhow::Context;
use bytes::Bytes;
use hyper::http::uri::PathAndQuery;
use rig::etcd::Cluster;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use tonic_prost::ProstCodec;

/// An answer may list all keys of a store.
const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;
const PAGE_RECORDS: i64 = 1_000;
const HOST: &str = "localhost";

#[derive(Clone, Debug)]
pub(super) struct Client {
    grpc: Grpc<Channel>,
}

/// What lies in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) records: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
    /// How often these records were put since they were made.
    pub(super) puts: u64,
    /// The revision of etcd, which grows by one with every transaction that writes.
    pub(super) revision: i64,
}

impl Client {
    pub(super) async fn connect(cluster: &Cluster, member: usize) -> anyhow::Result<Self> {
        let file = |path| std::fs::read(path).context("the certificates of etcd cannot be read");
        let identity = Identity::from_pem(file(cluster.cert())?, file(cluster.key())?);
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(file(cluster.ca())?))
            .identity(identity)
            .domain_name(HOST);
        let endpoint = Channel::from_shared(cluster.endpoint(member))?.tls_config(tls)?.tcp_nodelay(true);
        let grpc = Grpc::new(endpoint.connect().await?).max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Self { grpc })
    }

    /// All records in one transaction.
    pub(super) async fn put(&mut self, records: impl Iterator<Item = (Bytes, Bytes)>) -> anyhow::Result<()> {
        let success = records.map(|(key, value)| RequestOp { put: Some(PutRequest { key, value }) }).collect();
        let done: TxnResponse = self.call("/etcdserverpb.KV/Txn", TxnRequest { success }).await?;
        anyhow::ensure!(done.succeeded, "etcd refused a transaction without conditions");
        Ok(())
    }

    /// Counts the keys that begin with `prefix`, without their values.
    pub(super) async fn count(&mut self, prefix: &str) -> anyhow::Result<Found> {
        let mut found = Found::default();
        found.add(&self.range(prefix.to_owned().into(), prefix, 0, true).await?);
        Ok(found)
    }

    /// Reads the records whose keys begin with `prefix`, page by page, up to so many pages.
    pub(super) async fn read(&mut self, prefix: &str, pages_max: u64) -> anyhow::Result<Found> {
        let mut found = Found::default();
        let mut from = Bytes::copy_from_slice(prefix.as_bytes());
        for _ in 0..pages_max {
            let page = self.range(from, prefix, PAGE_RECORDS, false).await?;
            found.add(&page);
            match page.kvs.last().filter(|_| page.more) {
                Some(last) => from = Bytes::from([&last.key[..], b"\0"].concat()),
                None => break,
            }
        }
        Ok(found)
    }

    async fn range(&mut self, key: Bytes, prefix: &str, limit: i64, keys_only: bool) -> anyhow::Result<RangeResponse> {
        let mut range_end = prefix.as_bytes().to_vec();
        if let Some(last) = range_end.last_mut() {
            *last += 1;
        }
        let asked = RangeRequest { key, range_end: range_end.into(), limit, keys_only };
        self.call("/etcdserverpb.KV/Range", asked).await
    }

    async fn call<Q, A>(&mut self, path: &'static str, asked: Q) -> anyhow::Result<A>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.grpc.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = self.grpc.unary(Request::new(asked), PathAndQuery::from_static(path), codec).await;
        Ok(answer.with_context(|| format!("etcd failed at {path}"))?.into_inner())
    }
}

impl Found {
    fn add(&mut self, page: &RangeResponse) {
        self.revision = page.header.as_ref().map_or(0, |header| header.revision);
        for kv in &page.kvs {
            self.records += 1;
            self.key_bytes += kv.key.len() as u64;
            self.value_bytes += kv.value.len() as u64;
            self.puts += u64::try_from(kv.version).unwrap_or(0);
        }
    }
}

/// The numbers are etcd's. What is left out is skipped when it arrives.
#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestOp {
    #[prost(message, optional, tag = "2")]
    put: Option<PutRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnRequest {
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnResponse {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    range_end: Bytes,
    #[prost(int64, tag = "3")]
    limit: i64,
    #[prost(bool, tag = "8")]
    keys_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(int64, tag = "4")]
    version: i64,
    #[prost(bytes = "bytes", tag = "5")]
    value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    more: bool,
}
