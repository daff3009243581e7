#!/usr/bin/env python3
"""What the programs of `weir attach` cost a packet, of two builds in turn, by the kernel's own count (BPF_ENABLE_STATS).

    scripts/attach-cost.py OLD NEW [--slices 20] [--seconds 0.5] [--attach "--policy las"]      # as root; ip

Each build is attached in a router of its own, between a client and a server in namespaces, and the one file of both may
be the same. They take turns: in each slice one of them carries traffic. `host`: the server is on the attached host
itself, so its packets have a socket; `flow`: the router forwards them. `one core` pins everything to one processor,
`two cores` lets the client's side, acknowledgements included, run on another.

`warm` and `cold` need no traffic and bear a busy machine: the program runs on packets of 64 flows in turn (BPF_PROG_TEST_RUN),
as they are made here, and before each of them `cold` writes 4 MB, so that nothing of the program is in a cache near by.

Prints nanoseconds a packet: the least and the median slice of each build, and the median of the ratios of neighbouring
slices.
"""

import argparse, ctypes, os, shlex, socket, statistics, struct, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
PROG_QUERY, PROG_GET_FD_BY_ID, GET_INFO, ENABLE_STATS, TEST_RUN = 16, 13, 15, 32, 10
TCX_INGRESS, TCX_EGRESS = 46, 47
CLONE_NEWNET = 0x40000000
PORT = 8000
# Of `struct bpf_prog_info`.
JITED_LEN_AT, XLATED_LEN_AT, RUN_TIME_AT, INFO_BYTES = 16, 20, 192, 208


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = libc.syscall(BPF, command, buffer, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result, buffer.raw


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def enter(name):
    fd = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), name)
    os.close(fd)


class Counted:
    """A program that is attached; its runs and their time."""

    def __init__(self, number):
        self.fd, _ = bpf(PROG_GET_FD_BY_ID, struct.pack("II", number, 0).ljust(16, b"\0"))

    def info(self):
        info = ctypes.create_string_buffer(INFO_BYTES)
        bpf(GET_INFO, struct.pack("IIQ", self.fd, INFO_BYTES, ctypes.addressof(info)))
        return info.raw

    def read(self):
        return struct.unpack_from("QQ", self.info(), RUN_TIME_AT)

    def sizes(self):
        return struct.unpack_from("II", self.info(), JITED_LEN_AT)


def attached(side, interface):
    numbers = (ctypes.c_uint32 * 16)()
    attributes = struct.pack("IIIIQII", interface, side, 0, 0, ctypes.addressof(numbers), 16, 0).ljust(64, b"\0")
    _, answer = bpf(PROG_QUERY, attributes)
    return numbers[0] if struct.unpack_from("I", answer, 24)[0] else None


class Line:
    """Client, router and server in namespaces, with this build attached in the router where packets leave to the client."""

    def __init__(self, nth, weir, words):
        self.names = [f"weir-cost-{os.getpid()}-{nth}{side}" for side in "crs"]
        self.weir = weir
        client, router, server = self.names
        for name in self.names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for at, (name, subnet) in enumerate([(client, 1), (server, 2)]):
            run("ip", "-n", router, "link", "add", f"v{at}", "mtu", "1500", "gso_max_segs", "1", "type", "veth", "peer", "name",
                "v", "mtu", "1500", "gso_max_segs", "1", "netns", name)
            run("ip", "-n", router, "address", "add", f"198.18.{subnet}.1/24", "dev", f"v{at}")
            run("ip", "-n", name, "address", "add", f"198.18.{subnet}.2/24", "dev", "v")
            run("ip", "-n", router, "link", "set", f"v{at}", "up")
            run("ip", "-n", name, "link", "set", "v", "up")
            run("ip", "-n", name, "route", "add", "default", "via", f"198.18.{subnet}.1")
        run("ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        run("ip", "netns", "exec", router, weir, "attach", "v0", "--port", str(PORT), "--rate", "4gbit", "--no-watch",
            "--client-share", "off", *words)
        self.programs = None

    def open(self):
        """Must be called within the router."""
        index = socket.if_nametoindex("v0")
        self.programs = [Counted(attached(side, index)) for side in (TCX_EGRESS, TCX_INGRESS)]

    def remove(self):
        client, router, server = self.names
        subprocess.run(["ip", "netns", "exec", router, self.weir, "attach", "--detach", "v0"], stdout=subprocess.DEVNULL)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name])


def forked(namespace, cpu, action):
    """Runs the action in a process of its own, in this namespace. Returns its number."""
    child = os.fork()
    if child:
        return child
    try:
        enter(namespace)
        os.sched_setaffinity(0, {cpu})
        action()
        os._exit(0)
    except KeyboardInterrupt:
        os._exit(1)
    except BaseException as error:
        print(error, file=sys.stderr)
        os._exit(1)


def serve():
    listener = socket.create_server(("", PORT), backlog=128)

    def answer(connection):
        body = bytes(1 << 20)
        while request := connection.recv(4, socket.MSG_WAITALL):
            left = struct.unpack("I", request)[0]
            while left:
                left -= connection.send(body[:left])

    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def fetch(host, connections, response_bytes, seconds):
    until = time.monotonic() + seconds

    def one():
        with socket.create_connection((host, PORT)) as connection:
            room = bytearray(65536)
            while time.monotonic() < until:
                connection.sendall(struct.pack("I", response_bytes))
                left = response_bytes
                while left:
                    left -= connection.recv_into(room, min(left, len(room)))

    threads = [threading.Thread(target=one) for _ in range(connections)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def slice_of(line, host, cpus, args):
    client = line.names[0]
    before = [program.read() for program in line.programs]
    child = forked(client, cpus[1], lambda: fetch(host, args.connections, args.bytes, args.seconds))
    _, status = os.waitpid(child, 0)
    assert status == 0
    out = []
    for program, (ns, runs) in zip(line.programs, before):
        ns_now, runs_now = program.read()
        out.append(((ns_now - ns) / max(1, runs_now - runs), runs_now - runs))
    return out


def steer(line, cpu):
    """Lets packets that arrive at the client be processed by this processor, and with them its acknowledgements."""
    mask = f"{1 << cpu:x}" if cpu is not None else "0"
    run("ip", "netns", "exec", line.names[0], "sh", "-c", f"mount -t sysfs weir /sys 2>/dev/null; echo {mask} > /sys/class/net/v/queues/rx-0/rps_cpus")


def compare(lines, kind, cores, args):
    server_cpu, client_cpu = (1, 1) if cores == 1 else (1, 0)
    servers = []
    for line in lines:
        steer(line, client_cpu if cores == 2 else None)
        where = line.names[1] if kind == "host" else line.names[2]
        servers.append(forked(where, server_cpu, serve))
    time.sleep(0.3)
    host = "198.18.1.1" if kind == "host" else "198.18.2.2"
    found = [[], []]
    try:
        for nth in range(args.slices):
            for which in (0, 1) if nth % 2 else (1, 0):
                found[which].append(slice_of(lines[which], host, (server_cpu, client_cpu), args))
    finally:
        for server in servers:
            os.kill(server, 9)
            os.waitpid(server, 0)
    for at, name in enumerate(["leaving", "arriving"]):
        if not found[0][0][at][1]:
            continue
        old, new = [[one[at][0] for one in found[which]] for which in (0, 1)]
        ratio = statistics.median(n / o for n, o in zip(new, old))
        packets = sum(one[at][1] for one in found[1])
        print(f"{kind:5} {cores} core{'s' if cores > 1 else ' '} {name:8} least {min(old):6.0f} -> {min(new):6.0f}, median "
              f"{statistics.median(old):6.0f} -> {statistics.median(new):6.0f} ns, ratio {ratio:.2f} ({packets} packets)", flush=True)


def frame(flow, seq, is_answer):
    """A segment of 1,000 bytes to this client, or its acknowledgement."""
    ports, addresses = (PORT, 40_000), (b"\xc6\x12\2\2", bytes([198, 18, 1, flow]))
    body = b"" if is_answer else bytes(1000)
    numbers = (seq, 9)
    if is_answer:
        ports, addresses, numbers = ports[::-1], addresses[::-1], (9, seq + 1000)
    tcp = struct.pack(">HHIIBBHHH", *ports, *numbers, 0x50, 0x10, 1, 0, 0) + body
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + b"".join(addresses) + tcp
    return bytes(12) + b"\x08\0" + ip


def run_on(program, data):
    # Of `union bpf_attr`: descriptor, result, sizes and places of the packet before and after, repetitions, duration.
    place = ctypes.cast(data, ctypes.c_void_p).value
    bpf(TEST_RUN, struct.pack("IIIIQQII", program.fd, 0, len(data), 0, place, 0, 1, 0).ljust(80, b"\0"))


def compare_made(lines, kind, args):
    """Runs the programs on packets that are made here; each flow sends, and is acknowledged, in turn."""
    flows, rounds = 64, 1 if kind == "cold" else 20
    soil = ctypes.create_string_buffer(4 << 20)
    found = [[[], []], [[], []]]
    seq = 1000
    for nth in range(args.slices + 1):
        for which in (0, 1) if nth % 2 else (1, 0):
            programs = lines[which].programs
            sums = [[0, 0], [0, 0]]
            for at in range(rounds):
                for is_answer, program in enumerate(programs):
                    before = program.read()
                    for flow in range(1, flows + 1):
                        if kind == "cold":
                            ctypes.memset(soil, nth, len(soil))
                        run_on(program, frame(flow, (seq + 1000 * at) & 0xffffffff, is_answer))
                    for field, (then, now) in enumerate(zip(before, program.read())):
                        sums[is_answer][field] += now - then
            for is_answer, (ns, runs) in enumerate(sums):
                found[is_answer][which].append(ns / runs)
        seq += 1000 * rounds
    for name, (old, new) in zip(["leaving", "arriving"], found):
        # In the first slice the flows were new.
        old, new = old[1:], new[1:]
        ratio = statistics.median(n / o for n, o in zip(new, old))
        print(f"{kind:12} {name:8} least {min(old):6.0f} -> {min(new):6.0f}, median {statistics.median(old):6.0f} -> "
              f"{statistics.median(new):6.0f} ns, ratio {ratio:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--slices", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--bytes", type=int, default=100_000)
    parser.add_argument("--attach", default="")
    parser.add_argument("--kinds", default="host,flow")
    parser.add_argument("--cores", default="1,2")
    args = parser.parse_args()
    stats, _ = bpf(ENABLE_STATS, struct.pack("I", 0).ljust(16, b"\0"))
    lines = []
    try:
        for nth, weir in enumerate([args.old, args.new]):
            lines.append(Line(nth, os.path.abspath(weir), shlex.split(args.attach)))
        for line in lines:
            enter(line.names[1])
            line.open()
            print(*(f"{side} {jited} bytes of machine code, {xlated // 8} instructions;"
                    for side, (jited, xlated) in zip(["leaving", "arriving"], [p.sizes() for p in line.programs])))
        for kind in args.kinds.split(","):
            if kind in ("warm", "cold"):
                compare_made(lines, kind, args)
                continue
            for cores in args.cores.split(","):
                compare(lines, kind, int(cores), args)
    finally:
        for line in lines:
            line.remove()
        os.close(stats)


main()
