use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

/// Mutated inputs per target.
const RUNS: usize = 10_000;

/// What mutations insert.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\0",
    b" ",
    b":",
    b",",
    b";",
    b"\"",
    b"\\",
    b"=",
    b"%",
    b"(",
    b")",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\xff",
    b"0",
    b"0x",
    b"99999999999999999999",
    b"Grip-Hold: stream\n",
    b"Grip-Channel: a; filter=b; prev-id=\"",
    b"; timeout=",
    b"\"channel\":\"c\"",
    b"\"http-stream\":{\"content\":\"x\"}",
    b"null",
    b"TEXT 5\r\n",
    b"CLOSE 2\r\n",
    b"c:{\"type\":",
    b"\x04\x06\x05READY",
    b"\x02\0\0\0\0\0\0\0\x05",
    b"%(a)s",
    b"1:a,",
    b"4:true!",
];

/// Small and repeatable random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound.max(1)
    }
}

/// Runs `body` over the seeds and over mutations of them. `FERMATA_SEED` repeats a run.
fn run(name: &str, body: fn(&[u8]), seeds: &[&[u8]]) {
    let seed = std::env::var("FERMATA_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |time| time.as_nanos() as u64 | 1)
    });
    let mut random = Random(seed.max(1));
    let mut inputs: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    for round in 0..RUNS {
        let input = match inputs.get(round) {
            Some(input) => input.clone(),
            None => {
                let mutated = mutate(&mut random, &inputs);
                // Some mutations are starting points themselves, so that changes add up.
                if random.below(8) == 0 {
                    inputs.push(mutated.clone());
                }
                mutated
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&input))) {
            eprintln!(
                "{name}: FERMATA_SEED={seed} fails at input {:?}",
                input.escape_ascii().to_string()
            );
            resume_unwind(panic);
        }
    }
}

fn mutate(random: &mut Random, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut input = inputs[random.below(inputs.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(5) {
            0 if at < input.len() => input[at] = random.below(256) as u8,
            1 if at < input.len() => input[at] ^= 1 << random.below(8),
            2 => {
                let end = (at + random.below(8)).min(input.len());
                input.drain(at..end);
            }
            3 => {
                let end = (at + random.below(40)).min(input.len());
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            _ => {
                let piece = PIECES[random.below(PIECES.len())];
                input.splice(at..at, piece.iter().copied());
            }
        }
    }
    input.truncate(2000);
    input
}

#[test]
fn grip_instruct() {
    run("grip_instruct", super::grip_instruct, &[
        b"",
        b"Grip-Hold: stream\nGrip-Channel: a; prev-id=1; filter=skip-self, b\nGrip-Keep-Alive: :\\n\\n; format=cstring; timeout=55",
        b"Grip-Link: </next>; rel=next; timeout=0, <x>; rel=gone\nGrip-Set-Meta: a=\"b\"\nGrip-Status: 404 No\nGrip-Last: a; last-id=\"5\"",
        br#"{"hold":{"mode":"stream","channels":[{"name":"a","filters":["x"]}],"keep-alive":{"content":"x"}},"response":{"code":200,"headers":[["A","b"]],"body-bin":"AAAA"}}"#,
    ]);
}

#[test]
fn grip_item() {
    run("grip_item", super::grip_item, &[
        b"",
        br#"{"items":[{"channel":"c","id":"1","meta":{"a":"b"},"http-response":{"code":200,"headers":{"A":"b"},"body-bin":"AAAA"}}]}"#,
        br#"J{"channel":"c","formats":{"ws-message":{"action":"close","code":1000,"reason":"x"}},"size":5,"no-seq":true}"#,
        b"T53:7:channel,1:c,11:http-stream,21:7:content,6:hello\n,}}",
        b"28:2:id,1:7,6:method,7:recover,}",
    ]);
}

#[test]
fn grip_events() {
    run("grip_events", super::grip_events, &[
        b"",
        b"OPEN\r\nTEXT 5\r\nhello\r\nBINARY 0x2\r\n\0\xff\r\nPING\r\nCLOSE 5\r\n\x03\xe8bye\r\nDISCONNECT\r\n",
        br#"c:{"type":"subscribe","channel":"a","filters":["b"]}"#,
        br#"{"type":"keep-alive","content-bin":"AA==","timeout":5,"mode":"interval"}"#,
        b"a; b=\"c\\\"d\"; e=f;; g",
    ]);
}

#[test]
fn grip_sig() {
    run("grip_sig", super::grip_sig, &[
        b"",
        b"eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLCJleHAiOjEzMDA4MTkzODB9.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        b"base64:Y2hhbmdlbWU=",
        b"file:x",
        include_bytes!("../../tests/keys/ec-sec1.pem"),
        include_bytes!("../../tests/keys/ec-public.pem"),
        include_bytes!("../../tests/keys/rsa-public.pem"),
    ]);
}

#[test]
fn grip_zmtp() {
    run(
        "grip_zmtp",
        super::grip_zmtp,
        &[
            b"",
            b"\0\x01\x02ab\0\x01c",
            b"\x01\0\x02\x01a\0\x01\0\x04\x0b\x09SUBSCRIBEb",
            b"\x02\x01\0\0\x05hello\x04\x07\x04PING\0\x01",
            b"\x40\xff\0\0\0\0\0\0\0\0\x7f\x03\x00NULL\0\0",
        ],
    );
}

#[test]
fn grip_template() {
    run(
        "grip_template",
        super::grip_template,
        &[b"", b"a%%b%Ic%(d\\)e)s", b"%", b"%(a"],
    );
}
