use fermata_testkit::run_mutations;

/// Pieces that mutations insert.
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

fn run(name: &str, body: fn(&[u8]), seeds: &[&[u8]]) {
    run_mutations(name, PIECES, seeds, body);
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
