import { afterAll, vi } from 'vitest';

/**
 * Restores what a file stubbed when the file ends. `unstubEnvs` alone does it before the next test, which may be one of
 * another file in the same worker that has set the variable meanwhile.
 */
afterAll(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});
