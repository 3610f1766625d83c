//! Responses whose origin pauses: the edge writes nothing, but still detects that the client
//! disconnects.

use std::io::{Read, Write};
use std::sync::{Mutex, mpsc};

use fermata_testkit::{deadline, reset_on_close};

use crate::origin::{Origin, Reply};
use crate::own::Own;

const CLIENTS: usize = 20;
/// Framing by length, by chunks, and by the close of the connection.
const HEADS: [&str; 3] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbegun",
];

#[derive(Clone, Copy, Debug)]
enum Leaving {
    Closes,
    Resets,
}

#[test]
fn a_client_that_leaves_a_quiet_response_ends_it_at_the_origin() {
    let origin = Origin::start();
    let (sender, ended) = mpsc::channel();
    let sender = Mutex::new(sender);
    origin.on("x", move |request| {
        let head = HEADS[request.target.len() % HEADS.len()];
        let sender = sender.lock().expect("no test panics with it").clone();
        Reply::Take(Box::new(move |mut stream| {
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.set_read_timeout(Some(deadline()));
            let read = stream.read(&mut [0]);
            let is_late = read.as_ref().is_err_and(|error| {
                matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                )
            });
            let _ = sender.send(!is_late);
        }))
    });
    let route = format!("* 127.0.0.1:{}", origin.port());
    let own = Own::start(&["--route", &route]);
    for leaving in [Leaving::Closes, Leaving::Resets] {
        for (number, head) in HEADS.iter().cycle().take(CLIENTS).enumerate() {
            let mut client = own.client();
            client.send("GET", &format!("/x/{}", "y".repeat(number % 3)), &[], b"");
            client.read_until("begun");
            let (stream, _) = client.into_stream();
            if let Leaving::Resets = leaving {
                reset_on_close(&stream);
            }
            drop(stream);
            assert_eq!(
                ended.recv_timeout(deadline() * 2),
                Ok(true),
                "{leaving:?}, {head:?}"
            );
        }
    }
}
