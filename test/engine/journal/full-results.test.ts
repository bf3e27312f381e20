import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { exportRun } from '../../../engine/replay/export-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { blobsOf } from '../../../protocol/event.ts';
import type { AnswerGuardrail } from '../../../protocol/guardrail.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { numberCitations } from '../../../text/citations.ts';
import { calls, clientTool } from '../../support/engine/agents.ts';
import { LARGE, large, makeAgent, runToEnd } from '../../support/engine/large-results.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

describe('access to full results', () => {
  const sections = Array.from({ length: 200 }, (_, index) => ({ id: `s${index}` }));
  const cites = numberCitations({
    sources: ({ output }) => (Array.isArray(output) ? (output as { id: string }[]) : []),
  });

  test('a guardrail of the answer reads the full results one by one', async () => {
    const seen: JsonValue[] = [];
    const answer: AnswerGuardrail = async (_, { results, wholeOutput }) => {
      for (const result of results) seen.push(await wholeOutput(result));
      return { type: 'pass' };
    };
    await runToEnd({ guardrails: { answer } });
    expect(seen).toEqual([LARGE]);
  });

  test('a source in the middle of a large result can be cited, in the next run too', async () => {
    const answers = [calls('dump'), { text: 'So [doc:s100].' }, { text: 'Again [doc:s101].' }] as const;
    const { host, agent, settled } = await runToEnd({
      model: scripted([...answers]),
      tools: [large('dump', sections)],
      guardrails: { answer: cites },
    });
    expect(settled).toMatchObject({ text: 'So [1].\n\nSources:\n[1] s100' });
    const next = await agent.start('more', { continues: 'r' });
    expect(await host.settle(next.settled())).toMatchObject({ text: 'Again [1].\n\nSources:\n[1] s101' });
  });

  test('a restored run whose store lacks the full result reports it missing, and continues', async () => {
    const model = () => scripted([calls('dump'), calls('wait'), { text: 'So [doc:s100].' }]);
    const tools = [large('dump', sections), clientTool('wait')];
    const first = await runToEnd({ model: model(), tools, guardrails: { answer: cites } });
    const elsewhere = makeAgent({ model: model(), tools, guardrails: { answer: cites } });
    const restored = await elsewhere.agent.restore(first.run.snapshot());
    await expect(restored.output('call_0_0')).rejects.toMatchObject({ code: 'result-missing' });
    await restored.answer('call_1_0', { output: 'ok' });
    expect(await elsewhere.host.settle(restored.settled())).toMatchObject({
      status: 'finished',
      text: expect.stringContaining('Citations of unread sources were omitted: s100.'),
    });
  });

  test('a fork has the large results of its source', async () => {
    const { run, store } = await runToEnd();
    const fork = await run.fork({ at: (await store.read('r')).length });
    expect(await fork.output('call_0_0')).toEqual(LARGE);
  });

  test('a call without a result is refused as call-unknown', async () => {
    const { run } = await runToEnd();
    await expect(run.output('nope')).rejects.toMatchObject({ code: 'call-unknown' });
  });
});

describe('replay', () => {
  test('verifies a run with large results without loading them into its state', async () => {
    const { store } = await runToEnd();
    const verdict = await replayRun(store, 'r');
    expect(verdict).toMatchObject({ equal: true });
    expect(JSON.stringify(verdict.end).length).toBeLessThan(6000);
  });

  test.each([
    ['is gone', async () => undefined, 'that is not in the store'],
    [
      'was replaced',
      async (length: number) => new TextEncoder().encode('"other"').slice(0, length),
      'its hash differs',
    ],
  ] as const)('names the entry whose result %s', async (_, readBlob, message) => {
    const { store } = await runToEnd();
    const entries = await store.read('r');
    const at = entries.find(({ event }) => blobsOf(event).length > 0)?.seq;
    const damaged: Store = {
      ...watchStore(store, {}),
      readBlob: async (_run, _digest, offset, length) => (offset > 0 ? new Uint8Array() : readBlob(length)),
    };
    expect(await replayRun(damaged, 'r')).toMatchObject({
      equal: false,
      problem: { seq: at, message: expect.stringContaining(message) },
    });
  });

  test('an export of the journal alone is as small as the journal', async () => {
    const { store } = await runToEnd();
    expect(JSON.stringify(await exportRun(store, 'r')).length).toBeLessThan(10_000);
  });
});
