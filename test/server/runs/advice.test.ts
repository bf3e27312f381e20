import { expect, test } from 'vitest';
import { adviseOnEnd } from '../../../server/runs/advise-on-end.ts';
import { answerWith } from '../../support/engine/models.ts';
import { makeApp, REFUND } from '../../support/server/runs-app.ts';

const failed = (code: string) =>
  adviseOnEnd({ status: 'failed', error: { code, message: '' }, usage: null, turns: 1 });

test('a run that failed, or whose answer is incomplete, says why and what to do', async () => {
  const limited = makeApp({ turns: [{ text: 'cut', finishReason: 'length' }] });
  const { settled, advice } = await limited.begin();
  expect(settled).toMatchObject({ incomplete: { reason: 'length' } });
  expect(advice).toBe(
    'The reply reached the output token limit. Allow more output tokens, or continue in a new run.',
  );
  const exhausted = await makeApp({ turns: [] }).begin();
  expect(exhausted.settled).toMatchObject({ status: 'failed', error: { code: 'script-exhausted' } });
  expect(exhausted.advice).toBe('The scripted model has no more turns. Add a turn to its script.');
});

test('a run that ended because its usage is unknown says what to do', async () => {
  const app = makeApp({
    model: answerWith(() => ({ text: 'Hi.', usage: null })),
    agent: { limits: { tokens: 100 } },
  });
  const { settled, advice } = await app.begin();
  expect(settled).toMatchObject({ incomplete: { reason: 'usage-unknown' } });
  expect(advice).toContain("onUnknownUsage: 'estimate'");
});

test('there is no advice for a run that waits or answered, nor for a code of which nothing is known', async () => {
  expect(await makeApp({ turns: [REFUND] }).begin()).not.toHaveProperty('advice');
  expect(await makeApp({ turns: [{ text: 'Done.' }] }).begin()).not.toHaveProperty('advice');
  expect(failed('quota')).toContain('Add credit');
  for (const code of ['other', 'constructor', '__proto__']) expect(failed(code)).toBeUndefined();
});
