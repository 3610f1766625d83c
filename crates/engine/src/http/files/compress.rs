//! Compression of complete bodies, limited in size; results for files are cached.
//!
//! Compression blocks the worker, so `compression_bytes_max` limits it; larger bodies are sent
//! uncompressed. Results for files are cached by the identity of the file's content, because files
//! are requested repeatedly.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::rc::Rc;

use fermata_proto::negotiate::Coding;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::FileKey;

/// Compression levels, each about as fast as a gigabit link.
const GZIP_LEVEL: u32 = 5;
const BROTLI_QUALITY: i32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// Logarithm of brotli's window size: enough for the largest body compressed by default.
const BROTLI_WINDOW_BITS: i32 = 19;
/// Buffer between brotli and its output, in bytes.
const BROTLI_BUFFER_BYTES: usize = 16 * 1024;

/// Header of a gzip member: deflate, no flags, no time, no extra flags, Unix (RFC 1952, section
/// 2.3).
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
/// Room for checksum and length at the end of a gzip member, and for deflate's overhead.
const GZIP_ROOM_BYTES: usize = 64;

/// Result of compressing a file.
#[derive(Clone, Debug)]
pub(crate) enum Compressed {
    /// The compressed bytes.
    Smaller(Rc<[u8]>),
    /// Compression does not make the content smaller.
    Not,
}

/// Compressors of a worker, created on first use, and cached results for files.
pub(crate) struct Compressors {
    gzip: Option<Compress>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    kept: HashMap<(FileKey, Coding), Compressed>,
    /// The keys of `kept`, oldest first.
    order: VecDeque<(FileKey, Coding)>,
    kept_bytes: usize,
    kept_bytes_max: usize,
}

/// Memory of a cache entry in bytes in addition to its content. Counting it also limits the number
/// of tiny entries.
const ENTRY_BYTES: usize = 256;

impl Compressors {
    pub fn new(kept_bytes_max: usize) -> Compressors {
        Compressors {
            gzip: None,
            zstd: None,
            kept: HashMap::new(),
            order: VecDeque::new(),
            kept_bytes: 0,
            kept_bytes_max,
        }
    }

    /// Returns the cached result for a file.
    pub fn kept(&self, key: FileKey, coding: Coding) -> Option<Compressed> {
        self.kept.get(&(key, coding)).cloned()
    }

    /// Compresses a file's content and caches the result.
    pub fn compress_file(&mut self, key: FileKey, coding: Coding, data: &[u8]) -> Compressed {
        let mut out = Vec::new();
        let compressed = if self.compress(coding, data, &mut out) {
            Compressed::Smaller(out.into())
        } else {
            Compressed::Not
        };
        self.keep((key, coding), compressed.clone());
        compressed
    }

    fn keep(&mut self, key: (FileKey, Coding), compressed: Compressed) {
        let bytes = cost(&compressed);
        if bytes > self.kept_bytes_max {
            return;
        }
        while self.kept_bytes + bytes > self.kept_bytes_max
            && let Some(oldest) = self.order.pop_front()
        {
            let removed = self.kept.remove(&oldest);
            self.kept_bytes -= removed.as_ref().map_or(0, cost);
        }
        if self.kept.insert(key, compressed).is_none() {
            self.order.push_back(key);
            self.kept_bytes += bytes;
        }
    }

    /// Appends the compressed `data`. Returns false and appends nothing if the result would not be
    /// smaller than `data`.
    pub fn compress(&mut self, coding: Coding, data: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let is_done = match coding {
            Coding::Gzip => self.gzip(data, out),
            Coding::Zstd => self.zstd(data, out),
            Coding::Brotli => brotli(data, out),
        };
        let is_smaller = is_done && out.len() - start < data.len();
        if !is_smaller {
            out.truncate(start);
        }
        is_smaller
    }

    fn gzip(&mut self, data: &[u8], out: &mut Vec<u8>) -> bool {
        let deflate = self
            .gzip
            .get_or_insert_with(|| Compress::new(Compression::new(GZIP_LEVEL), false));
        deflate.reset();
        // If the output does not fit into this room, `compress` returns `Status::Ok`, and
        // compression is not worthwhile.
        out.reserve(GZIP_HEAD.len() + data.len() + GZIP_ROOM_BYTES);
        out.extend_from_slice(&GZIP_HEAD);
        let status = deflate.compress_vec(data, out, FlushCompress::Finish);
        if !matches!(status, Ok(Status::StreamEnd)) {
            return false;
        }
        let mut checksum = Crc::new();
        checksum.update(data);
        out.extend_from_slice(&checksum.sum().to_le_bytes());
        out.extend_from_slice(&checksum.amount().to_le_bytes());
        true
    }

    fn zstd(&mut self, data: &[u8], out: &mut Vec<u8>) -> bool {
        if self.zstd.is_none() {
            self.zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        }
        let Some(compressor) = &mut self.zstd else {
            return false;
        };
        match compressor.compress(data) {
            Ok(bytes) => {
                out.extend_from_slice(&bytes);
                true
            }
            Err(_) => false,
        }
    }
}

fn cost(compressed: &Compressed) -> usize {
    ENTRY_BYTES
        + match compressed {
            Compressed::Smaller(bytes) => bytes.len(),
            Compressed::Not => 0,
        }
}

fn brotli(data: &[u8], out: &mut Vec<u8>) -> bool {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: BROTLI_QUALITY,
        lgwin: BROTLI_WINDOW_BITS,
        size_hint: data.len(),
        ..Default::default()
    };
    let mut writer = brotli::CompressorWriter::with_params(out, BROTLI_BUFFER_BYTES, &parameters);
    // `into_inner` writes the end of the stream.
    let is_written = writer.write_all(data).is_ok();
    writer.into_inner();
    is_written
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn text() -> Vec<u8> {
        "Each line of this text is like the others, so it becomes smaller.\n"
            .repeat(500)
            .into_bytes()
    }

    fn key(len: u64) -> FileKey {
        FileKey {
            device: 1,
            inode: 2,
            mtime_ns: 3,
            ctime_ns: 4,
            len,
        }
    }

    fn decompressed(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out),
            Coding::Zstd => {
                out = zstd::stream::decode_all(bytes).expect("a frame");
                Ok(out.len())
            }
            Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out),
        }
        .expect("well-formed");
        out
    }

    #[test]
    fn round_trips_compressed_data() {
        let mut compressors = Compressors::new(0);
        for coding in Coding::ALL {
            // Twice, because compressors are reused.
            for data in [text(), text()[..2000].to_vec()] {
                let mut out = b"before".to_vec();
                assert!(compressors.compress(coding, &data, &mut out));
                assert!(out.len() < data.len() / 4, "{coding:?}");
                assert_eq!(decompressed(coding, &out[6..]), data, "{coding:?}");
            }
        }
    }

    #[test]
    fn leaves_incompressible_data_unchanged() {
        let mut compressors = Compressors::new(1 << 20);
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .take(5000)
        .collect();
        for coding in Coding::ALL {
            let mut out = b"before".to_vec();
            assert!(
                !compressors.compress(coding, &noise, &mut out),
                "{coding:?}"
            );
            assert_eq!(out, b"before");
            let made = compressors.compress_file(key(1), coding, &noise);
            assert!(matches!(made, Compressed::Not));
            assert!(compressors.kept(key(1), coding).is_some());
        }
    }

    #[test]
    fn bounds_the_compression_cache() {
        let bytes_max = 3_000;
        let mut compressors = Compressors::new(bytes_max);
        for len in 0..100 {
            let made = compressors.compress_file(key(len), Coding::Gzip, &text());
            assert!(matches!(made, Compressed::Smaller(_)));
            assert!(compressors.kept_bytes <= bytes_max);
            assert_eq!(compressors.kept.len(), compressors.order.len());
        }
        assert!(compressors.kept(key(99), Coding::Gzip).is_some());
        assert!(compressors.kept(key(0), Coding::Gzip).is_none());
        let sum: usize = compressors.kept.values().map(cost).sum();
        assert_eq!(sum, compressors.kept_bytes);
    }
}
