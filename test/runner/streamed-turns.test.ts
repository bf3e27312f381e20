import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { turns } from '../../runner/index.ts';
import { calls } from '../support/engine/agents.ts';
import { asking, makeAgent, sent } from '../support/tools/asking-agent.ts';

describe('a streaming runner', () => {
  test('yields a stream for each turn, and the same turns', async () => {
    const { agent } = makeAgent(scripted([{ text: 'I look.', ...calls('read') }, { text: 'All is well.' }]));
    const texts: string[] = [];
    const runner = turns(agent, 'go', { stream: true });
    for await (const stream of runner) {
      let text = '';
      for await (const piece of stream.text()) text += piece;
      const turn = await stream.turn();
      texts.push(`${turn.number} ${text} = ${turn.text}`);
    }
    expect(texts).toEqual(['1 I look. = I look.', '2 All is well. = All is well.']);
    expect(await runner.done()).toMatchObject({ status: 'finished' });
  });

  test('reads a stream to its end when the body does not, and applies the changes of the body', async () => {
    const { agent, requests } = makeAgent(asking(1));
    const runner = turns(agent, 'go', { stream: true });
    let seen = 0;
    for await (const _ of runner) if (++seen === 1) runner.pushMessages('Otherwise.');
    expect(seen).toBe(2);
    expect(sent(requests, 1)).toEqual(['user: go', 'user: Otherwise.']);
  });
});

describe('a turn with failed attempts', () => {
  test('is one turn for the loop body, streamed or not', async () => {
    const script = [
      { error: { status: 529, message: 'busy', times: 1 }, text: 'At last.' },
    ] satisfies Parameters<typeof scripted>[0];
    for (const stream of [true, false]) {
      const agent = createAgent({ name: 'a', model: scripted(script), retry: { baseMs: 1 } });
      const texts: string[] = [];
      if (stream) {
        for await (const given of turns(agent, 'go', { stream: true })) {
          for await (const piece of given.text()) texts.push(piece);
        }
      } else for await (const turn of turns(agent, 'go')) texts.push(turn.text);
      expect(texts.join('')).toBe('At last.');
    }
  });

  test('fails the run after the last attempt, and its stream ends', async () => {
    const agent = createAgent({
      name: 'a',
      model: scripted([{ error: { status: 401, message: 'no key' } }]),
    });
    const runner = turns(agent, 'go', { stream: true });
    for await (const given of runner) {
      for await (const _ of given.text()) throw new Error('there is no text');
      await expect(given.turn()).rejects.toThrow('no reply');
    }
    expect(await runner.done()).toMatchObject({ status: 'failed', error: { code: 'authentication' } });
  });
});
