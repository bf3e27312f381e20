import { expect, test } from 'vitest';
import { DAY_MS, UsageLedger } from '../../../server/access/admission.ts';

const NOON = Date.UTC(2026, 5, 2, 12);
const UNSPLIT = { cachedInputTokens: null, cacheWriteTokens: null, reasoningTokens: null };
const CALL = { caller: 'ann', model: 'm', usage: { inputTokens: 60, outputTokens: 40, ...UNSPLIT } };

test('a caller without calls has used nothing', () => {
  expect(new UsageLedger({}).usedBy('ann', NOON)).toEqual({ minuteTokens: 0, dayTokens: 0, daySpend: 0 });
});

test('a call of yesterday that is recorded after a call of today leaves what was used today', () => {
  const ledger = new UsageLedger({});
  ledger.record({ ...CALL, at: NOON });
  ledger.record({ ...CALL, at: NOON - DAY_MS });
  expect(ledger.usedBy('ann', NOON)).toMatchObject({ dayTokens: 100, minuteTokens: 100 });
});
