import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import type { AgentTool, Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool, wordsOf } from '../../support/engine/agents.ts';

const DAY = 24 * 3_600_000;

type Account = { isSignedIn: boolean };

/** A tool server at which people sign in; `account` says whether one has. */
function makeServer(account: { isSignedIn: boolean }, server = 'crm') {
  return {
    name: server,
    async connect(): Promise<readonly Tool[]> {
      if (account.isSignedIn) return [makeTool(`${server}_find`)];
      const url = `https://${server}.test/mcp`;
      throw new EngineError('sign-in-needed', `Sign in at "${server}".`, { server, url });
    },
    async close() {},
  };
}

function makeAgent(
  tools: readonly AgentTool[],
  { store = memory(), host = new ManualHost() }: { store?: Store; host?: ManualHost } = {},
) {
  const model = scripted([calls('crm_find'), { text: 'found' }]);
  return createAgent({ name: 'a', store, host, model, tools });
}

describe('a tool server that needs a sign-in', () => {
  test('does not fail the start: the run waits, and a person signs in a day later, for another process', async () => {
    const [store, host] = [memory(), new ManualHost()];
    const run = await makeAgent([makeServer({ isSignedIn: false })], { store, host }).start('go');
    expect(await run.settled()).toMatchObject({
      status: 'waiting',
      open: [
        {
          kind: 'sign-in',
          id: `sign-in:${run.id}:crm`,
          server: 'crm',
          url: 'https://crm.test/mcp',
          reason: 'A person must sign in at "crm".',
        },
      ],
      paused: false,
    });
    expect((await store.get(run.id))?.waitsFor).toEqual([{ type: 'sign-in', callId: 'crm', name: 'crm' }]);
    await host.advance(DAY);
    const account = { isSignedIn: true };
    const later = new ManualHost({ now: host.now(), name: 'b' });
    const opened = await makeAgent([makeServer(account)], { store, host: later }).open(run.id);
    expect(await opened.signedIn('crm', { by: 'ann' })).toEqual({ accepted: true });
    expect(await opened.settled()).toMatchObject({ status: 'finished', text: 'found', turns: 2 });
    const words = (await wordsOf(store, run.id)).filter(word => !word.startsWith('run.claimed'));
    expect(words.slice(0, 4)).toEqual([
      'run.started',
      'sign-in.requested',
      'sign-in.completed',
      'calls.started',
    ]);
  });

  test('is asked about again if the sign-in does not do', async () => {
    const account = { isSignedIn: false };
    const run = await makeAgent([makeServer(account)]).start('go');
    await run.settled();
    await run.signedIn('crm');
    expect((await run.settled()).status).toBe('waiting');
    account.isSignedIn = true;
    await run.signedIn('crm');
    expect((await run.settled()).status).toBe('finished');
  });

  test('and only about a server that is asked for', async () => {
    const run = await makeAgent([makeServer({ isSignedIn: false })]).start('go');
    await run.settled();
    expect(await run.signedIn('other')).toMatchObject({
      accepted: false,
      code: 'refused',
      message: `Run ${run.id} waits for no sign-in at "other". Look at what it waits for.`,
    });
    expect((await run.send('hurry')).accepted).toBe(true);
    expect((await run.settled()).status).toBe('waiting');
    expect((await run.cancel()).accepted).toBe(true);
    expect((await run.settled()).status).toBe('cancelled');
  });

  test('several are asked for one after the other', async () => {
    const accounts: [Account, Account] = [{ isSignedIn: false }, { isSignedIn: false }];
    const run = await makeAgent([makeServer(accounts[0]), makeServer(accounts[1], 'erp')]).start('go');
    const asked: string[] = [];
    for (let settled = await run.settled(); settled.status === 'waiting'; settled = await run.settled())
      for (const open of settled.open) {
        if (open.kind !== 'sign-in') continue;
        asked.push(open.server);
        accounts[open.server === 'crm' ? 0 : 1].isSignedIn = true;
        await run.signedIn(open.server);
      }
    expect(asked).toEqual(['crm', 'erp']);
  });

  test('in the middle of a round, another process asks, and the calls are kept', async () => {
    const [store, account] = [memory(), { isSignedIn: true }];
    const gated = makeTool('crm_find', { approval: true });
    const server = (known: { isSignedIn: boolean }) => ({
      ...makeServer(known),
      connect: async () => {
        await makeServer(known).connect();
        return [gated];
      },
    });
    const first = await makeAgent([server(account)], { store }).start('go');
    await first.settled();
    const lapsed = { isSignedIn: false };
    const host = new ManualHost({ name: 'b' });
    const run = await makeAgent([server(lapsed)], { store, host }).open(first.id);
    expect(await run.approve('call_0_0')).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'waiting', open: [{ kind: 'sign-in' }] });
    lapsed.isSignedIn = true;
    await run.signedIn('crm');
    expect(await run.settled()).toMatchObject({ status: 'finished', results: [{ output: 'crm_find ran' }] });
  });

  test('of a sub-agent surfaces at the top run, which passes the word on', async () => {
    const store = memory();
    const account = { isSignedIn: false };
    const below = createAgent({
      name: 'clerk',
      store,
      model: scripted([calls('crm_find'), { text: 'found' }]),
      tools: [makeServer(account)],
    });
    const top = createAgent({
      name: 'top',
      store,
      model: scripted([calls(['clerk', { input: 'x' }]), { text: 'done' }]),
      tools: [below.asTool({ name: 'clerk', description: 'clerk' })],
    });
    const run = await top.start('go');
    const settled = await run.settled();
    expect(settled).toMatchObject({ status: 'waiting', open: [{ kind: 'sign-in', server: 'crm' }] });
    account.isSignedIn = true;
    expect(await run.signedIn('crm')).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'done' });
  });
});
