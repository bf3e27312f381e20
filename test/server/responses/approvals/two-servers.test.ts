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

/**
 * The first server asks for approval. Before or after it appends a decision, the second server handles another decision
 * on the same call.
 */
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
    model: 'one',
    tools: [TOOL],
    previous_response_id: asked.id,
    input: [{ type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve }],
  });
  /** The status of the second server's response, which comes first. */
  let otherStatus: number | undefined;
  between = async () => {
    otherStatus = (await other.send('POST', '', decide(second))).status;
  };
  const own = await one.send('POST', '', decide(first));
  const entries = await shared.read(runOf(asked));
  const decided = entries.filter(({ event }) => event.type === 'approval.decided');
  expect(decided).toHaveLength(1);
  return {
    otherStatus,
    own,
    request,
    again: (approve: boolean) => one.send('POST', '', decide(approve)),
    calls: one.folder.calls(),
  };
}

describe('two servers with one approval', () => {
  const when = 'beforeAppend';

  it.each([true, false])(
    'opposite decisions: the second is refused as already decided (first approves: %s)',
    async first => {
      const { otherStatus, own, request, again, calls } = await race({ when, first, second: !first });
      expect(otherStatus).toBe(200);
      expect(own.status).toBe(400);
      expect(await own.json()).toMatchObject({
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

  it.each([true, false])('equal decisions: both requests succeed (approve: %s)', async approve => {
    const { otherStatus, own, calls } = await race({ when, first: approve, second: approve });
    expect(otherStatus).toBe(200);
    expect(own.status).toBe(200);
    expect(calls).toEqual(approve ? ['pid'] : []);
  });

  it.each([true, false])(
    'a request is appended with its decision: the other server refuses the opposite at once (first approves: %s)',
    async first => {
      const { otherStatus, own, calls } = await race({ when: 'afterAppend', first, second: !first });
      expect([own.status, otherStatus]).toEqual([200, 400]);
      expect(calls).toEqual(first ? ['pid'] : []);
    },
  );
});
