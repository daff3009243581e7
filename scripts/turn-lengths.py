#!/usr/bin/env python3
"""How long the turns of Weir's event loop are while 1,000 different files are asked for the first time, with compression and without.

    scripts/turn-lengths.py WEIR SITE [ROUNDS]      # as root; the programs perf and taskset, a folder with 1,000 text files

A turn is what the thread of the event loop computes between two waits: processor time, which a busy host does not lengthen. perf
notes each system call and switch of that thread. Each round starts the server anew, so that no form is there."""

import os, socket, subprocess, sys, tempfile, threading, time

REQUESTS, CONNECTIONS = 1000, 8
WAITS = {"232", "281", "441"}  # epoll_wait, epoll_pwait and epoll_pwait2 on x86-64


def files(site):
    found = []
    for folder, _, names in os.walk(site):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith((".html", ".txt", ".js", ".css")) and 256 <= os.path.getsize(path) <= 400_000:
                found.append("/" + os.path.relpath(path, site))
    if len(found) < REQUESTS:
        sys.exit(f"turn-lengths: {site} has {len(found)} text files, and {REQUESTS} are needed")
    return sorted(found)[:REQUESTS]


def ask(port, paths):
    """Asks for these, one after the other on one connection; returns how many came coded."""
    stream, coded = socket.create_connection(("127.0.0.1", port)), 0
    reader = stream.makefile("rb")
    for path in paths:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\r\n".encode())
        head = {}
        if b" 200 " not in reader.readline():
            sys.exit(f"turn-lengths: {path} was refused")
        while (line := reader.readline().strip()):
            name, value = line.decode().split(":", 1)
            head[name.lower()] = value.strip()
        coded += "content-encoding" in head
        if "content-length" in head:
            reader.read(int(head["content-length"]))
        else:
            while (chunk := int(reader.readline(), 16)):
                reader.read(chunk + 2)
            reader.readline()
    stream.close()
    return coded


def turns(lines, thread):
    """Processor time of each turn, in microseconds, from what perf printed."""
    found, on_since, spent = [], None, None
    for line in lines:
        words = line.split()
        at = next(i for i, word in enumerate(words) if word.endswith(":") and word[:-1].replace(".", "").isdigit())
        now, what, rest = float(words[at][:-1]) * 1e6, words[at + 1].strip(":"), " ".join(words[at + 2 :])
        if what == "raw_syscalls:sys_exit" and rest.split()[1] in WAITS:
            on_since, spent = now, 0.0
        elif what == "raw_syscalls:sys_enter" and rest.split()[1] in WAITS and spent is not None and on_since is not None:
            found.append(spent + now - on_since)
            spent = on_since = None
        elif what == "sched:sched_switch" and spent is not None:
            if f"next_pid={thread}" in rest or rest.split("==>")[-1].split(":")[-1].startswith(f"{thread} "):
                on_since = now
            elif on_since is not None:
                spent, on_since = spent + now - on_since, None
    return sorted(found)


def one(weir, site, paths, flags):
    with tempfile.TemporaryDirectory() as state:
        port = 18400 + os.getpid() % 1000
        command = [weir, "serve", site, "--listen", f"127.0.0.1:{port}", "--uplink", "20mbit", "--workers", "1", "--client-connections", "0"]
        server = subprocess.Popen(command + flags, env=os.environ | {"STATE_DIRECTORY": state}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        names = {int(t): open(f"/proc/{server.pid}/task/{t}/comm").read().strip() for t in os.listdir(f"/proc/{server.pid}/task")}
        thread = next((t for t, name in names.items() if "worker" in name or "loop" in name), server.pid)
        data = os.path.join(state, "perf.data")
        events = ["-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit", "-e", "sched:sched_switch"]
        perf = subprocess.Popen(["perf", "record", "-q", "-m", "4096", *events, "-t", str(thread), "-o", data], stderr=subprocess.DEVNULL)
        time.sleep(1)
        coded = []
        clients = [threading.Thread(target=lambda at=at: coded.append(ask(port, paths[at::CONNECTIONS]))) for at in range(CONNECTIONS)]
        [client.start() for client in clients]
        [client.join() for client in clients]
        perf.terminate()
        perf.wait()
        server.terminate()
        server.wait()
        text = subprocess.run(["perf", "script", "-i", data], capture_output=True, text=True, check=True).stdout
        return turns(text.splitlines(), thread), sum(coded)


weir, site, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3
paths = files(site)
print("compression  coded  turns  mean us  p99 us  longest us")
for _ in range(rounds):
    for name, flags in [("on", []), ("off", ["--no-compression"])]:
        found, coded = one(weir, site, paths, flags)
        mean, p99 = sum(found) / len(found), found[len(found) * 99 // 100]
        print(f"{name:11}  {coded:5}  {len(found):5}  {mean:7.0f}  {p99:6.0f}  {found[-1]:10.0f}", flush=True)
