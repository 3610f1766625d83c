//! Tests of the `Driver` interface with real sockets on the loopback interface, for each kernel interface.

#[allow(dead_code, reason = "each file of tests uses a part")]
mod support;

use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;

use fermata_io::wake::Waker;
use fermata_io::watch::{Interest, Watch};
use fermata_io::{Driver, Fd, Kernel, Peer, net};

use support::{BACKLOG, LISTENER, PATIENCE_MS, STREAM, Server};

over_each_kernel! {
    bytes_go_both_ways_and_end_with_a_hangup
    a_stream_is_reported_once_and_again_when_room_appears
    sending_to_a_reset_connection_is_an_error_and_no_signal
    a_removed_listener_is_silent_until_added_again
    accepted_streams_answer_at_once_and_are_named_over_ipv6
    a_waker_wakes_until_it_is_drained
    a_timeout_ends_the_wait_and_moves_the_clock
    more_events_than_a_batch_come_in_the_next_one
    unix_peers_have_no_address
    what_was_sent_before_a_close_arrives
    a_flush_sends_without_a_wait
    accepted_bytes_of_a_slow_connection_arrive_after_its_close
    nothing_is_kept_for_a_connection_that_is_reset
    the_end_follows_all_accepted_bytes
    unread_connections_do_not_block_others
    reports_the_end_of_an_unread_connection
    reports_a_reset_directly_after_bytes
    reports_the_end_directly_after_bytes_on_a_unix_socket
    reports_a_reset_after_the_end
    reports_every_reset_directly_after_bytes
    a_number_that_is_used_again_starts_afresh
    a_number_that_is_used_again_at_once_loses_nothing
    connections_accepted_before_a_removal_are_still_there
    reports_a_refused_connection
    a_file_is_sent_from_an_offset_to_its_end
    a_released_connection_has_all_its_bytes
    a_connection_with_unread_bytes_is_not_released
    reports_descriptors_of_a_nested_set
}

fn bytes_go_both_ways_and_end_with_a_hangup(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    let mut buf = [0; 64];
    assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), None);

    client.write_all(b"question").expect("write");
    assert!(server.wait_for(STREAM).readable);
    assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), Some(8));
    assert_eq!(&buf[..8], b"question");
    assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), None);

    let parts = [
        IoSlice::new(b"an "),
        IoSlice::new(b""),
        IoSlice::new(b"answer"),
    ];
    assert_eq!(server.driver.send(fd, &parts).expect("send"), Some(9));
    assert_eq!(server.driver.send_one(fd, b"!").expect("send"), Some(1));
    server.driver.shutdown_write(fd);
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("read");
    assert_eq!(answer, "an answer!");

    client.shutdown(Shutdown::Write).expect("shutdown");
    let event = server.wait_for(STREAM);
    assert!(event.readable && event.hangup, "{event:?}");
    assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), Some(0));
    server.driver.close(fd);
}

fn a_stream_is_reported_once_and_again_when_room_appears(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    assert_eq!(server.wait(0), []);
    let block = vec![7_u8; 256 * 1024];
    let mut sent = 0;
    while let Some(bytes) = server.driver.send_one(fd, &block).expect("send") {
        sent += bytes;
    }
    assert_eq!(server.wait(0), [], "no room is not reported");
    let mut received = vec![0; sent];
    client.read_exact(&mut received).expect("read");
    assert!(received.iter().all(|&byte| byte == 7));
    assert!(server.wait_for(STREAM).writable);
    server.driver.close(fd);
}

fn sending_to_a_reset_connection_is_an_error_and_no_signal(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (client, fd) = server.connect();
    server.driver.send_one(fd, b"unread").expect("send");
    drop(client);
    let event = server.wait_for(STREAM);
    assert!(event.hangup, "{event:?}");
    let mut failed = false;
    for _ in 0..3 {
        failed |= server.driver.send_one(fd, b"more").is_err();
    }
    assert!(failed);
    server.driver.close(fd);
}

fn a_removed_listener_is_silent_until_added_again(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let listener = server.listener.as_raw_fd();
    assert_eq!(server.driver.accept(listener).expect("accept"), None);
    server.driver.remove(listener).expect("remove");
    assert!(server.driver.remove(listener).is_err());
    let _client = TcpStream::connect(server.address).expect("connect");
    assert_eq!(server.wait(0), []);
    server.driver.add_listener(listener, LISTENER).expect("add");
    assert!(server.wait_for(LISTENER).readable);
    assert!(server.wait_for(LISTENER).readable, "level triggered");
}

fn accepted_streams_answer_at_once_and_are_named_over_ipv6(kernel: Kernel) {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return; // This machine has no IPv6.
    }
    let mut server = Server::new(kernel, "[::1]:0");
    let (_client, fd) = server.connect();
    // SAFETY: `fd` is open until the end of this test.
    let stream = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    assert!(rustix::net::sockopt::tcp_nodelay(stream).expect("an option of TCP"));
    let flags = rustix::io::fcntl_getfd(stream).expect("open");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    server.driver.close(fd);
}

fn a_waker_wakes_until_it_is_drained(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let waker = Waker::new().expect("eventfd");
    server.driver.add_wake(waker.fd(), 9).expect("add");
    assert_eq!(server.wait(0), []);
    waker.wake();
    waker.wake();
    assert!(server.wait_for(9).readable);
    assert!(server.wait_for(9).readable);
    waker.drain();
    assert_eq!(server.wait(0), []);
    waker.drain();
}

fn a_timeout_ends_the_wait_and_moves_the_clock(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let end_ms = server.driver.refresh_now() + 20;
    // A driver may return early without events.
    while server.driver.now_ms() < end_ms {
        assert_eq!(server.wait(20), []);
    }
}

fn more_events_than_a_batch_come_in_the_next_one(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let wakers: Vec<Waker> = (0..600).map(|_| Waker::new().expect("eventfd")).collect();
    for (token, waker) in wakers.iter().enumerate() {
        server
            .driver
            .add_wake(waker.fd(), token as u64)
            .expect("add");
        waker.wake();
    }
    let first = server.wait(0);
    assert_eq!(first.len(), fermata_io::EVENTS_MAX);
    let second = server.wait(0);
    let mut tokens: Vec<u64> = first
        .iter()
        .chain(&second)
        .map(|event| event.token)
        .collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 600);
}

fn unix_peers_have_no_address(kernel: Kernel) {
    let folder = std::env::temp_dir().join(format!(
        "fermata-io-unix-{}-{}",
        kernel.backend(),
        std::process::id()
    ));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("control.sock");
    let listener = net::bind_unix(&path, BACKLOG, net::UNIX_MODE).expect("bind");
    let mut driver = kernel;
    driver
        .add_listener(listener.as_raw_fd(), LISTENER)
        .expect("add");
    let _client = UnixStream::connect(&path).expect("connect");
    let mut events = Vec::new();
    driver.wait(&mut events, None).expect("wait");
    assert!(events[0].token == LISTENER && events[0].readable);
    let accepted = driver
        .accept(listener.as_raw_fd())
        .expect("accept")
        .expect("one");
    assert_eq!(accepted.peer, Peer::Unix);
    driver.close(accepted.fd);
    std::fs::remove_dir_all(&folder).expect("clean up");
}

fn what_was_sent_before_a_close_arrives(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    for watches in [false, true] {
        let (mut client, fd) = if watches {
            server.connect()
        } else {
            server.accept()
        };
        assert_eq!(server.driver.send_one(fd, b"last").expect("send"), Some(4));
        server.driver.close(fd);
        server.wait(0);
        server.wait(0);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an orderly end");
        assert_eq!(answer, "last");
        assert_eq!(server.driver.leaving(), 0);
    }
}

fn a_flush_sends_without_a_wait(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    assert_eq!(server.driver.send_one(fd, b"now").expect("send"), Some(3));
    server.driver.flush();
    let mut buf = [0; 3];
    client.read_exact(&mut buf).expect("it was sent");
    assert_eq!(&buf, b"now");
    server.driver.close(fd);
}

/// Makes small sends until one would block, then closes: all accepted bytes arrive, followed by the end.
fn accepted_bytes_of_a_slow_connection_arrive_after_its_close(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    let mut sent = Vec::new();
    let mut number = 0_u32;
    loop {
        let block: Vec<u8> = (0..500).flat_map(|_| number.to_le_bytes()).collect();
        number += 1;
        let Some(bytes) = server.driver.send_one(fd, &block).expect("send") else {
            break;
        };
        sent.extend_from_slice(&block[..bytes]);
    }
    assert_eq!(server.driver.send_one(fd, b"still").expect("send"), None);
    server.driver.close(fd);
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        client.read_to_end(&mut received).expect("an orderly end");
        received
    });
    let deadline_ms = server.driver.refresh_now() + support::PATIENCE_MS;
    while !reader.is_finished() && server.driver.now_ms() < deadline_ms {
        server.wait(10);
    }
    assert!(reader.is_finished(), "the end does not come");
    assert!(reader.join().expect("no panic") == sent, "bytes differ");
    assert_eq!(server.driver.leaving(), 0);
}

fn nothing_is_kept_for_a_connection_that_is_reset(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    let block = [b'x'; 2_000];
    let mut sent = 0;
    while let Some(bytes) = server.driver.send_one(fd, &block).expect("send") {
        sent += bytes;
    }
    // Bytes stored in the driver for a descriptor that is closed normally.
    let _ = server.driver.send_one(fd, &block).expect("send");
    server.driver.reset_on_close(fd);
    server.driver.close(fd);
    assert_eq!(server.driver.leaving(), 0);
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        let end = client.read_to_end(&mut received);
        (received.len(), end)
    });
    let deadline_ms = server.driver.refresh_now() + support::PATIENCE_MS;
    while !reader.is_finished() && server.driver.now_ms() < deadline_ms {
        server.wait(10);
    }
    assert!(reader.is_finished(), "the reset does not come");
    let (received, end) = reader.join().expect("no panic");
    let error = end.expect_err("not an orderly end");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(received < sent, "{received} of {sent}");
}

fn the_end_follows_all_accepted_bytes(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    let mut taken = 0;
    let block = [9; 1000];
    while let Some(bytes) = server.driver.send_one(fd, &block).expect("send") {
        taken += bytes;
    }
    server.driver.shutdown_write(fd);
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        client.read_to_end(&mut received).expect("an orderly end");
        (client, received)
    });
    let deadline_ms = server.driver.refresh_now() + support::PATIENCE_MS;
    while !reader.is_finished() && server.driver.now_ms() < deadline_ms {
        server.wait(10);
    }
    let (client, received) = reader.join().expect("no panic");
    assert_eq!(received.len(), taken);
    drop(client);
    assert!(
        server
            .wait_until(|event| event.token == STREAM && event.hangup)
            .readable
    );
    server.driver.close(fd);
}

/// A connection that is not read must neither block others nor lose its bytes.
fn unread_connections_do_not_block_others(kernel: Kernel) {
    const SILENT: u64 = 60;
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let mut silent = Vec::new();
    let payload: Vec<u8> = (0..40_000_u32).map(|at| at as u8).collect();
    for number in 0..SILENT {
        let (mut client, fd) = server.accept();
        server.driver.add_stream(fd, 100 + number).expect("add");
        client.write_all(&payload).expect("write");
        silent.push((client, fd));
    }
    for _ in 0..20 {
        server.wait(0);
    }
    let (mut client, fd) = server.connect();
    let mut buf = vec![0; 64 * 1024];
    for _ in 0..50 {
        client.write_all(b"ping").expect("write");
        assert!(
            server
                .wait_until(|event| event.token == STREAM && event.readable)
                .readable
        );
        assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), Some(4));
    }
    for (client, fd) in silent {
        drop(client);
        let mut received = Vec::new();
        let mut turns = 0;
        // Before the end of the stream, an event follows each `None`.
        loop {
            match server.driver.recv(fd, &mut buf[..7_000]).expect("recv") {
                Some(0) => break,
                Some(bytes) => received.extend_from_slice(&buf[..bytes]),
                None => {
                    server.wait(10);
                    turns += 1;
                    assert!(turns < 1_000, "{} bytes and no end", received.len());
                }
            }
        }
        assert!(received == payload, "bytes differ");
        server.driver.close(fd);
    }
}

fn reports_the_end_of_an_unread_connection(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    client.write_all(b"unread").expect("write");
    server.wait_for(STREAM);
    server.wait(0);
    server.wait(0);
    client.shutdown(Shutdown::Write).expect("shutdown");
    assert!(server.wait_until(|event| event.hangup).readable);
    let mut buf = [0; 64];
    assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), Some(6));
    let end = match server.driver.recv(fd, &mut buf).expect("recv") {
        None => {
            server.wait_until(|event| event.readable);
            server.driver.recv(fd, &mut buf).expect("recv")
        }
        end => end,
    };
    assert_eq!(end, Some(0));
    server.driver.close(fd);
}

/// Reads the bytes that a watched connection received before its end. As in the engine, a short read has emptied the socket unless
/// a hang-up was reported.
fn read_to_the_end(server: &mut Server, fd: Fd) -> (Vec<u8>, std::io::Result<usize>) {
    let (mut received, mut buf, mut has_hung_up) = (Vec::new(), [0; 64], false);
    loop {
        let event = server.wait_until(|event| event.readable || event.hangup);
        has_hung_up |= event.hangup;
        loop {
            match server.driver.recv(fd, &mut buf) {
                Ok(Some(0)) => return (received, Ok(0)),
                Err(error) => return (received, Err(error)),
                Ok(Some(read)) => {
                    received.extend_from_slice(&buf[..read]);
                    if !has_hung_up {
                        break;
                    }
                }
                Ok(None) => break,
            }
        }
    }
}

/// Bytes and a reset arrive while no wait is running, so that the kernel wakes the server once for the two.
fn reports_a_reset_directly_after_bytes(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    for rounds in 0..3 {
        let (mut client, fd) = server.connect();
        for _ in 0..rounds {
            client.write_all(b"before").expect("write");
            server.wait_until(|event| event.readable);
            let read = server.driver.recv(fd, &mut [0; 64]).expect("recv");
            assert_eq!(read, Some(6));
        }
        client.write_all(b"a part of a request").expect("write");
        net::abort_on_close(client.as_raw_fd());
        drop(client);
        let (received, end) = read_to_the_end(&mut server, fd);
        assert_eq!(received, b"a part of a request");
        let error = end.expect_err("no end of stream was sent").kind();
        assert_eq!(error, std::io::ErrorKind::ConnectionReset);
        server.driver.close(fd);
    }
}

fn reports_the_end_directly_after_bytes_on_a_unix_socket(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, stream) = UnixStream::pair().expect("a pair");
    stream.set_nonblocking(true).expect("non-blocking");
    let fd = stream.into_raw_fd();
    server.driver.add_stream(fd, STREAM).expect("add");
    server.wait_until(|event| event.writable);
    client.write_all(b"all there is").expect("write");
    drop(client);
    let (received, end) = read_to_the_end(&mut server, fd);
    assert_eq!(
        (&received[..], end.expect("recv")),
        (&b"all there is"[..], 0)
    );
    server.driver.close(fd);
}

fn reports_a_reset_after_the_end(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (client, fd) = server.connect();
    client.shutdown(Shutdown::Write).expect("shutdown");
    server.wait_until(|event| event.hangup);
    assert_eq!(server.driver.recv(fd, &mut [0; 64]).expect("recv"), Some(0));
    while !server.wait(0).is_empty() {}
    net::abort_on_close(client.as_raw_fd());
    drop(client);
    assert!(server.wait_until(|event| event.token == STREAM).hangup);
    server.driver.close(fd);
}

/// Reuses one descriptor number repeatedly, while bytes and operations of the previous descriptor are pending. The
/// reset arrives before, during and after the receive of the preceding bytes.
fn reports_every_reset_directly_after_bytes(kernel: Kernel) {
    const CLIENTS: u32 = 2_000;
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let listener = server.listener.as_raw_fd();
    let address = server.address;
    let (told, closed) = std::sync::mpsc::channel();
    let clients = std::thread::spawn(move || {
        for number in 0..CLIENTS {
            let mut client = TcpStream::connect(address).expect("connect");
            client.write_all(b"a part of a request").expect("write");
            for _ in 0..number % 200 * 10 {
                std::hint::spin_loop();
            }
            net::abort_on_close(client.as_raw_fd());
            drop(client);
            if number % 4 == 3 {
                // Wait for the last four.
                closed.recv().expect("all are told");
            }
        }
    });
    let mut open = Vec::new();
    let end = |ended: &mut u32| {
        *ended += 1;
        if ended.is_multiple_of(4) {
            told.send(()).expect("they go on");
        }
    };
    let mut ended = 0;
    let mut buf = [0; 4096];
    let mut deadline_ms = server.driver.refresh_now() + PATIENCE_MS;
    while ended < CLIENTS {
        let events = server.wait(PATIENCE_MS);
        let now_ms = server.driver.now_ms();
        assert!(now_ms < deadline_ms, "{ended} ends, not of {open:?}");
        if !events.is_empty() {
            deadline_ms = now_ms + PATIENCE_MS;
        }
        for event in events {
            if event.token == LISTENER {
                loop {
                    match server.driver.accept(listener) {
                        Ok(Some(accepted)) => {
                            let fd = accepted.fd;
                            // Like the engine: read available bytes before watching.
                            match server.driver.recv(fd, &mut buf) {
                                Ok(Some(0)) | Err(_) => {
                                    server.driver.close(fd);
                                    end(&mut ended);
                                }
                                _ => {
                                    server.driver.add_stream(fd, 10 + fd as u64).expect("add");
                                    open.push(fd);
                                }
                            }
                        }
                        Ok(None) => break,
                        Err(_) => end(&mut ended),
                    }
                }
                continue;
            }
            let fd = (event.token - 10) as i32;
            if !open.contains(&fd) || !(event.readable || event.hangup) {
                continue;
            }
            loop {
                match server.driver.recv(fd, &mut buf) {
                    Ok(Some(0)) | Err(_) => {
                        server.driver.close(fd);
                        open.retain(|it| *it != fd);
                        end(&mut ended);
                        break;
                    }
                    // As in the engine, a short read has emptied the socket, unless the end of the stream follows.
                    Ok(Some(read)) if read < buf.len() && !event.hangup => break,
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                }
            }
        }
    }
    clients.join().expect("they have gone");
}

fn a_number_that_is_used_again_starts_afresh(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let mut buf = [0; 256];
    for round in 0..200_u64 {
        let (mut client, fd) = server.accept();
        server.driver.add_stream(fd, 1_000 + round).expect("add");
        client.write_all(&round.to_le_bytes()).expect("write");
        let event = server.wait_until(|event| event.token != LISTENER && event.readable);
        assert_eq!(event.token, 1_000 + round, "an event of a predecessor");
        if round % 3 != 0 {
            assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), Some(8));
            assert_eq!(buf[..8], round.to_le_bytes());
        }
        if round % 4 == 0 {
            server
                .driver
                .send_one(fd, &round.to_le_bytes())
                .expect("send");
        }
        if round % 5 == 0 {
            drop(client);
        }
        server.driver.close(fd);
    }
    server.wait(0);
    assert_eq!(server.driver.leaving(), 0);
}

/// Operations that were not submitted before their connection closed must not run for the next connection with the same descriptor
/// number. Otherwise the first bytes of that connection would be lost.
fn a_number_that_is_used_again_at_once_loses_nothing(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    for round in 0..100 {
        let (_first, fd) = server.accept();
        let (mut second, other) = server.accept();
        second.write_all(b"first words").expect("write");
        server.driver.add_stream(fd, 1_000 + round).expect("add");
        server.driver.close(fd);
        // SAFETY: open until the driver closes it below.
        let other_fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(other) };
        let moved = rustix::io::fcntl_dupfd_cloexec(other_fd, fd).expect("a number");
        server.driver.close(other);
        if moved.as_raw_fd() != fd {
            // Another test received the number.
            continue;
        }
        let fd = moved.into_raw_fd();
        server.driver.add_stream(fd, 2_000).expect("add");
        let event = server.wait_until(|event| event.token != LISTENER && event.readable);
        assert_eq!(event.token, 2_000);
        let mut buf = [0; 64];
        assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), Some(11));
        assert_eq!(&buf[..11], b"first words");
        server.driver.close(fd);
        return;
    }
    panic!("the number was never free");
}

fn connections_accepted_before_a_removal_are_still_there(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let listener = server.listener.as_raw_fd();
    let clients: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(server.address).expect("connect"))
        .collect();
    server.wait_for(LISTENER);
    server.driver.remove(listener).expect("remove");
    let mut accepted = 0;
    while let Some(connection) = server.driver.accept(listener).expect("accept") {
        server.driver.close(connection.fd);
        accepted += 1;
    }
    assert_eq!(accepted, clients.len());
}

fn reports_a_refused_connection(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = gone.local_addr().expect("bound");
    drop(gone);
    let Ok(fd) = net::connect_tcp(address, None) else {
        return; // An immediate refusal is correct too.
    };
    server.driver.add_stream(fd, STREAM).expect("add");
    assert!(
        server
            .wait_until(|event| event.token == STREAM && event.hangup)
            .hangup
    );
    assert!(server.driver.recv(fd, &mut [0; 8]).is_err());
    server.driver.close(fd);
}

fn a_file_is_sent_from_an_offset_to_its_end(kernel: Kernel) {
    let backend = kernel.backend();
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    let name = format!("fermata-send-file-{backend}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, "0123456789").expect("can write");
    let file = std::fs::File::open(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it is there");
    assert!(server.driver.can_send_file(fd));
    server.driver.send_one(fd, b"head ").expect("send");
    for (offset, len, sent) in [(2, 3, 3), (8, 100, 2), (10, 5, 0)] {
        let outcome = server.driver.send_file(fd, &file, offset, len);
        assert_eq!(outcome.expect("connected"), Some(sent));
    }
    server.driver.close(fd);
    server.wait(0);
    let mut got = String::new();
    client.read_to_string(&mut got).expect("text");
    assert_eq!(got, "head 23489");
}

fn a_released_connection_has_all_its_bytes(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    for watches in [false, true] {
        let (mut client, fd) = if watches {
            server.connect()
        } else {
            server.accept()
        };
        server.driver.send_one(fd, b"answer").expect("send");
        assert!(server.driver.release(fd));
        // SAFETY: `fd` is open until the end of this block.
        let copy = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
            .try_clone_to_owned()
            .expect("descriptors are left");
        server.driver.close(fd);
        client.write_all(b"next").expect("write");
        assert_eq!(server.wait(20), [], "it is not ours any more");
        let mut next = TcpStream::from(copy);
        next.set_nonblocking(false).expect("a socket");
        let mut buf = [0; 6];
        next.read_exact(&mut buf[..4])
            .expect("nobody else has read it");
        assert_eq!(&buf[..4], b"next");
        client.read_exact(&mut buf).expect("it was sent before");
        assert_eq!(&buf, b"answer");
    }
}

fn a_connection_with_unread_bytes_is_not_released(kernel: Kernel) {
    if kernel.backend() == fermata_io::Backend::Epoll {
        return; // The connection's bytes are in the kernel, so the next process can read them.
    }
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let (mut client, fd) = server.connect();
    client.write_all(b"mine").expect("write");
    assert!(server.wait_for(STREAM).readable);
    assert!(!server.driver.release(fd));
    let mut buf = [0; 8];
    assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), Some(4));
    client.write_all(b"also").expect("write");
    // The test has not waited for the bytes: they may still be in the kernel, or have just arrived.
    if !server.driver.release(fd) {
        assert!(server.wait_for(STREAM).readable);
        assert_eq!(server.driver.recv(fd, &mut buf).expect("recv"), Some(4));
        assert_eq!(&buf[..4], b"also");
    }
    server.driver.close(fd);
}

fn reports_descriptors_of_a_nested_set(kernel: Kernel) {
    let mut server = Server::new(kernel, "127.0.0.1:0");
    let mut watch = Watch::new().expect("a set");
    server.driver.add_wake(watch.fd(), 9).expect("add");
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    let mut ready = Vec::new();
    for _ in 0..3 {
        watch.arm(ours.as_raw_fd(), Interest::READ).expect("armed");
        assert_eq!(server.wait(0), []);
        theirs.write_all(b"a").expect("write");
        // The descriptor is reported until it is collected, and then no more, although it is still readable.
        assert!(server.wait_for(9).readable);
        assert!(server.wait_for(9).readable);
        watch.collect(&mut ready).expect("collected");
        assert_eq!(ready.pop().map(|it| it.fd), Some(ours.as_raw_fd()));
        assert!(ready.is_empty());
        assert_eq!(server.wait(0), []);
        (&ours).read_exact(&mut [0; 1]).expect("read");
    }
    // A watched descriptor that is closed causes no event.
    watch.arm(ours.as_raw_fd(), Interest::READ).expect("armed");
    drop(ours);
    drop(theirs);
    assert_eq!(server.wait(0), []);
}
