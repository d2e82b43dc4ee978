//! Claims that are given up, jobs that panic, answers that get lost: what other systems have left locked then. Told once for both
//! servers, of the lock that is called [`NAME`]. `is_taken` asks the server itself.

use futures_util::FutureExt;
use leasehold::Wait;

use super::*;

/// The server would keep a session for longer that is silent.
const LONG_HELD: Duration = Duration::from_secs(30);

/// After so long without an answer a session is closed.
const SILENCE: Duration = Duration::from_secs(5);

async fn is_given_back(is_taken: impl Fn() -> bool, within: Duration) {
    let since = Instant::now();
    eventually_async("it is given back", SOON, async || !is_taken()).await;
    assert!(since.elapsed() < within, "given back after {:?}", since.elapsed());
}

/// The server has taken the lock, and while its answer is on its way nobody waits for that any more. It is given back when the answer
/// is there; if that is lost, the session is closed once it has been silent for too long.
pub async fn a_claim_that_is_cancelled_leaves_no_lock(
    proxied: &str,
    proxy: &Proxy,
    request: &[u8],
    is_taken: impl Fn() -> bool,
) {
    let locks = locks(proxied).await;
    acquired(&locks.lock("warm").ttl(LONG_HELD)).await.release().await.unwrap();
    let lock = locks.lock(NAME).ttl(LONG_HELD);
    let cancelled = async || {
        let mut asked = Box::pin(lock.try_acquire());
        eventually_async("it is taken", SOON, async || {
            assert!((&mut asked).now_or_never().is_none(), "nobody knows that");
            is_taken()
        })
        .await;
    };
    proxy.delay(Direction::ToClient, Duration::from_millis(500));
    cancelled().await;
    is_given_back(&is_taken, Duration::from_millis(2500)).await;
    proxy.heal();
    acquired(&lock).await.release().await.unwrap();
    // What the session calls itself is set with the first lock that it has under another name.
    acquired(&locks.lock("warm").ttl(LONG_HELD)).await.release().await.unwrap();
    proxy.drop_reply_after_request(request, Then::Silence);
    cancelled().await;
    is_given_back(&is_taken, SILENCE + Duration::from_secs(2)).await;
    assert_eq!(proxy.dropped_replies(), 1);
    acquired(&lock).await.release().await.unwrap();
}

/// The process lives on, and so might its session.
pub async fn a_holder_that_panics_leaves_no_lock(url: &str, is_taken: impl Fn() -> bool) {
    let locks = locks(url).await;
    let lock = locks.lock(NAME);
    let guard = acquired(&lock).await;
    assert!(is_taken());
    let job = tokio::spawn(async move {
        let _held = guard;
        panic!("the job has a fault");
    });
    assert!(job.await.unwrap_err().is_panic());
    is_given_back(is_taken, Duration::from_secs(1)).await;
    acquired(&lock).await.release().await.unwrap();
}

/// A release whose answer was lost is asked for again when the same process has the lock anew.
pub async fn a_release_that_is_asked_for_again_ends_no_newer_hold(url: &str, proxied: &str, proxy: &Proxy) {
    let (ours, others) = (store(proxied), store(url));
    let first = takes(&*ours, NAME).await;
    proxy.blackhole(Direction::ToClient);
    let held = lease(&first);
    let answer = tokio::time::timeout(TTL / 3, ours.release(&held, Ended::default())).await;
    assert!(!matches!(answer, Ok(Ok(Release::NotHeld))), "{answer:?}");
    proxy.heal();
    let second = claim(NAME);
    eventually_async("it is held anew", SOON, async || {
        matches!(ours.try_acquire(&second).await, Ok(Attempt::Granted(_)))
    })
    .await;
    assert_eq!(ours.release(&held, Ended::default()).await.unwrap(), Release::NotHeld);
    assert!(is_held(&*others, NAME).await, "the newer one");
    assert_eq!(ours.release(&lease(&second), Ended::default()).await.unwrap(), Release::Released);
    assert!(!is_held(&*others, NAME).await);
}

/// Two processes that call themselves the same: when one of them gives up, the other holds on.
pub async fn a_label_that_two_have_is_nobodys_right(url: &str, is_taken: impl Fn() -> bool) {
    let [ours, others] = [(), ()].map(|()| Locks::builder().label("same").connect(url).unwrap());
    let guard = acquired(&ours.lock(NAME)).await;
    let outcome = others.lock(NAME).wait(Wait::For(Duration::from_secs(2))).acquire().await.unwrap();
    assert!(matches!(outcome, Outcome::Contended(_)), "{outcome:?}");
    others.shutdown().await;
    assert!(guard.is_valid() && is_taken());
    guard.release().await.unwrap();
    assert!(!is_taken());
}

/// When the server lets nobody in any more, a lock is given back over the session that has it; and nobody is told that another is
/// theirs.
pub async fn a_release_needs_no_second_session(url: &str, let_nobody_in: impl Fn(), is_taken: impl Fn() -> bool) {
    let locks = locks(url).await;
    let guard = acquired(&locks.lock(NAME).ttl(Duration::from_secs(60))).await;
    let_nobody_in();
    let (mut others, mut refused) = (Vec::new(), None);
    while refused.is_none() {
        // Sessions that are there already may have a lock each.
        assert!(others.len() < 5, "somebody was let in");
        match locks.lock(&format!("another {}", others.len())).try_acquire().await {
            Ok(outcome) => others.push(outcome.guard().expect("it is free")),
            Err(error) => refused = Some(error),
        }
    }
    let error = refused.unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for other in others {
        other.release().await.unwrap();
    }
    assert!(guard.is_valid() && is_taken());
    guard.release().await.unwrap();
    assert!(!is_taken());
}
