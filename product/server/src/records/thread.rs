//! The thread that writes rows, and at the end the manifest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;

use record::{FileError, JobRecord, Run};
use units::Nanos;

use super::manifest::{About, Tally};
use super::{Message, RecordsError, Row, Shared};
use crate::clock;
use crate::log::sink::{Complaints, Output, Sink};

pub(super) struct Writer {
    pub(super) received: Receiver<Message>,
    shared: Arc<Shared>,
    pub(super) parts: Parts,
    /// Of the file that is open.
    tally: Tally,
    /// Rows taken, of all files.
    rows: u64,
    records: Vec<JobRecord>,
    text: Vec<u8>,
}

/// What a writer is made of.
pub(super) struct Parts {
    pub(super) sink: Sink,
    complaints: Complaints,
    about: About,
    began_at: Nanos,
}

impl Parts {
    pub fn began_at(&self) -> Nanos {
        self.began_at
    }
}

/// Opens a file that holds no rows, in a folder without a finished run, and writes its first line.
pub(super) fn begin(path: &Path) -> Result<Output, RecordsError> {
    let failed = |error: io::Error| RecordsError::File(path.into(), error);
    if path.extension().is_some_and(|ending| ending == "parquet") {
        return Err(RecordsError::NotText(path.into()));
    }
    if Run::is_in(folder_of(path)) {
        return Err(RecordsError::TakenFolder(folder_of(path).into()));
    }
    let head = record::text_head();
    let length = fs::metadata(path).map_or(0, |found| if found.is_file() { found.len() } else { 0 });
    if length > head.len() as u64 {
        return Err(RecordsError::Taken(path.into()));
    }
    if length > 0 {
        // A head without rows is of a server that did not get as far as that.
        fs::File::options().write(true).truncate(true).open(path).map_err(failed)?;
    }
    Output::with_head(path, head).map_err(failed)
}

/// Of a bare name the working folder.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl Writer {
    pub fn parts(output: Output, complaints: Complaints, about: About, began_at: Nanos) -> Parts {
        Parts { sink: Sink::new("records", output), complaints, about, began_at }
    }

    pub fn new(parts: Parts, received: Receiver<Message>, shared: Arc<Shared>) -> Writer {
        let tally = Tally::new(parts.began_at);
        Writer { received, shared, parts, tally, rows: 0, records: Vec::new(), text: Vec::new() }
    }

    /// Until told to stop; gives what became of the manifest.
    pub fn run(mut self) -> Result<(), FileError> {
        while let Ok(message) = self.received.recv() {
            if self.handle(message) {
                return self.finish();
            }
        }
        // The workers ended, and nobody asked for a manifest: the server has failed.
        Ok(())
    }

    /// Returns whether to stop.
    pub fn handle(&mut self, message: Message) -> bool {
        if self.shared.reopen.swap(false, Relaxed) {
            self.reopen();
        }
        match message {
            Message::Rows(rows) => self.write(rows),
            Message::Wake => {}
            Message::Stop => return true,
        }
        false
    }

    fn reopen(&mut self) {
        if self.parts.sink.reopen(&mut self.parts.complaints) {
            let lost_before = (self.shared.rows_lost.load(Relaxed), self.parts.sink.lost());
            self.tally = self.tally.next(clock::now(), lost_before);
        }
    }

    fn write(&mut self, rows: Vec<Row>) {
        self.rows += rows.len() as u64;
        for row in rows {
            self.tally.add(&row);
            self.records.push(row.record);
        }
        record::text_rows(&mut self.text, &self.records);
        self.parts.sink.write(&self.text, &mut self.parts.complaints);
        self.records.clear();
        self.text.clear();
    }

    fn finish(mut self) -> Result<(), FileError> {
        let lost = (self.shared.rows_lost.load(Relaxed), self.parts.sink.lost());
        let (unsent, unwritten) = lost;
        if unsent + unwritten > 0 {
            let of = self.rows + unsent;
            self.parts.complaints.tell(&format!(
                "records: {} of {of} rows lost: {unsent} for want of room in memory, {unwritten} that could not be written",
                unsent + unwritten
            ));
        }
        if let Some(names) = self.shared.classes().take() {
            self.parts.about.classes = names;
        }
        let manifest = self.parts.about.manifest(&self.tally, lost, clock::now());
        Run::write_manifest(&PathBuf::from(folder_of(&self.parts.about.path)), &manifest)
    }
}
