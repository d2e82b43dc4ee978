//! Who the master is, as the sentinels see it.
//!
//! The client library's own client for sentinels is not used: it asks one after the other, so that a hung one holds up
//! all, and it takes the first answer, also that of one who has been cut off and still names the old master.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::address::Address;
use super::dial::Dial;
use super::fault::Fault;
use crate::error::ErrorKind;

/// How long a sentinel may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// The sentinels of one master.
#[derive(Clone)]
pub(super) struct Sentinels {
    pub addresses: Vec<Address>,
    /// As what they know it.
    pub name: String,
    /// As whom we come to them; it need not be as whom we come to the master.
    pub dial: Dial,
}

impl Sentinels {
    /// Where the master is: what most of them say, as soon as they have; else what most of those say who answer in time.
    pub async fn master(&self) -> Result<Address, Fault> {
        let mut asked: FuturesUnordered<_> = self.addresses.iter().map(|sentinel| self.ask(sentinel)).collect();
        let (mut votes, mut why): (Vec<(Address, usize)>, Option<Fault>) = (Vec::new(), None);
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(named) => match votes.iter_mut().find(|(address, _)| *address == named) {
                    Some((_, count)) => *count += 1,
                    None => votes.push((named, 1)),
                },
                Err(fault) => why = Some(fault),
            }
            if let Some((named, _)) = votes.iter().find(|(_, count)| *count > self.addresses.len() / 2) {
                return Ok(named.clone());
            }
        }
        votes.reverse(); // Of equals the last is taken, and that is to be who was first.
        let most = votes.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(named, _)| named).ok_or_else(|| self.nobody(why))
    }

    async fn ask(&self, sentinel: &Address) -> Result<Address, Fault> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let answer = self.dial.ask_once(sentinel, &question, PATIENCE).await;
        let answer = answer.map_err(|fault| match fault {
            Fault::Unsent(_, why) if why.contains("unknown command") => self.no_sentinel(sentinel),
            fault => fault,
        })?;
        let named: Option<(String, u16)> = redis::from_redis_value(answer)
            .map_err(|_| Fault::Unsent(ErrorKind::Misconfigured, format!("{sentinel} is no sentinel")))?;
        named.and_then(|(host, port)| Address::of_a_member(&host, port, sentinel)).ok_or_else(|| {
            let message = format!("the sentinel at {sentinel} knows no master called {:?}", self.name);
            Fault::Unsent(ErrorKind::Misconfigured, message)
        })
    }

    fn no_sentinel(&self, server: &Address) -> Fault {
        let scheme = self.dial.scheme();
        let message = format!(
            "{server} is no sentinel, but a Redis server; write {scheme}://{server} for it alone, or name its sentinels"
        );
        Fault::Unsent(ErrorKind::Misconfigured, message)
    }

    fn nobody(&self, why: Option<Fault>) -> Fault {
        match why {
            Some(Fault::Unsent(kind, why)) => {
                Fault::Unsent(kind, format!("no sentinel says where {:?} is ({why})", self.name))
            }
            _ => Fault::Unsent(ErrorKind::Unavailable, format!("no sentinel says where {:?} is", self.name)),
        }
    }
}
