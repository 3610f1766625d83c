//! Floods and bombs: each is stopped at its limit and costs no more than the limit. A peer below the rate is not disconnected.

use super::super::Flood;
use super::*;

/// Sends a frame until the connection fails. `allowed` frames pass in a burst, then `per_second` for any time.
fn flood(
    flood: Flood,
    allowed: u32,
    per_second: u32,
    mut prepare: impl FnMut(&mut End),
    mut attack: impl FnMut(&mut End) -> Result<Vec<Received>, Violation>,
) {
    let mut end = End::server(Limits::default());
    prepare(&mut end);
    for i in 0..allowed {
        assert!(attack(&mut end).is_ok(), "{flood:?}: {i} of {allowed}");
    }
    assert_eq!(attack(&mut end), Err(Violation::Flood(flood)));
    assert_eq!(go_away(&end.sent()).1, ErrorCode::ENHANCE_YOUR_CALM);
    // A peer that stays below the rate for hours.
    let mut end = End::server(Limits::default());
    prepare(&mut end);
    for _ in 0..10_000 {
        end.now_ms += u64::from(1000_u32.div_ceil(per_second));
        assert!(attack(&mut end).is_ok(), "{flood:?} at its rate");
        end.out.clear();
    }
}

/// CVE-2023-44487.
#[test]
fn rapid_reset() {
    let attack = |end: &mut End| {
        let id = end.next_id();
        let stream = end.open(id, true);
        let told = end.frame(Kind::RstStream, 0, id, &8u32.to_be_bytes());
        end.release(stream);
        told
    };
    flood(Flood::Resets, 1000, 33, |_| {}, attack);
}

/// A reset stream counts until its handler returns: against the limit, or if that is reached, against a reserve of a quarter of the
/// limit.
#[test]
fn reset_streams_count_until_their_handlers_return() {
    let mut end = End::server(Limits::default());
    for i in 0..500u32 {
        let stream = i * 2 + 1;
        let told = end.request(stream, true, &[]).expect("goes on");
        if i < 125 {
            assert_eq!(told, [Received::Request(stream, true)]);
        } else {
            assert_eq!(told, [Received::Refused(stream, Refusal::StreamsTooMany)]);
            assert_eq!(end.sent(), [reset(stream, ErrorCode::REFUSED_STREAM)]);
        }
        end.frame(Kind::RstStream, 0, stream, &8u32.to_be_bytes())
            .expect("goes on");
        assert!(end.connection.streams_count() <= 125);
    }
    end.release(StreamId(1));
    end.open(1001, true);
}

/// CVE-2025-8671: every way to make this side reset a stream.
#[test]
fn made_you_reset() {
    for way in 0..6 {
        let attack = move |end: &mut End| {
            let id = end.next_id();
            let told = match way {
                0 => {
                    end.open(id, true);
                    end.frame(Kind::Data, 0, id, b"x")?
                }
                1 => {
                    end.open(id, false);
                    end.frame(Kind::WindowUpdate, 0, id, &[0; 4])?
                }
                2 => {
                    end.open(id, false);
                    end.frame(
                        Kind::Priority,
                        0,
                        id,
                        &[&id.to_be_bytes()[..], &[0]].concat(),
                    )?
                }
                3 => end.request(id, true, &[("Bad", "x")])?,
                4 => {
                    end.open(id, true);
                    end.frame(Kind::Headers, 5, id, &[])?
                }
                _ => {
                    assert!(end.request(id, false, &[("content-length", "1")]).is_ok());
                    end.frame(Kind::Data, 1, id, b"xx")?
                }
            };
            end.release(StreamId(id));
            Ok(told)
        };
        // Some frames that cause a reset also have a limit of their own.
        let prepare = |end: &mut End| {
            end.limits.priorities = Rate::new(1000, 10_000);
            end.limits.stream_window_updates = Rate::new(1000, 10_000);
        };
        flood(Flood::ResetsCaused, 1000, 33, prepare, attack);
    }
}

/// Streams refused before the client received SETTINGS are no flood, up to what fits into a first flight.
#[test]
fn streams_refused_before_settings_arrive_are_no_flood() {
    let limits = Limits {
        streams_max: 2,
        resets_caused: Rate::new(1, 3),
        ..Limits::default()
    };
    let begin = |acknowledges: bool| {
        let mut out = Vec::new();
        let connection = Connection::server(&limits, 0, &mut out);
        let mut end = End::new(connection, limits.clone(), out);
        let mut bytes = PREFACE.to_vec();
        frame::write(&mut bytes, Kind::Settings, 0, 0, &[]);
        if acknowledges {
            frame::write(&mut bytes, Kind::Settings, flag::ACK, 0, &[]);
        }
        assert_eq!(end.feed(&bytes), Ok(vec![Received::Settings]));
        end.open(1, true);
        end.open(3, true);
        end
    };
    let refused = |stream| Ok(vec![Received::Refused(stream, Refusal::StreamsTooMany)]);
    let flood = || Err(Violation::Flood(Flood::ResetsCaused));

    let mut end = begin(false);
    for stream in (5..2_000).step_by(2) {
        assert_eq!(end.request(stream, true, &[]), refused(stream));
    }
    for stream in [2_001, 2_003, 2_005] {
        assert_eq!(end.request(stream, true, &[]), refused(stream));
    }
    assert_eq!(end.request(2_007, true, &[]), flood());

    // The acknowledgement shows that the client knows the limit.
    let mut end = begin(false);
    assert_eq!(end.request(5, true, &[]), refused(5));
    assert_eq!(end.frame(Kind::Settings, flag::ACK, 0, &[]), Ok(Vec::new()));
    for stream in [7, 9, 11] {
        assert_eq!(end.request(stream, true, &[]), refused(stream));
    }
    assert_eq!(end.request(13, true, &[]), flood());

    let mut end = begin(true);
    for stream in [5, 7, 9] {
        assert_eq!(end.request(stream, true, &[]), refused(stream));
    }
    assert_eq!(end.request(11, true, &[]), flood());
}

/// A client no longer counts a stream that it reset, and may open another in the same flight.
#[test]
fn reset_streams_use_a_reserve_until_their_handlers_return() {
    let limits = Limits {
        streams_max: 8,
        ..Limits::default()
    };
    let mut end = End::server(limits);
    let reset = |end: &mut End, stream: u32| {
        let code = ErrorCode::CANCEL.0.to_be_bytes();
        assert!(end.frame(Kind::RstStream, 0, stream, &code).is_ok());
    };
    for stream in (1..17).step_by(2) {
        end.open(stream, false);
    }
    let refused = |stream| Ok(vec![Received::Refused(stream, Refusal::StreamsTooMany)]);
    assert_eq!(end.request(17, true, &[]), refused(17));
    reset(&mut end, 1);
    reset(&mut end, 3);
    end.open(19, true);
    end.open(21, true);
    assert_eq!(end.request(23, true, &[]), refused(23));
    // Ten streams are open, including streams that were reset.
    for stream in [5, 7, 9, 11] {
        reset(&mut end, stream);
    }
    assert_eq!(end.request(25, true, &[]), refused(25));
}

/// Responses to streams that the client released are limited too.
#[test]
fn limits_heads_of_responses_to_released_streams() {
    let opening = Opening {
        method: b"GET",
        scheme: b"https",
        authority: b"a",
        path: b"/",
        protocol: None,
    };
    for ends in [false, true] {
        let mut end = End::client(Limits::default());
        let none = std::iter::empty();
        let opened = end
            .connection
            .open(&opening, none, true, &end.limits, &mut end.out);
        end.release(opened.expect("room"));
        let mut attack = || end.head(1, ends, &[(":status", "200")]);
        assert_eq!(attack(), Ok(Vec::new()));
        let ended = (0..3_000).any(|_| attack().is_err());
        assert!(ended, "{ends}");
    }
}

/// The number of interim responses before the final one is limited, as for HTTP/1.
#[test]
fn limits_interim_responses() {
    let mut end = End::client(Limits::default());
    let opening = Opening {
        method: b"GET",
        scheme: b"https",
        authority: b"a",
        path: b"/",
        protocol: None,
    };
    let none = std::iter::empty();
    let stream = end
        .connection
        .open(&opening, none, true, &end.limits, &mut end.out)
        .expect("room")
        .number();
    end.sent();
    for _ in 0..16 {
        let told = end.head(stream, false, &[(":status", "103")]);
        assert_eq!(told, Ok(vec![Received::Response(stream, 103, false)]));
    }
    let calm = ErrorCode::ENHANCE_YOUR_CALM;
    let told = end.head(stream, false, &[(":status", "103")]);
    assert!(
        matches!(&told, Ok(told) if matches!(told[..], [Received::Reset(1, code, Origin::Here(_))] if code == calm)),
        "{told:?}"
    );
    assert_eq!(end.sent(), [reset(stream, calm)]);
}

/// Bodies sent with those requests are no flood either, although only the identifiers of the last few refused streams are stored.
#[test]
fn bodies_of_streams_refused_before_settings_arrive_are_no_flood() {
    let limits = Limits {
        streams_max: 2,
        resets_caused: Rate::new(1, 3),
        ..Limits::default()
    };
    let mut out = Vec::new();
    let connection = Connection::server(&limits, 0, &mut out);
    let mut end = End::new(connection, limits.clone(), out);
    let mut bytes = PREFACE.to_vec();
    frame::write(&mut bytes, Kind::Settings, 0, 0, &[]);
    assert_eq!(end.feed(&bytes), Ok(vec![Received::Settings]));
    end.open(1, false);
    end.open(3, false);
    for stream in (5..205).step_by(2) {
        let told = end.request(stream, false, &[]);
        let refused = Received::Refused(stream, Refusal::StreamsTooMany);
        assert_eq!(told, Ok(vec![refused]));
    }
    // The client may receive the limit before the refusals.
    assert_eq!(end.frame(Kind::Settings, flag::ACK, 0, &[]), Ok(Vec::new()));
    for stream in (5..205).step_by(2) {
        // Every second stream has trailers.
        let has_trailers = stream % 4 == 1;
        let flags = if has_trailers { 0 } else { flag::END_STREAM };
        let told = end.frame(Kind::Data, flags, stream, b"x");
        assert_eq!(told, Ok(Vec::new()), "{stream}");
        if has_trailers {
            let told = end.head(stream, true, &[("x-sum", "1")]);
            assert_eq!(told, Ok(Vec::new()), "{stream}");
        }
    }
    // The number of such frames is limited.
    let mut ended = false;
    for _ in 0..10 {
        for stream in (5..205).step_by(2) {
            ended |= end
                .frame(Kind::Data, flag::END_STREAM, stream, b"x")
                .is_err();
        }
    }
    assert!(ended);
}

/// Frames of a stream that this side reset are ignored only while they may still be in flight.
#[test]
fn frames_of_reset_streams_are_ignored_only_while_in_flight() {
    for is_released in [false, true] {
        let reset = |end: &mut End| {
            let stream = end.open(1, false);
            end.connection
                .reset(stream, ErrorCode::CANCEL, &mut end.out);
            if is_released {
                end.release(stream);
            }
        };
        for (kind, flags, payload) in [
            (Kind::Data, 0, &b""[..]),
            (Kind::Data, flag::END_STREAM, b""),
            (Kind::Data, flag::END_STREAM, b"x"),
            (Kind::Headers, flag::END_HEADERS, b"\x88"),
            (Kind::Headers, flag::END_HEADERS | flag::END_STREAM, b"\x88"),
        ] {
            let mut end = End::server(Limits::default());
            reset(&mut end);
            assert_eq!(end.frame(kind, flags, 1, payload), Ok(Vec::new()));
            let mut ended = false;
            for _ in 0..3_000 {
                ended |= end.frame(kind, flags, 1, payload).is_err();
            }
            assert!(ended, "{kind:?} {flags} {is_released}");
        }
    }
}

#[test]
fn limits_unrequested_acknowledgements_and_goaways() {
    let nothing = |_: &mut End| {};
    // Acknowledgements without a PING.
    flood(Flood::Pings, 100, 100, nothing, |end| {
        end.frame(Kind::Ping, flag::ACK, 0, &[0; 8])
    });
    // The first GOAWAY has a meaning.
    let leave = |end: &mut End| {
        end.frame(Kind::GoAway, 0, 0, &[0; 8]).expect("goes on");
    };
    flood(Flood::UnknownFrames, 200, 100, leave, |end| {
        end.frame(Kind::GoAway, 0, 0, &[0; 8])
    });
}

#[test]
fn limits_control_frames() {
    let (stream, nothing) = (1, |_: &mut End| {});
    flood(Flood::Pings, 100, 100, nothing, |end| {
        end.frame(Kind::Ping, 0, 0, &[0; 8])
    });
    // One SETTINGS frame arrived with the preface.
    flood(Flood::Settings, 49, 50, nothing, |end| {
        end.frame(Kind::Settings, 0, 0, &[])
    });
    flood(Flood::Priorities, 500, 200, nothing, |end| {
        end.frame(Kind::Priority, 0, 9, &[0; 5])
    });
    flood(Flood::Priorities, 500, 200, nothing, |end| {
        end.frame(Kind::PriorityUpdate, 0, 0, b"\0\0\0\x09u=1")
    });
    flood(Flood::UnknownFrames, 200, 100, nothing, |end| {
        end.feed(b"\0\0\0\xfa\0\0\0\0\0")
    });
    let open = |end: &mut End| {
        end.open(stream, false);
    };
    // The head of the stream gives credit for four frames.
    flood(Flood::EmptyData, 104, 100, open, |end| {
        end.frame(Kind::Data, 0, stream, &[])
    });
    // A frame that contains only padding counts as empty.
    flood(Flood::EmptyData, 104, 100, open, |end| {
        end.frame(Kind::Data, flag::PADDED, stream, &[5, 0, 0, 0, 0, 0])
    });
    flood(Flood::ConnectionWindowUpdates, 100, 100, nothing, |end| {
        end.frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 1])
    });
    // The first WINDOW_UPDATE of a stream is not counted.
    flood(Flood::StreamWindowUpdates, 1005, 500, open, |end| {
        end.frame(Kind::WindowUpdate, 0, stream, &[0, 0, 0, 1])
    });
    // Frames for closed streams count too.
    let gone = |end: &mut End| {
        let stream = end.open(stream, true);
        end.release(stream);
    };
    flood(Flood::StreamWindowUpdates, 1004, 500, gone, |end| {
        end.frame(Kind::WindowUpdate, 0, stream, &[0, 1, 0, 0])
    });
}

/// A client updates both windows whenever it has received half of one, even after the end of a stream.
#[test]
fn a_fast_download_is_no_flood() {
    let mut end = End::server(Limits::default());
    let body = [0; 65_535];
    for i in 0..20_000 {
        let id = i * 2 + 1;
        let stream = end.open(id, true);
        let half_of = |end: &mut End, id: u32| {
            for id in [0, id] {
                let told = end.frame(Kind::WindowUpdate, 0, id, &32_767u32.to_be_bytes());
                assert_eq!(told, Ok(Vec::new()));
            }
        };
        assert_eq!(
            end.answer(stream, &body, Rest::Pending),
            65_535 - usize::from(i > 0)
        );
        half_of(&mut end, id);
        half_of(&mut end, id);
        let rest = end.connection.window(stream);
        let sent = end
            .connection
            .send_data(stream, &body[..rest], Rest::End, &mut end.out);
        assert_eq!(sent, rest);
        end.release(stream);
        half_of(&mut end, id);
        half_of(&mut end, id);
        end.out.clear();
    }
}

/// gRPC measures bandwidth with a PING per round trip, and updates both windows for each message.
#[test]
fn control_frames_of_a_stream_of_messages_are_no_flood() {
    let mut end = End::server(Limits::default());
    let stream = end.open(1, false);
    assert_eq!(end.answer(stream, b"", Rest::Open), 0);
    for _ in 0..20_000 {
        let (connection, limits) = (&mut end.connection, &end.limits);
        assert_eq!(
            connection.send_data(stream, b"message", Rest::Open, &mut end.out),
            7
        );
        connection.consumed(stream, 7, limits, &mut end.out);
        for (kind, id, payload) in [
            (Kind::Ping, 0, &[0; 8][..]),
            (Kind::WindowUpdate, 0, &[0, 0, 0, 7]),
            (Kind::WindowUpdate, 1, &[0, 0, 0, 7]),
        ] {
            assert_eq!(end.frame(kind, 0, id, payload), Ok(Vec::new()));
        }
        end.out.clear();
    }
    // Control frames beyond the credit of the messages are counted.
    let ended = (0..=8_192 + 100).find_map(|_| end.frame(Kind::Ping, 0, 0, &[0; 8]).err());
    assert_eq!(ended, Some(Violation::Flood(Flood::Pings)));
}

/// A gRPC server sends the same frames for the messages that it receives.
#[test]
fn control_frames_of_a_server_that_receives_messages_are_no_flood() {
    let mut end = End::client(Limits::default());
    let opening = Opening {
        method: b"POST",
        scheme: b"http",
        authority: b"a",
        path: b"/",
        protocol: None,
    };
    let none = std::iter::empty();
    let opened = end
        .connection
        .open(&opening, none, false, &end.limits, &mut end.out);
    let stream = opened.expect("room");
    for _ in 0..20_000 {
        let sent = end
            .connection
            .send_data(stream, b"message", Rest::Open, &mut end.out);
        assert_eq!(sent, 7);
        for (kind, id, payload) in [
            (Kind::Ping, 0, &[0; 8][..]),
            (Kind::WindowUpdate, 0, &[0, 0, 0, 7]),
            (Kind::WindowUpdate, stream.number(), &[0, 0, 0, 7]),
        ] {
            assert_eq!(end.frame(kind, 0, id, payload), Ok(Vec::new()));
        }
        end.out.clear();
    }
}

/// A client may cancel any number of calls after their first message.
#[test]
fn resets_after_a_response_are_no_flood() {
    for is_released in [false, true] {
        let mut end = End::server(Limits::default());
        for id in (1..20_001).step_by(2) {
            let stream = end.open(id, true);
            end.answer(
                stream,
                b"message",
                if is_released { Rest::End } else { Rest::Open },
            );
            if is_released {
                end.release(stream);
            }
            end.connection.note_flushed();
            assert!(
                end.frame(Kind::RstStream, 0, id, &8u32.to_be_bytes())
                    .is_ok()
            );
            end.release(stream);
            assert!(
                end.frame(Kind::WindowUpdate, 0, 0, &7u32.to_be_bytes())
                    .is_ok()
            );
            end.out.clear();
        }
    }
}

/// An attacker does not wait for responses. Responses that exist when its RST_STREAM is read give no credit.
#[test]
fn limits_rapid_resets_despite_immediate_responses() {
    let attack = |end: &mut End| {
        let id = end.next_id();
        let stream = end.open(id, true);
        end.answer(stream, b"hello", Rest::End);
        end.release(stream);
        let told = end.frame(Kind::RstStream, 0, id, &8u32.to_be_bytes());
        end.connection.note_flushed();
        end.connection.send_window = 65_535;
        told
    };
    flood(Flood::Resets, 1000, 33, |_| {}, attack);
}

/// The number of streams that a client opens bounds the resets of a server.
#[test]
fn a_server_that_resets_every_stream_is_no_flood() {
    let mut end = End::client(Limits::default());
    let opening = Opening {
        method: b"GET",
        scheme: b"http",
        authority: b"a",
        path: b"/",
        protocol: None,
    };
    for _ in 0..5_000 {
        let none = std::iter::empty();
        let opened = end
            .connection
            .open(&opening, none, true, &end.limits, &mut end.out);
        let stream = opened.expect("room");
        let code = ErrorCode::REFUSED_STREAM.0.to_be_bytes();
        assert!(
            end.frame(Kind::RstStream, 0, stream.number(), &code)
                .is_ok()
        );
        end.release(stream);
        end.out.clear();
    }
    // A closed stream can be reset repeatedly, so these resets are counted.
    let ended = (0..3_000).any(|_| {
        end.frame(Kind::RstStream, 0, 1, &8u32.to_be_bytes())
            .is_err()
    });
    assert!(ended);
}

/// A large head consists of any number of full-size frames; `header_list_bytes_max` limits it.
#[test]
fn full_continuations_are_no_flood() {
    let limits = Limits {
        header_list_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let mut end = End::server(limits);
    let mut bytes = block(&USUAL);
    while bytes.len() < 40 * 16_384 {
        bytes.extend_from_slice(&block(&[("x-long", &"v".repeat(10_000))]));
    }
    let mut frames = bytes.chunks(16_384);
    let first = frames.next().expect("not empty");
    let flags = flag::END_STREAM;
    assert_eq!(end.frame(Kind::Headers, flags, 1, first), Ok(Vec::new()));
    let mut last = Ok(Vec::new());
    let len = frames.len();
    for (nth, frame) in frames.enumerate() {
        let flags = if nth + 1 == len { flag::END_HEADERS } else { 0 };
        last = end.frame(Kind::Continuation, flags, 1, frame);
    }
    assert_eq!(last, Ok(vec![Received::Request(1, true)]));
}

/// CVE-2024-27316: endless CONTINUATION frames.
#[test]
fn continuation_flood() {
    for payload in [&[][..], b"\0\x01a\x01b"] {
        let mut end = End::server(Limits::default());
        end.frame(Kind::Headers, 1, 1, &block(&USUAL))
            .expect("goes on");
        for _ in 0..20 {
            assert_eq!(end.frame(Kind::Continuation, 0, 1, payload), Ok(Vec::new()));
        }
        let told = end.frame(Kind::Continuation, 0, 1, payload);
        assert_eq!(told, Err(Violation::Flood(Flood::Continuations)));
        assert_eq!(go_away(&end.sent()), (0, ErrorCode::ENHANCE_YOUR_CALM));
    }
    // Few but large frames.
    let mut end = End::server(Limits::default());
    end.frame(Kind::Headers, 1, 1, &[0; 16_384])
        .expect("goes on");
    end.frame(Kind::Continuation, 0, 1, &[0; 16_384])
        .expect("goes on");
    assert!(end.connection.kept_bytes() < 100_000);
    let told = end.frame(Kind::Continuation, 0, 1, &[0; 16_384]);
    assert_eq!(told, Err(Violation::BlockTooLarge));
    assert!(end.connection.kept_bytes() < 1000);
}

/// One large entry and thousands of one-byte references to it.
#[test]
fn hpack_bomb() {
    let mut end = End::server(Limits::default());
    let mut block = vec![0x40, 1, b'x', 127, 0x81, 0x1e];
    block.extend([b'v'; 127 + 0x1e * 128 + 1]);
    block.splice(0..0, [0x82, 0x87, 0x84, 0x01, 1, b'a']);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    assert_eq!(
        end.frame(Kind::Headers, flags, 1, &block),
        Ok(vec![Received::Request(1, true)])
    );
    end.release(StreamId(1));
    let mut bomb = vec![0x82, 0x87, 0x84, 0x01, 1, b'a'];
    bomb.extend([0xbe; 16_000]);
    for id in 1..100 {
        let told = end.frame(Kind::Headers, flags, id * 2 + 1, &bomb);
        assert_eq!(
            told,
            Ok(vec![Received::Refused(id * 2 + 1, Refusal::HeadTooLarge)])
        );
    }
    assert!(
        end.message.text.capacity() < 65_536,
        "{}",
        end.message.text.capacity()
    );
}

/// CVE-2026-49975: one-byte `cookie` fields count as separate fields.
#[test]
fn cookie_bomb() {
    let mut end = End::server(Limits::default());
    let mut block = vec![0x82, 0x87, 0x84, 0x01, 1, b'a', 0x60, 1, b'c'];
    block.extend([0xbe; 200]);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let told = end.frame(Kind::Headers, flags, 1, &block);
    assert_eq!(
        told,
        Ok(vec![Received::Refused(1, Refusal::HeadersTooMany)])
    );
    block.truncate(9 + 120);
    let told = end.frame(Kind::Headers, flags, 3, &block);
    assert_eq!(told, Ok(vec![Received::Request(3, true)]));
}

/// SETTINGS that change every window, as often as the rate allows, cost no more than the number of streams.
#[test]
fn settings_move_windows_within_their_range() {
    let mut end = End::server(Limits::default());
    end.open(1, true);
    end.frame(Kind::WindowUpdate, 0, 1, &(i32::MAX - 65_535).to_be_bytes())
        .expect("goes on");
    let told = end.frame(Kind::Settings, 0, 0, b"\0\x04\0\x01\0\0");
    assert_eq!(told, Err(Violation::SettingWindow));
    assert_eq!(go_away(&end.sent()), (1, ErrorCode::FLOW_CONTROL_ERROR));
}

impl End {
    /// Returns the identifier of the next stream.
    fn next_id(&self) -> u32 {
        self.connection.peer_last + if self.connection.peer_last == 0 { 1 } else { 2 }
    }
}
