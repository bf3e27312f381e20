type Spent<Result> = { cpuMs: number; wallMs: number; result: Result };

/** Measures `work`: the CPU time of all threads of this process, including garbage collection, and the wall time, in ms. */
export async function time<Result>(work: () => Promise<Result>): Promise<Spent<Result>> {
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  const result = await work();
  const wallMs = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpu);
  return { cpuMs: (user + system) / 1000, wallMs, result };
}

/** Runs `work` the given number of times, but starts none after ten seconds. Returns how often it ran. */
export async function repeatInTime(times: number, work: () => Promise<unknown>): Promise<number> {
  const until = performance.now() + 10_000;
  let done = 0;
  do {
    await work();
    done += 1;
  } while (done < times && performance.now() < until);
  return done;
}

/** Runs `work` the given number of times, one after the other. */
export async function repeat(times: number, work: () => Promise<unknown>): Promise<void> {
  for (let done = 0; done < times; done += 1) await work();
}
