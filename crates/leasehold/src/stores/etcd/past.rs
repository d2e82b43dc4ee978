//! What a cluster has shown of itself, and must not go back behind.
//!
//! Fencing tokens are revisions. A cluster that was restored from a backup, or another one at the same address, counts from
//! where it is: what was granted once may be granted again under the same or a smaller token. Each answer says where
//! it comes from, so that this can be told before anybody counts on it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tonic::Status;

use super::generated::ResponseHeader;

/// The largest of what was seen, by all handles of a client.
#[derive(Debug, Default)]
pub(super) struct Past {
    seen: Mutex<Option<Seen>>,
}

/// What an answer says of where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    cluster: u64,
    term: u64,
    revision: i64,
}

impl Past {
    /// What was seen before a request is sent. Its answer must not be behind this: a majority confirms it. Behind what
    /// was seen since it may well be, for answers overtake one another.
    pub fn now(&self) -> Option<Seen> {
        *self.seen()
    }

    /// Takes note of an answer to a request that was sent after `before`.
    ///
    /// # Errors
    /// It comes from another cluster, or from one that has gone back.
    pub fn heed(&self, before: Option<Seen>, header: Option<&ResponseHeader>) -> Result<(), Status> {
        let Some(header) = header else { return Ok(()) };
        let told = Seen { cluster: header.cluster_id, term: header.raft_term, revision: header.revision };
        let mut seen = self.seen();
        let known = seen.get_or_insert(told);
        if known.cluster != told.cluster {
            return Err(Status::data_loss(format!(
                "the member that was asked is of another cluster ({:x}) than before ({:x}), whose locks it does not know; \
                 name the members of one cluster, or start this program anew if the old one is gone for good",
                told.cluster, known.cluster
            )));
        }
        if let Some(before) = before.filter(|before| told.revision < before.revision || told.term < before.term) {
            return Err(Status::data_loss(format!(
                "it has gone back, from revision {} (term {}) to {} (term {}): it was restored from a backup, and fencing \
                 tokens would repeat; stop what holds locks for a TTL and start it anew, with the revisions raised \
                 (etcdutl snapshot restore --bump-revision) if tokens are checked",
                before.revision, before.term, told.revision, told.term
            )));
        }
        known.term = known.term.max(told.term);
        known.revision = known.revision.max(told.revision);
        Ok(())
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cluster_id: u64, raft_term: u64, revision: i64) -> ResponseHeader {
        ResponseHeader { cluster_id, member_id: 1, revision, raft_term }
    }

    #[test]
    fn an_answer_may_be_overtaken_but_not_be_behind_what_was_seen_before_its_request() {
        let past = Past::default();
        let (early, other) = (past.now(), past.now());
        past.heed(other, Some(&header(7, 2, 12))).unwrap();
        past.heed(early, Some(&header(7, 2, 10))).expect("it was sent before that was seen");
        past.heed(past.now(), Some(&header(7, 2, 12))).expect("nothing was written since");
        past.heed(past.now(), Some(&header(7, 3, 12))).expect("there was an election");
        for gone_back in [header(7, 3, 11), header(7, 2, 20)] {
            let told = past.heed(past.now(), Some(&gone_back)).unwrap_err();
            assert!(told.message().contains("restored from a backup"), "{told}");
        }
        past.heed(past.now(), Some(&header(7, 3, 13))).expect("what was refused is not counted");
        assert!(past.heed(past.now(), None).is_ok());
    }

    #[test]
    fn another_cluster_is_refused_whatever_its_revision() {
        let past = Past::default();
        past.heed(None, Some(&header(7, 2, 12))).unwrap();
        for (before, revision) in [(None, 1), (past.now(), 1000)] {
            let told = past.heed(before, Some(&header(8, 9, revision))).unwrap_err();
            assert!(told.message().contains("another cluster (8) than before (7)"), "{told}");
        }
        past.heed(past.now(), Some(&header(7, 2, 12))).expect("the old one is still good");
    }
}
