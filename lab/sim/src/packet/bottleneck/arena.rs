use super::{Load, Packet};

const NONE: u32 = u32::MAX;

/// The memory for all packets of a queue. The lists share it, so that no packet is allocated once the queue has reached
/// its greatest length.
pub struct Arena {
    nodes: Vec<(Option<Packet>, u32)>,
    vacant: u32,
    pub packets: u32,
    pub bytes: u64,
    /// The part of these bytes in packets without data.
    pub control_bytes: u64,
}

/// A FIFO of packets in an [`Arena`].
#[derive(Clone, Copy)]
pub struct List {
    head: u32,
    tail: u32,
    pub packets: u32,
    pub bytes: u64,
}

impl Default for List {
    fn default() -> List {
        List { head: NONE, tail: NONE, packets: 0, bytes: 0 }
    }
}

impl List {
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

impl Default for Arena {
    fn default() -> Arena {
        Arena { nodes: Vec::new(), vacant: NONE, packets: 0, bytes: 0, control_bytes: 0 }
    }
}

impl Arena {
    pub fn push(&mut self, list: &mut List, packet: Packet) {
        let node = if self.vacant == NONE {
            self.nodes.push((None, NONE));
            self.nodes.len() as u32 - 1
        } else {
            let vacant = self.vacant;
            self.vacant = self.nodes[vacant as usize].1;
            vacant
        };
        self.nodes[node as usize] = (Some(packet), NONE);
        if list.packets == 0 {
            list.head = node;
        } else {
            self.nodes[list.tail as usize].1 = node;
        }
        list.tail = node;
        list.packets += 1;
        list.bytes += u64::from(packet.wire_bytes);
        self.packets += 1;
        self.bytes += u64::from(packet.wire_bytes);
        self.control_bytes += control_bytes(&packet);
    }

    pub fn pop(&mut self, list: &mut List) -> Option<Packet> {
        if list.packets == 0 {
            return None;
        }
        let node = list.head;
        let (packet, next) = self.nodes[node as usize];
        let packet = packet.expect("a listed node holds a packet");
        list.head = next;
        list.packets -= 1;
        list.bytes -= u64::from(packet.wire_bytes);
        self.packets -= 1;
        self.bytes -= u64::from(packet.wire_bytes);
        self.control_bytes -= control_bytes(&packet);
        self.nodes[node as usize] = (None, self.vacant);
        self.vacant = node;
        Some(packet)
    }
}

fn control_bytes(packet: &Packet) -> u64 {
    if matches!(packet.load, Load::Data { .. }) { 0 } else { u64::from(packet.wire_bytes) }
}
