import { afterAll, vi } from 'vitest';

/**
 * Restores what a file stubbed when the file ends. `unstubEnvs` alone restores it before the next test, which may be in
 * another file of the same worker that has set the variable meanwhile.
 */
afterAll(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});
