//! A real Redis Cluster on this machine: three masters with one replica each.

use std::process::{Command, Stdio};

use crate::{Redis, wait_until};

/// Options of the servers. A server that does not reply for one second is replaced.
const OPTIONS: &[&str] = &["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
const SERVERS: usize = 6;

/// A Redis Cluster of six servers, killed when dropped.
pub struct RedisCluster {
    servers: Vec<Redis>,
}

impl RedisCluster {
    /// Starts the cluster; returns `None` if Redis is not installed.
    pub fn start() -> Option<RedisCluster> {
        let servers = (0..SERVERS).map(|_| Redis::start_with(OPTIONS));
        let servers = servers.collect::<Option<Vec<Redis>>>()?;
        let status = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(servers.iter().map(|it| format!("127.0.0.1:{}", it.port())))
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("redis-cli comes with redis-server");
        assert!(status.success(), "the cluster cannot be made");
        let cluster = RedisCluster { servers };
        cluster.wait_whole();
        Some(cluster)
    }

    /// Waits until every server knows all others, and every replica is in sync.
    pub fn wait_whole(&self) {
        for server in &self.servers {
            wait_until("the cluster is whole", || {
                let (cluster, replication) =
                    (server.ask("CLUSTER INFO"), server.ask("INFO replication"));
                let is_synced = replication.contains("master_link_status:up")
                    || replication.contains("role:master") && replication.contains("state=online");
                (cluster.contains("cluster_state:ok") && is_synced).then_some(())
            });
        }
    }

    /// Returns the servers.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// Returns the index of the master that stores a key. Returns `None` if no master stores it.
    pub fn owner(&self, key: &str) -> Option<usize> {
        let has_key =
            |it: &Redis| it.is_running() && it.ask(&format!("EXISTS {key}")).starts_with(':');
        self.servers.iter().position(has_key)
    }

    /// Returns the index of a replica of this master.
    pub fn replica(&self, master: usize) -> usize {
        let port = format!("master_port:{}\r\n", self.servers[master].port());
        let is_replica = |it: &Redis| it.is_running() && it.ask("INFO replication").contains(&port);
        self.servers
            .iter()
            .position(is_replica)
            .expect("each has one")
    }

    /// Kills a server with SIGKILL.
    pub fn kill(&mut self, at: usize) {
        self.servers[at].kill();
    }

    /// Restarts a server with its data.
    pub fn restart(&mut self, at: usize) {
        self.servers[at].restart();
    }
}
