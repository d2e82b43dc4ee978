//! etcd: one member, or three that are a cluster.

mod cluster;
mod options;
mod server;

pub use cluster::EtcdCluster;
pub use options::EtcdOptions;
pub use server::Etcd;
