export type Spent = { cpuMs: number; wallMs: number };

/** What `work` took of this process: CPU of all its threads, the garbage collector's too, and wall time. */
export async function time(work: () => Promise<unknown>): Promise<Spent> {
  const cpu = process.cpuUsage();
  const begun = performance.now();
  await work();
  const wallMs = performance.now() - begun;
  const { user, system } = process.cpuUsage(cpu);
  return { cpuMs: (user + system) / 1000, wallMs };
}

export async function repeat(times: number, work: () => Promise<unknown>): Promise<void> {
  for (let done = 0; done < times; done += 1) await work();
}
