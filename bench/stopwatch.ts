type Spent = { cpuMs: number; wallMs: number };

/** Measures `work`: the CPU time of all threads of this process, including garbage collection, and the wall time, in ms. */
export async function time(work: () => Promise<unknown>): Promise<Spent> {
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  await work();
  const wallMs = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpu);
  return { cpuMs: (user + system) / 1000, wallMs };
}

/** Runs `work` the given number of times, one after the other. */
export async function repeat(times: number, work: () => Promise<unknown>): Promise<void> {
  for (let done = 0; done < times; done += 1) await work();
}
