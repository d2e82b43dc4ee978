//! What the cluster is asked.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;

use super::dial::Link;
use super::fault::{Cause, Fault};
use super::generated::cluster_client::ClusterClient;
use super::generated::lease_client::LeaseClient;
use super::generated::maintenance_client::MaintenanceClient;
use super::generated::{
    AlarmRequest, AlarmResponse, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    MemberListRequest, MemberListResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse,
};
use super::members::{Members, Sent};
use super::txn::{Done, Txn};

/// How long a call may take at the most.
const LONGEST: Duration = Duration::from_secs(4);

/// The same, where another member can be asked then.
const LONGEST_OF_ONE: Duration = Duration::from_millis(1500);

/// A member that is only busy needs so long.
const SHORTEST_OF_ONE: Duration = Duration::from_millis(250);

/// A lease as the server keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// What is left of it, in whole seconds: up to one less than there is.
    pub left: Duration,
    /// What it was granted for.
    pub granted: Duration,
}

/// A limit for what is about a lease of `ttl`; whoever waits for it gives up after a sixth of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Limit {
    whole: Duration,
}

impl Limit {
    pub const LONGEST: Self = Self { whole: LONGEST };

    pub fn of(ttl: Duration) -> Self {
        Self { whole: (ttl / 7).min(LONGEST) }
    }

    fn for_one(self, members: &Members, sent: Sent) -> Duration {
        match sent {
            Sent::Again if members.are_many() => {
                (self.whole / 3).clamp(SHORTEST_OF_ONE, LONGEST_OF_ONE).min(self.whole)
            }
            _ => self.whole,
        }
    }
}

impl Members {
    /// Runs a transaction that may change something; never twice.
    pub async fn change(&self, limit: Limit, txn: Txn) -> Result<Done, Fault> {
        self.transact(Sent::Once, limit, txn).await
    }

    /// Runs a transaction that only looks.
    pub async fn read(&self, limit: Limit, txn: Txn) -> Result<Done, Fault> {
        self.transact(Sent::Again, limit, txn).await.map_err(Fault::surely)
    }

    /// Runs a transaction that does no harm twice.
    pub async fn repeat(&self, limit: Limit, txn: Txn) -> Result<Done, Fault> {
        self.transact(Sent::Again, limit, txn).await
    }

    async fn transact(&self, sent: Sent, limit: Limit, txn: Txn) -> Result<Done, Fault> {
        let request = txn.request();
        let ask = |link: Arc<Link>| {
            let request = link.request(request.clone());
            async move {
                let before = self.past.now();
                let answer = link.kv().txn(request).await?.into_inner();
                self.past.heed(before, answer.header.as_ref())?;
                Ok(answer)
            }
        };
        Done::read(self.call(sent, limit.for_one(self, sent), ask).await?)
    }

    pub async fn range(&self, limit: Limit, range: &RangeRequest) -> Result<RangeResponse, Fault> {
        let ask = |link: Arc<Link>| {
            let request = link.request(range.clone());
            async move {
                let before = self.past.now();
                let answer = link.kv().range(request).await?.into_inner();
                self.past.heed(before, answer.header.as_ref())?;
                Ok(answer)
            }
        };
        self.call(Sent::Again, limit.for_one(self, Sent::Again), ask).await
    }

    /// A new lease of so many seconds, or of as few as the server gives. One that nobody hears of ends by itself.
    pub async fn grant(&self, limit: Limit, seconds: u64) -> Result<i64, Fault> {
        let request = LeaseGrantRequest { ttl: i64::try_from(seconds).unwrap_or(i64::MAX), id: 0 };
        let ask = |link: Arc<Link>| {
            let request = link.request(request);
            async move { LeaseClient::new(link.line.clone()).lease_grant(request).await }
        };
        let granted = self.call(Sent::Again, limit.for_one(self, Sent::Again), ask).await?.into_inner();
        if granted.error.is_empty() { Ok(granted.id) } else { Err(Fault::strange(granted.error)) }
    }

    /// Prolongs a lease; false if it is no more. That the message could be sent says nothing: its answer counts, and one
    /// without time left is the answer for a lease that has ended.
    pub async fn keep_alive(&self, limit: Limit, lease: i64) -> Result<bool, Fault> {
        let ask = |link: Arc<Link>| async move {
            let one = stream::iter([LeaseKeepAliveRequest { id: lease }]);
            let request = link.with_metadata(tonic::Request::new(one));
            let mut answers = LeaseClient::new(link.line.clone()).lease_keep_alive(request).await?.into_inner();
            let answer = answers.message().await?;
            answer.ok_or_else(|| tonic::Status::unavailable("the stream ended without an answer"))
        };
        match self.call(Sent::Again, limit.for_one(self, Sent::Again), ask).await {
            Ok(answer) => Ok(answer.id == lease && answer.ttl > 0),
            Err(fault) if fault.cause == Cause::NoLease => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// What is left of a lease; none if it is no more.
    pub async fn rest_of(&self, lease: i64) -> Result<Option<Rest>, Fault> {
        let ask = |link: Arc<Link>| {
            let request = link.request(LeaseTimeToLiveRequest { id: lease });
            async move { LeaseClient::new(link.line.clone()).lease_time_to_live(request).await }
        };
        let limit = Limit::LONGEST.for_one(self, Sent::Again);
        let rest = match self.call(Sent::Again, limit, ask).await {
            Ok(rest) => rest.into_inner(),
            Err(fault) if fault.cause == Cause::NoLease => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Ok((rest.ttl > 0).then(|| Rest { left: seconds(rest.ttl), granted: seconds(rest.granted_ttl) }))
    }

    /// Ends a lease, if it is one, and all that hangs on it.
    pub async fn revoke_lease(&self, lease: i64) -> Result<(), Fault> {
        if lease == 0 {
            return Ok(());
        }
        let ask = |link: Arc<Link>| {
            let request = link.request(LeaseRevokeRequest { id: lease });
            async move { LeaseClient::new(link.line.clone()).lease_revoke(request).await }
        };
        match self.call(Sent::Again, Limit::LONGEST.for_one(self, Sent::Again), ask).await {
            Err(fault) if fault.cause != Cause::NoLease => Err(fault),
            _ => Ok(()),
        }
    }

    /// How one member is.
    pub async fn status(&self, at: usize, limit: Duration) -> Result<StatusResponse, Fault> {
        let ask = |link: Arc<Link>| async move {
            // Without `hasleader`: one that knows no leader is to say so in its own words.
            let mut request = link.request(StatusRequest {});
            request.metadata_mut().remove("hasleader");
            MaintenanceClient::new(link.line.clone()).status(request).await
        };
        Ok(self.ask(at, limit, &ask).await?.into_inner())
    }

    pub async fn alarms(&self) -> Result<AlarmResponse, Fault> {
        let ask = |link: Arc<Link>| {
            let request = link.request(AlarmRequest::default());
            async move { MaintenanceClient::new(link.line.clone()).alarm(request).await }
        };
        Ok(self.call(Sent::Again, LONGEST_OF_ONE, ask).await?.into_inner())
    }

    pub async fn member_list(&self) -> Result<MemberListResponse, Fault> {
        let ask = |link: Arc<Link>| {
            let request = link.request(MemberListRequest {});
            async move { ClusterClient::new(link.line.clone()).member_list(request).await }
        };
        Ok(self.call(Sent::Again, LONGEST_OF_ONE, ask).await?.into_inner())
    }
}
