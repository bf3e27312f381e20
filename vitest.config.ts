import { randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

/** For all workers: the first that needs the built programs builds them (`test/support/built.ts`). */
process.env.AGENTCHART_RUN = randomUUID();

/** A limit only ends what hangs: slow machines need several times what fast ones do, all cases more than samples. */
const LIMIT_MS = process.env.AGENTCHART_TESTS === 'all' ? 1_200_000 : 240_000;

/** Node loads the modules itself. Test files share workers: what a test changes it puts back. */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: LIMIT_MS,
    hookTimeout: LIMIT_MS,
    expect: { poll: { timeout: 60_000 } },
    // Node keeps what it has compiled, type stripping included, by what is in a file.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/node') },
    unstubEnvs: true,
    unstubGlobals: true,
    experimental: { viteModuleRunner: false, nodeLoader: false },
    setupFiles: [
      'test/support/remove-temporary-folders.ts',
      'test/support/engine/forget-calls.ts',
      'test/support/restore-environment.ts',
      'test/support/seed-random-cases.ts',
    ],
    isolate: false,
    // Two more than there are cores, because tests also wait: for processes, timers and disks.
    maxWorkers: availableParallelism() + 2,
  },
});
