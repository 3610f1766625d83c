//! File uploads that never complete.

use fermata_testkit::{Connection, wait_until};
use fermata_tests::memory::anonymous_kb;
use fermata_tests::temporary_files;

use crate::{builder, check_others, worker};

const CLIENTS: usize = 100;
const FILE_BYTES: usize = 1_000_000;
const DIRECTORY_BYTES: u64 = 8 << 20;
const GROWN_KB: usize = 24 << 10;

#[test]
fn bounds_memory_and_files_of_uploads_that_do_not_end() {
    let builder = builder();
    let folder = builder.directory().join("uploads");
    std::fs::create_dir(&folder).expect("the test's directory is new");
    let server = builder
        .setting("upload_directory", folder.display())
        .setting("upload_directory_bytes_max", DIRECTORY_BYTES)
        .start();
    let pid = worker(&server);
    let head = format!(
        "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=B\r\n\
         Content-Length: {}\r\n\r\n--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n",
        2 * FILE_BYTES
    );
    let part = [head.as_bytes(), &vec![b'x'; FILE_BYTES]].concat();
    check_others(&server);
    let before_kb = anonymous_kb(pid);
    let mut clients: Vec<Connection> = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = server.connect();
        // A client without a free slot is rejected before it has sent everything.
        let _ = client.try_send(&part);
        clients.push(client);
        check_others(&server);
        let entries = std::fs::read_dir(&folder).expect("it is there").flatten();
        let bytes: u64 = entries
            .filter_map(|it| Some(it.metadata().ok()?.len()))
            .sum();
        assert!(bytes <= DIRECTORY_BYTES, "{bytes} bytes");
    }
    let grown_kb = anonymous_kb(pid).saturating_sub(before_kb);
    assert!(grown_kb < GROWN_KB, "{grown_kb} kB more");
    drop(clients);
    wait_until("the files are gone", || {
        (temporary_files(&folder) == 0).then_some(())
    });
    assert_eq!(worker(&server), pid);
}
