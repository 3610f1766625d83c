//! Tests of slow handlers: short handlers do not wait for many slow ones, and slow handlers do not
//! wait forever.

use fermata_io::sys::fake::{End, FakePeer};

use super::client::answers;
use super::{LONG_MS, LONGER_MS, Rig, get, post};
use crate::http::starts::{AT_ONCE_US_MAX, LONG_US_MAX, Starts};

/// Maximum handler time per turn in milliseconds: the time limit of each kind, plus one handler of
/// each kind.
const TURN_MS_MAX: u64 = (AT_ONCE_US_MAX + LONG_US_MAX) / 1000 + 2 * LONGER_MS;

const CROWD: usize = 200;

/// Connects `CROWD` clients, each with a numbered request.
fn crowd(rig: &Rig, path: &str) -> Vec<FakePeer> {
    let one = |number| {
        let peer = rig.connect();
        peer.write(&get(&format!("{path}?{number}")));
        peer
    };
    (0..CROWD).map(one).collect()
}

fn bodies(peer: &FakePeer) -> Vec<String> {
    let text = |body| String::from_utf8(body).expect("it is ours");
    let answers = answers(&peer.read(), &[]).into_iter();
    answers.map(|it| text(it.body)).collect()
}

/// Returns the time until a new client has its response.
fn visit_ms(rig: &mut Rig, path: &str) -> u64 {
    let visitor = rig.connect();
    visitor.write(&get(path));
    let begin_ms = rig.fake.clock_ms();
    while bodies(&visitor).is_empty() {
        rig.turn();
    }
    visitor.close();
    rig.fake.clock_ms() - begin_ms
}

#[test]
fn delays_a_short_request_by_at_most_one_turn() {
    let mut rig = Rig::new(1);
    let peers = crowd(&rig, "/long");
    let mut visits = 0;
    while rig.requests < CROWD + visits {
        let waited_ms = visit_ms(&mut rig, "/hello");
        assert!(waited_ms <= TURN_MS_MAX, "visit {visits}: {waited_ms} ms");
        visits += 1;
    }
    assert!(visits as u64 > CROWD as u64 * LONG_MS / TURN_MS_MAX);
    rig.run();
    for (number, peer) in peers.iter().enumerate() {
        assert_eq!(bodies(peer), [number.to_string()]);
    }
}

#[test]
fn limits_medium_handlers_per_turn() {
    for took_us in [150, 300, 490] {
        let (mut starts, mut now_us) = (Starts::new(), 0);
        // In the first turn, the duration of the handlers is not known yet.
        for turn in 0..50 {
            starts.begin_turn();
            let begin_us = now_us;
            for _ in 0..CROWD {
                if starts.begin(0) {
                    starts.note_begin(now_us);
                    now_us += took_us;
                    starts.note_return(now_us);
                }
            }
            let turn_us = now_us - begin_us;
            assert!(turn_us > 0);
            assert!(
                turn == 0 || turn_us <= AT_ONCE_US_MAX + took_us,
                "{took_us} us each: turn {turn} took {turn_us} us"
            );
        }
    }
}

#[test]
fn runs_short_requests_before_long_ones() {
    let mut rig = Rig::new(8);
    for _ in 0..20 {
        visit_ms(&mut rig, "/hello");
    }
    let long = crowd(&rig, "/long");
    let short = crowd(&rig, "/hello");
    let mut turns = 0;
    while short.iter().any(|peer| peer.unread_bytes() == 0) {
        rig.turn();
        turns += 1;
        assert!(turns <= 4, "short requests wait for long ones");
    }
    rig.run();
    assert!(long.iter().all(|peer| bodies(peer).len() == 1));
}

#[test]
fn delays_a_long_request_only_by_its_own_route() {
    let mut rig = Rig::new(2);
    let peers = crowd(&rig, "/long");
    // Now both routes are measured as slow.
    for _ in 0..20 {
        visit_ms(&mut rig, "/longer");
    }
    let waited_ms = visit_ms(&mut rig, "/longer");
    assert!(waited_ms <= 2 * TURN_MS_MAX, "{waited_ms} ms");
    assert!(rig.requests < CROWD, "the crowd is over");
    rig.run();
    assert!(peers.iter().all(|peer| bodies(peer).len() == 1));
}

#[test]
fn starts_requests_of_a_route_in_order() {
    let mut rig = Rig::new(3);
    let peers = crowd(&rig, "/long");
    let mut begun = Vec::new();
    while begun.len() < CROWD {
        rig.turn();
        let ended = (0..CROWD).filter(|&it| peers[it].unread_bytes() == 0 && !begun.contains(&it));
        let ended: Vec<usize> = ended.filter(|&it| !bodies(&peers[it]).is_empty()).collect();
        begun.extend(ended);
    }
    let late = begun.windows(2).filter(|two| two[0] > two[1]).count();
    assert!(
        late <= CROWD / 20,
        "{late} were begun before one that had come earlier: {begun:?}"
    );
}

#[test]
fn preserves_order_and_bodies_of_a_connection() {
    let mut rig = Rig::new(4);
    let others = crowd(&rig, "/long");
    let large = "x".repeat(100_000);
    let peer = rig.connect();
    let requests = [
        get("/long?first"),
        get("/hello"),
        post("/long", "small"),
        get("/long?second"),
    ];
    peer.write(&requests.concat());
    let in_pieces = rig.connect();
    in_pieces.set_window(1 << 20);
    let bytes = [post("/long", &large), get("/hello")].concat();
    let (begin, end) = bytes.split_at(50_000);
    in_pieces.write(begin);
    rig.turn();
    in_pieces.write(end);
    rig.run();
    assert_eq!(bodies(&peer), ["first", "hello", "small", "second"]);
    let sizes: Vec<usize> = bodies(&in_pieces).iter().map(String::len).collect();
    assert_eq!(sizes, [large.len(), "hello".len()]);
    assert!(others.iter().all(|peer| bodies(peer).len() == 1));
}

#[test]
fn skips_waiting_requests_of_disconnected_clients() {
    let mut rig = Rig::new(5);
    let peers = crowd(&rig, "/long");
    rig.turn();
    for peer in peers.iter().step_by(2) {
        peer.reset();
    }
    peers[1].shutdown_write();
    rig.run();
    assert!(
        peers
            .iter()
            .skip(1)
            .step_by(2)
            .all(|peer| bodies(peer).len() == 1)
    );
    assert_eq!(rig.worker.net.sockets_len(), CROWD / 2 - 1);
    assert_eq!(peers[1].end(), End::Finished);
}

#[test]
fn refuses_requests_in_time_while_all_handlers_wait() {
    let mut rig = Rig::new(6);
    let peers = crowd(&rig, "/long");
    rig.turn();
    let begun = rig.requests;
    assert!(begun < CROWD);
    rig.worker.set_full(true);
    rig.run();
    assert_eq!(rig.requests, begun);
    let timeout_ms = rig.worker.settings().header_timeout_ms;
    rig.advance(timeout_ms / 2);
    rig.worker.set_full(false);
    rig.turn();
    let begun = rig.requests;
    rig.worker.set_full(true);
    rig.advance(timeout_ms / 2 + 1_000);
    assert_eq!(rig.requests, begun);
    let statuses = peers
        .iter()
        .map(|peer| answers(&peer.read(), &[])[0].status);
    let served = statuses.filter(|&it| it == 200).count();
    assert_eq!(served, begun, "the others are told to try again");
}

#[test]
fn starts_waiting_requests_while_draining() {
    let mut rig = Rig::new(7);
    let peers = crowd(&rig, "/long");
    rig.turn();
    rig.worker.begin_drain(false);
    rig.run();
    assert_eq!(rig.requests, CROWD);
    assert!(peers.iter().all(|peer| bodies(peer).len() == 1));
    for peer in &peers {
        peer.close();
    }
    rig.run();
    assert!(rig.is_stopped);
}
