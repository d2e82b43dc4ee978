//! Transactions: what must hold, what is done then, and what is looked at otherwise.

use super::fault::Fault;
use super::generated::compare::{CompareResult, CompareTarget, TargetUnion};
use super::generated::request_op::Request;
use super::generated::response_op::Response;
use super::generated::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseOp, TxnRequest, TxnResponse,
};
use super::keys::behind;

/// How many operations the server takes in one transaction: 128, unless it was told otherwise.
pub(super) const MOST: usize = 120;

/// A transaction in the making.
#[derive(Debug, Clone, Default)]
pub(super) struct Txn {
    compare: Vec<Compare>,
    then: Vec<RequestOp>,
    otherwise: Vec<RequestOp>,
}

impl Txn {
    /// If the key was last changed at this revision; 0 for a key that is not there.
    pub fn if_modified_at(self, key: &[u8], revision: i64) -> Self {
        self.compared(key, CompareResult::Equal, CompareTarget::Mod, TargetUnion::ModRevision(revision))
    }

    /// If the key was created at this revision; 0 for a key that is not there.
    pub fn if_created_at(self, key: &[u8], revision: i64) -> Self {
        self.compared(key, CompareResult::Equal, CompareTarget::Create, TargetUnion::CreateRevision(revision))
    }

    /// If no key below `prefix` was created after this revision; 0: if there is none at all.
    pub fn if_none_created_after(self, prefix: &[u8], revision: i64) -> Self {
        self.if_all_created(prefix, CompareResult::Less, revision + 1)
    }

    /// If no key below `prefix` was created before this revision.
    pub fn if_none_created_before(self, prefix: &[u8], revision: i64) -> Self {
        self.if_all_created(prefix, CompareResult::Greater, revision - 1)
    }

    fn if_all_created(mut self, prefix: &[u8], result: CompareResult, revision: i64) -> Self {
        let target = TargetUnion::CreateRevision(revision);
        self = self.compared(prefix, result, CompareTarget::Create, target);
        if let Some(last) = self.compare.last_mut() {
            last.range_end = behind(prefix);
        }
        self
    }

    fn compared(mut self, key: &[u8], result: CompareResult, target: CompareTarget, to: TargetUnion) -> Self {
        self.compare.push(Compare {
            result: result.into(),
            target: target.into(),
            key: key.to_vec(),
            target_union: Some(to),
            range_end: Vec::new(),
        });
        self
    }

    /// Put a key under a lease.
    pub fn put(self, key: &[u8], value: Vec<u8>, lease: i64) -> Self {
        self.putting(PutRequest { key: key.to_vec(), value, lease, ..PutRequest::default() })
    }

    /// Put another value under a key that is there; its lease stays.
    pub fn put_value(self, key: &[u8], value: Vec<u8>) -> Self {
        self.putting(PutRequest { key: key.to_vec(), value, ignore_lease: true, ..PutRequest::default() })
    }

    /// Hang a key that is there on another lease; its value stays.
    pub fn hang_on(self, key: &[u8], lease: i64) -> Self {
        self.putting(PutRequest { key: key.to_vec(), lease, ignore_value: true, ..PutRequest::default() })
    }

    fn putting(mut self, put: PutRequest) -> Self {
        self.then.push(RequestOp { request: Some(Request::RequestPut(put)) });
        self
    }

    pub fn delete(mut self, key: &[u8]) -> Self {
        let delete = DeleteRangeRequest { key: key.to_vec(), range_end: Vec::new() };
        self.then.push(RequestOp { request: Some(Request::RequestDeleteRange(delete)) });
        self
    }

    /// Then look at these.
    pub fn look(mut self, ranges: impl IntoIterator<Item = RangeRequest>) -> Self {
        self.then.extend(ranges.into_iter().map(looking));
        self
    }

    /// Otherwise look at these.
    pub fn or_look(mut self, ranges: impl IntoIterator<Item = RangeRequest>) -> Self {
        self.otherwise.extend(ranges.into_iter().map(looking));
        self
    }

    /// If what can't be: for the server's word on whether it would be allowed.
    pub fn if_never(self, key: &[u8]) -> Self {
        self.compared(key, CompareResult::Less, CompareTarget::Create, TargetUnion::CreateRevision(0))
    }

    pub fn request(self) -> TxnRequest {
        TxnRequest { compare: self.compare, success: self.then, failure: self.otherwise }
    }
}

fn looking(range: RangeRequest) -> RequestOp {
    RequestOp { request: Some(Request::RequestRange(range)) }
}

pub(super) fn one(key: &[u8]) -> RangeRequest {
    RangeRequest { key: key.to_vec(), ..RangeRequest::default() }
}

pub(super) fn below(prefix: &[u8]) -> RangeRequest {
    RangeRequest { key: prefix.to_vec(), range_end: behind(prefix), ..RangeRequest::default() }
}

/// How many there are.
pub(super) fn count_below(prefix: &[u8]) -> RangeRequest {
    RangeRequest { count_only: true, ..below(prefix) }
}

/// What a transaction came to.
#[derive(Debug)]
pub(super) struct Done {
    /// Whether all held that was compared.
    pub held: bool,
    pub revision: i64,
    /// What each look has found, in order.
    pub found: Vec<Vec<KeyValue>>,
    /// How many keys each look has counted.
    pub counts: Vec<i64>,
}

impl Done {
    pub fn read(response: TxnResponse) -> Result<Self, Fault> {
        let header = response.header.ok_or_else(|| Fault::strange("the answer has no header"))?;
        let range = |op: ResponseOp| match op.response {
            Some(Response::ResponseRange(range)) => Some((range.kvs, range.count)),
            _ => None,
        };
        let (found, counts) = response.responses.into_iter().filter_map(range).unzip();
        Ok(Self { held: response.succeeded, revision: header.revision, found, counts })
    }

    /// What the look at one key has found, the `nth` of all.
    pub fn key(&mut self, nth: usize) -> Option<KeyValue> {
        self.found.get_mut(nth)?.pop()
    }
}
