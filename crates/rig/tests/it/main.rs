//! What other tests stand on, tested: clusters, certificates, and lines that are cut.

mod etcd;
