import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DIRECT } from './direct.ts';
import { FRONTS } from './fronts.ts';
import { GATEWAY } from './gateway.ts';
import { ASKED } from './gateway-scenarios.ts';
import type { Surface } from './record.ts';
import { SCENARIOS } from './scenarios.ts';

/** Where the golden streams are: a folder for each surface, a file for each scenario. */
export const RECORDED = fileURLToPath(new URL('recorded', import.meta.url));

export const REWRITE = 'npx node test/golden/write-surfaces.ts';

/** What each surface shows: by surface, how to record each scenario. */
export const SURFACES: Readonly<Record<string, Readonly<Record<string, () => Promise<string>>>>> = {
  ...tableOf([...DIRECT, ...FRONTS], SCENARIOS),
  ...tableOf(GATEWAY, ASKED),
};

function tableOf<Shown>(surfaces: readonly Surface<Shown>[], scenarios: Readonly<Record<string, Shown>>) {
  return Object.fromEntries(
    surfaces.map(surface => {
      const shown = Object.entries(scenarios).filter(
        ([, scenario]) => surface.leavesOut?.(scenario) !== true,
      );
      return [
        surface.name,
        Object.fromEntries(
          shown.map(([name, scenario]) => [name, () => withDigestsAtOnce(() => surface.record(scenario))]),
        ),
      ];
    }),
  );
}

/** Meanwhile, digests (of ETags) need no other thread: the manual clock does not wait for those. */
async function withDigestsAtOnce<Value>(work: () => Promise<Value>): Promise<Value> {
  const { subtle } = globalThis.crypto;
  const digest = async (algorithm: string | { name: string }, data: ArrayBuffer | Uint8Array) => {
    const name = typeof algorithm === 'string' ? algorithm : algorithm.name;
    const bytes = data instanceof Uint8Array ? data : new Uint8Array(data);
    return Uint8Array.from(createHash(name.replace('-', '')).update(bytes).digest()).buffer;
  };
  Object.defineProperty(subtle, 'digest', { configurable: true, value: digest });
  try {
    return await work();
  } finally {
    Reflect.deleteProperty(subtle, 'digest');
  }
}

/** The golden streams of a surface, by scenario. */
export function readRecorded(surface: string): Record<string, string> {
  const folder = join(RECORDED, surface);
  const files = existsSync(folder) ? readdirSync(folder).sort() : [];
  return Object.fromEntries(
    files.map(file => [file.slice(0, -'.txt'.length), readFileSync(join(folder, file), 'utf8')]),
  );
}
