import { afterEach, describe, expect, it } from 'vitest';
import type { RunEvent } from '../../../../protocol/event.ts';
import { memory } from '../../../../stores/memory.ts';
import { watchStore } from '../../../support/engine/watched-store.ts';
import { endOf, Gateway, type Resource, runOf } from '../../../support/responses/gateway.ts';
import { until } from '../../../support/server/runs-app.ts';

const TOOL = { type: 'mcp', server_label: 'desk', require_approval: 'always' };
const BOTH = { toolCalls: [{ name: 'echo', arguments: { text: 'hi' } }, { name: 'pid' }] };

let gateway: Gateway;
let appends: RunEvent['type'][][] = [];

afterEach(() => gateway.close());

async function askForBoth(): Promise<{ asked: Resource; decide(more?: object[]): object }> {
  appends = [];
  gateway = new Gateway(
    { two: [BOTH, { text: 'Both said.' }] },
    {
      config: folder => ({ mcp_servers: { desk: folder.server() } }),
      store: watchStore(memory(), {
        afterAppend: (_, events) => void appends.push(events.map(({ type }) => type)),
      }),
    },
  );
  const user = { role: 'user', content: 'Say hi.' };
  const asked = await gateway.create({ model: 'two', input: [user], tools: [TOOL] });
  appends = [];
  const requests = asked.output.filter(({ type }) => type === 'mcp_approval_request');
  const approvals = requests.map(({ id }) => ({
    type: 'mcp_approval_response',
    approval_request_id: id,
    approve: true,
  }));
  return {
    asked,
    decide: (more = []) => ({
      model: 'two',
      tools: [TOOL],
      previous_response_id: asked.id,
      input: [...approvals, ...more],
    }),
  };
}

async function typesIn(response: Resource): Promise<RunEvent['type'][]> {
  return (await gateway.store.read(runOf(response))).map(({ event }) => event.type);
}

describe('two decisions in one request', () => {
  it('are one append with their request, so that no crash separates them or leaves a pause', async () => {
    const { decide } = await askForBoth();
    const done = await gateway.create(decide([{ role: 'user', content: 'Be quick.' }]));
    expect(done.status).toBe('completed');
    const told = appends.filter(types => types.some(type => /decided|pause|params|message/.test(type)));
    expect(told).toEqual([
      [
        'run.noted',
        'pause.requested',
        'params.changed',
        'approval.decided',
        'approval.decided',
        'message.received',
        'run.unpaused',
      ],
    ]);
  });

  it('do not lift the pause of an operator: the calls run once the operator lifts it', async () => {
    const { asked, decide } = await askForBoth();
    expect(await gateway.tell(asked, 'pause', { by: 'operator' })).toBe(200);
    const streamed = gateway.stream(decide());
    await until(async () => {
      const decided = (await typesIn(asked)).filter(type => type === 'approval.decided');
      return decided.length === 2 ? true : undefined;
    });
    expect(await gateway.run(asked)).toMatchObject({ status: 'waiting', paused: true });
    expect(await typesIn(asked)).not.toContain('run.unpaused');
    expect(gateway.folder.calls()).toEqual([]);
    expect(await gateway.tell(asked, 'unpause', { by: 'operator' })).toBe(200);
    expect(endOf(await streamed).status).toBe('completed');
    expect(gateway.folder.calls().sort()).toEqual(['echo', 'pid']);
  });

  it('decide the remaining call when another person already decided the first', async () => {
    const { asked, decide } = await askForBoth();
    const run = await gateway.run(asked);
    const [first] = run.calls as { callId: string }[];
    expect(await gateway.tell(asked, 'reject', { callId: first?.callId, by: 'operator' })).toBe(200);
    const done = await gateway.create(decide());
    expect(done.status).toBe('completed');
    expect(gateway.folder.calls()).toEqual(['pid']);
  });
});
