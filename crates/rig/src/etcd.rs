//! Clusters of etcd, of one or three members, that tests can kill, pause and restart.
