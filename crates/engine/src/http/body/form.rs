//! A `multipart/form-data` body: fields are stored in memory, files in temporary files.

use fermata_config::Settings;
use fermata_proto::multipart::{Event, Parser, Part};

use super::spool::{Spool, Spools, Temporary};
use super::{BodyError, Unchosen, Upload};

/// An uploaded file of a form.
#[derive(Debug)]
pub struct UploadedFile {
    /// Name of the form field.
    pub field: Vec<u8>,
    /// File name at the client, without directories.
    pub name: Vec<u8>,
    /// `Content-Type` sent by the client.
    pub content_type: Option<Vec<u8>>,
    /// Length in bytes.
    pub bytes: u64,
    /// The temporary file.
    pub temporary: Temporary,
}

/// A form that is arriving.
pub(crate) struct Form {
    parser: Parser,
    collected: Collected,
}

struct Collected {
    limits: FormLimits,
    upload: Upload,
    open: Open,
    /// Total size of names and values of all fields, in bytes.
    field_bytes: usize,
}

struct FormLimits {
    file_bytes_max: u64,
    files_max: usize,
    fields_max: usize,
    field_bytes_max: usize,
    spools: Spools,
}

/// The part that is arriving.
enum Open {
    /// No part, or a part that is discarded: a file input without a file.
    Dropped,
    /// The last entry of `Upload::fields`.
    Field,
    File(Part, Spool),
}

impl Form {
    /// Returns the memory used by the fields so far, in bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.collected.field_bytes
    }

    /// Creates a form. A route's own body limit replaces the setting for file sizes.
    pub fn new(
        boundary: &[u8],
        settings: &Settings,
        spools: &Spools,
        own_bytes_max: Option<u64>,
    ) -> Form {
        let limits = FormLimits {
            file_bytes_max: own_bytes_max.unwrap_or(settings.upload_bytes_max as u64),
            files_max: settings.uploads_max,
            fields_max: settings.form_fields_max,
            field_bytes_max: settings.body_memory_bytes_max,
            spools: spools.clone(),
        };
        Form {
            parser: Parser::new(boundary),
            collected: Collected {
                limits,
                upload: Upload::default(),
                open: Open::Dropped,
                field_bytes: 0,
            },
        }
    }

    /// Parses the next bytes of the body.
    pub fn feed(&mut self, input: &[u8]) -> Result<(), BodyError> {
        let collected = &mut self.collected;
        self.parser.feed(input, &mut |event| collected.take(event))
    }

    /// Completes the form at the end of the body.
    pub fn finish(self) -> Result<Upload, BodyError> {
        self.parser.finish()?;
        Ok(self.collected.upload)
    }
}

impl Collected {
    fn take(&mut self, event: Event<'_>) -> Result<(), BodyError> {
        match event {
            Event::Part(part) => self.open = self.begin(part)?,
            Event::Data(data) => self.add(data)?,
            Event::PartEnd => {
                if let Open::File(part, spool) = std::mem::replace(&mut self.open, Open::Dropped) {
                    self.keep(part, spool);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, part: Part) -> Result<Open, BodyError> {
        match &part.filename {
            Some(filename) if filename.is_empty() => {
                // As in PHP, file fields without a selected file count neither as files nor as
                // fields. Drop fields beyond the limit.
                if self.upload.unchosen.len() < self.limits.fields_max {
                    self.count_field_bytes(part.name.len())?;
                    self.upload.unchosen.push(Unchosen {
                        name: part.name,
                        files_before: self.upload.files.len(),
                    });
                }
                Ok(Open::Dropped)
            }
            Some(_) => {
                let files_max = self.limits.files_max;
                if self.upload.files.len() == files_max {
                    let message = format!("The form has more than {files_max} files (uploads_max)");
                    return Err(BodyError::TooLarge(message));
                }
                let spool = self.limits.spools.create()?;
                Ok(Open::File(part, spool))
            }
            None => {
                let fields_max = self.limits.fields_max;
                if self.upload.fields.len() == fields_max {
                    let message =
                        format!("The form has more than {fields_max} fields (form_fields_max)");
                    return Err(BodyError::TooLarge(message));
                }
                self.count_field_bytes(part.name.len())?;
                self.upload.fields.push((part.name, Vec::new()));
                Ok(Open::Field)
            }
        }
    }

    fn add(&mut self, data: &[u8]) -> Result<(), BodyError> {
        match &mut self.open {
            Open::Dropped => Ok(()),
            Open::Field => {
                self.count_field_bytes(data.len())?;
                if let Some((_, value)) = self.upload.fields.last_mut() {
                    value.extend_from_slice(data);
                }
                Ok(())
            }
            Open::File(_, spool) => {
                let bytes_max = self.limits.file_bytes_max;
                if spool.bytes() + data.len() as u64 > bytes_max {
                    let message =
                        format!("A file is larger than {bytes_max} bytes (upload_bytes_max)");
                    return Err(BodyError::TooLarge(message));
                }
                spool.write(data)
            }
        }
    }

    fn count_field_bytes(&mut self, bytes: usize) -> Result<(), BodyError> {
        let bytes_max = self.limits.field_bytes_max;
        self.field_bytes += bytes;
        if self.field_bytes > bytes_max {
            let message = format!(
                "The fields of the form are larger than {bytes_max} bytes (body_memory_bytes_max)"
            );
            return Err(BodyError::TooLarge(message));
        }
        Ok(())
    }

    fn keep(&mut self, part: Part, spool: Spool) {
        let (temporary, bytes) = spool.finish();
        self.upload.files.push(UploadedFile {
            field: part.name,
            name: part.filename.unwrap_or_default(),
            content_type: part.content_type,
            bytes,
            temporary,
        });
    }
}
