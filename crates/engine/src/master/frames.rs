//! Reads the position of a worker's handler from outside: the worker may be in a system call that
//! does not return, and a signal would interrupt it.
//!
//! A forked worker has the same addresses as the master. So the embedder describes once where its
//! current frame is, and the layout of frames, functions and strings. The worker runs while it is
//! read: a stale pointer yields a wrong position or an error, and has no other effect.

use std::io;

use fermata_io::process;

/// Maximum number of frames examined to find one with file and line.
const FRAMES_MAX: usize = 32;

/// Maximum number of bytes read of a name or path.
const TEXT_BYTES_MAX: usize = 200;

/// Layout of the embedder's frames: the address of the current frame, and offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// Address of the pointer to the innermost frame.
    pub current: usize,
    /// In a frame: pointer to its function.
    pub frame_function: usize,
    /// In a frame: pointer to the current instruction.
    pub frame_instruction: usize,
    /// In a frame: pointer to the calling frame.
    pub frame_caller: usize,
    /// In a function: its kind, one byte.
    pub function_kind: usize,
    /// The kind of native functions, which have no file and line.
    pub kind_native: u8,
    /// In a function: pointer to its name.
    pub function_name: usize,
    /// In a function: pointer to its class.
    pub function_class: usize,
    /// In a function that is not native: pointer to its file name.
    pub function_file: usize,
    /// In a function that is not native: the numbers of its first and of its last line, four bytes
    /// each.
    pub function_lines: [usize; 2],
    /// In a class: pointer to its name.
    pub class_name: usize,
    /// In an instruction: its line, four bytes.
    pub instruction_line: usize,
    /// In a string: its length, as wide as a pointer.
    pub string_length: usize,
    /// In a string: its first byte.
    pub string_bytes: usize,
}

impl Frames {
    /// Returns the position of the program of `pid`: `sleep() at /srv/server.php:12`.
    pub(super) fn place(&self, pid: process::Pid) -> io::Result<String> {
        let memory = Memory { pid };
        let mut frame = memory.pointer(self.current)?;
        let mut called = None;
        for _ in 0..FRAMES_MAX {
            if frame == 0 {
                break;
            }
            let function = memory.pointer(frame.wrapping_add(self.frame_function))?;
            if function != 0 {
                let kind = memory.bytes::<1>(function.wrapping_add(self.function_kind))?;
                let name = self.name(&memory, function)?;
                if kind[0] != self.kind_native {
                    let file = function.wrapping_add(self.function_file);
                    let file = self.text(&memory, memory.pointer(file)?)?;
                    let instruction = frame.wrapping_add(self.frame_instruction);
                    let instruction = memory.pointer(instruction)?;
                    let line = memory.bytes(instruction.wrapping_add(self.instruction_line))?;
                    // The frame may have changed during the read; at least the function is correct
                    // then.
                    let [first, last] = self.function_lines.map(|at| function.wrapping_add(at));
                    let first = u32::from_ne_bytes(memory.bytes(first)?);
                    let last = u32::from_ne_bytes(memory.bytes(last)?);
                    let line = Some(u32::from_ne_bytes(line));
                    let line = line
                        .filter(|line| (first..=last).contains(line))
                        .unwrap_or(first);
                    return Ok(format!("{} at {file}:{line}", called.unwrap_or(name)));
                }
                called = called.or(Some(name));
            }
            frame = memory.pointer(frame.wrapping_add(self.frame_caller))?;
        }
        Ok(called.unwrap_or_else(|| "no function".to_owned()))
    }

    fn name(&self, memory: &Memory, function: usize) -> io::Result<String> {
        let name = memory.pointer(function.wrapping_add(self.function_name))?;
        if name == 0 {
            return Ok("the script".to_owned());
        }
        let name = self.text(memory, name)?;
        let class = memory.pointer(function.wrapping_add(self.function_class))?;
        // Omit the class of a closure: its file and line identify it.
        if class == 0 || name.starts_with('{') {
            return Ok(format!("{name}()"));
        }
        let class = memory.pointer(class.wrapping_add(self.class_name))?;
        Ok(format!("{}::{name}()", self.text(memory, class)?))
    }

    fn text(&self, memory: &Memory, string: usize) -> io::Result<String> {
        let length = memory.pointer(string.wrapping_add(self.string_length))?;
        let mut bytes = [0; TEXT_BYTES_MAX];
        let bytes = &mut bytes[..length.min(TEXT_BYTES_MAX)];
        process::read_memory(memory.pid, string.wrapping_add(self.string_bytes), bytes)?;
        let end = if length > TEXT_BYTES_MAX { "…" } else { "" };
        Ok(format!("{}{end}", String::from_utf8_lossy(bytes)))
    }
}

struct Memory {
    pid: process::Pid,
}

impl Memory {
    fn bytes<const LEN: usize>(&self, address: usize) -> io::Result<[u8; LEN]> {
        let mut bytes = [0; LEN];
        process::read_memory(self.pid, address, &mut bytes)?;
        Ok(bytes)
    }

    fn pointer(&self, address: usize) -> io::Result<usize> {
        Ok(usize::from_ne_bytes(self.bytes(address)?))
    }
}
