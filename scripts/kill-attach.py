#!/usr/bin/env python3
"""SIGKILL at each system call of `weir attach` that changes something, in turn: do packets still pass, and does a detach restore all?

    scripts/kill-attach.py [--weir target/debug/weir] [--only attach,detach] [--every 1] [--most N] [--all] [--fail ENOSPC]    # as root, with strace

Each command of CASES runs once under strace to its end, which numbers its calls; then once for each call, and is killed as the call begins. What a kill between
two changes leaves is what a kill at the later one leaves; --all kills at the others too. After each kill a host at the other end fetches, and the even
kills are followed by `weir attach --detach`, the odd by `weir apply` and a detach. Then queues, filters, programs, packet sizes and the files in /run/weir
must be as before. With --fail the call fails with this error instead: the command must succeed, or say one line and leave everything as it was. Status 1
means that something was not so. The network is of two namespaces of its own."""

import argparse, ctypes, os, re, shutil, signal, socket, subprocess, sys, tempfile, threading, time

SERVER, PORT, FETCH_BYTES, FETCH_S, GONE_S, TRIAL_S = "198.18.61.1", 80, 20_000, 5, 3, 2
ATTACH = "attach uplink --rate 9mbit --no-watch --replace"
APPLY = "apply --file {file}"
SAVE = ATTACH + " --save={file}"
CLASSES = '[[uplink.class]]\nname = "gold"\nmin_rate = "20%"\n[[uplink.class.rule]]\nport = 443\n'
# What precedes the command, the command, and whether the kernel is without TCX.
CASES = {
    "attach": ([], ATTACH, False),
    "auto": ([], "attach uplink --no-watch --replace", False),
    "again": ([ATTACH], "attach uplink --rate 5mbit --policy las --port 80,8080 --no-watch", False),
    "detach": ([ATTACH], "attach --detach uplink", False),
    "save": ([], SAVE, False),
    "apply": ([], APPLY, False),
    "apply-rate": (["attach uplink --rate 5mbit --no-watch --replace"], APPLY, False),
    "apply-classes": ([ATTACH, "CLASSES"], APPLY, False),
    "detach-save": ([SAVE], "attach --detach uplink --save={file}", False),
    "try": ([], "attach uplink --rate 9mbit --replace --try 18s", False),
    "try-over": ([ATTACH], "attach uplink --rate 5mbit --try 18s", False),
    "clsact-attach": ([], ATTACH, True),
    "clsact-again": ([ATTACH], "attach uplink --rate 5mbit --policy las --no-watch", True),
    "clsact-detach": ([ATTACH], "attach --detach uplink", True),
}
FILES = ["rename", "unlink", "write", "mkdir", "flock", "ftruncate", "fsync", "fchmod", "fchown", "openat"]
BPF, PROG_QUERY, INGRESS, EGRESS = {"x86_64": 321, "aarch64": 280}[os.uname().machine], 16, 46, 47
libc = ctypes.CDLL(None, use_errno=True)


def is_change(name, call):
    """True if this line of strace is of a call that changes more than the process."""
    return {"sendto": re.search(r"nlmsg_type=(RTM_(NEW|DEL|SET)|0x13)", call), "openat": "O_CREAT" in call or "O_TRUNC" in call,
            "bpf": re.match(r"bpf\(BPF_(PROG_(ATTACH|DETACH|LOAD)|LINK_\w+|MAP_(CREATE|UPDATE_ELEM))", call),
            "write": not re.match(r"write\([12],", call)}.get(name, name in FILES)


def bpf(command, words, size=128):
    memory = (ctypes.c_uint8 * size)()
    ctypes.memmove(memory, words, len(words))
    found = libc.syscall(BPF, command, memory, size)
    return found, memory


def u32(*numbers):
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def at(host, action):
    """Does something in a namespace, on a thread of its own."""
    result = []

    def inside():
        with open(f"/run/netns/{host}") as network:
            assert libc.setns(network.fileno(), 0x40000000) == 0
        try:
            result.append(action())
        except OSError as error:
            result.append(error)
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    return result[0]


def programs(interface):
    """The numbers of the programs at TCX, before and after the queues."""
    found = []
    for side in (INGRESS, EGRESS):
        ids = (ctypes.c_uint32 * 64)()
        status, memory = bpf(PROG_QUERY, u32(interface, side, 0, 0) + ctypes.addressof(ids).to_bytes(8, "little") + u32(64))
        count = int.from_bytes(bytes(memory[24:28]), "little") if status == 0 else 0
        found.append([int(number) for number in ids[:count]])
    return found


def is_there(number, command):
    """True if a program (13) or a map (14) with this number exists."""
    descriptor, _ = bpf(command, u32(number))
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor >= 0


def maps_of(program):
    descriptor, _ = bpf(13, u32(program))
    if descriptor < 0:
        return []
    ids, info = (ctypes.c_uint32 * 32)(), (ctypes.c_uint8 * 232)()
    ctypes.memmove(ctypes.byref(info, 52), u32(32) + ctypes.addressof(ids).to_bytes(8, "little"), 12)
    bpf(15, u32(descriptor, 232) + ctypes.addressof(info).to_bytes(8, "little"))
    os.close(descriptor)
    return [int(number) for number in ids if number]


def without_tcx():
    """Lets the kernel answer as one without TCX: a filter for this process and its children."""
    def step(code, jump_true, jump_false, value):
        return code.to_bytes(2, "little") + bytes([jump_true, jump_false]) + u32(value)
    steps = [step(0x20, 0, 0, 0), step(0x15, 0, 3, BPF), step(0x20, 0, 0, 16), step(0x15, 0, 1, PROG_QUERY), step(0x06, 0, 0, 0x50016), step(0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(steps))
    filter = ctypes.create_string_buffer(len(steps).to_bytes(8, "little") + ctypes.addressof(code).to_bytes(8, "little"))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter) == 0


class Network:
    """Two hosts joined by a cable, a queue and packet sizes of somebody else's on the server's interface, and a macvlan above it."""
    count = 0

    def __init__(self, weir):
        Network.count += 1
        self.weir, name = weir, f"weir-test-{os.getpid()}-{Network.count}"
        self.server, self.client, self.folder = name + "-s", name + "-c", tempfile.mkdtemp(prefix="weir-kill-")
        self.file = self.folder + "/attach.toml"
        for command in (f"netns add {self.server}", f"netns add {self.client}", f"link add uplink netns {self.server} type veth peer name downlink netns {self.client}",
                        f"-n {self.server} address add {SERVER}/24 dev uplink", f"-n {self.client} address add 198.18.61.2/24 dev downlink",
                        f"-n {self.server} link set uplink gso_max_segs 40", f"-n {self.server} link add above link uplink type macvlan mode bridge",
                        f"-n {self.server} link set lo up", f"-n {self.server} link set uplink up", f"-n {self.client} link set downlink up"):
            subprocess.run(["ip", *command.split()], check=True)
        subprocess.run(["tc", "-n", self.server, *"qdisc add dev uplink root handle 77: pfifo limit 33".split()], check=True)
        self.number = os.stat(f"/run/netns/{self.server}").st_ino
        self.index = int(self.read("ip -o link show uplink").split(":")[0])
        self.listener = at(self.server, lambda: socket.create_server((SERVER, PORT)))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(FETCH_S)
                try:
                    connection.recv(100)
                    connection.sendall(bytes(FETCH_BYTES))
                except OSError:
                    pass

    def fetch(self):
        def fetched():
            with socket.create_connection((SERVER, PORT), FETCH_S) as connection:
                connection.settimeout(FETCH_S)
                connection.sendall(b"GET /")
                return sum(iter(lambda: len(connection.recv(65536)), 0))
        return at(self.client, fetched) == FETCH_BYTES

    def read(self, command):
        return subprocess.run(["ip", "netns", "exec", self.server, *command.split()], capture_output=True, text=True).stdout

    def run(self, words, tool=(), tcx=True, until=None):
        command = ["ip", "netns", "exec", self.server, *tool, self.weir, *words.format(file=self.file).split()]
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=None if tcx else without_tcx)
        if until:
            threading.Timer(until, lambda: self.end(started)).start()
        said, _ = started.communicate(timeout=120)
        return started.returncode, said

    def end(self, started):
        """Ends a trial early, as ctrl-c does: the program is the child of strace."""
        for child in open(f"/proc/{started.pid}/task/{started.pid}/children").read().split() if started.poll() is None else []:
            try:
                os.kill(int(child), signal.SIGTERM)
            except ProcessLookupError:
                pass

    def records(self):
        return sorted(name for name in os.listdir("/run/weir") if f"-{self.number}-" in name and not name.startswith("change-")) if os.path.isdir("/run/weir") else []

    def state(self):
        shown = [self.read(command) for command in ("tc qdisc show dev uplink", "tc class show dev uplink", "tc filter show dev uplink egress", "tc filter show dev uplink ingress")]
        links = self.read("ip -d -o link show")
        sizes = [re.findall(r"(?:^\d+: (\S+?):|(g[sr]o_\w+ \d+))", line) for line in links.splitlines()]
        return re.sub(r" refcnt \d+", "", "".join(shown)) + f"{sizes}\n{at(self.server, lambda: programs(self.index))}\n{self.records()}"

    def delete(self):
        self.listener.close()
        for host in (self.server, self.client):
            subprocess.run(["ip", "netns", "delete", host])
        for name in self.records() + [f"change-{self.number}-{self.index}"]:
            if os.path.exists("/run/weir/" + name):
                os.remove("/run/weir/" + name)
        shutil.rmtree(self.folder)


class Sweep:
    def __init__(self, flags, name):
        self.flags, self.name, (self.before, self.command, self.no_tcx) = flags, name, CASES[name]
        self.kills = self.failures = 0
        self.make()

    def make(self):
        self.network = Network(self.flags.weir)
        self.clean = self.network.state()

    def weir(self, words, **more):
        return self.network.run(words, tcx=not self.no_tcx, **more)

    def prepare(self):
        """The table that `weir apply` finds, then what precedes the command."""
        with open(self.network.file, "w") as file:
            file.write('[uplink]\nport = [80, 443]\nrate = "9mbit"\nreplace = true\n')
        for words in self.before:
            if words == "CLASSES":
                with open(self.network.file, "a") as file:
                    file.write(CLASSES)
                continue
            status, said = self.weir(words)
            assert status == 0, f"{words}: {said}"

    def calls(self):
        """The calls of a whole run: name, number among those of that name, and the line of strace."""
        self.prepare()
        log, names, found = self.network.folder + "/strace", {}, []
        until = TRIAL_S if "--try" in self.command else None
        status, said = self.weir(self.command, tool=["strace", "-f", "-o", log], until=until)
        assert status == 0 or until, said
        begun = False
        for line in open(log):
            match = re.match(r"\d+ +((\w+)\(.*)", line)
            if match:
                call, name = match.groups()
                names[name] = names.get(name, 0) + 1
                if begun and (self.flags.all or is_change(name, call)):
                    found.append((name, names[name], call.strip()))
                begun = True
        assert self.recover(0)[0], "a run to its end is not undone"
        return found

    def recover(self, turn):
        said = []
        for words in ["attach --detach uplink"] if turn % 2 == 0 else [APPLY, "attach --detach uplink"]:
            status, text = self.weir(words)
            if status and "has no classifier of weir; run" not in text:
                said.append(f"`weir {words}` failed: {text.strip()}")
        now = self.network.state()
        if now != self.clean:
            said.append(f"before:\n{self.clean}\nafter:\n{now}")
        others = [name for name in os.listdir(self.network.folder) if name not in ("attach.toml", "strace")]
        # A kill may leave what was being written; the next writer replaces it.
        if len(others) > 1:
            said.append(f"files beside the table: {others}")
        return not said, "\n".join(said)

    def fail(self, name, number, call):
        """Lets the call fail. Returns what is wrong afterwards."""
        self.prepare()
        before = self.network.state()
        tool = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:error={self.flags.fail}:when={number}"]
        status, said = self.weir(self.command, tool=tool, until=TRIAL_S if "--try" in self.command else None)
        lines = [line for line in said.splitlines() if " interfaces are not as " not in line]
        failed = [] if self.network.fetch() else ["no packet passes"]
        if status and (status != 1 or len(lines) != 1 or not lines[0].startswith("weir: ")):
            failed.append(f"status {status}: {said}")
        if status and "detach" not in self.command and ", but not saved: " not in said and (now := self.network.state()) != before:
            failed.append(f"{said}before:\n{before}\nafter:\n{now}")
        is_whole, text = self.recover(0)
        return failed + ([] if is_whole else [text]), f"{status}: {said.strip().splitlines()[:1]}"

    def kill(self, name, number, call, turn):
        self.prepare()
        tool = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}"]
        status, _ = self.weir(self.command, tool=tool, until=TRIAL_S if "--try" in self.command else None)
        if status not in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return print(f"{self.name}: {name} {number} was not reached ({status})", flush=True)
        self.kills += 1
        failed = [] if self.network.fetch() else ["no packet passes"]
        left = [program for side in at(self.network.server, lambda: programs(self.network.index)) for program in side]
        maps = [number for program in left for number in maps_of(program)]
        is_whole, said = self.recover(turn)
        failed += [] if is_whole else [said]
        until = time.monotonic() + GONE_S
        while (stay := [n for n in left if is_there(n, 13)] + [n for n in maps if is_there(n, 14)]) and time.monotonic() < until:
            time.sleep(0.05)
        failed += [f"programs or maps stay: {stay}"] if stay else []
        self.note(failed, f"killed at {name} {number} {call[:160]}")

    def note(self, failed, place):
        if failed:
            self.failures += 1
            print(f"{self.name}: FAILED, {place}\n" + "\n".join(failed), flush=True)
            self.network.delete()
            self.make()

    def run(self):
        calls = []
        try:
            calls = self.calls()[:: self.flags.every][: self.flags.most]
            for turn, (name, number, call) in enumerate(calls):
                if not self.flags.fail:
                    self.kill(name, number, call, turn)
                    continue
                failed, outcome = self.fail(name, number, call)
                self.kills += 1
                self.note(failed, f"{self.flags.fail} at {name} {number} {call[:160]}: {outcome}")
        finally:
            print(f"{self.name}: {self.kills} {'errors' if self.flags.fail else 'kills'} at {len(calls)} calls, {self.failures} failures", flush=True)
            self.network.delete()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="target/debug/weir", help="the program")
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="of so many calls one")
    parser.add_argument("--most", type=int, help="so many kills of each case at most")
    parser.add_argument("--all", action="store_true", help="at the calls too that change nothing")
    parser.add_argument("--fail", metavar="ERROR", help="let each call fail with this error, such as EPERM, instead of a kill")
    flags = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    flags.weir = os.path.abspath(flags.weir)
    if os.geteuid() or not shutil.which("strace"):
        sys.exit("kill-attach: needs root and strace: apt-get install strace")
    sweeps = []
    for name in flags.only.split(","):
        sweeps.append(Sweep(flags, name))
        sweeps[-1].run()
    kills, failures = sum(sweep.kills for sweep in sweeps), sum(sweep.failures for sweep in sweeps)
    print(f"{kills} {'errors' if flags.fail else 'kills'}, {failures} failures")
    sys.exit(1 if failures or not kills else 0)


if __name__ == "__main__":
    main()
