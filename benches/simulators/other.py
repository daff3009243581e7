"""One run of a general-purpose simulator: M/M/1 first come first served, or M/G/1 processor sharing.

Prints a JSON object: simulator, model, jobs, mean response time in ms, jobs per CPU second. The workloads are those that
compare.sh gives to weirlab: a link of 10 Mbit/s at load 0.8, sizes in bytes of mean 5000 or bounded Pareto.
"""

import json
import random
import sys
import time

BYTES_PER_S = 10e6 / 8
RHO = 0.8


def exponential():
    return random.expovariate(1 / 5000) / BYTES_PER_S


ALPHA, LOW, HIGH = 1.5, 500.0, 1e6


def pareto():
    u = random.random()
    return LOW / (1 - u * (1 - (LOW / HIGH) ** ALPHA)) ** (1 / ALPHA) / BYTES_PER_S


def pareto_mean():
    a = ALPHA
    scale = LOW**a / (1 - (LOW / HIGH) ** a) * a / (a - 1)
    return scale * (LOW ** (1 - a) - HIGH ** (1 - a)) / BYTES_PER_S


def simpy_fcfs(jobs):
    import simpy

    env = simpy.Environment()
    link = simpy.Resource(env, capacity=1)
    times = []

    def job(env):
        arrived = env.now
        with link.request() as turn:
            yield turn
            yield env.timeout(exponential())
        times.append(env.now - arrived)

    def source(env):
        rate = RHO * BYTES_PER_S / 5000
        for _ in range(jobs):
            yield env.timeout(random.expovariate(rate))
            env.process(job(env))

    env.process(source(env))
    env.run()
    return times


def simpy_ps(jobs):
    """SimPy has no processor sharing: virtual time and a heap of finish points, by events that are interrupted."""
    import heapq

    import simpy

    env = simpy.Environment()
    present, times = [], []
    state = {"virtual": 0.0, "at": 0.0}

    def advance():
        if present:
            state["virtual"] += (env.now - state["at"]) / len(present)
        state["at"] = env.now

    def server(env):
        while True:
            try:
                if present:
                    yield env.timeout(max(0.0, (present[0][0] - state["virtual"]) * len(present)))
                    advance()
                    finish, arrived = heapq.heappop(present)
                    state["virtual"] = finish
                    times.append(env.now - arrived)
                else:
                    yield env.event()
            except simpy.Interrupt:
                pass

    def source(env):
        rate = RHO / pareto_mean()
        for _ in range(jobs):
            yield env.timeout(random.expovariate(rate))
            advance()
            heapq.heappush(present, (state["virtual"] + pareto(), env.now))
            link.interrupt()

    link = env.process(server(env))
    env.process(source(env))
    env.run()
    return times


def ciw_run(jobs, arrival_rate, service, node_class):
    import ciw

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=arrival_rate)],
        service_distributions=[service],
        number_of_servers=[1 if node_class is None else float("inf")],
        **({"ps_thresholds": [1]} if node_class is not None else {}),
    )
    simulation = ciw.Simulation(network, **({"node_class": node_class} if node_class else {}))
    simulation.simulate_until_max_customers(jobs, method="Finish")
    return [r.exit_date - r.arrival_date for r in simulation.get_all_records()]


def ciw_fcfs(jobs):
    import ciw

    return ciw_run(jobs, RHO * BYTES_PER_S / 5000, ciw.dists.Exponential(rate=BYTES_PER_S / 5000), None)


def ciw_ps(jobs):
    import ciw

    class Pareto(ciw.dists.Distribution):
        def sample(self, t=None, ind=None):
            return pareto()

    return ciw_run(jobs, RHO / pareto_mean(), Pareto(), ciw.PSNode)


def main():
    simulator, model, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    random.seed(1)
    if simulator == "ciw":
        import ciw

        ciw.seed(1)
    run = globals()[f"{simulator}_{model}"]
    started = time.process_time()
    times = run(jobs)
    cpu = time.process_time() - started
    mean = 1e3 * sum(times) / len(times)
    print(json.dumps({"simulator": simulator, "model": model, "jobs": len(times), "mean_ms": mean, "jobs_per_cpu_s": len(times) / cpu}))


main()
