//! Request smuggling and framing, as a table of requests and responses.
//!
//! Smuggling needs two interpretations of the same bytes, one by a proxy in front and one by the
//! server. So in each case exactly one response arrives, then the connection closes, and the hidden
//! request never gets a response. The cases are those of RFC 9112 and of the public collections of
//! CL.TE, TE.CL, TE.TE and chunk attacks.

use fermata_testkit::{Random, Server};
use fermata_tests::fixture;

/// The request that an attacker tries to smuggle.
const SMUGGLED: &str = "GET /rooms/smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Name, header lines of a POST after `Host` (each with its line end), body, and expected status.
type Framing = (&'static str, &'static str, &'static str, u16);

/// Name, complete request, status.
type Whole = (&'static str, &'static str, u16);

/// Conflicting body lengths. By one of the two interpretations, `SMUGGLED` is a separate request.
#[rustfmt::skip] // one case, one line
const LENGTHS: &[Framing] = &[
    // CL.TE and TE.CL: both headers are present.
    ("CL.TE", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG", 400),
    ("TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "5c\r\n", 400),
    ("CL 0 and TE", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    ("TE identity and CL", "Transfer-Encoding: identity\r\nContent-Length: 1\r\n", "x", 400),
    ("TE unknown and CL", "Transfer-Encoding: cow\r\nContent-Length: 1\r\n", "x", 400),
    ("TE twice and CL", "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\nContent-Length: 4\r\n", "5c\r\n", 400),
    // CL.CL: two lengths, or one ambiguous length.
    ("CL 0, CL 5", "Content-Length: 0\r\nContent-Length: 5\r\n", "hello", 400),
    ("CL 5, CL 0", "Content-Length: 5\r\nContent-Length: 0\r\n", "hello", 400),
    ("CL twice the same", "Content-Length: 5\r\nContent-Length: 5\r\n", "hello", 400),
    ("CL in other case", "Content-Length: 5\r\ncONTENT-lENGTH: 0\r\n", "hello", 400),
    ("CL list of equals", "Content-Length: 5, 5\r\n", "hello", 400),
    ("CL list of others", "Content-Length: 0, 5\r\n", "hello", 400),
    ("CL list without space", "Content-Length: 5,0\r\n", "hello", 400),
    ("CL list with a hole", "Content-Length: ,5\r\n", "hello", 400),
    ("CL plus", "Content-Length: +5\r\n", "hello", 400),
    ("CL minus", "Content-Length: -5\r\n", "hello", 400),
    ("CL minus zero", "Content-Length: -0\r\n", "", 400),
    ("CL hexadecimal", "Content-Length: 0x5\r\n", "hello", 400),
    ("CL hexadecimal digit", "Content-Length: a\r\n", "0123456789", 400),
    ("CL exponent", "Content-Length: 5e0\r\n", "hello", 400),
    ("CL fraction", "Content-Length: 5.0\r\n", "hello", 400),
    ("CL underscore", "Content-Length: 1_0\r\n", "0123456789", 400),
    ("CL in quotes", "Content-Length: \"5\"\r\n", "hello", 400),
    ("CL with a parameter", "Content-Length: 5;x=1\r\n", "hello", 400),
    ("CL two words", "Content-Length: 5 0\r\n", "hello", 400),
    ("CL comment", "Content-Length: 5 (five)\r\n", "hello", 400),
    ("CL empty", "Content-Length:\r\n", "", 400),
    ("CL blank", "Content-Length: \t \r\n", "", 400),
    ("CL 2^64", "Content-Length: 18446744073709551616\r\n", "", 400),
    ("CL 2^64 + 5", "Content-Length: 18446744073709551621\r\n", "hello", 400),
    ("CL 2^64 - 1", "Content-Length: 18446744073709551615\r\n", "", 413),
    ("CL 2^63", "Content-Length: 9223372036854775808\r\n", "", 413),
    ("CL 2^32", "Content-Length: 4294967296\r\n", "", 413),
    ("CL full-width digit", "Content-Length: \u{ff15}\r\n", "hello", 400),
    ("CL no-break space", "Content-Length: \u{a0}5\r\n", "hello", 400),
    ("CL vertical tab", "Content-Length: \x0b5\r\n", "hello", 400),
    ("CL form feed", "Content-Length: \x0c5\r\n", "hello", 400),
    ("CL NUL behind", "Content-Length: 5\0\r\n", "hello", 400),
    ("CL space before colon", "Content-Length : 5\r\n", "hello", 400),
    ("CL tab before colon", "Content-Length\t: 5\r\n", "hello", 400),
    ("CL NUL before colon", "Content-Length\0: 5\r\n", "hello", 400),
    ("CL without colon", "Content-Length 5\r\n", "hello", 400),
    ("CL folded value", "Content-Length:\r\n 5\r\n", "hello", 400),
    ("CL folded in two", "Content-Length: 1\r\n 0\r\n", "0123456789", 400),
    ("CL after bare LF", "X: y\nContent-Length: 5\r\n", "hello", 400),
    ("CL after bare CR", "X: y\rContent-Length: 5\r\n", "hello", 400),
    ("CL after LF CR", "X: y\n\rContent-Length: 5\r\n", "hello", 400),
    ("CL before bare LF", "Content-Length: 5\n", "hello", 400),
    ("CL before CR CR LF", "Content-Length: 5\r\r\n", "hello", 400),
    ("CL indented", " Content-Length: 5\r\n", "hello", 400),
];

/// TE.TE: spellings of `Transfer-Encoding` that only some parsers accept as chunked.
#[rustfmt::skip] // one case, one line
const CODINGS: &[Framing] = &[
    ("TE space before colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n", 400),
    ("TE tab before colon", "Transfer-Encoding\t: chunked\r\n", "0\r\n\r\n", 400),
    ("TE xchunked", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", 501),
    ("TE chunkedx", "Transfer-Encoding: chunkedx\r\n", "0\r\n\r\n", 501),
    ("TE in single quotes", "Transfer-Encoding: 'chunked'\r\n", "0\r\n\r\n", 501),
    ("TE in double quotes", "Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n", 400),
    ("TE vertical tab", "Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n", 400),
    ("TE vertical tab behind", "Transfer-Encoding: chunked\x0b\r\n", "0\r\n\r\n", 400),
    ("TE form feed", "Transfer-Encoding: \x0cchunked\r\n", "0\r\n\r\n", 400),
    ("TE NUL behind", "Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n", 400),
    ("TE no-break space", "Transfer-Encoding: \u{a0}chunked\r\n", "0\r\n\r\n", 400),
    ("TE byte 0xff behind", "Transfer-Encoding: chunked\u{ff}\r\n", "0\r\n\r\n", 400),
    ("TE twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    ("TE then cow", "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n", "0\r\n\r\n", 400),
    ("TE cow, then chunked", "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 501),
    ("TE list twice", "Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", 400),
    ("TE list identity first", "Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n", 501),
    ("TE list identity last", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n", 400),
    ("TE list gzip first", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", 501),
    ("TE list gzip last", "Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n", 400),
    ("TE list with a hole", "Transfer-Encoding: chunked,\r\n", "0\r\n\r\n", 400),
    ("TE list begins with a hole", "Transfer-Encoding: , chunked\r\n", "0\r\n\r\n", 400),
    ("TE two words", "Transfer-Encoding: chunked cow\r\n", "0\r\n\r\n", 400),
    ("TE parameter", "Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n", 501),
    ("TE identity", "Transfer-Encoding: identity\r\n", "", 501),
    ("TE empty", "Transfer-Encoding:\r\n", "0\r\n\r\n", 400),
    ("TE folded", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n", 400),
    ("TE folded with tab", "Transfer-Encoding:\r\n\tchunked\r\n", "0\r\n\r\n", 400),
    ("TE folded away", "X: y\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    ("TE after bare LF", "X: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    ("TE after bare CR", "X: y\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    ("TE before bare LF", "Transfer-Encoding: chunked\n", "0\r\n\r\n", 400),
    ("TE before bare CR", "Transfer-Encoding: chunked\rX: y\r\n", "0\r\n\r\n", 400),
    ("TE indented", "\tTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
    ("TE bad name char", "Transfer-Encoding@: chunked\r\n", "0\r\n\r\n", 400),
    ("TE behind a colon", ": Transfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
];

/// Bodies with `Transfer-Encoding: chunked`.
#[rustfmt::skip] // one case, one line
const CHUNKS: &[Framing] = &[
    ("size 0x", "", "0x5\r\nhello\r\n0\r\n\r\n", 400),
    ("size 0X0", "", "0X0\r\n\r\n", 400),
    ("size plus", "", "+5\r\nhello\r\n0\r\n\r\n", 400),
    ("size minus", "", "-5\r\nhello\r\n0\r\n\r\n", 400),
    ("size underscore", "", "0_5\r\nhello\r\n0\r\n\r\n", 400),
    ("size of no digits", "", "\r\nhello\r\n0\r\n\r\n", 400),
    ("size only an extension", "", ";a=b\r\nhello\r\n0\r\n\r\n", 400),
    ("size letter g", "", "g\r\nhello\r\n0\r\n\r\n", 400),
    ("size h behind", "", "5h\r\nhello\r\n0\r\n\r\n", 400),
    ("size leading space", "", " 5\r\nhello\r\n0\r\n\r\n", 400),
    ("size trailing space", "", "5 \r\nhello\r\n0\r\n\r\n", 400),
    ("size trailing tab", "", "5\t\r\nhello\r\n0\r\n\r\n", 400),
    ("size NUL", "", "5\0\r\nhello\r\n0\r\n\r\n", 400),
    ("size full-width digit", "", "\u{ff15}\r\nhello\r\n0\r\n\r\n", 400),
    ("size comma", "", "5,0\r\nhello\r\n0\r\n\r\n", 400),
    ("size 2^64 + 5", "", "10000000000000005\r\nhello\r\n0\r\n\r\n", 400),
    ("size 2^64 - 1", "", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", 413),
    ("size 2^63", "", "8000000000000000\r\nhello\r\n0\r\n\r\n", 413),
    ("size 2^32 + 5", "", "100000005\r\nhello\r\n0\r\n\r\n", 413),
    ("sizes that overflow together", "", "5\r\nhello\r\nfffffffffffffffb\r\n", 413),
    ("size of many zeros", "", "00000000000000005\r\nhello\r\n0\r\n\r\n", 400),
    ("size before bare LF", "", "5\nhello\r\n0\r\n\r\n", 400),
    ("size before bare CR", "", "5\rhello\r\n0\r\n\r\n", 400),
    ("size before LF CR", "", "5\n\rhello\r\n0\r\n\r\n", 400),
    ("size before CR CR LF", "", "5\r\r\nhello\r\n0\r\n\r\n", 400),
    ("extension before bare LF", "", "5;a\nhello\r\n0\r\n\r\n", 400),
    ("extension with a bare CR", "", "5;a\rb\r\nhello\r\n0\r\n\r\n", 400),
    ("extension with NUL", "", "5;a\0\r\nhello\r\n0\r\n\r\n", 400),
    ("extension of the last chunk before LF", "", "0;a\n\r\n", 400),
    ("space without an extension", "", "5 a\r\nhello\r\n0\r\n\r\n", 400),
    ("data longer than told", "", "5\r\nhello!\r\n0\r\n\r\n", 400),
    ("data shorter than told", "", "6\r\nhello\r\n0\r\n\r\n", 400),
    ("data before bare LF", "", "5\r\nhello\n0\r\n\r\n", 400),
    ("data before bare CR", "", "5\r\nhello\r0\r\n\r\n", 400),
    ("data without an end", "", "5\r\nhello0\r\n\r\n", 400),
    ("data before two CRLF", "", "5\r\nhello\r\n\r\n0\r\n\r\n", 400),
    ("data before any two bytes", "", "5\r\nhelloxx0\r\n\r\n", 400),
    ("end with bare LF", "", "0\r\n\n", 400),
    ("end with bare CR", "", "0\r\n\rX", 400),
    ("end before LF LF", "", "0\n\n", 400),
    ("end with a space", "", "0\r\n \r\n\r\n", 400),
    ("end that is a request", "", "0\r\nGET /rooms/smuggled HTTP/1.1\r\n\r\n", 400),
    ("trailer without colon", "", "0\r\nX\r\n\r\n", 400),
    ("trailer without name", "", "0\r\n: y\r\n\r\n", 400),
    ("trailer space before colon", "", "0\r\nX : y\r\n\r\n", 400),
    ("trailer folded", "", "0\r\nX: y\r\n z\r\n\r\n", 400),
    ("trailer before bare LF", "", "0\r\nX: y\n\r\n", 400),
    ("trailer with bare CR", "", "0\r\nX: y\rZ: a\r\n\r\n", 400),
    ("trailer with NUL", "", "0\r\nX: \0\r\n\r\n", 400),
];

/// Request lines, hosts and names.
#[rustfmt::skip] // one case, one line
const HEADS: &[Whole] = &[
    ("LF line ends", "GET /rooms/1 HTTP/1.1\nHost: a\n\n", 400),
    ("CR line ends", "GET /rooms/1 HTTP/1.1\rHost: a\r\r", 400),
    ("LF at the end of the head", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\n", 400),
    ("CR CR at the end of the head", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\r\n", 400),
    ("two spaces before the target", "GET  /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("two spaces before the version", "GET /rooms/1  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("tab before the target", "GET\t/rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("tab before the version", "GET /rooms/1\tHTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("vertical tab before the version", "GET /rooms/1\x0bHTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("space before the method", " GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("space behind the version", "GET /rooms/1 HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
    ("words behind the version", "GET /rooms/1 HTTP/1.1 x\r\nHost: a\r\n\r\n", 400),
    ("two versions", "GET /rooms/1 HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("two targets", "GET /rooms/1 /rooms/2 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("no version", "GET /rooms/1\r\nHost: a\r\n\r\n", 400),
    ("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("empty target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("two empty lines in front", "\r\n\r\nGET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("bare LF in front", "\nGET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("bare CR in front", "\rGET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("byte order mark in front", "\u{feff}GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("NUL in front", "\0GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("method with NUL", "GE\0T /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("method in brackets", "(GET) /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("very long method", "GETGETGETGETGETGETGETGETGETGETGETGET / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ("CONNECT authority", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501),
    ("CONNECT path", "CONNECT /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ("CONNECT with a length", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 40\r\n\r\n", 501),
    ("authority target", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("relative target", "GET rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("query alone", "GET ?a=b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("fragment", "GET /rooms/1#x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("NUL in the target", "GET /rooms/\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("DEL in the target", "GET /rooms/\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("NUL escape in the path", "GET /rooms/%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("cut escape in the path", "GET /rooms/%2 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("scheme ftp", "GET ftp://a/rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("scheme with one slash", "GET http:/a/rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("absolute without a host", "GET http:///rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("absolute with a user", "GET http://u@a/rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("absolute with a bad port", "GET http://a:x/rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("absolute without Host", "GET http://a/rooms/1 HTTP/1.1\r\n\r\n", 400),
    ("version 0.9", "GET /rooms/1 HTTP/0.9\r\nHost: a\r\n\r\n", 505),
    ("version 2.0", "GET /rooms/1 HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ("version 1.10", "GET /rooms/1 HTTP/1.10\r\nHost: a\r\n\r\n", 400),
    ("version 01.1", "GET /rooms/1 HTTP/01.1\r\nHost: a\r\n\r\n", 400),
    ("version 1,1", "GET /rooms/1 HTTP/1,1\r\nHost: a\r\n\r\n", 400),
    ("version in lower case", "GET /rooms/1 http/1.1\r\nHost: a\r\n\r\n", 400),
    ("version of another protocol", "GET /rooms/1 ICAP/1.0\r\nHost: a\r\n\r\n", 400),
    ("no Host", "GET /rooms/1 HTTP/1.1\r\nX: y\r\n\r\n", 400),
    ("Host empty", "GET /rooms/1 HTTP/1.1\r\nHost:\r\n\r\n", 400),
    ("Host twice", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("Host twice the same", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("Host in other case", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nhOsT: b\r\n\r\n", 400),
    ("Host list", "GET /rooms/1 HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
    ("Host with a space", "GET /rooms/1 HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    ("Host with a path", "GET /rooms/1 HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ("Host with a user", "GET /rooms/1 HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
    ("Host with a scheme", "GET /rooms/1 HTTP/1.1\r\nHost: http://a\r\n\r\n", 400),
    ("Host with two ports", "GET /rooms/1 HTTP/1.1\r\nHost: a:80:81\r\n\r\n", 400),
    ("Host with a bad port", "GET /rooms/1 HTTP/1.1\r\nHost: a:8o\r\n\r\n", 400),
    ("Host with a large port", "GET /rooms/1 HTTP/1.1\r\nHost: a:65536\r\n\r\n", 400),
    ("Host with an open bracket", "GET /rooms/1 HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
    ("Host with text behind a bracket", "GET /rooms/1 HTTP/1.1\r\nHost: [::1].a\r\n\r\n", 400),
    ("Host with NUL", "GET /rooms/1 HTTP/1.1\r\nHost: a\0b\r\n\r\n", 400),
    ("Host with a backslash", "GET /rooms/1 HTTP/1.1\r\nHost: a\\b\r\n\r\n", 400),
    ("Host folded", "GET /rooms/1 HTTP/1.1\r\nHost:\r\n a\r\n\r\n", 400),
    ("Host space before colon", "GET /rooms/1 HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    ("Host as the first line, folded", "GET /rooms/1 HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    ("name with a space", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n", 400),
    ("name with brackets", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX[]: z\r\n\r\n", 400),
    ("name with quotes", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\"X\": z\r\n\r\n", 400),
    ("name with a slash", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX/Y: z\r\n\r\n", 400),
    ("name with umlaut", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nÄ: z\r\n\r\n", 400),
    ("name with NUL", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX\0: z\r\n\r\n", 400),
    ("name of no bytes", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\n: z\r\n\r\n", 400),
    ("line without a colon", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400),
    ("value with NUL", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n", 400),
    ("value with backspace", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX: y\x08z\r\n\r\n", 400),
    ("value with DEL", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX: y\x7fz\r\n\r\n", 400),
    ("value with bare CR", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n", 400),
    ("value folded", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", 400),
    ("value folded by an empty line", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nX: y\r\n \r\n\r\n", 400),
    ("chunked in 1.0", "POST /body HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("chunked and a length in 1.0", "POST /body HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    ("unknown expectation", "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\nx", 417),
    ("expectation twice", "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\nContent-Length: 1\r\n\r\nx", 417),
    ("TLS hello", "\x16\x03\x01\x02\0\x01\0\x01\x7c\x03\x03\r\n\r\n", 400),
];

/// Suspicious but valid requests: each gets a response, and so does the request after it.
#[rustfmt::skip] // one case, one line
const ALLOWED: &[Whole] = &[
    ("one empty line in front", "\r\nGET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    ("length with zeros in front", "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\n\r\nhello", 200),
    ("length with space around", "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length:\t 5 \t\r\n\r\nhello", 200),
    ("coding in capitals", "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200),
    ("size in capitals and zeros", "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n00A\r\n0123456789\r\n000\r\n\r\n", 200),
    ("extensions", "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\" ;c\r\nhello\r\n0;d\r\n\r\n", 200),
    ("trailers that would frame", "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\nHost: b\r\n\r\n", 200),
    ("body of a GET", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 43\r\n\r\nGET /rooms/smuggled HTTP/1.1\r\nHost: a\r\n\r\nxx", 200),
    ("chunked body of a GET", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n", 200),
    ("body of a DELETE", "DELETE /things/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxx", 204),
    ("absolute target, other Host", "GET http://b/rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    ("upgrade to HTTP/2", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200),
    ("upgrade to WebSocket where there is none", "GET /rooms/1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 200),
    ("length named as an option", "POST /body HTTP/1.1\r\nHost: a\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("coding with an underscore", "POST /body HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("length with an underscore", "POST /body HTTP/1.1\r\nHost: a\r\nContent_Length: 0\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("X- variants", "POST /body HTTP/1.1\r\nHost: a\r\nX-Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello", 200),
    ("HTTP/1.7", "GET /rooms/1 HTTP/1.7\r\nHost: a\r\n\r\n", 200),
];

/// Sends `attack` with a request after it, in one and in two pieces. Each time exactly one response
/// arrives, then the close.
#[track_caller]
fn check_refused(server: &Server, random: &mut Random, name: &str, attack: &[u8], status: u16) {
    let bytes = [attack, SMUGGLED.as_bytes()].concat();
    let split = random.within(1..attack.len());
    for pieces in [vec![&bytes[..]], vec![&bytes[..split], &bytes[split..]]] {
        let mut connection = server.connect();
        for piece in pieces {
            // The server may have responded and closed before it has read everything.
            let _ = connection.try_send(piece);
        }
        let response = connection.try_read_response(false);
        let response = response.unwrap_or_else(|error| panic!("{name}, {split}: {error}"));
        assert!(
            response.status() == status && response.head.connection_says("close"),
            "{name}, {split}: {} instead of {status} and the end",
            response.status()
        );
        let (rest, _) = connection.read_to_end();
        assert_eq!(
            String::from_utf8_lossy(&rest),
            "",
            "{name}, {split}: an answer behind the last"
        );
    }
}

#[track_caller]
fn check_framings(table: &[Framing], common: &str) {
    let server = fixture("http").workers(1).start();
    let mut random = Random::from_environment();
    for (name, lines, body, status) in table {
        let attack = format!("POST /body HTTP/1.1\r\nHost: a\r\n{common}{lines}\r\n{body}");
        check_refused(&server, &mut random, name, attack.as_bytes(), *status);
    }
    assert_eq!(server.connect().get("/rooms/1").text(), "1");
}

#[test]
fn lengths_that_can_be_read_in_two_ways() {
    check_framings(LENGTHS, "");
}

#[test]
fn codings_that_can_be_read_in_two_ways() {
    check_framings(CODINGS, "");
}

#[test]
fn chunks_that_can_be_read_in_two_ways() {
    check_framings(CHUNKS, "Transfer-Encoding: chunked\r\n");
}

#[test]
fn heads_that_can_be_read_in_two_ways() {
    let server = fixture("http").workers(1).start();
    let mut random = Random::from_environment();
    for (name, attack, status) in HEADS {
        check_refused(&server, &mut random, name, attack.as_bytes(), *status);
    }
    assert_eq!(server.connect().get("/rooms/1").text(), "1");
}

#[test]
fn what_is_allowed_has_one_answer_and_so_has_the_next_request() {
    let server = fixture("http").workers(1).start();
    for (name, bytes, status) in ALLOWED {
        let mut connection = server.connect();
        connection.send(format!(
            "{bytes}GET /rooms/next HTTP/1.1\r\nHost: a\r\n\r\n"
        ));
        let first = connection.try_read_response(false);
        let first = first.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(first.status(), *status, "{name}: {}", first.text());
        if bytes.starts_with("POST /body") {
            assert!(
                matches!(first.text(), "hello" | "0123456789"),
                "{name}: {}",
                first.text()
            );
        }
        assert_eq!(connection.read_response().text(), "next", "{name}");
    }
}

#[test]
fn a_method_in_lower_case_is_another_method_and_its_end_is_known() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send(
        "get /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\nGET /rooms/next HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(connection.read_response().status(), 501);
    assert_eq!(connection.read_response().text(), "next");
}

#[test]
fn a_thousand_pipelined_requests_are_answered_in_order_by_busy_workers() {
    const REQUESTS: usize = 1_000;
    const CONNECTIONS: usize = 8;
    let server = fixture("http").start();
    let mut random = Random::from_environment();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    let mut senders = Vec::new();
    for (which, connection) in connections.iter().enumerate() {
        let mut bytes = Vec::new();
        for n in 0..REQUESTS {
            let request = match random.within(0..3) {
                0 => format!("GET /rooms/{which}-{n} HTTP/1.1\r\nHost: a\r\n\r\n"),
                1 => {
                    let body = format!("{which}-{n}");
                    let len = body.len();
                    format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n{body}")
                }
                _ => {
                    let body = format!("{which}-{n}");
                    let len = body.len();
                    format!(
                        "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{len:x}\r\n{body}\r\n0\r\n\r\n"
                    )
                }
            };
            bytes.extend_from_slice(request.as_bytes());
        }
        senders.push(connection.send_in_background(bytes));
    }
    for (which, connection) in connections.iter_mut().enumerate() {
        for n in 0..REQUESTS {
            assert_eq!(connection.read_response().text(), format!("{which}-{n}"));
        }
    }
    for sender in senders {
        sender
            .join()
            .expect("the sender does not panic")
            .expect("all is sent");
    }
}
