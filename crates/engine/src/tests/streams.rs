//! Tests of polled and pushed streams.

use super::{Rig, get};
use crate::{Event, PushedEvent};

#[test]
fn does_not_poll_a_stream_with_unsent_data() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/late"));
    let handle = rig.late.pop_front().expect("it was handed out");
    let none = std::iter::empty();
    rig.worker
        .begin_stream(handle, 200, None, none, None, b"")
        .expect("it is open");
    rig.run();

    // All bytes were sent, and the next turn will report this. The application writes more bytes
    // before that turn.
    let index = rig.worker.net.open_stream(handle).expect("it is open");
    rig.worker.http.list_stream(&mut rig.worker.net, index);
    let event = PushedEvent {
        data: Some(b"more"),
        ..PushedEvent::default()
    };
    rig.worker
        .net
        .push_event(handle, &event)
        .expect("it is open");
    rig.worker.http.streams.begin_turn();
    assert!(
        rig.worker
            .http
            .next_stream_event(&mut rig.worker.net)
            .is_none()
    );

    // The report follows after these bytes were sent, too.
    rig.worker
        .net
        .flush(&mut rig.worker.http, index.connection());
    rig.worker.after_output();
    rig.worker.http.streams.begin_turn();
    assert!(matches!(
        rig.worker.http.next_stream_event(&mut rig.worker.net),
        Some(Event::Stream(_))
    ));
    rig.run();
    assert!(String::from_utf8_lossy(&peer.read()).contains("data: more"));
}
