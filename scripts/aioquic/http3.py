"""Checks of HTTP/3 with aioquic, from the outside: `cargo xtask conformance` asks for one by its name.

    http3.py CHECK --port PORT --authority FILE --site FOLDER [--pid PID]

The last line says what was seen, or what is wrong; the status is 0 if all was as it has to be.
"""

import argparse
import asyncio
import dataclasses
import hashlib
import os
import pathlib
import signal
import socket
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer, BufferReadError
from aioquic.h3.connection import H3_ALPN, ErrorCode, FrameType, H3Connection, StreamType
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamDataReceived, StreamReset
from aioquic.quic.logger import QuicLogger
from aioquic.quic.packet import QuicProtocolVersion

HOST, NAME = "127.0.0.1", "localhost"
# Whatever takes so long hangs.
HANDSHAKE_SECONDS = 10
LIMIT_SECONDS = 40
# Of the page: the document, a style sheet, a script, eight images, and a large file.
FILES = 12
LARGE = "large.bin"
# Windows so small that most of the large file is still to come when something happens to its connection.
SMALL_WINDOW = 64 << 10
# What a ticket would say if the server took early data (RFC 9001 section 4.6.1).
EARLY_DATA = 0xFFFFFFFF
# Each leaves a part of a connection's window behind: all together more than there is, should a side forget to give it back.
CANCELLED = 60
# Attempts that stay open between two looks for a Retry, and at most: each event loop of Weir asks for one from 100 on.
ATTEMPTS = 100
ATTEMPTS_MAX = 800


class Wrong(Exception):
    """What the server did against its protocol."""


def expect(is_so, said):
    if not is_so:
        raise Wrong(said)


def goaway(control):
    """The stream that the last GOAWAY of a control stream says, which aioquic skips."""
    buffer, found = Buffer(data=control), None
    try:
        if buffer.pull_uint_var() != StreamType.CONTROL:
            return None
        while True:
            frame, content = buffer.pull_uint_var(), buffer.pull_bytes(buffer.pull_uint_var())
            if frame == FrameType.GOAWAY:
                found = Buffer(data=content).pull_uint_var()
    except BufferReadError:
        return found


@dataclasses.dataclass
class Response:
    done: asyncio.Future
    status: str = ""
    body: bytearray = dataclasses.field(default_factory=bytearray)
    reset: int | None = None


class Client(QuicConnectionProtocol):
    """A connection of HTTP/3; its requests by stream."""

    def __init__(self, quic):
        super().__init__(quic)
        self.http3 = H3Connection(quic)
        self.responses = {}
        # What came on each unidirectional stream of the server.
        self.told = {}
        self.handshake = None
        self.end = None
        # Called after each event.
        self.watch = lambda: None

    def ask(self, path):
        stream = self._quic.get_next_available_stream_id()
        fields = {":method": "GET", ":scheme": "https", ":authority": NAME, ":path": f"/{path}"}
        response = self.responses[stream] = Response(self._loop.create_future())
        self.http3.send_headers(stream, [(name.encode(), value.encode()) for name, value in fields.items()], True)
        self.transmit()
        return stream, response

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        elif isinstance(event, ConnectionTerminated):
            self.end = event
            for response in self.responses.values():
                if not response.done.done():
                    response.done.set_exception(Wrong(f"the connection ended under a response: {event}"))
                    response.done.exception()
        elif isinstance(event, StreamDataReceived) and event.stream_id % 4 == 3:
            self.told[event.stream_id] = self.told.get(event.stream_id, b"") + event.data
        elif isinstance(event, StreamReset) and event.stream_id in self.responses:
            response = self.responses[event.stream_id]
            response.reset = event.error_code
            if not response.done.done():
                response.done.set_result(response)
        for one in self.http3.handle_event(event):
            self.on_http3(one)
        self.watch()

    def goaway(self):
        return next(filter(lambda found: found is not None, map(goaway, self.told.values())), None)

    def on_http3(self, event):
        response = self.responses.get(getattr(event, "stream_id", None))
        if response is None:
            return
        if isinstance(event, HeadersReceived):
            response.status = dict(event.headers).get(b":status", b"").decode()
        elif isinstance(event, DataReceived):
            response.body += event.data
        if event.stream_ended and not response.done.done():
            response.done.set_result(response)

    async def move(self):
        """To another port of ours, under another connection ID, as a client does that changes networks."""
        self._transport.close()
        await open_socket(lambda: self)
        self._quic.change_connection_id()
        self.transmit()
        return port_of(self)


def port_of(client):
    return client._transport.get_extra_info("sockname")[1]


async def open_socket(protocol):
    _, made = await asyncio.get_running_loop().create_datagram_endpoint(protocol, local_addr=(HOST, 0))
    return made


class Check:
    """What all checks know of the server."""

    def __init__(self, args):
        self.port, self.pid, self.authority = args.port, args.pid, args.authority
        self.site = pathlib.Path(args.site)

    def configuration(self, **words):
        configuration = QuicConfiguration(alpn_protocols=H3_ALPN, server_name=NAME, **words)
        configuration.load_verify_locations(self.authority)
        return configuration

    async def begin(self, on_ticket=None, **words):
        quic = QuicConnection(configuration=self.configuration(**words), session_ticket_handler=on_ticket)
        client = await open_socket(lambda: Client(quic))
        client.connect((HOST, self.port))
        return client

    async def connected(self, client):
        try:
            await asyncio.wait_for(client.wait_connected(), HANDSHAKE_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            raise Wrong(f"no connection of QUIC within {HANDSHAKE_SECONDS} s") from None
        except ConnectionError:
            raise Wrong(f"no connection of QUIC: {client.end}") from None
        expect(client.handshake.alpn_protocol == "h3", f"ALPN {client.handshake.alpn_protocol}, expected h3")
        return client

    async def connect(self, **words):
        return await self.connected(await self.begin(**words))

    def content(self, path):
        return (self.site / path).read_bytes()

    def is_whole(self, path, response):
        wanted = self.content(path)
        expect(response.status == "200", f"{path}: status {response.status!r}, expected 200")
        expect(len(response.body) == len(wanted), f"{path}: {len(response.body)} bytes, expected {len(wanted)}")
        digests = [hashlib.sha256(content).hexdigest() for content in (response.body, wanted)]
        expect(digests[0] == digests[1], f"{path}: SHA-256 {digests[0]}, expected {digests[1]}")

    async def load(self, client, path):
        response = client.ask(path)[1]
        await response.done
        self.is_whole(path, response)

    async def partly(self, client, size):
        """Asks for the large file, and gives its stream and response once so much of it has come."""
        stream, response = client.ask(LARGE)
        enough = asyncio.get_running_loop().create_future()

        def watch():
            if (len(response.body) >= size or response.done.done()) and not enough.done():
                enough.set_result(None)

        client.watch = watch
        await enough
        expect(not response.done.done(), "the whole response came before anything could happen to it")
        return stream, response


async def page(check):
    """All files at once, over one connection."""
    client = await check.connect()
    paths = sorted(path.name for path in check.site.iterdir() if path.stat().st_size)
    expect(len(paths) == FILES, f"{len(paths)} files in the folder, expected {FILES}")
    asked = {path: client.ask(path)[1] for path in paths}
    for path, response in asked.items():
        await response.done
        check.is_whole(path, response)
    client.close()
    return f"{len(asked)} files at once, {sum(len(response.body) for response in asked.values())} bytes, whole"


async def versions(check):
    """An unknown version is answered by the known ones (RFC 9000 section 6), but not to a packet that is too small for it."""
    unknown, to, by = 0x1A2A3A4A, bytes(range(8)), bytes(range(20, 26))
    head = bytes([0xC0]) + unknown.to_bytes(4, "big") + bytes([len(to)]) + to + bytes([len(by)]) + by

    def sent(size):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.settimeout(HANDSHAKE_SECONDS)
        one.connect((HOST, check.port))
        one.send(head.ljust(size, b"\0"))
        return one

    small, full = sent(300), sent(1200)
    try:
        answer = full.recv(2048)
    except OSError as error:
        raise Wrong(f"no answer to an Initial of version {unknown:#x}: {error}") from None
    buffer = Buffer(data=answer)
    expect(buffer.pull_uint8() & 0x80 and buffer.pull_uint32() == 0, f"no Version Negotiation packet: {answer.hex()}")
    ids = [buffer.pull_bytes(buffer.pull_uint8()) for _ in range(2)]
    expect(ids == [by, to], f"connection IDs {[one.hex() for one in ids]}, expected the client's, exchanged")
    listed = [buffer.pull_uint32() for _ in range((len(answer) - buffer.tell()) // 4)]
    expect(buffer.eof() and QuicProtocolVersion.VERSION_1 in listed, f"versions {listed}, expected 1 among them")
    expect(unknown not in listed, "the unknown version is among those that the server knows")
    small.setblocking(False)
    try:
        raise Wrong(f"{len(small.recv(2048))} bytes answer an Initial of an unknown version that is smaller than 1,200")
    except BlockingIOError:
        pass
    return f"{len(listed)} versions offered instead of an unknown one"


async def retry(check):
    """Behind many attempts that go no further, a client is asked to show that its address is its own; one that does is served."""
    silent = []
    while len(silent) < ATTEMPTS_MAX:
        silent += [attempt(check) for _ in range(ATTEMPTS)]
        client = await check.connect()
        if client._quic._retry_source_connection_id is not None:
            await check.load(client, LARGE)
            client.close()
            return f"asked for behind {len(silent)} attempts, followed, served"
        client.close()
    raise Wrong(f"no Retry behind {len(silent)} attempts that went no further")


def attempt(check):
    """Sends the first datagram of a connection; its socket, on which nothing is read."""
    quic, now = QuicConnection(configuration=check.configuration()), asyncio.get_running_loop().time()
    quic.connect((HOST, check.port), now=now)
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for datagram, to in quic.datagrams_to_send(now=now):
        one.sendto(datagram, to)
    return one


async def migration(check):
    """The client's port changes during a download."""
    client = await check.connect(max_stream_data=SMALL_WINDOW)
    _, response = await check.partly(client, SMALL_WINDOW)
    had, ports = len(response.body), [port_of(client)]
    ports.append(await client.move())
    expect(ports[0] != ports[1], "the port did not change")
    await response.done
    check.is_whole(LARGE, response)
    behind = len(response.body) - had
    client.close()
    return f"{behind} of {len(response.body)} bytes at the new port, whole"


async def early_data(check):
    """A request before the handshake, with a ticket that does not allow it: refused, and answered behind the handshake."""
    tickets = []
    first = await check.connect(on_ticket=tickets.append)
    await check.load(first, "style.css")
    await first.ping()
    expect(tickets, "no ticket came")
    offered = tickets[0].max_early_data_size
    expect(not offered, f"the ticket allows {offered} bytes of early data, expected none")
    first.close()
    logger = QuicLogger()
    ticket = dataclasses.replace(tickets[0], max_early_data_size=EARLY_DATA)
    # Nothing is sent before the request is, so that it leaves with the first packets.
    quic = QuicConnection(configuration=check.configuration(session_ticket=ticket, quic_logger=logger))
    client = await open_socket(lambda: Client(quic))
    client.connect((HOST, check.port), transmit=False)
    response = client.ask("script.js")[1]
    await check.connected(client)
    events = logger.to_dict()["traces"][0]["events"]
    sent = [event["data"]["header"]["packet_type"] for event in events if event["name"].endswith(":packet_sent")]
    expect("0RTT" in sent, f"no early data was sent, but {sent}")
    expect(client.handshake.session_resumed, "the session was not resumed")
    expect(not client.handshake.early_data_accepted, "early data was accepted")
    await response.done
    check.is_whole("script.js", response)
    await check.load(client, LARGE)
    client.close()
    return f"{sent.count('0RTT')} packets of early data refused, session resumed, request answered"


async def cancelled(check):
    """Responses that their client no longer wants: they end, the others do not, and no window is lost."""
    client = await check.connect(max_stream_data=SMALL_WINDOW)
    kept = client.ask(LARGE)[1]
    for _ in range(CANCELLED):
        stream, response = await check.partly(client, SMALL_WINDOW // 4)
        client._quic.stop_stream(stream, ErrorCode.H3_REQUEST_CANCELLED)
        client.transmit()
        await response.done
        expect(response.reset is not None, "a response went on to its end")
    client.watch = lambda: None
    await kept.done
    check.is_whole(LARGE, kept)
    await check.load(client, LARGE)
    client.close()
    return f"{CANCELLED} responses cancelled in their middle; two others whole"


async def shutdown(check):
    """SIGTERM during a download: GOAWAY, the rest of the download, and an end without an error."""
    client = await check.connect(max_stream_data=SMALL_WINDOW)
    stream, response = await check.partly(client, SMALL_WINDOW)
    # Without more room the download cannot end before the GOAWAY has come.
    extend, client._quic._write_stream_limits = client._quic._write_stream_limits, lambda **_: None
    told = asyncio.get_running_loop().create_future()

    def watch():
        if (client.goaway() is not None or client.end) and not told.done():
            told.set_result(None)

    client.watch = watch
    os.kill(check.pid, signal.SIGTERM)
    await told
    expect(client.end is None and not response.done.done(), f"no GOAWAY during the download: {client.end}")
    late = client.ask("style.css")[1]
    await late.done
    expect(late.reset == ErrorCode.H3_REQUEST_REJECTED, f"a request behind the GOAWAY: {late.reset}, expected H3_REQUEST_REJECTED")
    client._quic._write_stream_limits = extend
    await client.ping()
    await response.done
    check.is_whole(LARGE, response)
    await client.wait_closed()
    last, end = client.goaway(), client.end
    expect(last > stream, f"GOAWAY says stream {last}, expected more than {stream}, which was served")
    expect(end.error_code == ErrorCode.H3_NO_ERROR, f"the connection ended with {end}, expected H3_NO_ERROR")
    return f"the download whole, GOAWAY {last}, H3_NO_ERROR"


CHECKS = {check.__name__.replace("_", "-"): check for check in (page, versions, retry, migration, early_data, cancelled, shutdown)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--authority", required=True)
    parser.add_argument("--site", required=True)
    parser.add_argument("--pid", type=int)
    args = parser.parse_args()
    try:
        print(asyncio.run(asyncio.wait_for(CHECKS[args.check](Check(args)), LIMIT_SECONDS)))
    except (TimeoutError, asyncio.TimeoutError):
        sys.exit(f"not at its end after {LIMIT_SECONDS} s")
    except Wrong as wrong:
        sys.exit(str(wrong))


if __name__ == "__main__":
    main()
