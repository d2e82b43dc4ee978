//! What is asked of sessions, and is done to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Something that the task of its caller does, as long as it waits for that: no other thread has to be woken to begin it. If
/// it is dropped before its end it goes on from there where the sessions are: nothing is dropped half-way.
///
/// Whatever it connects, spawns or times belongs to that home in any case, and not to the runtime of the caller.
pub(super) struct Errand<T: Send + 'static> {
    home: Handle,
    caller: Caller,
    work: Option<BoxFuture<'static, T>>,
}

/// Who asked for it, as the errand sees it.
#[derive(Clone, Default)]
pub(super) struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Whether nobody waits for the errand any more.
    pub fn has_gone(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl<T: Send + 'static> Errand<T> {
    pub fn new<F: Future<Output = T> + Send + 'static>(home: Handle, work: impl FnOnce(Caller) -> F) -> Self {
        let caller = Caller::default();
        let work = Some(Box::pin(work(caller.clone())) as BoxFuture<'static, T>);
        Self { home, caller, work }
    }
}

impl<T: Send + 'static> Future for Errand<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        // Taken out, so that what panics is not begun again.
        let Some(mut work) = this.work.take() else { return Poll::Pending };
        let _home = this.home.enter();
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            this.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Errand<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.caller.0.store(true, Ordering::Release);
            self.home.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn what_is_dropped_goes_on_at_home_and_knows_that_nobody_waits() {
        let home = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (go, going) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let mut errand = Errand::new(home.handle().clone(), |caller| async move {
            let before = (caller.has_gone(), Handle::current().id());
            going.await.unwrap();
            done.send((before, caller.has_gone(), Handle::current().id())).unwrap();
        });
        assert_eq!((&mut errand).now_or_never(), None, "by whoever polls it, in no runtime");
        drop(errand);
        go.send(()).unwrap();
        let here = home.handle().id();
        assert_eq!(is_done.blocking_recv().unwrap(), ((false, here), true, here));
    }
}
