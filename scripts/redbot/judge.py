"""Has redbot judge the answers to these addresses, and to the requests that it makes of its own for each (conditional, ranged, with other
codings). Prints each note of level WARN or BAD: `URL: CHECK: NOTE: summary`. The last line is `judged N`."""

import sys
from configparser import ConfigParser

import thor
from redbot.resource import HttpResource

config = ConfigParser()
config.read_dict({"redbot": {"enable_local_access": "True"}})
resources = {}
left = len(sys.argv) - 1


def done():
    global left
    left -= 1
    if left == 0:
        thor.stop()


def problems(notes):
    for note in notes:
        if note.level.name in ("WARN", "BAD"):
            yield f"{type(note).__name__}: {note.summary}"
        yield from problems(note.subnotes)


for url in sys.argv[1:]:
    resources[url] = HttpResource(config["redbot"])
    resources[url].set_request(url)
    resources[url].on("check_done", done)
    resources[url].check()
thor.run()
judged = 0
for url, resource in resources.items():
    judged += 1 if resource.response.status_code else 0
    for name, check in {"the request": resource, **resource.subreqs}.items():
        for problem in problems(check.response.notes):
            print(f"{url}: {name}: {problem}")
print(f"judged {judged}")
