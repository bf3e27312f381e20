import type OpenAI from 'openai';
import type { ResponseInput } from 'openai/resources/responses/responses';
import { describe, expect, it } from 'vitest';
import { readJournal } from '../../../../engine/journal/read-journal.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { serveRuns } from '../../../../server/serve.ts';
import { memory } from '../../../../stores/memory.ts';
import { ClientSocket } from '../../../support/responses/client-socket.ts';
import { DIALECTS, DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { endOf, Gateway, runOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

type Tool = OpenAI.Responses.FunctionTool | OpenAI.Responses.CustomTool;
type Response = OpenAI.Responses.Response;

const parameters = { type: 'object', properties: {} };
const PRINT: Tool = { type: 'function', name: 'print', parameters, strict: false, async: true };
const LOOK: Tool = { type: 'function', name: 'look', parameters, strict: false };
const PATCH: Tool = { type: 'custom', name: 'patch', async: true };
const PRINTING = { calls: [{ name: 'print', arguments: { page: 1 } }] };
const ASKED = { role: 'user' as const, content: 'Print it.' };

const store = memory();
const { provider, gateway } = await gatewayOn(DialectProvider, { store });
const client = gateway.client();

type Known = keyof typeof DIALECTS;
const dialects = Object.keys(DIALECTS) as Known[];

function callsIn({ output }: Response) {
  return output.filter(item => item.type === 'function_call' || item.type === 'custom_tool_call');
}

function outputFor({ call_id, type }: { call_id: string; type: string }, output: string) {
  return { type: `${type}_output`, call_id, output } as OpenAI.Responses.ResponseInputItem.FunctionCallOutput;
}

/** Output items are input items, which the types do not say of all of them. */
function returned({ output }: Response): ResponseInput {
  return output as ResponseInput;
}

/** What the latest request to the provider says, in its dialect. */
function told(): string {
  return JSON.stringify(provider.requests.at(-1));
}

async function inputOf(id: string): Promise<JsonObject[]> {
  const { data } = await client.responses.inputItems.list(id, { order: 'asc' });
  return data as unknown as JsonObject[];
}

function outcome({ call_id }: { call_id: string }, name = 'print'): string {
  return `The background work of call ${call_id} (${name}) has ended. The tool returned:`;
}

describe.each(dialects)('an async function, with a provider of the dialect %s', dialect => {
  const model = DIALECTS[dialect];
  const create = async (input: ResponseInput, more: object = {}, tools: Tool[] = [PRINT, LOOK]) =>
    await client.responses.create({ model, input, tools, ...more, stream: false });

  it('is called and answered in one response, and its output comes two responses later', async () => {
    provider.play(PRINTING, { text: 'Printing.' }, { text: 'Still printing.' }, { text: 'It is printed.' });
    const first = await create([ASKED]);
    const [call] = callsIn(first);
    if (call === undefined) throw new Error('no call');
    expect(first.status).toBe('completed');
    expect(first.tools).toMatchObject([{ name: 'print', async: true }, { name: 'look' }]);
    expect(first.output).toMatchObject([
      { type: 'function_call', name: 'print', async: true, arguments: '{"page":1}' },
      { type: 'message', content: [{ text: 'Printing.' }] },
    ]);
    expect(await client.responses.retrieve(first.id)).toMatchObject({ output: first.output });
    expect(told()).toContain('started');
    expect(JSON.stringify(provider.requests)).not.toContain('async');

    const second = await create([{ role: 'user', content: 'Done?' }], { previous_response_id: first.id });
    expect(second.output_text).toBe('Still printing.');
    const third = await create([outputFor(call, 'ok, 1 page')], { previous_response_id: second.id });
    expect(third.output_text).toBe('It is printed.');
    expect(told()).toContain(outcome(call));
    expect(told()).toContain('ok, 1 page');
    expect(await inputOf(third.id)).toMatchObject([
      { type: 'function_call_output', call_id: call.call_id, output: 'ok, 1 page' },
    ]);

    const again = create([outputFor(call, 'again')], { previous_response_id: third.id });
    await expect(again).rejects.toMatchObject({ status: 400, code: 'tool_call_not_found' });
    const unknown = create([{ ...outputFor(call, 'x'), call_id: 'call_x' }], {
      previous_response_id: third.id,
    });
    await expect(unknown).rejects.toMatchObject({ status: 400, code: 'tool_call_not_found' });
  });

  it('can be called twice beside a plain function, with outputs that come together or apart', async () => {
    const three = {
      calls: [...PRINTING.calls, { name: 'look', arguments: {} }, { name: 'print', arguments: { page: 2 } }],
    };
    provider.play(three, { text: 'Seen.' }, { text: 'Both are printed.' });
    const first = await create([ASKED]);
    const calls = callsIn(first);
    const [one, two] = calls.filter(({ async }) => async === true);
    const plain = calls.find(({ async }) => async !== true);
    if (one === undefined || two === undefined || plain === undefined) throw new Error('calls are missing');
    expect(provider.requests).toHaveLength(1);

    const early = create([outputFor(one, 'page 1')], { previous_response_id: first.id });
    await expect(early).rejects.toMatchObject({ code: 'tool_output_missing' });
    const input = [outputFor(one, 'page 1 is out'), outputFor(plain, 'a page')];
    const second = await create(input, { previous_response_id: first.id });
    expect(second.output_text).toBe('Seen.');
    expect(told()).toContain(outcome(one));
    expect(told().indexOf('page 1 is out')).toBeGreaterThan(told().indexOf('a page'));
    expect(await inputOf(second.id)).toMatchObject([
      { type: 'function_call_output', call_id: plain.call_id, output: 'a page' },
      { type: 'function_call_output', call_id: one.call_id, output: 'page 1 is out' },
    ]);
    const third = await create([outputFor(two, 'page 2 is out')], { previous_response_id: second.id });
    expect(third.output_text).toBe('Both are printed.');
    expect(told()).toContain(outcome(two));
  });

  it.each(['store: false', 'store: true'])(
    'has its call and its output anywhere in a whole history, with %s',
    async way => {
      const more = { store: way === 'store: true' };
      provider.play(PRINTING, { text: 'Printing.' }, { text: 'Yes.' }, { text: 'Printed.' }, { text: 'So.' });
      const first = await create([ASKED], more);
      const [call] = callsIn(first);
      if (call === undefined) throw new Error('no call');
      const history: ResponseInput = [ASKED, ...returned(first), { role: 'user', content: 'Are you there?' }];
      const second = await create(history, more);
      expect(second.output_text).toBe('Yes.');
      history.push(...returned(second), outputFor(call, 'ok, 1 page'));
      const third = await create(history, more);
      expect(third.output_text).toBe('Printed.');
      expect(told().split('Printing.')).toHaveLength(2);
      expect(told()).toContain(outcome(call));
      history.push(...returned(third), { role: 'user', content: 'So?' });
      const fourth = await create(history, more);
      expect(fourth.output_text).toBe('So.');
      expect(told().split(outcome(call))).toHaveLength(2);
      const twice = create([...history, outputFor(call, 'again')], more);
      await expect(twice).rejects.toMatchObject({ status: 400, code: 'tool_call_not_found' });
      if (!more.store) return;
      expect(await inputOf(fourth.id)).toMatchObject([
        { type: 'message' },
        { type: 'function_call', call_id: call.call_id, async: true },
        { type: 'message', role: 'assistant' },
        { type: 'message' },
        { type: 'message', role: 'assistant' },
        { type: 'function_call_output', call_id: call.call_id, output: 'ok, 1 page' },
        { type: 'message', role: 'assistant' },
        { type: 'message' },
      ]);
      provider.play({ text: 'Late.' });
      const begun = await create(history.slice(0, 3), more);
      const late = await create([outputFor(call, 'late')], { previous_response_id: begun.id });
      expect(late.output_text).not.toBe('');
      expect(told()).toContain(outcome(call));
    },
  );

  it('is called in a loop of plain calls with store: false, and the run goes on', async () => {
    provider.play(PRINTING, { text: 'I look.', calls: [{ name: 'look', arguments: {} }] }, { text: 'Seen.' });
    const first = await create([ASKED], { store: false });
    const [call, plain] = callsIn(first);
    if (call === undefined || plain === undefined) throw new Error('calls are missing');
    const answers = [outputFor(call, 'printed'), outputFor(plain, 'a page')];
    const second = await create([ASKED, ...returned(first), ...answers], { store: false });
    expect(second.output_text).toBe('Seen.');
    expect(told().split('I look.')).toHaveLength(2);
    expect(told().split(outcome(call))).toHaveLength(2);
  });

  it('is referred to by its id', async () => {
    provider.play(PRINTING, { text: 'Printing.' }, { text: 'Printed.' });
    const [call] = callsIn(await create([ASKED]));
    if (call?.id === undefined) throw new Error('no call');
    const reference = { type: 'item_reference' as const, id: call.id };
    const next = await create([ASKED, reference, outputFor(call, 'ok, 1 page')]);
    expect(next.output_text).toBe('Printed.');
    expect(told()).toContain('started');
    expect(told()).toContain(outcome(call));
  });

  it('streams its call, and then the answer', async () => {
    provider.play(PRINTING, { text: 'Printing.' });
    const stream = client.responses.stream({ model, input: [ASKED], tools: [PRINT] });
    const done: object[] = [];
    stream.on('event', event => {
      if (event.type === 'response.output_item.done') done.push(event.item);
    });
    const final = await stream.finalResponse();
    expect(done).toMatchObject([
      { type: 'function_call', name: 'print', async: true },
      { type: 'message', content: [{ text: 'Printing.' }] },
    ]);
    expect(final.output_text).toBe('Printing.');
  });

  it('gets its output in a conversation, also from another server', async () => {
    provider.play(PRINTING, { text: 'Printing.' }, { text: 'Yes.' }, { text: 'Printed.' });
    const { id: conversation } = await client.conversations.create();
    const first = await create([ASKED], { conversation });
    const [call] = callsIn(first);
    if (call === undefined) throw new Error('no call');
    await create([{ role: 'user', content: 'Are you there?' }], { conversation });
    const restarted = new Gateway({}, { store });
    const third = await restarted.client().responses.create({
      ...{ model, conversation, tools: [PRINT] },
      input: [outputFor(call, 'ok, 1 page')],
    });
    expect(third.output_text).toBe('Printed.');
    expect(told()).toContain(outcome(call));
    const items = await restarted.client().conversations.items.list(conversation, { order: 'asc' });
    await restarted.close();
    expect(items.data).toMatchObject([
      { type: 'message' },
      { type: 'function_call', call_id: call.call_id, async: true },
      ...[{ type: 'message' }, { type: 'message' }, { type: 'message' }],
      { type: 'function_call_output', call_id: call.call_id, output: 'ok, 1 page' },
      { type: 'message' },
    ]);
  });
});

it('takes async custom tools', async () => {
  const model = DIALECTS.chat;
  provider.play(
    { calls: [{ name: 'patch', arguments: { input: '+ line' } }] },
    { text: 'Patching.' },
    { text: 'Patched.' },
    { text: 'Yes.' },
  );
  const tools = [PATCH];
  const first = await client.responses.create({ model, input: [ASKED], tools });
  const [call] = callsIn(first);
  if (call === undefined) throw new Error('no call');
  expect(first.output).toMatchObject([
    { type: 'custom_tool_call', name: 'patch', async: true, input: '+ line' },
    { type: 'message' },
  ]);
  const answer = outputFor(call, 'ok, patched');
  expect(answer.type).toBe('custom_tool_call_output');
  const previous = { previous_response_id: first.id };
  const second = await client.responses.create({ model, input: [answer], tools, ...previous });
  expect(second.output_text).toBe('Patched.');
  expect(told()).toContain(outcome(call, 'patch'));
  expect(await inputOf(second.id)).toMatchObject([
    { type: 'custom_tool_call_output', call_id: call.call_id, output: 'ok, patched' },
  ]);
  const history = [ASKED, ...returned(first), answer, { role: 'user' as const, content: 'Sure?' }];
  const whole = await client.responses.create({ model, input: history, tools });
  expect(whole.output_text).toBe('Yes.');
  expect(await inputOf(whole.id)).toMatchObject([
    { type: 'message' },
    { type: 'custom_tool_call', call_id: call.call_id, async: true, input: '+ line' },
    { type: 'message' },
    { type: 'custom_tool_call_output', call_id: call.call_id, output: 'ok, patched' },
    { type: 'message' },
  ]);
});

it('is told of its output over a WebSocket, with store: false', async () => {
  const model = DIALECTS.chat;
  provider.play(PRINTING, { text: 'Printing.' }, { text: 'Yes.' }, { text: 'Printed.' });
  const served = new Gateway({}, { store: memory() });
  const serving = await serveRuns(served.app, { host: '127.0.0.1', port: 0 });
  const socket = await ClientSocket.open(`${serving.url}/v1/responses`);
  const create = async (input: object[], after?: { id: string }) => {
    const previous = after === undefined ? {} : { previous_response_id: after.id };
    return endOf(await socket.create({ model, store: false, tools: [PRINT], input, ...previous }));
  };
  const first = await create([ASKED]);
  const [call] = first.output;
  const answer = { type: 'function_call_output', call_id: call?.call_id, output: 'ok, 1 page' };
  const second = await create([{ role: 'user', content: 'Are you there?' }], first);
  const third = await create([answer], second);
  expect(third.output).toMatchObject([{ content: [{ text: 'Printed.' }] }]);
  expect(told()).toContain('The background work of call');
  const again = await socket.create({
    ...{ model, store: false, tools: [PRINT], input: [answer], previous_response_id: third.id },
  });
  expect(again.at(-1)).toMatchObject({ type: 'error', error: { code: 'tool_call_not_found' } });
  socket.close();
  await serving.close();
  await served.close();
});

it.each(dialects)('takes async members of a namespace, with a provider of the dialect %s', async dialect => {
  const own = dialect === 'responses' ? 'print' : 'press__print';
  const namespace = dialect === 'responses' ? { namespace: 'press' } : {};
  const made = { type: 'function_call', call_id: 'call_n', name: own, arguments: '{}', ...namespace };
  const turn =
    dialect === 'responses'
      ? { items: [{ ...made, id: 'fc_1' }] }
      : { calls: [{ name: own, arguments: {} }] };
  provider.play(turn, { text: 'Printing.' }, { text: 'Printed.' });
  const tools = [{ type: 'namespace' as const, name: 'press', description: 'The press.', tools: [PRINT] }];
  const asked = { model: DIALECTS[dialect], tools: tools as OpenAI.Responses.Tool[] };
  const first = await client.responses.create({ ...asked, input: [ASKED] });
  expect(first.output).toMatchObject([
    { type: 'function_call', name: 'print', namespace: 'press', async: true },
    { type: 'message' },
  ]);
  expect(JSON.stringify(provider.requests)).not.toContain('async');
  const [call] = callsIn(first);
  if (call === undefined) throw new Error('no call');
  const answered = { previous_response_id: first.id, input: [outputFor(call, 'ok, 1 page')] };
  expect((await client.responses.create({ ...asked, ...answered })).output_text).toBe('Printed.');
  expect(told()).toContain('ok, 1 page');
  const history = [ASKED, ...returned(first), outputFor(call, 'ok, 1 page')];
  expect((await client.responses.create({ ...asked, input: history })).status).toBe('completed');
  expect(told()).toContain('ok, 1 page');
});

it('refuses an async function that an item declares, by name', async () => {
  const added = { type: 'additional_tools', role: 'developer', tools: [PRINT] };
  const refused = await gateway.refused({ model: DIALECTS.chat, input: [ASKED, added] });
  expect(refused).toMatchObject({ status: 400, param: 'input[1].tools[0].async' });
});

it('has its output after a compaction of the responses before', async () => {
  const model = DIALECTS.chat;
  provider.play(PRINTING, { text: 'Printing.' }, { text: 'A summary.' }, { text: 'Yes.' });
  const usual = provider.usageOf;
  provider.usageOf = () => ({ input: 5000, output: 5, cached: 0, reasoning: 0 });
  const context_management = [{ type: 'compaction' as const, compact_threshold: 1000 }];
  const asked = { model, tools: [PRINT], context_management };
  const first = await client.responses.create({ ...asked, input: [ASKED] });
  const [call] = callsIn(first);
  if (call === undefined) throw new Error('no call');
  const input = [{ role: 'user' as const, content: 'Are you there?' }];
  const second = await client.responses.create({ ...asked, input, previous_response_id: first.id });
  expect(second.output.map(({ type }) => type)).toContain('compaction');
  const output = [outputFor(call, 'ok, 1 page')];
  await client.responses.create({ ...asked, input: output, previous_response_id: second.id });
  expect(told()).toContain(outcome(call));
  expect(told()).toContain('<conversation-summary>');
  expect(told()).not.toContain('tool_calls');
  provider.usageOf = usual;
});

it.each([true, false])(
  'has its output beside an approval that waits, with a decision: %s',
  async isDecided => {
    const served = new Gateway(
      {
        m: [
          { toolCalls: [{ name: 'print' }, { name: 'echo', arguments: { text: 'hi' } }] },
          { text: 'Done.' },
        ],
      },
      { config: folder => ({ mcp_servers: { desk: folder.server({ require_approval: 'always' }) } }) },
    );
    const tools = [PRINT, { type: 'mcp', server_label: 'desk' }];
    const first = await served.create({ model: 'm', input: [ASKED], tools });
    expect(first.output.slice(1)).toMatchObject([
      { type: 'function_call', name: 'print', async: true },
      { type: 'mcp_approval_request', name: 'echo' },
    ]);
    const [, call, asked] = first.output;
    const answer = { type: 'function_call_output', call_id: call?.call_id, output: 'ok, 1 page' };
    const approval = { type: 'mcp_approval_response', approval_request_id: asked?.id, approve: true };
    const input = isDecided ? [answer, approval] : [answer];
    const second = await served.create({ model: 'm', input, tools, previous_response_id: first.id });
    expect(second.output.at(-1)).toMatchObject({ content: [{ text: 'Done.' }] });
    expect(served.folder.calls()).toEqual(isDecided ? ['echo'] : []);
    const items = JSON.stringify(await readJournal(served.store, runOf(first)));
    expect(items).toContain('The background work of call');
    await served.close();
  },
);

it('refuses an async function that programs call, by name', async () => {
  const tool: Tool = { ...PRINT, allowed_callers: ['direct', 'programmatic'] };
  const refused = client.responses.create({ model: DIALECTS.responses, input: [ASKED], tools: [tool] });
  await expect(refused).rejects.toMatchObject({ status: 400, param: 'tools[0].async' });
});
