import { afterEach, describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { webhook } from '../../../agent/listening/webhook.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { FAST, makeDesk } from '../../support/tools/listening/desk.ts';
import { receiveHooks, SECRET } from '../../support/tools/listening/hook-receiver.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function receiver(...answers: number[]) {
  const opened = await receiveHooks(answers);
  closing.push(opened.close);
  return opened;
}

function listening<Agent extends ReturnType<typeof makeDesk>>(
  agent: Agent,
  url: string,
  on?: Parameters<typeof webhook>[0]['on'],
): Agent {
  closing.push(() => agent.close());
  agent.on(webhook({ url, secret: SECRET, ...(on && { on }) }));
  return agent;
}

const poll = { interval: 5 };

describe('a webhook', () => {
  test('gets a signed message that a run waits, with what for', async () => {
    const { url, received } = await receiver();
    const agent = listening(makeDesk(memory()), url);
    const run = await agent.start('go', { labels: { user: '7' } });
    const waiting = await run.settled();
    if (waiting.status !== 'waiting') throw new Error(waiting.status);
    await expect.poll(() => received.length, poll).toBe(1);
    const [message] = received;
    expect(message).toMatchObject({
      isSigned: true,
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      body: {
        type: 'run.waiting',
        data: {
          runId: run.id,
          agent: 'desk',
          labels: { user: '7' },
          status: 'waiting',
          paused: false,
          open: [{ kind: 'approval', callId: 'call_0_0', name: 'pay', input: { cents: 7 } }],
        },
      },
    });
    expect(message?.body.data).toMatchObject({ open: [{ digest: waiting.approvals[0]?.digest }] });
  });

  test('gets messages in order, each again until it takes it, with the same id', async () => {
    const { url, received } = await receiver(500, 302, 429);
    const agent = listening(makeDesk(memory()), url, ['waiting', 'finished', 'tool.settled']);
    const run = await agent.start('go');
    await run.settled();
    await expect.poll(() => received.length, poll).toBe(4);
    await run.approve('call_0_0');
    expect((await run.settled()).status).toBe('finished');
    await expect.poll(() => received.length, poll).toBe(6);
    expect(received.map(({ body }) => body.type)).toEqual([
      ...Array(4).fill('run.waiting'),
      'tool.settled',
      'run.finished',
    ]);
    expect(new Set(received.map(({ id }) => id)).size).toBe(3);
    expect(received.every(({ isSigned }) => isSigned)).toBe(true);
  });

  test('that refuses a message does not hold up the next one forever', async () => {
    let now = 0;
    const { url, received } = await receiver(400);
    const agent = createAgent({
      ...makeDesk(memory()).options,
      host: { ...FAST, now: () => (now += 40_000) },
    });
    listening(agent as ReturnType<typeof makeDesk>, url, ['run.started', 'turn.completed']);
    await agent.run('go');
    await expect.poll(() => received.map(({ body }) => body.type), poll).toContain('turn.completed');
  });

  test('gets one message about the run of a sub-agent that waits', async () => {
    const { url, received } = await receiver();
    const above = createAgent({
      name: 'above',
      host: FAST,
      model: scripted({ turns: [calls(['ask', { input: 'x' }]), { text: 'done' }] }),
      tools: [makeDesk(memory()).asTool({ name: 'ask', description: 'Asks.' }), makeTool('idle')],
    });
    listening(above as never, url);
    const run = await above.start('go');
    await run.settled();
    await expect.poll(() => received.length, poll).toBe(1);
    const later = await above.start('go');
    await expect.poll(() => received.length, poll).toBe(2);
    expect(received.map(({ body }) => body.data)).toMatchObject(
      [run, later].map(({ id }) => ({ agent: 'desk', parent: { runId: id, callId: 'call_0_0' } })),
    );
  });

  test('is refused without a valid URL, secret or topic', () => {
    const url = 'https://example.com/hook';
    const invalid = { name: 'EngineError', code: 'agent-invalid' };
    const thrown = (options: Parameters<typeof webhook>[0]) => {
      try {
        return webhook(options);
      } catch (error) {
        return error;
      }
    };
    expect(thrown({ url, secret: SECRET })).toHaveProperty('deliver');
    for (const bad of ['ftp://h', 'x', 'https://user:pass@h/'])
      expect(thrown({ url: bad, secret: SECRET })).toMatchObject(invalid);
    for (const secret of ['', 'whsec_', 'whsec_!']) expect(thrown({ url, secret })).toMatchObject(invalid);
    expect(thrown({ url, secret: SECRET, on: ['never' as never] })).toMatchObject(invalid);
  });
});
