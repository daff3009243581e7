//! Loading the programs and reaching their maps.

use libbpf_rs::btf::{Btf, types::Struct};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, ObjectBuilder, OpenObject, query};

use super::layout::{KIND_BYTES, Settings, Stats, encode_kind};
use crate::Error;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ranked.bpf.o"));
/// The names of the maps, which are those of the sections in `ranked.bpf.c`.
const SETTINGS: &str = ".data.settings";
const COUNTERS: &str = ".data.counters";
const FLOWS: &str = "flows";
const OPERATIONS: &str = "weir_ranked";
/// Beside those of `flows_max`: one for control, one for the excess, 16 for other traffic.
const FLOWS_EXTRA: u32 = 18;
/// The kernel's type around a qdisc's operations, there exactly where they can be BPF.
const KERNEL_TYPE: &str = "bpf_struct_ops_Qdisc_ops";

pub fn available() -> Result<(), Error> {
    if OBJECT.is_empty() {
        return Err(Error::missing(
            "this weir was built without clang and has no ranked qdisc: build it with clang 15 or newer",
        ));
    }
    let btf = Btf::from_vmlinux()
        .map_err(|_| Error::missing("ranked needs the kernel's type information (CONFIG_DEBUG_INFO_BTF)"))?;
    match btf.type_by_name::<Struct<'_>>(KERNEL_TYPE) {
        Some(_) => Ok(()),
        None => Err(Error::missing("this kernel has no BPF qdisc (Linux 6.16 or newer with CONFIG_NET_SCH_BPF)")),
    }
}

/// Loads the programs and makes the kernel know them by this name, until the link is dropped.
pub fn register(kind: &str, settings: &Settings) -> Result<Link, Error> {
    available()?;
    let refused = |error: libbpf_rs::Error| {
        let needs = if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            " (it needs root or CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN)"
        } else {
            ""
        };
        Error::other(format!("the kernel does not take the ranked qdisc{needs}"), error)
    };
    let mut open = open().map_err(refused)?;
    prepare(&mut open, kind, settings).map_err(refused)?;
    let mut object = open.load().map_err(refused)?;
    let mut operations = object.maps_mut().find(|map| map.name() == OPERATIONS).ok_or_else(foreign_object)?;
    operations.attach_struct_ops().map_err(refused)
}

fn open() -> libbpf_rs::Result<OpenObject> {
    if !cfg!(test) {
        // What goes wrong is told in one line by our errors.
        libbpf_rs::set_print(None);
    }
    let mut builder = ObjectBuilder::default();
    builder.name(OPERATIONS)?.open_memory(OBJECT)
}

fn prepare(open: &mut OpenObject, kind: &str, settings: &Settings) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            FLOWS => map.set_max_entries(settings.flows_max + FLOWS_EXTRA)?,
            SETTINGS => fill(map.initial_value_mut(), &settings.encode(kind)),
            COUNTERS | OPERATIONS => fill(map.initial_value_mut(), &encode_kind(kind)),
            _ => {}
        }
    }
    Ok(())
}

/// Writes the front of a map's initial value. All of ours begin with the kind's name.
fn fill(value: Option<&mut [u8]>, front: &[u8]) {
    let value = value.expect("the section has data");
    value[..front.len()].copy_from_slice(front);
}

fn foreign_object() -> Error {
    Error::new("the ranked qdisc's object is not the one this program was built with")
}

pub fn read_settings(kind: &str) -> Result<Settings, Error> {
    let (_, value) = find(kind, SETTINGS, SETTINGS_BYTES)?;
    Settings::decode(&value).ok_or_else(foreign_object)
}

pub fn write_settings(kind: &str, settings: &Settings) -> Result<(), Error> {
    let (map, _) = find(kind, SETTINGS, SETTINGS_BYTES)?;
    map.update(&ONLY_KEY, &settings.encode(kind), MapFlags::ANY)
        .map_err(|error| Error::other("writing the settings of the ranked qdisc", error))
}

pub fn read_stats(kind: &str) -> Result<Stats, Error> {
    let (_, value) = find(kind, COUNTERS, STATS_BYTES)?;
    Stats::decode(&value).ok_or_else(foreign_object)
}

const SETTINGS_BYTES: usize = KIND_BYTES + 2 * 8 + 6 * 4;
const STATS_BYTES: usize = KIND_BYTES + 8 * 8 + 4 * 4;
const ONLY_KEY: [u8; 4] = [0; 4];

/// The map of this name that belongs to the qdisc of this kind, and what is in it.
fn find(kind: &str, name: &str, bytes: usize) -> Result<(MapHandle, Vec<u8>), Error> {
    let kind = encode_kind(kind);
    for info in query::MapInfoIter::default() {
        if info.name != name || info.value_size as usize != bytes {
            continue;
        }
        // It may have gone since it was listed.
        let Ok(map) = MapHandle::from_map_id(info.id) else { continue };
        let Ok(Some(value)) = map.lookup(&ONLY_KEY, MapFlags::ANY) else { continue };
        if value.get(..KIND_BYTES) == Some(&kind[..]) {
            return Ok((map, value));
        }
    }
    Err(Error::new("reading the settings of the ranked qdisc: not found, or not allowed without root or CAP_SYS_ADMIN"))
}
