import { afterEach, describe, expect, it } from 'vitest';
import type { RunEvent } from '../../../../protocol/event.ts';
import { memory } from '../../../../stores/memory.ts';
import { type Watch, watchStore } from '../../../support/engine/watched-store.ts';
import { Gateway, runOf } from '../../../support/responses/gateway.ts';

const TOOL = { type: 'mcp', server_label: 'desk', require_approval: 'always' };
const SCRIPTS = { one: [{ toolCalls: [{ name: 'pid' }] }, { text: 'Done.' }] };
const gateways: Gateway[] = [];

afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
});

const isAsked = (events: readonly RunEvent[]) =>
  events.some(event => event.type === 'run.noted' && JSON.stringify(event.note).includes('"asked"'));

/** The first server asks for approval. While it handles the decision, the second server handles another decision on the same call. */
async function race({ when, first, second }: { when: keyof Watch; first: boolean; second: boolean }) {
  const shared = memory();
  let between: (() => Promise<unknown>) | undefined;
  const meet = async (_runId: string, events: readonly RunEvent[]) => {
    const work = isAsked(events) ? between : undefined;
    if (work !== undefined) between = undefined;
    await work?.();
  };
  const one = new Gateway(SCRIPTS, {
    config: folder => ({ mcp_servers: { desk: folder.server() } }),
    store: watchStore(shared, { [when]: meet }),
  });
  const other = new Gateway(SCRIPTS, {
    config: () => ({ mcp_servers: { desk: one.folder.server() } }),
    store: shared,
  });
  gateways.push(one, other);
  const asked = await one.create({ model: 'one', input: 'go', tools: [TOOL] });
  const request = asked.output.find(({ type }) => type === 'mcp_approval_request');
  const decide = (approve: boolean) => ({
    ...{ model: 'one', tools: [TOOL], previous_response_id: asked.id },
    input: [{ type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve }],
  });
  let winner: number | undefined;
  between = async () => {
    winner = (await other.send('POST', '', decide(second))).status;
  };
  const loser = await one.send('POST', '', decide(first));
  expect(winner).toBe(200);
  const entries = await shared.read(runOf(asked));
  const decided = entries.filter(({ event }) => event.type === 'approval.decided');
  expect(decided).toHaveLength(1);
  return {
    loser,
    request,
    again: (approve: boolean) => one.send('POST', '', decide(approve)),
    calls: one.folder.calls(),
  };
}

describe.each(['beforeAppend', 'afterAppend'] as const)('two servers with one approval (%s)', when => {
  it.each([true, false])(
    'opposite verdicts: the second is refused as already decided (first approves: %s)',
    async first => {
      const { loser, request, again, calls } = await race({ when, first, second: !first });
      expect(loser.status).toBe(400);
      expect(await loser.json()).toMatchObject({
        error: {
          code: 'approval_already_decided',
          message: `The approval request ${request?.id} was already ${first ? 'denied' : 'approved'}.`,
        },
      });
      expect(calls).toEqual(first ? [] : ['pid']);
      expect((await again(!first)).status).toBe(200);
      expect((await again(first)).status).toBe(400);
    },
  );

  it.each([true, false])('equal verdicts: both requests succeed (approve: %s)', async approve => {
    const { loser, calls } = await race({ when, first: approve, second: approve });
    expect(loser.status).toBe(200);
    expect(calls).toEqual(approve ? ['pid'] : []);
  });
});
