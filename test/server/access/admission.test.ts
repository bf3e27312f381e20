import { expect, test } from 'vitest';
import { DEFAULT_CALLER_LIMITS } from '../../../server/access/access-config.ts';
import { Admission } from '../../../server/access/admission.ts';
import { ManualHost } from '../../../testing/manual-host.ts';

const ANN = { name: 'ann', role: 'client', labels: {}, groups: [], known: 'token' } as const;

test('a request that is released twice frees one place, of its token and of the server', async () => {
  const tokens = { ann: { token: 'x', role: 'client', limits: { concurrentRuns: 2 } } } as const;
  for (const options of [{ tokens }, { limits: { ...DEFAULT_CALLER_LIMITS, concurrentRuns: 2 } }]) {
    const admission = new Admission({ host: new ManualHost(), ...options });
    const release = await admission.admit(ANN);
    await admission.admit(ANN);
    release();
    release();
    await admission.admit(ANN);
    await expect(admission.admit(ANN)).rejects.toMatchObject({ code: 'rate-limit-exceeded' });
  }
});
