import { expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, type Run } from '../../../agent/index.ts';
import { createChatHandler, type QuestionData, toUIMessages } from '../../../fronts/ai-sdk-ui/index.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import type { Ask } from '../../../tools/ask.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, makeTool, resultsIn } from '../../support/engine/agents.ts';
import { ChatPage, toolsIn } from '../../support/fronts/ai-sdk-ui/chat-page.ts';

type Prepare = (given: { ask: Ask }) => unknown;

const askHow: Prepare = ({ ask }) => ask({ key: 'how', message: 'How many?', schema: z.int().positive() });

function makeBooking(prepare: Prepare): Tool {
  return tool({
    name: 'book',
    description: 'Books a table.',
    input: z.object({}),
    prepare,
    run: (_, { prepared }) => ({ booked: prepared }),
  }) as Tool;
}

function makeDesk(prepare: Prepare = askHow, turns: ScriptedTurn[] = [calls('book'), { text: 'Done.' }]) {
  const tools = [makeBooking(prepare), makeTool('look')];
  return createAgent({ name: 'desk', store: memory(), model: scripted(turns), tools });
}

async function runOf(agent: Agent): Promise<Run> {
  const { runs } = await agent.store.list();
  return await agent.open(runs.find(({ parent }) => parent === undefined)?.runId ?? '');
}

async function ask(handler: ConstructorParameters<typeof ChatPage>[0]): Promise<ChatPage> {
  const page = new ChatPage(handler);
  await page.chat.sendMessage({ text: 'A table, please.' });
  return page;
}

const questionsIn = (page: ChatPage) => page.data('question') as QuestionData[];
const isTool = (name: string) => (part: { type: string }) => part.type === `tool-${name}`;
const bookIn = (page: ChatPage) => toolsIn(page.last).find(isTool('book'));

/** Answers the questions of the call with the output of its part, as the form of a page does. */
async function answer(page: ChatPage, answers: object): Promise<void> {
  const [data] = questionsIn(page);
  await page.chat.addToolOutput({
    tool: data?.name ?? '',
    toolCallId: data?.toolCallId ?? '',
    output: { answers },
  });
  await page.idle();
}

async function decline(page: ChatPage, errorText: string): Promise<void> {
  const { name = '', toolCallId = '' } = questionsIn(page)[0] ?? {};
  await page.chat.addToolOutput({ tool: name, toolCallId, state: 'output-error', errorText });
  await page.idle();
}

const asCustomer = (agent: Agent) => createChatHandler(agent, { authorize: () => ({ name: 'ann' }) });

test('a question is a data part beside the call; a requester answers with its output, and the own output follows', async () => {
  const agent = makeDesk(askHow, [calls('look', 'book'), { text: 'Done.' }]);
  const page = await ask(asCustomer(agent));
  expect(page.tools()).toEqual(['tool-look: output-available', 'tool-book: input-available']);
  expect(questionsIn(page)).toEqual([
    {
      toolCallId: 'call_0_1',
      name: 'book',
      digest: expect.any(String),
      questions: [{ key: 'how', message: 'How many?', schema: expect.objectContaining({ type: 'integer' }) }],
    },
  ]);
  expect(page.requests).toHaveLength(1);
  const { id } = page.last;
  await answer(page, { how: 4 });
  expect(page.requests).toHaveLength(2);
  expect([page.last.id, page.text, page.errors]).toEqual([id, 'Done.', []]);
  expect(bookIn(page)).toMatchObject({ state: 'output-available', output: { booked: 4 } });
  expect(questionsIn(page)).toMatchObject([{ questions: [] }]);
  const run = await runOf(agent);
  expect(await toUIMessages(run)).toEqual(page.messages);
  const answered = (await agent.store.read(run.id)).find(({ event }) => event.type === 'question.answered');
  expect(answered?.event).toMatchObject({ by: 'ann', answers: { how: { type: 'given', value: 4 } } });
});

test('an error as the output declines, with its text as the reason', async () => {
  const agent = makeDesk();
  const page = await ask(asCustomer(agent));
  await decline(page, 'not today');
  expect([page.text, page.errors]).toEqual(['Done.', []]);
  expect(page.tools()).toEqual(['tool-book: output-error']);
  expect(questionsIn(page)).toMatchObject([{ questions: [] }]);
  expect(resultsIn((await runOf(agent)).context.transcript)).toEqual({
    call_0_0: 'Not run: The question "how" was declined: not today',
  });
});

test('a page that was loaded again while the question is open answers it', async () => {
  const agent = makeDesk();
  const handler = createChatHandler(agent);
  await ask(handler);
  const loaded = await handler(new Request('http://shop.example/api/chat/chat%201'));
  const page = new ChatPage(handler, { messages: (await loaded.json()) as never });
  expect(questionsIn(page)).toMatchObject([{ questions: [{ key: 'how' }] }]);
  expect(page.tools()).toEqual(['tool-book: input-available']);
  const resumed = await handler(new Request('http://shop.example/api/chat/chat%201/stream'));
  expect(resumed.status).toBe(204);
  await answer(page, { how: 2 });
  expect([page.text, page.errors]).toEqual(['Done.', []]);
  expect(bookIn(page)).toMatchObject({ output: { booked: 2 } });
  expect(await toUIMessages(await runOf(agent))).toEqual(page.messages);
});

test.each([
  [{ how: 'four' }, 'The answer to "how" is not valid: must be integer.'],
  [{ other: 1 }, 'Call call_0_0 asks no question "other". It asks "how".'],
  [{}, expect.stringContaining('a value for each key')],
])('an answer that does not fit (%j) is asked for again, with why', async (answers, fault) => {
  const agent = makeDesk();
  const page = await ask(agent);
  await answer(page, answers);
  expect(page.tools()).toEqual(['tool-book: input-available']);
  expect(questionsIn(page)).toMatchObject([{ questions: [{ key: 'how' }], fault }]);
  await answer(page, { how: 1 });
  expect(bookIn(page)).toMatchObject({ output: { booked: 1 } });
  expect(await toUIMessages(await runOf(agent))).toEqual(page.messages);
  expect([page.requests.length, page.errors]).toEqual([3, []]);
});

test('an output of another form than answers is asked for again', async () => {
  const page = await ask(makeDesk());
  await page.chat.addToolOutput({ tool: 'book', toolCallId: 'call_0_0', output: 4 });
  await page.idle();
  expect(page.tools()).toEqual(['tool-book: input-available']);
  expect(questionsIn(page)).toMatchObject([{ fault: expect.stringContaining('{ answers:') }]);
});

test('an answer that only the tool refuses comes back with its fault, and so does the next question', async () => {
  const even = z.int().refine(n => n % 2 === 0, 'expected an even number');
  const agent = makeDesk(async ({ ask }) => [
    await ask({ key: 'n', message: 'An even number?', schema: even }),
    await ask({ key: 'm', message: 'And then?', schema: z.string() }),
  ]);
  const page = await ask(agent);
  await answer(page, { n: 3 });
  expect(questionsIn(page)).toMatchObject([
    { questions: [{ key: 'n', fault: 'The answer 3 does not fit: expected an even number' }] },
  ]);
  expect(page.tools()).toEqual(['tool-book: input-available']);
  await answer(page, { n: 4 });
  expect(questionsIn(page)).toMatchObject([{ questions: [{ key: 'm' }] }]);
  expect(page.tools()).toEqual(['tool-book: input-available']);
  await answer(page, { m: 'x' });
  expect(bookIn(page)).toMatchObject({ output: { booked: [4, 'x'] } });
  expect([page.requests.length, page.errors]).toEqual([4, []]);
  expect(await toUIMessages(await runOf(agent))).toEqual(page.messages);
});

test('of several questions, those that are not answered stay', async () => {
  const agent = makeDesk(({ ask }) =>
    Promise.all(['a', 'b'].map(key => ask({ key, message: `${key}?`, schema: z.string() }))),
  );
  const page = await ask(agent);
  expect(questionsIn(page)).toMatchObject([{ questions: [{ key: 'a' }, { key: 'b' }] }]);
  await answer(page, { b: 'two' });
  expect(questionsIn(page)[0]?.questions.map(({ key }) => key)).toEqual(['a']);
  await answer(page, { a: 'one' });
  expect(bookIn(page)).toMatchObject({ output: { booked: ['one', 'two'] } });
  expect(await toUIMessages(await runOf(agent))).toEqual(page.messages);
});

test('the reader answers only its own questions, and sees who answers the others', async () => {
  const agent = makeDesk(({ ask }) =>
    Promise.all([
      ask({ key: 'cents', message: 'How much?', schema: z.int(), by: 'finance' }),
      ask({ key: 'where', message: 'Where?', schema: z.string() }),
    ]),
  );
  const page = await ask(asCustomer(agent));
  const waitsFor = 'the answer of a person in the group finance';
  expect(questionsIn(page)).toMatchObject([{ waitsFor, questions: [{ key: 'where' }] }]);
  await answer(page, { cents: 5 });
  expect(questionsIn(page)).toMatchObject([{ fault: expect.stringContaining('finance') }]);
  await answer(page, { where: 'here' });
  expect(bookIn(page)).toMatchObject({ state: 'output-available', preliminary: true, output: { waitsFor } });
  expect(questionsIn(page)).toMatchObject([{ questions: [] }]);
  const as = { name: 'fay', role: 'approver', groups: ['finance'] } as const;
  const desk = new ChatPage(createChatHandler(agent, { authorize: () => as }), {
    messages: await toUIMessages(await runOf(agent)),
  });
  await answer(desk, { cents: 5 });
  expect(bookIn(desk)).toMatchObject({ output: { booked: [5, 'here'] } });
  expect([page.errors, desk.errors]).toEqual([[], []]);
});

test('an answer of somebody else meanwhile stays, and the page gets its outcome', async () => {
  const agent = makeDesk();
  const page = await ask(agent);
  const run = await runOf(agent);
  expect(await run.answer('call_0_0', { answers: { how: 7 }, by: 'bob' })).toEqual({ accepted: true });
  await run.settled();
  await answer(page, { how: 2 });
  expect(bookIn(page)).toMatchObject({ output: { booked: 7 } });
  expect([page.text, page.errors]).toEqual(['Done.', []]);
  expect(questionsIn(page)).toMatchObject([{ questions: [] }]);
});

test('a page that shows another question than is open by now gets the new one', async () => {
  let people = 2;
  const agent = makeDesk(({ ask }) => ask({ key: 'ok', message: `For ${people}?`, schema: z.boolean() }));
  const page = await ask(agent);
  people = 200;
  const run = await runOf(agent);
  await run.answer('call_0_0', { answers: { ok: true } });
  await run.settled();
  await answer(page, { ok: true });
  expect(questionsIn(page)).toMatchObject([{ questions: [{ message: 'For 200?' }] }]);
  expect(questionsIn(page)[0]?.fault).toBeUndefined();
  await answer(page, { ok: true });
  expect(bookIn(page)).toMatchObject({ output: { booked: true } });
});

test('a message instead shows the question again in its own answer, where it is answered', async () => {
  const agent = makeDesk();
  const page = await ask(agent);
  await page.chat.sendMessage({ text: 'Hurry.' });
  expect(questionsIn(page)).toMatchObject([{ questions: [{ key: 'how' }] }]);
  expect(page.tools()).toEqual(['tool-book: input-available']);
  await answer(page, { how: 3 });
  await page.chat.sendMessage();
  expect(page.errors).toEqual([]);
  expect(toolsIn(page.last)).toMatchObject([{ output: { booked: 3 } }]);
});

test('a question of a sub-agent is asked and answered in the chat of its parent', async () => {
  const store = memory();
  const clerk = createAgent({
    name: 'clerk',
    store,
    model: scripted([calls('book'), { text: 'Booked.' }]),
    tools: [makeBooking(askHow)],
  });
  const agent = createAgent({
    name: 'desk',
    store,
    model: scripted([calls(['ask_clerk', { input: 'book' }]), { text: 'All done.' }]),
    tools: [clerk.asTool({ name: 'ask_clerk', description: 'Books.' })],
  });
  const page = await ask(asCustomer(agent));
  expect(questionsIn(page)).toMatchObject([
    { toolCallId: expect.stringMatching(/\/call_0_0$/), name: 'book', questions: [{ key: 'how' }] },
  ]);
  await answer(page, { how: 6 });
  expect([page.text, page.errors]).toEqual(['All done.', []]);
  expect(questionsIn(page)).toMatchObject([{ questions: [] }]);
  expect(await toUIMessages(await runOf(agent))).toEqual(page.messages);
});

test('a page with AI SDK 6 gets the same parts', async () => {
  const agent = makeDesk();
  const page = await ask(createChatHandler(agent, { aiSdk: 6 }));
  await answer(page, { how: 'four' });
  expect(questionsIn(page)).toMatchObject([{ fault: expect.stringContaining('must be integer') }]);
  await answer(page, { how: 4 });
  expect(bookIn(page)).toMatchObject({ output: { booked: 4 } });
  expect(page.errors).toEqual([]);
});

test('a viewer sees whom the question waits for, and answers nothing', async () => {
  const agent = makeDesk();
  await ask(agent);
  const handler = createChatHandler(agent, { authorize: () => ({ name: 'vic', role: 'viewer' }) });
  const loaded = await handler(new Request('http://shop.example/api/chat/chat%201'));
  const page = new ChatPage(handler, { messages: (await loaded.json()) as never });
  expect(questionsIn(page)).toEqual([]);
  expect(bookIn(page)).toMatchObject({ output: { waitsFor: 'the answer of a person' } });
  await page.chat.addToolOutput({ tool: 'book', toolCallId: 'call_0_0', output: { answers: { how: 1 } } });
  await page.idle();
  expect((await (await runOf(agent)).settled()).status).toBe('waiting');
});
