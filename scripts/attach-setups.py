#!/usr/bin/env python3
"""`weir attach` on the set-ups of real hosts, in virtual time: how long small responses take during downloads, and how long compared with a plain host.

    scripts/attach-setups.py [--only plain,bridge] [--rate 9mbit] [--seconds 20] [--weir target/release/weir]    # as root, with nginx, nft, haproxy and wg

Each set-up is a machine of its own: clients 30 ms away, a router with a line of 10 Mbit/s and a queue of 150 KB, and the server. One client fetches 20 KB
over a new connection every 200 ms, another has four endless downloads. A row has the mean and the 95th percentile of the fetches on the idle line, during
the downloads, with `weir attach IFACE --rate RATE` and with the rate found, in ms; the Mbit/s of the downloads; and the mean with the rate given over that
of the first set-up. WEIR_UML_RUN names the program that runs a command on a kernel of virtual time (default: ../shared/tools/uml-run)."""

import argparse, ctypes, json, os, socket, statistics, subprocess, sys, threading, time

RTT, SMALL, EVERY_S, DOWNLOADS, SEARCH_S = "30ms", 20_000, 0.2, 4, 10
FETCHES_FROM, DOWNLOADS_FROM, SERVER = "198.18.0.1", "198.18.0.3", "198.18.1.2"
LINES = f"""
ip netns add router; ip netns add server; ip netns add inner; ip netns add second
ip link add lan type veth peer name lan netns router; ip -n router link add line type veth peer name uplink netns server
ip address add {FETCHES_FROM}/24 dev lan; ip address add {DOWNLOADS_FROM}/24 dev lan; ip link set lan up; ip route add 198.18.0.0/15 via 198.18.0.2
ip -n router address add 198.18.0.2/24 dev lan; ip -n router link set lan up; ip -n router link set line up; ip -n server link set uplink up
for space in server inner second; do ip -n $space link set lo up; done
tc qdisc add dev lan root netem delay {RTT} limit 10000; tc -n router qdisc add dev lan root tbf rate 10mbit burst 3000 limit 150000
for space in router server; do nsenter --net=/run/netns/$space sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'; done
"""
# The server's address on an interface of its own, and the router's on its side of the cable.
HERE = f"ip -n router address add 198.18.1.1/24 dev {{line}}; ip -n server address add {SERVER}/24 dev {{own}}; ip -n server link set {{own}} up; " \
    "ip -n server route add default via 198.18.1.1; "
PLAIN = HERE.format(line="line", own="uplink")
BRIDGE = "ip -n server link add br0 type bridge; ip -n server link set uplink master br0; ip -n server link set br0 up; "
OWN_BRIDGE = BRIDGE + HERE.format(line="line", own="br0")
MACVLAN = "ip -n server link add mac0 link uplink type macvlan mode bridge; "
OWN_MACVLAN = MACVLAN + HERE.format(line="line", own="mac0")
TAG = "ip -n {at} link add link {below} name {name} type vlan {more} id 5; ip -n {at} link set {name} up; "
TAGS = "".join(TAG.format(at=at, below=below, name=name, more=more) for at, below, name, more in (
    ("router", "line", "outer", "proto 802.1ad"), ("router", "outer", "tag", ""), ("server", "uplink", "outer", "proto 802.1ad"), ("server", "outer", "tag", "")))
OWN_TAGS = TAGS + HERE.format(line="tag", own="tag")
OWN_TAG = TAG.format(at="router", below="line", name="tag", more="") + TAG.format(at="server", below="uplink", name="tag", more="") + HERE.format(line="tag", own="tag")
BOND = "ip -n server link add bond0 type bond mode active-backup; ip -n server link set uplink down; ip -n server link set uplink master bond0; " \
    "ip -n server link set bond0 up; " + HERE.format(line="line", own="bond0")
INSIDE = "ip -n inner address add {address}/24 dev {own}; ip -n inner link set {own} up; ip -n inner route add default via {gateway}; "
CONTAINER = "ip -n server link add to-{name} type veth peer name own netns {name}; ip -n server link set to-{name} up; ip -n server address add 198.18.{at}.1/24 " \
    "dev to-{name}; ip -n {name} address add 198.18.{at}.2/24 dev own; ip -n {name} link set own up; ip -n {name} route add default via 198.18.{at}.1; "
ROUTED = PLAIN + CONTAINER.format(name="inner", at=4) + "ip -n router route add 198.18.4.0/24 via 198.18.1.2; "
NFT = "nsenter --net=/run/netns/server nft 'table ip t {{ chain p {{ type nat hook prerouting priority -100; {to} }}; chain q {{ type nat hook postrouting priority 100; {masked} }}; }}'; "
PUBLISHED = ROUTED + NFT.format(to="iif uplink tcp dport 80 dnat to 198.18.4.2:8080;", masked="")
MASKED = PUBLISHED.replace("priority 100; ", "priority 100; oif uplink masquerade; iif uplink masquerade; ")
BRIDGED = BRIDGE + "ip -n server link add to-inner type veth peer name own netns inner; ip -n server link set to-inner up master br0; " \
    "ip -n router address add 198.18.1.1/24 dev line; " + INSIDE.format(address=SERVER, own="own", gateway="198.18.1.1")
FILTERED = BRIDGED + "nsenter --net=/run/netns/server sh -c 'echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables'; " + NFT.format(to="", masked="")
IN_MACVLAN = MACVLAN + "ip -n server link set mac0 netns inner; ip -n router address add 198.18.1.1/24 dev line; " + INSIDE.format(
    address=SERVER, own="mac0", gateway="198.18.1.1")
TUNNEL = PLAIN + "wg genkey >/run/a; wg genkey >/run/b; ip link add wg0 type wireguard; ip -n server link add wg0 type wireguard; " \
    f"wg set wg0 private-key /run/a listen-port 5000 peer $(wg pubkey </run/b) endpoint {SERVER}:5000 allowed-ips 198.18.5.2/32; " \
    "nsenter --net=/run/netns/server wg set wg0 private-key /run/b listen-port 5000 peer $(wg pubkey </run/a) endpoint 198.18.0.1:5000 allowed-ips 198.18.5.0/24; " \
    "ip address add 198.18.5.1/24 dev wg0; ip address add 198.18.5.3/24 dev wg0; ip link set wg0 up; ip -n server address add 198.18.5.2/24 dev wg0; " \
    "ip -n server link set wg0 up"
HAPROXY = "printf 'defaults\\n mode http\\n timeout connect 5s\\n timeout client 60s\\n timeout server 60s\\nfrontend f\\n bind :80\\n default_backend b\\n" \
    "backend b\\n server one 198.18.4.2:8080\\n server two 198.18.6.2:8080\\n' >/run/haproxy.cfg; nsenter --net=/run/netns/server haproxy -D -f /run/haproxy.cfg; "
PROXIED = ROUTED + CONTAINER.format(name="second", at=6) + HAPROXY
# How it is built, where the server is, the interface to attach at, and the address that clients use.
SETUPS = {
    "plain": (PLAIN, "server", "uplink", SERVER),
    "bridge": (OWN_BRIDGE, "server", "br0", SERVER),
    "bridge, its port": (OWN_BRIDGE, "server", "uplink", SERVER),
    "macvlan": (OWN_MACVLAN, "server", "mac0", SERVER),
    "macvlan, its parent": (OWN_MACVLAN, "server", "uplink", SERVER),
    "VLAN": (OWN_TAG, "server", "tag", SERVER),
    "VLAN, its parent": (OWN_TAG, "server", "uplink", SERVER),
    "QinQ": (OWN_TAGS, "server", "tag", SERVER),
    "QinQ, its parent": (OWN_TAGS, "server", "uplink", SERVER),
    "bond": (BOND, "server", "bond0", SERVER),
    "redirect": (PLAIN + NFT.format(to="tcp dport 80 redirect to 8080;", masked=""), "server", "uplink", SERVER),
    "TCX programs of others": (PLAIN, "server", "uplink", SERVER),
    "container, routed": (ROUTED, "inner", "uplink", "198.18.4.2"),
    "container, published": (PUBLISHED, "inner", "uplink", SERVER),
    "container, masqueraded": (MASKED, "inner", "uplink", SERVER),
    "container, bridged": (BRIDGED, "inner", "uplink", SERVER),
    "container, bridged, br_netfilter": (FILTERED, "inner", "uplink", SERVER),
    "container, macvlan": (IN_MACVLAN, "inner", "uplink", SERVER),
    "HAProxy, two containers": (PROXIED, "inner second", "uplink", SERVER),
    "WireGuard": (TUNNEL, "server", "wg0", "198.18.5.2"),
    "WireGuard, its underlay": (TUNNEL, "server", "uplink", "198.18.5.2"),
}
NGINX = "user root; pid /run/{name}; error_log /run/log; worker_processes 1; events {{}}\nhttp {{ access_log off; server {{ listen 80; listen 8080; root /run/www; }} }}\n"
TCX_EGRESS, BPF_F_BEFORE = 47, 8


def sh(command):
    done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()} {done.stdout.strip()}")
    return done.stdout + done.stderr


def bpf(command, *words):
    memory = b"".join(word.to_bytes(size, "little") for word, size in words).ljust(128, b"\0")
    found = ctypes.CDLL(None, use_errno=True).syscall(321, command, memory, 128)
    if found < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return found


def attach_another(interface, flags):
    """A program that leaves each packet to the next: r0 = TCX_NEXT; exit."""
    code, licence = ctypes.create_string_buffer(b"\xb7\0\0\0\xff\xff\xff\xff\x95\0\0\0\0\0\0\0"), ctypes.create_string_buffer(b"GPL")
    program = bpf(5, (3, 4), (2, 4), (ctypes.addressof(code), 8), (ctypes.addressof(licence), 8))
    with open("/run/netns/server") as network:  # of this thread alone
        assert ctypes.CDLL(None).setns(network.fileno(), 0) == 0
        bpf(8, (socket.if_nametoindex(interface), 4), (program, 4), (TCX_EGRESS, 4), (flags, 4))


class Setup:
    def __init__(self, flags):
        self.flags, (self.build, self.servers, self.interface, self.address) = flags, SETUPS[flags.only]
        self.carried, self.is_over = 0, False

    def get(self, name, source, judge):
        with socket.create_connection((self.address, 80), timeout=60, source_address=(source, 0)) as stream:
            stream.sendall(f"GET /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            while not self.is_over and (part := stream.recv(1 << 18)):
                judge(len(part))

    def download(self):
        def judge(count):
            self.carried += count
        self.get("endless", DOWNLOADS_FROM if self.address != "198.18.5.2" else "198.18.5.3", judge)

    def fetch(self, times):
        begun, came = time.monotonic(), []
        self.get("small", FETCHES_FROM if self.address != "198.18.5.2" else "198.18.5.1", came.append)
        assert sum(came) > SMALL, f"{sum(came)} bytes came"
        times.append((time.monotonic() - begun) * 1000)

    def measure(self):
        """Mean and 95th percentile of the fetches, and the Mbit/s that all downloads received."""
        times, threads, carried = [], [], self.carried
        for _ in range(round(self.flags.seconds / EVERY_S)):
            threads.append(threading.Thread(target=self.fetch, args=[times]))
            threads[-1].start()
            time.sleep(EVERY_S)
        carried = (self.carried - carried) * 8e-6 / self.flags.seconds
        for thread in threads:
            thread.join()
        assert len(times) == len(threads), f"{len(times)} of {len(threads)} fetches"
        return [statistics.mean(times), statistics.quantiles(times, n=20)[-1], carried]

    def attach_others(self, flags):
        if "TCX" in self.flags.only:
            thread = threading.Thread(target=attach_another, args=(self.interface, flags))
            thread.start()
            thread.join()

    def weir(self, words):
        return sh(f"nsenter --net=/run/netns/server {self.flags.weir} attach {words}")

    def run(self):
        sh(f"mkdir /run/www; cd /run/www; head -c {SMALL} /dev/zero >small; truncate -s 20G endless; {LINES}{self.build}")
        for name in self.servers.split():
            open(f"/run/{name}.conf", "w").write(NGINX.format(name=name))
            sh(f"nsenter --net=/run/netns/{name} nginx -c /run/{name}.conf")
        found = {"alone": self.measure()}
        for _ in range(DOWNLOADS):
            threading.Thread(target=self.download, daemon=True).start()
        time.sleep(SEARCH_S)
        found["without"] = self.measure()
        self.attach_others(0)
        found["said"] = self.weir(f"{self.interface} --port 80 --rate {self.flags.rate}")
        self.attach_others(BPF_F_BEFORE)
        found["given"] = self.measure()
        self.weir(f"--detach {self.interface}")
        follower = subprocess.Popen(["nsenter", "--net=/run/netns/server", self.flags.weir, "attach", self.interface, "--port", "80"], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True)
        time.sleep(SEARCH_S)
        found["found"] = self.measure()
        follower.terminate()
        found["followed"] = follower.communicate()[0]
        self.is_over = True
        print("FOUND" + json.dumps(found), flush=True)
        os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="/".join(SETUPS), help="set-ups, separated by /")
    parser.add_argument("--rate", default="9mbit")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--weir", type=os.path.realpath, default="target/release/weir")
    parser.add_argument("--verbose", action="store_true", help="print what attach said")
    flags = parser.parse_args()
    if os.environ.get("UML_RUN_GUEST"):
        Setup(flags).run()
    here = os.path.realpath(__file__)
    run = os.environ.get("WEIR_UML_RUN", os.path.dirname(here) + "/../../shared/tools/uml-run")
    if not os.access(run, os.X_OK):
        print(f"SKIPPED: attach-setups: there is no {run} to start a machine with (WEIR_UML_RUN names another)")
        sys.exit(os.environ.get("CI") == "true")
    plain, failed = None, 0
    print("set-up | idle line | without | given | found | downloads without, given, found | given / plain, found / plain")
    for name in flags.only.split("/"):
        done = subprocess.run([run, "--timeout", "600", "--", "/usr/bin/python3", here, "--only", name, "--rate", flags.rate, "--seconds", str(flags.seconds),
                               "--weir", flags.weir], capture_output=True, text=True)
        line = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
        if not line:
            failed += 1
            print(f"{name} | FAILED: {done.stderr.strip()[-1000:]}", flush=True)
            continue
        found = json.loads(line[0].removeprefix("FOUND"))
        plain = plain or (found["given"][0], found["found"][0])
        kinds = ("alone", "without", "given", "found")
        print(" | ".join([name, *(f"{found[kind][0]:.0f}, {found[kind][1]:.0f}" for kind in kinds), ", ".join(f"{found[kind][2]:.2f}" for kind in kinds[1:]),
                          f"{found['given'][0] / plain[0]:.2f}, {found['found'][0] / plain[1]:.2f}"]), flush=True)
        if flags.verbose:
            print(found["said"] + found["followed"])
    sys.exit(min(failed, 1))


main()
