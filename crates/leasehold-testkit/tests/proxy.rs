//! The proxy between two plain sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use leasehold_testkit::process::eventually;
use leasehold_testkit::proxy::Direction::{ToClient, ToServer};
use leasehold_testkit::proxy::{Proxy, Then};

const SOON: Duration = Duration::from_secs(20);
/// For what must not happen: long enough to see it, if it did.
const SHORTLY: Duration = Duration::from_millis(50);

/// A listening socket, and a proxy before it.
struct Net {
    server: TcpListener,
    proxy: Proxy,
}

impl Net {
    fn new() -> Self {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::to(server.local_addr().unwrap());
        Self { server, proxy }
    }

    fn dial(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.proxy.address())?;
        stream.set_read_timeout(Some(SOON))?;
        Ok(stream)
    }

    /// Both ends of a connection: the client's and the server's.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = self.dial().unwrap();
        let (server, _) = self.server.accept().unwrap();
        server.set_read_timeout(Some(SOON)).unwrap();
        (client, server)
    }
}

fn hear(stream: &mut TcpStream, count: usize) -> String {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn nothing_comes(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(SHORTLY)).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(SOON)).unwrap();
}

fn is_reset(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).unwrap() == 0
}

#[test]
fn bytes_go_both_ways_and_are_counted() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    client.write_all(b"request").unwrap();
    assert_eq!(hear(&mut server, 7), "request");
    server.write_all(b"answer").unwrap();
    assert_eq!(hear(&mut client, 6), "answer");
    eventually("they are counted", SOON, || net.proxy.passed(ToServer) == 7 && net.proxy.passed(ToClient) == 6);
    assert_eq!((net.proxy.connections(), net.proxy.open_connections()), (1, 1));
    eventually("none is held", SOON, || net.proxy.held(ToServer) + net.proxy.held(ToClient) == 0);
}

#[test]
fn much_goes_through_unharmed() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    let sent: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).take(5_000_000).collect();
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(&sent).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
        });
        server.read_to_end(&mut received).unwrap();
    });
    assert!(received == sent);
}

#[test]
fn an_end_goes_through_and_the_other_way_stays_open() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(is_closed(&mut server));
    server.write_all(b"late").unwrap();
    assert_eq!(hear(&mut client, 4), "late");
    drop(server);
    assert!(is_closed(&mut client));
    eventually("it is over", SOON, || net.proxy.open_connections() == 0);
}

#[test]
fn a_delay_is_for_one_direction_and_for_what_is_under_way() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.delay(ToClient, Duration::from_millis(150));
    let start = Instant::now();
    client.write_all(b"?").unwrap();
    assert_eq!(hear(&mut server, 1), "?");
    server.write_all(b"!").unwrap();
    assert_eq!(hear(&mut client, 1), "!");
    assert!(start.elapsed() >= Duration::from_millis(150));

    net.proxy.delay(ToClient, Duration::from_secs(3600));
    server.write_all(b"!").unwrap();
    eventually("it is under way", SOON, || net.proxy.held(ToClient) == 1);
    net.proxy.heal();
    assert_eq!(hear(&mut client, 1), "!");
}

#[test]
fn a_black_hole_for_requests_holds_them_and_lets_answers_through() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.blackhole(ToServer);
    client.write_all(b"request").unwrap();
    eventually("it is held", SOON, || net.proxy.held(ToServer) == 7);
    nothing_comes(&mut server);
    server.write_all(b"news").unwrap();
    assert_eq!(hear(&mut client, 4), "news");
    net.proxy.heal();
    assert_eq!(hear(&mut server, 7), "request");
    // It is counted as let through after it was written, which may be after it was heard.
    eventually("nothing is held", SOON, || net.proxy.held(ToServer) == 0);
}

#[test]
fn a_black_hole_for_answers_holds_them_and_the_servers_end() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.blackhole(ToClient);
    client.write_all(b"request").unwrap();
    assert_eq!(hear(&mut server, 7), "request");
    server.write_all(b"answer").unwrap();
    drop(server);
    eventually("it is held", SOON, || net.proxy.held(ToClient) == 6);
    nothing_comes(&mut client);
    net.proxy.heal();
    assert_eq!(hear(&mut client, 6), "answer");
    assert!(is_closed(&mut client));
}

#[test]
fn connections_made_during_a_black_hole_are_accepted() {
    let net = Net::new();
    net.proxy.blackhole(ToServer);
    let (mut client, mut server) = net.connect();
    client.write_all(b"x").unwrap();
    nothing_comes(&mut server);
    net.proxy.heal();
    assert_eq!(hear(&mut server, 1), "x");
}

#[test]
fn a_cut_resets_everybody_and_new_connections_work() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    let (mut other, _other_server) = net.connect();
    net.proxy.cut();
    assert_eq!(net.proxy.open_connections(), 0);
    assert!(is_reset(&mut client) && is_reset(&mut server) && is_reset(&mut other));
    let (mut client, mut server) = net.connect();
    client.write_all(b"x").unwrap();
    assert_eq!(hear(&mut server, 1), "x");
    assert_eq!(net.proxy.connections(), 3);
}

#[test]
fn a_cut_also_hits_who_has_only_just_come() {
    let net = Net::new();
    for _ in 0..100 {
        let mut client = net.dial().unwrap();
        net.proxy.cut();
        assert!(is_reset(&mut client));
    }
    assert_eq!(net.proxy.connections(), 100);
}

#[test]
fn closing_ends_connections_in_good_order() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.close();
    assert!(is_closed(&mut client) && is_closed(&mut server));
}

#[test]
fn what_was_held_is_lost_in_a_cut() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.blackhole(ToServer);
    client.write_all(b"request").unwrap();
    eventually("it is held", SOON, || net.proxy.held(ToServer) == 7);
    net.proxy.cut();
    net.proxy.heal();
    assert!(is_reset(&mut server));
    eventually("nothing is held", SOON, || net.proxy.held(ToServer) == 0);
    assert_eq!(net.proxy.passed(ToServer), 0);
}

#[test]
fn refused_is_refused_until_healed_and_old_connections_stay() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    for _ in 0..20 {
        net.proxy.refuse();
        assert_eq!(net.dial().unwrap_err().kind(), ErrorKind::ConnectionRefused);
        net.proxy.heal();
        net.connect();
    }
    client.write_all(b"x").unwrap();
    assert_eq!(hear(&mut server, 1), "x");
}

#[test]
fn a_connection_ends_after_so_many_bytes_of_a_request() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.cut_after(ToServer, 4);
    client.write_all(b"request").unwrap();
    assert_eq!(hear(&mut server, 4), "requ");
    assert!(is_closed(&mut server));
    // Once.
    let (mut client, mut server) = net.connect();
    client.write_all(b"request").unwrap();
    assert_eq!(hear(&mut server, 7), "request");
}

#[test]
fn a_connection_ends_before_the_first_byte_of_an_answer() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.cut_after(ToClient, 0);
    client.write_all(b"request").unwrap();
    assert_eq!(hear(&mut server, 7), "request");
    server.write_all(b"answer").unwrap();
    assert!(is_closed(&mut client));
    assert_eq!(net.proxy.passed(ToClient), 0);
}

#[test]
fn the_answer_to_one_request_is_lost_with_its_connection() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.drop_reply_after_request(b"RELEASE", Then::Cut);
    client.write_all(b"RENEW").unwrap();
    assert_eq!(hear(&mut server, 5), "RENEW");
    server.write_all(b"done").unwrap();
    assert_eq!(hear(&mut client, 4), "done");
    for part in ["xREL", "EASEx"] {
        client.write_all(part.as_bytes()).unwrap();
        hear(&mut server, part.len());
    }
    assert_eq!(net.proxy.open_connections(), 1);
    server.write_all(b"done").unwrap();
    assert!(is_reset(&mut client));
    assert_eq!(net.proxy.dropped_replies(), 1);
}

#[test]
fn the_answer_to_one_request_is_lost_in_silence() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.drop_reply_after_request(b"RELEASE", Then::Silence);
    client.write_all(b"RELEASE").unwrap();
    hear(&mut server, 7);
    server.write_all(b"done").unwrap();
    eventually("it is dropped", SOON, || net.proxy.dropped_replies() == 1);
    // Requests still arrive, and not even the server's end comes back.
    client.write_all(b"RELEASE").unwrap();
    hear(&mut server, 7);
    server.write_all(b"done").unwrap();
    drop(server);
    nothing_comes(&mut client);
    // Another connection is as good as new.
    let (mut client, mut server) = net.connect();
    client.write_all(b"RELEASE").unwrap();
    hear(&mut server, 7);
    server.write_all(b"done").unwrap();
    assert_eq!(hear(&mut client, 4), "done");
}

#[test]
fn it_leads_elsewhere_for_new_connections() {
    let (net, elsewhere) = (Net::new(), TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let (mut old, mut server) = net.connect();
    net.proxy.lead_to(elsewhere.local_addr().unwrap());
    net.proxy.heal(); // That is no fault.
    let mut new = net.dial().unwrap();
    new.write_all(b"new").unwrap();
    assert_eq!(hear(&mut elsewhere.accept().unwrap().0, 3), "new");
    old.write_all(b"old").unwrap();
    assert_eq!(hear(&mut server, 3), "old");
}

#[test]
fn a_server_that_is_not_there_resets_who_connects() {
    // Its port is nobody else's as long as this is bound, and nobody listens there.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let proxy = Proxy::to(nobody.local_addr().unwrap());
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    assert!(is_reset(&mut client));
}

#[tokio::test(start_paused = true)]
async fn a_test_in_paused_time_has_a_proxy_in_real_time() {
    let net = Net::new();
    let (mut client, mut server) = net.connect();
    net.proxy.delay(ToServer, SHORTLY);
    let start = Instant::now();
    client.write_all(b"x").unwrap();
    assert_eq!(hear(&mut server, 1), "x");
    assert!(start.elapsed() >= SHORTLY);
    net.proxy.cut();
}

#[test]
fn a_proxy_ends_with_its_connections() {
    let Net { server, proxy } = Net::new();
    let address = proxy.address();
    let mut client = TcpStream::connect(&address).unwrap();
    let (mut accepted, _) = server.accept().unwrap();
    drop(proxy);
    assert!(is_closed(&mut client) && is_closed(&mut accepted));
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_url_leads_through_the_proxy() {
    let net = Net::new();
    let at = net.proxy.address();
    for (server, through) in [
        ("redis://127.0.0.1:6379", format!("redis://{at}")),
        ("rediss://:p%40ss@host:6379/2?protocol=resp3", format!("rediss://:p%40ss@{at}/2?protocol=resp3")),
        ("postgres://u:p@h?x=1", format!("postgres://u:p@{at}?x=1")),
    ] {
        assert_eq!(net.proxy.url(server), through);
    }
}
