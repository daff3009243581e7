"""Points of sweeps: functions of a module, so that other processes have them too."""

import os
import pathlib
import signal
import time

import numpy as np

import weirlab


def simulated(policy, rho, seed, jobs=2000):
    """The mean response time of a simulation."""
    arrivals = weirlab.poisson("exponential:mean=5000", rho, jobs=jobs, seed=seed)
    done = weirlab.simulate(arrivals["size_bytes"], arrivals["arrival_ns"], policy=policy)
    return {"mean_ms": float(weirlab.response_ms(done).mean()), "jobs": len(done)}


def once(folder, name):
    """Whether this is the first to ask, in any process."""
    try:
        os.close(os.open(pathlib.Path(folder) / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def noted(number, folder):
    """Leaves a file for each time that it is called."""
    calls = pathlib.Path(folder)
    (calls / f"{number}-{os.getpid()}-{time.monotonic_ns()}").touch()
    return {"square": number * number}


def dies_once(number, folder):
    """The worker of one number is killed at the first attempt."""
    if number == 2 and once(folder, "died"):
        os.kill(os.getpid(), signal.SIGKILL)
    return noted(number, folder)


def always_dies(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": number * number}


def waits_once(number, folder):
    """One number waits at the first attempt, so that its sweep can be killed."""
    if number == 3 and once(folder, "waits"):
        time.sleep(600)
    return noted(number, folder)


def raises(number):
    if number == 1:
        raise ValueError("one is wrong")
    return {"square": number * number}


def nan(number):
    return {"square": float("nan") if number == 1 else number * number}


def of_numpy(number):
    return {"square": np.int64(1) if number == 1 else number * number}


def of_its_parameter(number):
    return {"number": 1} if number == 1 else {"square": number * number}


def more_of_two(number):
    return {"square": number * number} | ({"cube": number**3} if number == 2 else {})


def text_of_two(number):
    return {"square": "four" if number == 2 else number * number}


def names_its_process(number, folder):
    """Writes the number of the worker, and waits longer than any test."""
    part = pathlib.Path(folder) / f"part-{os.getpid()}"
    part.write_text(str(os.getpid()))
    part.rename(pathlib.Path(folder) / "worker")
    time.sleep(600)
    return {"square": number * number}
