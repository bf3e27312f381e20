import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import { ProviderError } from '../../protocol/error.ts';
import { fillListing } from '../../stores/sqlite/database/fill-listing.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { makeFile } from '../support/stores/make-file.ts';

const usage = {
  inputTokens: 1_000,
  outputTokens: 100,
  cachedInputTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
};
const say = (text: string) => ({ text, usage });
const prices = { cheap: { input: 1, output: 2 }, dear: { input: 10, output: 20 } };

function model(name: string, turns: Parameters<typeof scripted>[0]) {
  return { ...scripted(turns), model: name };
}

/** Runs of each kind, in one file. */
async function makeRuns(): Promise<string> {
  const file = makeFile();
  const store = sqlite(file);
  const run = async (options: Partial<AgentOptions>) =>
    await createAgent({ name: 'desk', prices, store, retry: { attempts: 1 }, ...options }).run('go');
  const below = createAgent({ name: 'below', model: model('dear', [say('found')]) });
  await run({ model: model('cheap', [{ ...calls('act'), usage }, say('done')]), tools: [makeTool('act')] });
  await run({
    model: model('cheap', [{ ...calls(['ask', { input: 'it' }]), usage }, say('done')]),
    tools: [below.asTool({ name: 'ask', description: 'Asks.' })],
  });
  const fail = new ProviderError('busy', {
    code: 'overloaded',
    status: 529,
    retryable: false,
    retryAfterMs: null,
    provider: 'scripted',
    model: 'cheap',
    raw: null,
  });
  await run({ model: [failing('cheap', fail), model('dear', [say('done')])] });
  await run({ model: failing('cheap', fail) });
  await run({ model: model('cheap', [say('a'), say('b'), say('c')]), output: z.object({ n: z.number() }) });
  await run({ model: model('cheap', [calls('gated')]), tools: [makeTool('gated', { approval: true })] });
  await store.close();
  return file;
}

function failing(name: string, error: Error) {
  const reject = () => {
    throw error;
  };
  return { ...model(name, [say('')]), generate: reject, stream: reject };
}

test('a migrated file lists the cost, the tokens and the error code that its release had computed', async () => {
  const file = await makeRuns();
  const list = async () => {
    const store = sqlite(file);
    const { runs } = await store.list({ order: 'asc' });
    await store.close();
    return runs.map(({ title, status, turns, tokens, cost, errorCode, endedAt }) => ({
      title,
      status,
      turns,
      tokens,
      cost,
      errorCode,
      endedAt,
    }));
  };
  const before = await list();
  const db = new DatabaseSync(file);
  db.exec('UPDATE runs SET progress = NULL, title = NULL');
  fillListing(db);
  db.close();
  expect(before.map(({ errorCode }) => errorCode).filter(code => code !== undefined)).toEqual([
    'overloaded',
    'output-invalid',
  ]);
  expect(before.map(({ cost }) => cost > 0)).toEqual([true, true, true, true, false, true, false]);
  expect(await list()).toEqual(before);
});
