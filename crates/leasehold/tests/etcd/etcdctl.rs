//! Beside `etcdctl lock`.

use super::*;

/// `etcdctl lock`, until its standard input is closed or it is killed.
struct Etcdctl(Child);

impl Etcdctl {
    fn lock(server: &Etcd, name: &str, command: &[&str]) -> Self {
        let mut etcdctl: Command = server.etcdctl(&[&["lock", "--ttl", "10", name, "--"], command].concat());
        Self(etcdctl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn succeeds(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Etcdctl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_lock_of_etcdctl_keeps_ours_out_and_ours_keeps_it_out() {
    let server = Etcd::start();
    for (url, name, theirs) in [
        (format!("{}?compat=etcdctl", server.url()), "job", "job"),
        (format!("{}?compat=etcdctl", server.url()), "/locks/job", "/locks/job"),
        (server.url(), "job", "default/job"),
    ] {
        let locks = locks(&url).await;
        let other = Etcdctl::lock(&server, theirs, &["sleep", "60"]);
        eventually_async("they have it", SOON, async || held(&locks, name).await.is_some()).await;
        let Outcome::Contended(told) = locks.lock(name).try_acquire().await.unwrap() else { panic!("it is held") };
        assert!(told.label.starts_with(&format!("foreign: etcdctl {theirs}/")) && told.holder.is_some(), "{told:?}");
        assert_eq!(told.library, Some("etcdctl"));
        assert!(told.remaining <= Duration::from_secs(10) && told.remaining > Duration::from_secs(5), "{told:?}");
        assert_eq!(server.keys(&format!("{theirs}/")).len(), 1, "who is refused leaves nothing behind");
        let error = locks.revoke(name, Revoke::Gently).await.unwrap_err();
        assert!(error.to_string().contains("no way of being told"), "{error}");
        let error = locks.lock(name).permits(2).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(locks.list().await.unwrap().iter().any(|held| held.name.as_str() == name));
        let lock = locks.lock(name);
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
        waits(&locks, name, 1).await;
        let line = locks.queue(&LockName::new(name).unwrap()).await.unwrap();
        assert!(line.len() == 1 && line[0].holder.is_some() && line[0].waited.is_some(), "one of ours waits: {line:?}");
        drop(other); // Killed: its lease ends.
        let guard = tokio::time::timeout(SOON, waiting).await.expect("its turn came").unwrap();

        let mut other = Etcdctl::lock(&server, theirs, &["true"]);
        eventually_async("they wait", SOON, async || held(&locks, name).await.is_some_and(|held| held.waiting == 1))
            .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(other.0.try_wait().unwrap().is_none(), "they wait");
        let line = locks.queue(&LockName::new(name).unwrap()).await.unwrap();
        let [theirs_waits] = &line[..] else { panic!("one of theirs waits: {line:?}") };
        assert!(theirs_waits.label.starts_with(&format!("foreign: etcdctl {theirs}/")), "{line:?}");
        assert_eq!((theirs_waits.holder, theirs_waits.waited), (None, None), "only they know since when");
        guard.release().await.unwrap();
        other.succeeds();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_and_etcdctl_take_turns_never_two_at_a_time() {
    const ROUNDS: u32 = 50;
    let server = Arc::new(Etcd::start());
    let dir = tempfile::tempdir().unwrap();
    let (witness, log) = (dir.path().join("inside"), dir.path().join("log"));
    let script = format!("mkdir '{0}' || exit 1; echo theirs >> '{1}'; rmdir '{0}'", witness.display(), log.display());
    let theirs = {
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || {
            for _ in 0..ROUNDS {
                Etcdctl::lock(&server, "job", &["sh", "-c", &script]).succeeds();
            }
        })
    };
    let (locks, mut tokens, mut mixed) = (locks(&format!("{}?compat=etcdctl", server.url())).await, BTreeSet::new(), 0);
    while mixed < ROUNDS || !theirs.is_finished() {
        let guard = locks.lock("job").acquire().await.unwrap().guard().unwrap();
        std::fs::create_dir(&witness).expect("nobody else is inside");
        assert!(tokens.last() < Some(&guard.token()), "tokens grow");
        tokens.insert(guard.token());
        tokio::time::sleep(Duration::from_millis(2)).await;
        std::fs::remove_dir(&witness).unwrap();
        guard.release().await.unwrap();
        mixed += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    theirs.await.unwrap();
    let theirs = std::fs::read_to_string(&log).unwrap().lines().count();
    assert!(theirs >= ROUNDS as usize && mixed >= ROUNDS);
    assert_eq!(server.keys("job/"), [""; 0]);
}

#[tokio::test]
async fn a_name_within_a_name_is_another_lock() {
    let server = Etcd::start();
    for url in [server.url(), format!("{}?compat=etcdctl", server.url())] {
        let locks = locks(&url).await;
        let inner = acquired(&locks.lock("path/1")).await;
        let outer = acquired(&locks.lock("path")).await;
        let lock = locks.lock("path");
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().guard().unwrap() });
        waits(&locks, "path", 1).await;
        outer.release().await.unwrap();
        let next = tokio::time::timeout(SOON, waiting).await.expect("the inner one is not in its way").unwrap();
        assert_eq!(locks.list().await.unwrap().len(), 2);
        next.release().await.unwrap();
        inner.release().await.unwrap();
    }
}
