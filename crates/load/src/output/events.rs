//! Events of a run as lines of JSON for another program.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::Error;
use crate::summary::point_json;
use crate::totals::Point;

pub(crate) struct Events {
    file: File,
}

impl Events {
    pub fn create(path: &Path) -> Result<Self, Error> {
        let opened = File::create(path);
        let file = opened.map_err(Error::system(format!("writing {}", path.display())))?;
        Ok(Self { file })
    }

    pub fn show(&mut self, point: &Point, phase: &str) {
        let mut line = point_json(point);
        line["phase"] = phase.into();
        self.write(&line);
    }

    pub fn step(&mut self, name: &str, what: &str, now_us: u64) {
        self.write(&json!({"step": name, "event": what, "at_s": now_us as f64 / 1e6}));
    }

    fn write(&mut self, line: &Value) {
        // One write per line, so that a reader sees complete lines. The run continues if the reader is gone.
        let _ = self.file.write_all(format!("{line}\n").as_bytes());
    }
}
