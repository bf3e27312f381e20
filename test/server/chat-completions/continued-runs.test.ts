import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  addUpChunks,
  type Completion,
  complete,
  type Message,
  streamChat,
} from '../../support/responses/chat.ts';
import { calling, Gateway, type Resource } from '../../support/responses/gateway.ts';

const TOOLS = [{ type: 'function', function: { name: 'ask', parameters: { type: 'object' } } }];
const GO = { role: 'user', content: 'go' };

const SCRIPTS = {
  talk: [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }],
  ask: [{ text: 'Wait.', ...calling('ask', { n: 1 }) }, calling('ask', { n: 2 }), { text: 'Asked.' }],
  both: [
    calling('echo', { text: 'hidden' }),
    {
      toolCalls: [
        { name: 'echo', arguments: { text: 'again' } },
        { name: 'ask', arguments: {} },
      ],
    },
    { text: 'Both.' },
  ],
};

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway(SCRIPTS, {
    config: folder => ({ mcp_servers: { desk: folder.server({ hidden: true }) } }),
  });
});
afterAll(() => gateway.close());

function messageOf({ choices }: Completion): Message {
  const [choice] = choices;
  if (choice === undefined) throw new Error('there is no choice');
  return choice.message;
}

/** The message, and the results of its calls. */
function answered(message: Message, content = 'yes'): object[] {
  const calls = message.tool_calls ?? [];
  return [message, ...calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content }))];
}

async function runs(): Promise<number> {
  return (await gateway.store.list({ limit: 1000 })).runs.length;
}

/** A first request of a loop. */
async function ask(model: string, more: object = {}): Promise<Message> {
  return messageOf(await complete(gateway, { model, tools: TOOLS, messages: [GO], ...more }));
}

describe('a request that answers the calls of a response', () => {
  it('continues its run to the end of the loop', async () => {
    const before = await runs();
    const first = await ask('ask');
    const messages = [GO, ...answered(first)];
    const second = messageOf(await complete(gateway, { model: 'ask', tools: TOOLS, messages }));
    expect(second.tool_calls).toMatchObject([{ function: { arguments: '{"n":2}' } }]);
    messages.push(...answered(second));
    const third = messageOf(await complete(gateway, { model: 'ask', tools: TOOLS, messages }));
    expect(third.content).toBe('Asked.');
    expect(await runs()).toBe(before + 1);
    expect((await gateway.store.list({ limit: 1000 })).runs[0]).toMatchObject({ status: 'finished' });
  });

  it('continues its run if the client wrote the arguments again as its schema has them, and left out the text', async () => {
    const before = await runs();
    const body = { model: 'ask', tools: TOOLS, messages: [GO] };
    const { message } = addUpChunks(await streamChat(gateway, body));
    const [call] = message.tool_calls ?? [];
    const rewritten = { ...call, function: { name: 'ask', arguments: '{ "unit": "m", "n": 1 }' } };
    const [, result] = answered(message);
    const messages = [GO, { role: 'assistant', content: null, tool_calls: [rewritten] }, result];
    const next = await streamChat(gateway, { ...body, messages });
    expect(addUpChunks(next).finishReasons).toEqual(['tool_calls']);
    expect(await runs()).toBe(before + 1);
  });

  it('keeps what the tools of hidden servers gave', async () => {
    const first = await ask('both');
    expect(first.tool_calls).toHaveLength(1);
    const messages = [GO, ...answered(first)];
    const last = messageOf(await complete(gateway, { model: 'both', tools: TOOLS, messages }));
    expect(last.content).toBe('Both.');
    const [run] = (await gateway.store.list({ limit: 1000 })).runs;
    const journal = await gateway.store.read(run?.runId ?? '');
    expect(journal.filter(({ event }) => event.type === 'tool.settled')).toHaveLength(2);
  });

  it('can send a message with the results', async () => {
    const before = await runs();
    const messages = [GO, ...answered(await ask('ask')), { role: 'user', content: 'And be quick.' }];
    const next = messageOf(await complete(gateway, { model: 'ask', tools: TOOLS, messages }));
    expect(next.tool_calls).toHaveLength(1);
    expect(await runs()).toBe(before + 1);
  });

  it('continues its run after a restart of the server', async () => {
    const first = await ask('ask');
    const before = await runs();
    const next = new Gateway(SCRIPTS, { store: gateway.store });
    const messages = [GO, ...answered(first)];
    const second = messageOf(await complete(next, { model: 'ask', tools: TOOLS, messages }));
    expect(second.tool_calls).toMatchObject([{ function: { arguments: '{"n":2}' } }]);
    expect(await runs()).toBe(before);
    await next.close();
  });

  it('continues a run that is not stored, as long as its server runs', async () => {
    const before = await runs();
    const body = { model: 'both', tools: TOOLS, store: false };
    const first = await ask('both', { store: false });
    const messages = [GO, ...answered(first)];
    expect(messageOf(await complete(gateway, { ...body, messages })).content).toBe('Both.');
    expect(await runs()).toBe(before);
  });

  it('leads to no response that was not stored', async () => {
    const first = await ask('ask', { store: false });
    const [, key] = /^call_([a-z0-9]+)_0_/.exec(first.tool_calls?.[0]?.id ?? '') ?? [];
    expect(key).toBeDefined();
    const next = { model: 'ask', input: 'go on', previous_response_id: `resp_${key}` };
    expect(await gateway.refused(next)).toMatchObject({ code: 'previous_response_not_found' });
    expect((await gateway.send('GET', `/resp_${key}`)).status).toBe(404);
  });

  it('sent again continues in a copy of the run', async () => {
    const before = await runs();
    const body = { model: 'ask', tools: TOOLS, messages: [GO, ...answered(await ask('ask'))] };
    const [one, other] = [await complete(gateway, body), await complete(gateway, body)];
    expect(messageOf(other).tool_calls).toMatchObject([{ function: { arguments: '{"n":2}' } }]);
    expect(other.id).not.toBe(one.id);
    expect(await runs()).toBe(before + 2);
  });
});

describe('a request starts a run of its own', () => {
  it.each<[what: string, change: (messages: object[]) => object[]]>([
    ['an earlier message', messages => messages.with(0, { role: 'user', content: 'go on' })],
    ['the number of messages', messages => [{ role: 'system', content: 'Be brief.' }, ...messages]],
    ['the text of the answer', messages => messages.with(1, { ...messages[1], content: 'Never.' })],
    [
      'the arguments of a call',
      messages => {
        const [call] = (messages[1] as Message).tool_calls ?? [];
        const changed = { ...call, function: { name: 'ask', arguments: '{"n":5}' } };
        return messages.with(1, { ...messages[1], tool_calls: [changed] });
      },
    ],
  ])('if the client changed %s', async (_, change) => {
    const messages = change([GO, ...answered(await ask('ask'))]);
    const before = await runs();
    const next = messageOf(await complete(gateway, { model: 'ask', tools: TOOLS, messages }));
    expect(next.tool_calls).toMatchObject([{ function: { arguments: '{"n":2}' } }]);
    expect(await runs()).toBe(before + 1);
  });

  it('if the call is unknown, as after a conversation with another server', async () => {
    const id = `call_${'0'.repeat(32)}_0_${'0'.repeat(12)}`;
    const tool_calls = [{ id, type: 'function', function: { name: 'ask', arguments: '{}' } }];
    const messages = [GO, ...answered({ role: 'assistant', content: null, tool_calls })];
    const next = messageOf(await complete(gateway, { model: 'ask', tools: TOOLS, messages }));
    expect(next.tool_calls).toMatchObject([{ function: { arguments: '{"n":2}' } }]);
  });

  it('if a person has answered the call before', async () => {
    const first = await ask('ask');
    const [run] = (await gateway.store.list({ limit: 1000 })).runs;
    const response = { id: String(run?.runId).replace('run_', 'resp_') } as Resource;
    const journal = await gateway.store.read(run?.runId ?? '');
    const turn = journal.find(({ event }) => event.type === 'turn.completed')?.event;
    const callId = turn?.type === 'turn.completed' ? turn.calls[0]?.callId : undefined;
    expect(await gateway.tell(response, 'answer', { callId, output: 'no' })).toBe(200);
    const messages = [GO, ...answered(first)];
    const next = messageOf(await complete(gateway, { model: 'ask', tools: TOOLS, messages }));
    expect(next.tool_calls).toMatchObject([{ function: { arguments: '{"n":2}' } }]);
  });

  it('if the response was not stored, and its server has ended', async () => {
    const first = await ask('ask', { store: false });
    const next = new Gateway(SCRIPTS, { store: gateway.store });
    const body = { model: 'both', tools: TOOLS, messages: [GO, ...answered(first)], store: false };
    expect(messageOf(await complete(next, body)).tool_calls).toHaveLength(1);
    await next.close();
  });
});

describe('a request with the next message after an answer', () => {
  const say = (content: string) => ({ role: 'user', content });
  const NEXT = say('and then?');

  async function talk(messages: object[], more: object = {}): Promise<Message> {
    return messageOf(await complete(gateway, { model: 'talk', messages, ...more }));
  }

  /** Of the run that was begun last. */
  async function started() {
    const [run] = (await gateway.store.list({ limit: 1 })).runs;
    const [first] = await gateway.store.read(run?.runId ?? '');
    if (first?.event.type !== 'run.started') throw new Error('there is no run');
    return first.event;
  }

  it('continues the run that gave it: the store has the history once', async () => {
    const messages: object[] = [say('go on 1')];
    messages.push(await talk(messages), NEXT);
    const { runId } = await started();
    const second = await talk(messages);
    expect(second.content).toBe('Two.');
    const next = await started();
    expect(next).toMatchObject({ continues: runId, input: [{ content: [{ text: 'and then?' }] }] });
    messages.push(second, NEXT);
    expect((await talk(messages)).content).toBe('Three.');
    expect(await started()).toMatchObject({ continues: next.runId });
  });

  it.each<[what: string, change: (messages: object[]) => object[]]>([
    ['an earlier message', messages => messages.with(0, say('something else'))],
    ['the number of messages', messages => [{ role: 'system', content: 'Be brief.' }, ...messages]],
    ['the answer', messages => messages.with(1, { ...messages[1], content: 'Never. One.' })],
    ['the answer to none', messages => messages.with(1, { role: 'assistant', content: ' ' })],
  ])('begins from the messages if the client changed %s', async (what, change) => {
    const messages = [say(`go on 2 ${what}`)];
    const changed = change([...messages, await talk(messages), NEXT]);
    expect((await talk(changed)).content).toBe('Two.');
    const { continues, input } = await started();
    expect(continues).toBeUndefined();
    expect(input).toHaveLength(changed.length);
  });

  it('begins from the messages if the answer was not stored or has been deleted', async () => {
    const unstored = [say('go on 3')];
    await talk([...unstored, await talk(unstored, { store: false }), NEXT]);
    expect((await started()).continues).toBeUndefined();
    const deleted = [say('go on 4')];
    const answer = await talk(deleted);
    const { runId } = await started();
    await gateway.send('DELETE', `/${runId.replace('run_', 'resp_')}`);
    expect((await talk([...deleted, answer, NEXT])).content).toBe('Two.');
    expect((await started()).continues).toBeUndefined();
  });
});
