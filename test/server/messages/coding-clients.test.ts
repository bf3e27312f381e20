/** What coding clients such as Claude Code ask for beyond a conversation with tools. */
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { addUp, fetchFrom, post, streamed } from '../../support/messages/client.ts';
import { UPSTREAMS, Upstream } from '../../support/messages/upstream.ts';
import { gatewayOn } from '../../support/responses/gateway-on.ts';

const { provider: upstream, gateway } = await gatewayOn(Upstream, {
  config: () => ({ models: { ...UPSTREAMS, newest: 'anthropic:claude-opus-5-5' } }),
});

const ANSWER = { text: 'Done.' };
const user = (...content: JsonObject[]) => ({ role: 'user', content });
const text = (words: string, more: JsonObject = {}) => ({ type: 'text', text: words, ...more });
const use = (id: string, name: string, input: JsonObject = {}) => ({ type: 'tool_use', id, name, input });
const result = (tool_use_id: string, content: string | JsonObject[], more: JsonObject = {}) => ({
  type: 'tool_result',
  tool_use_id,
  content,
  ...more,
});
const tool = (name: string, more: JsonObject = {}) => ({ name, input_schema: { type: 'object' }, ...more });
const MARK = { cache_control: { type: 'ephemeral' } };

/** Plays one answer, and returns it with what the provider was asked. */
async function ask(model: string, body: JsonObject, headers: Record<string, string> = {}) {
  upstream.play(ANSWER);
  const answer = await post(gateway, '/v1/messages', { model, max_tokens: 4_000, ...body }, headers);
  expect(answer).toMatchObject({ status: 200 });
  return { answer: answer.body, asked: upstream.requests[0] ?? {} };
}

describe('marks of the prompt cache', () => {
  const body = {
    system: [text('x-anthropic-billing-header: a'), text('You code.', MARK), text('\nBe brief.', MARK)],
    tools: [tool('Bash'), tool('Read', { cache_control: { type: 'ephemeral', ttl: '1h' } })],
    messages: [
      user(text('A reminder.'), text('Fix it.')),
      { role: 'system', content: [text('Where you are.', MARK)] },
      { role: 'assistant', content: [text('I look.'), use('toolu_1', 'Read'), use('toolu_2', 'Bash')] },
      user(result('toolu_1', 'a'), result('toolu_2', 'b', MARK)),
    ],
  };

  it('arrive at Anthropic where the client set them, and nowhere else', async () => {
    const { asked } = await ask('anthropic', body);
    expect(asked.system).toEqual(body.system);
    expect(asked.tools).toMatchObject([{ name: 'Bash' }, { name: 'Read', ...body.tools[1] }]);
    expect(asked.messages).toEqual([
      user(text('A reminder.'), text('Fix it.'), text('<system>\nWhere you are.\n</system>', MARK)),
      body.messages[2],
      body.messages[3],
    ]);
    expect(asked).not.toHaveProperty('cache_control');
    expect(asked).not.toHaveProperty('cache_marks');
  });

  it('on a block of the assistant, and inside a result, are kept too', async () => {
    const { asked } = await ask('anthropic', {
      messages: [
        user(text('Fix it.')),
        {
          role: 'assistant',
          content: [text('I look.'), use('toolu_1', 'Read', {})].map(b => ({ ...b, ...MARK })),
        },
        user(result('toolu_1', [text('a', MARK)])),
      ],
      tools: [tool('Read')],
    });
    expect(asked.messages).toMatchObject([
      {},
      { content: [{ type: 'text' }, { type: 'tool_use', ...MARK }] },
      { content: [{ type: 'tool_result', ...MARK }] },
    ]);
  });

  it('move with each request of a run', async () => {
    const call = { calls: [{ id: 'call_1', name: 'Read', arguments: '{}' }] };
    upstream.play(call, call, ANSWER);
    const tools = [tool('Read')];
    let messages: JsonObject[] = [user(text('Fix it.', MARK))];
    for (const _ of [1, 2]) {
      const { body } = await post(gateway, '/v1/messages', {
        model: 'anthropic',
        max_tokens: 9,
        tools,
        messages,
      });
      const content = body.content as JsonObject[];
      const plain = messages.map(({ role, content: blocks }) => ({
        role: role ?? null,
        content: (blocks as JsonObject[]).map(({ cache_control: _, ...block }) => block),
      }));
      messages = [...plain, { role: 'assistant', content }, user(result(String(content[0]?.id), 'a', MARK))];
    }
    await post(gateway, '/v1/messages', { model: 'anthropic', max_tokens: 9, tools, messages });
    const marked = upstream.requests.map(({ messages: sent }) =>
      (sent as JsonObject[]).map(({ content }) => JSON.stringify(content).split('cache_control').length - 1),
    );
    expect(marked).toEqual([[1], [0, 0, 1], [0, 0, 0, 0, 1]]);
    expect((await gateway.store.list({ limit: 1 })).runs).toMatchObject([{ turns: 3 }]);
  });

  it('are left out elsewhere, with the text for Anthropic’s billing', async () => {
    const { asked } = await ask('chat', body);
    expect(JSON.stringify(asked)).not.toMatch(/cache_|billing/);
    expect(asked.messages).toMatchObject([{ content: 'You code.\n\n\nBe brief.' }, {}, {}, {}, {}, {}]);
  });
});

describe('a text for Anthropic’s billing that changes with each request', () => {
  const billing = (at: number) => text(`x-anthropic-billing-header: cch=${at};`);

  async function callOnce(model: string): Promise<JsonObject[]> {
    upstream.play({ calls: [{ id: 'call_1', name: 'Read', arguments: '{}' }] }, ANSWER);
    const same = { model, max_tokens: 9, tools: [tool('Read')] };
    const messages: JsonObject[] = [user(text('Fix it.'))];
    for (const at of [0, 1]) {
      const system = [billing(at), text('You code.')];
      const { status, body } = await post(gateway, '/v1/messages', { ...same, system, messages });
      expect(status).toBe(200);
      const content = body.content as JsonObject[];
      messages.push({ role: 'assistant', content }, user(result(String(content[0]?.id), 'a')));
    }
    expect((await gateway.store.list({ limit: 1 })).runs).toMatchObject([{ turns: 2 }]);
    return upstream.requests;
  }

  it('goes to Anthropic as each request has it, in one run', async () => {
    const systems = (await callOnce('anthropic')).map(({ system }) => system);
    expect(systems).toEqual([0, 1].map(at => [billing(at), text('You code.')]));
  });

  it('leaves the requests to other providers only growing', async () => {
    const [first = [], second = []] = (await callOnce('chat')).map(
      ({ messages }) => messages as JsonObject[],
    );
    expect(first[0]).toEqual({ role: 'system', content: 'You code.' });
    expect(second.slice(0, first.length)).toEqual(first);
    expect(second).toHaveLength(first.length + 2);
  });
});

describe('the next prompt of a session', () => {
  const body = {
    max_tokens: 9_000,
    tools: [tool('Read')],
    thinking: { type: 'adaptive', display: 'omitted' },
  };
  const calls = ['a', 'b'].map(path => ({
    id: `toolu_${path}`,
    name: 'Read',
    arguments: JSON.stringify({ path }),
  }));

  /** Two prompts, the first with two calls; returns what the provider was sent last, and before. */
  async function talk(model: string, ...turns: Parameters<typeof upstream.play>) {
    upstream.play(...turns, { text: 'Tested.' });
    const messages: JsonObject[] = [user(text('Fix it.'))];
    for (const { calls: made } of [...turns, { calls: undefined }]) {
      const { status, body: answer } = await post(gateway, '/v1/messages', { ...body, model, messages });
      expect(status).toBe(200);
      const content = answer.content as JsonObject[];
      const uses = content.filter(({ type }) => type === 'tool_use');
      const results = uses.map(({ id }) => result(String(id), 'It rains.'));
      messages.push({ role: 'assistant', content }, user(...(made ? results : [text('Test it.')])));
    }
    const [last, before] = upstream.requests.toReversed();
    return { last: last?.messages as JsonObject[], before: before?.messages as JsonObject[] };
  }

  it('begins at Anthropic with what the provider has cached, down to the ids of its calls', async () => {
    const turn = { reasoning: 'Hm.', text: 'I look.', calls };
    const { last, before } = await talk('newest', turn, { reasoning: 'So.', text: 'Fixed.' });
    expect(last.slice(0, before.length)).toEqual(before);
    expect(JSON.stringify(last)).toContain('"toolu_a"');
  });

  it('begins so also if the client has added defaults to the inputs of calls', async () => {
    upstream.play({ reasoning: 'Hm.', calls: calls.slice(0, 1) }, { text: 'Fixed.' }, { text: 'Tested.' });
    const first = [user(text('Fix it.'))];
    const { body: made } = await post(gateway, '/v1/messages', { ...body, model: 'newest', messages: first });
    const content = (made.content as JsonObject[]).map(
      (block): JsonObject =>
        block.type === 'tool_use' ? { ...block, input: { all: false, path: 'a' } } : block,
    );
    const id = String(content.at(-1)?.id);
    const messages = [...first, { role: 'assistant', content }, user(result(id, 'It rains.'))];
    await post(gateway, '/v1/messages', { ...body, model: 'newest', messages });
    const next = [...messages, { role: 'assistant', content: [text('Fixed.')] }, user(text('Test it.'))];
    await post(gateway, '/v1/messages', { ...body, model: 'newest', messages: next });
    const [, before, last] = upstream.requests.map(({ messages: sent }) => sent as JsonObject[]);
    expect(last?.slice(0, before?.length)).toEqual(before);
  });

  it('has the reasoning that a stream left out before a text', async () => {
    upstream.play({ reasoning: 'I look.', text: 'One moment.' }, { text: 'Tested.' });
    const asked = { ...body, model: 'chat', messages: [user(text('Fix it.'))] };
    const { content } = addUp(await streamed(gateway, asked));
    expect(content).toMatchObject([{ type: 'thinking', thinking: '' }, { text: 'One moment.' }]);
    // Another history than that of the answer, so that no run is continued.
    const first = user(text('Fix it, please.'));
    const messages = [first, { role: 'assistant', content }, user(text('Test it.'))];
    await post(gateway, '/v1/messages', { ...asked, messages });
    const [run] = (await gateway.store.list({ limit: 1 })).runs;
    const [started] = await gateway.store.read(run?.runId ?? '');
    expect(started?.event).toMatchObject({ input: [{}, { type: 'reasoning', text: 'I look.' }, {}, {}] });
  });

  it('keeps ids apart that two runs have used', async () => {
    const turn = { calls: calls.slice(0, 1) };
    const { last } = await talk('newest', turn, { text: 'Fixed.' });
    const again = last.map(message =>
      JSON.parse(JSON.stringify(message).replaceAll('toolu_a', 'toolu_x_0_0123456789ab_toolu_a')),
    );
    const twice = [...last, { role: 'assistant', content: [text('Fine.')] }, ...again];
    const { asked } = await ask('newest', { ...body, messages: twice });
    const ids = (asked.messages as JsonObject[]).flatMap(({ content }) =>
      (content as JsonObject[]).flatMap(({ type, id }) => (type === 'tool_use' ? id : [])),
    );
    expect(ids).toEqual(['toolu_a', 'toolu_x_0_0123456789ab_toolu_a']);
  });
});

describe('an instruction in the conversation', () => {
  const inside = { role: 'system', content: [text('Be quick.')] };
  const answered = { role: 'assistant', content: [text('Hm.')] };

  it('is one for a model that reads it there, after a message of the user and before an answer', async () => {
    const messages = [user(text('Fix it.')), inside, inside, answered, user(text('And?')), inside];
    const { asked } = await ask('newest', { messages });
    const twice = { role: 'system', content: [text('Be quick.'), text('Be quick.')] };
    expect(asked.messages).toEqual([messages[0], twice, answered, messages[4], inside]);
  });

  it('is a text of the user where the model would refuse it', async () => {
    const framed = text('<system>\nBe quick.\n</system>');
    const { asked } = await ask('newest', { messages: [user(text('Fix it.')), inside, user(text('And?'))] });
    expect(asked.messages).toEqual([user(text('Fix it.'), framed, text('And?'))]);
    const older = await ask('anthropic', { messages: [user(text('Fix it.')), inside] });
    expect(older.asked.messages).toEqual([user(text('Fix it.'), framed)]);
  });

  it('may say which effort the request has, and no other', async () => {
    const low = { ...inside, output_config: { effort: 'low' } };
    const body = { messages: [user(text('Fix it.')), low], max_tokens: 9, model: 'newest' };
    await ask('newest', { ...body, output_config: { effort: 'low' } });
    const { status, body: refused } = await post(gateway, '/v1/messages', body);
    expect(status).toBe(400);
    expect(refused).toMatchObject({
      error: { message: expect.stringMatching(/^messages\.1\.output_config\.effort: /) },
    });
  });
});

describe('deferred tools', () => {
  const tools = [
    tool('Bash'),
    tool('Cron', { defer_loading: true }),
    tool('Fetch', { defer_loading: true }),
    tool('ToolSearch'),
  ];
  const found = [{ type: 'tool_reference', tool_name: 'Fetch' }];
  const messages = [
    user(text('Fetch it.')),
    { role: 'assistant', content: [use('toolu_1', 'ToolSearch', { query: 'fetch' })] },
    user(result('toolu_1', found), text('Tool loaded.')),
  ];
  const namesIn = ({ tools: declared }: JsonObject) =>
    (declared as JsonObject[]).map(one => one.name ?? (one.function as JsonObject)?.name);

  it('stay deferred at Anthropic, which gets the references of the client’s search and no search of its own', async () => {
    const { asked } = await ask('anthropic', { tools, messages });
    expect(asked.tools).toMatchObject(tools);
    expect(asked.tools).toHaveLength(4);
    expect(asked.messages).toEqual(messages);
  });

  it.each(['responses', 'chat'])('come after the others at %s, once they are found', async model => {
    const before = await ask(model, { tools, messages: messages.slice(0, 1) });
    expect(namesIn(before.asked)).toEqual(['Bash', 'ToolSearch']);
    const { asked } = await ask(model, { tools, messages });
    expect(namesIn(asked)).toEqual(['Bash', 'ToolSearch', 'Fetch']);
    expect(JSON.stringify(asked)).not.toContain('defer_loading');
    expect(JSON.stringify(asked)).toContain('tool_reference');
  });

  it('that the client adds while it works do not end the beginning of the request', async () => {
    upstream.play({ calls: [{ id: 'call_1', name: 'ToolSearch', arguments: '{}' }] }, ANSWER);
    const asked = { model: 'newest', max_tokens: 9_000 };
    const first = [tool('Bash'), tool('ToolSearch')];
    const begun = { ...asked, tools: first, messages: messages.slice(0, 1) };
    const { body } = await post(gateway, '/v1/messages', begun);
    const content = body.content as JsonObject[];
    await post(gateway, '/v1/messages', {
      ...asked,
      tools: [first[0], tools[2], first[1]],
      messages: [messages[0], { role: 'assistant', content }, user(result(String(content[0]?.id), found))],
    });
    const [run] = (await gateway.store.list({ limit: 1 })).runs;
    const events = await gateway.store.read(run?.runId ?? '');
    const turns = events.flatMap(({ event }) => (event.type === 'turn.completed' ? [event] : []));
    expect(turns).toHaveLength(2);
    expect(turns.filter(({ broken, appended }) => broken ?? appended)).toEqual([]);
    expect(upstream.requests[1]?.tools).toMatchObject([
      { name: 'Bash' },
      { name: 'Fetch', defer_loading: true },
      { name: 'ToolSearch' },
    ]);
  });

  it('of Anthropic’s own search are found by the provider’s search, or by the server’s', async () => {
    const search = { type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' };
    const searched = { tools: [...tools.slice(0, 2), search], messages: messages.slice(0, 1) };
    const { asked } = await ask('anthropic', searched);
    expect(asked.tools).toMatchObject([{}, { defer_loading: true }, { name: 'tool_search_tool_bm25' }]);
    expect(namesIn((await ask('chat', searched)).asked)).toEqual(['Bash', 'search_tools']);
  });
});

describe('context_management', () => {
  const edits = (...list: JsonObject[]) => ({ context_management: { edits: list } });
  const KEEP_ALL = { type: 'clear_thinking_20251015', keep: 'all' };
  const rounds = Array.from({ length: 5 }, (_, at) => [
    { role: 'assistant', content: [use(`toolu_${at}`, at === 0 ? 'Read' : 'Bash', { at })] },
    user(result(`toolu_${at}`, `The result ${at} ${'word '.repeat(40)}`)),
  ]).flat();
  const messages = [user(text('Fix it.')), ...rounds];
  const tools = [tool('Read'), tool('Bash')];

  it('goes to Anthropic as it is, with its beta feature, and the answer says what was cleared', async () => {
    const managed = edits(KEEP_ALL, {
      type: 'clear_tool_uses_20250919',
      keep: { type: 'tool_uses', value: 1 },
    });
    const { asked, answer } = await ask('anthropic', { messages, tools, ...managed });
    expect(asked).toMatchObject(managed);
    expect(asked.messages).toEqual(messages);
    expect(answer).toMatchObject({ context_management: { applied_edits: [] } });
  });

  it('that changes nothing changes nothing elsewhere', async () => {
    const { asked, answer } = await ask('chat', { messages, tools, ...edits(KEEP_ALL) });
    expect(asked).not.toHaveProperty('context_management');
    expect(JSON.stringify(asked)).toContain('The result 0');
    expect(answer).toMatchObject({ context_management: { applied_edits: [] } });
  });

  it('is no part of an answer whose request has none', async () => {
    expect((await ask('chat', { messages, tools })).answer).not.toHaveProperty('context_management');
  });

  it.each<[string, JsonObject, number[], number]>([
    ['the oldest results are cleared, but for those that are kept', {}, [0, 1, 2], 3],
    ['inputs of a tool too', { clear_tool_inputs: ['Bash'] }, [0, 1, 2], 3],
    ['not those of a tool that is left out', { exclude_tools: ['Read'] }, [1, 2], 2],
    ['nothing before there are more calls', { trigger: { type: 'tool_uses', value: 5 } }, [], 0],
    ['nothing before there are more tokens', { trigger: { type: 'input_tokens', value: 90_000 } }, [], 0],
    [
      'nothing if too little would be cleared',
      { clear_at_least: { type: 'input_tokens', value: 9_000 } },
      [],
      0,
    ],
  ])('elsewhere %s', async (_, more, cleared, uses) => {
    const clear = {
      type: 'clear_tool_uses_20250919',
      trigger: { type: 'tool_uses', value: 4 },
      keep: { type: 'tool_uses', value: 2 },
      ...more,
    };
    const { asked, answer } = await ask('chat', { messages, tools, ...edits(clear) });
    const sent = JSON.stringify(asked);
    for (const at of [0, 1, 2, 3, 4]) {
      expect(sent.includes(`The result ${at}`)).toBe(!cleared.includes(at));
      const hasInput = sent.includes(`{\\"at\\":${at}}`);
      expect(hasInput).toBe(!('clear_tool_inputs' in more) || at === 0 || !cleared.includes(at));
    }
    const applied = { type: clear.type, cleared_tool_uses: uses, cleared_input_tokens: expect.any(Number) };
    expect(answer).toMatchObject({ context_management: { applied_edits: uses === 0 ? [] : [applied] } });
  });

  it('clears the thinking before the last messages of the user', async () => {
    const thought = (words: string) => ({ type: 'thinking', thinking: words, signature: 'x' });
    const conversation = [
      user(text('One')),
      { role: 'assistant', content: [thought('Old thought'), text('1')] },
      user(text('Two')),
      { role: 'assistant', content: [thought('New thought'), text('2')] },
      user(text('Three')),
    ];
    const keep = { type: 'thinking_turns', value: 2 };
    const managed = edits({ type: 'clear_thinking_20251015', keep });
    upstream.play({ text: 'Done.' });
    const events = await streamed(gateway, {
      model: 'chat',
      max_tokens: 9,
      messages: conversation,
      ...managed,
    });
    expect(events.find(({ type }) => type === 'message_delta')).toMatchObject({
      context_management: { applied_edits: [{ type: 'clear_thinking_20251015', cleared_thinking_turns: 1 }] },
    });
    const [run] = (await gateway.store.list({ limit: 1 })).runs;
    expect(JSON.stringify(await gateway.store.read(run?.runId ?? ''))).toContain('Old thought');
  });

  it.each([
    ['an edit that no one knows', [{ type: 'clear_all' }], /^context_management\.edits\.0\.type/],
    ['a pause', [{ type: 'compact_20260112', pause_after_compaction: true }], /pause_after_compaction/],
    [
      'instructions',
      [{ type: 'compact_20260112', instructions: 'Be brief.' }],
      /^context_management\.edits\.0\.instructions/,
    ],
  ])('refuses %s by name', async (_, list, problem) => {
    const body = { model: 'chat', max_tokens: 9, messages, tools, ...edits(...list) };
    const { status, body: refused } = await post(gateway, '/v1/messages', body);
    expect(status).toBe(400);
    expect(refused).toMatchObject({ error: { message: expect.stringMatching(problem) } });
  });
});

describe('a compaction', () => {
  const management = {
    context_management: {
      edits: [{ type: 'compact_20260112', trigger: { type: 'input_tokens', value: 50_000 } }],
    },
  };
  const long = [
    user(text(`Fix it. ${'word '.repeat(60_000)}`)),
    { role: 'assistant', content: [text('Hm.')] },
  ];

  it('elsewhere is the run’s own: the answer begins with its block, which stands for what came before', async () => {
    upstream.play({ text: 'They want it fixed.' }, ANSWER, { text: 'Tested.' });
    const body = { model: 'chat', max_tokens: 9, messages: [...long, user(text('Go on.'))], ...management };
    const { body: answer } = await post(gateway, '/v1/messages', body);
    expect(answer.content).toMatchObject([
      { type: 'compaction', content: expect.stringContaining('summarized') },
      { type: 'text', text: 'Done.' },
    ]);
    const next = [
      ...body.messages,
      { role: 'assistant', content: answer.content ?? null },
      user(text('Test it.')),
    ];
    const { status } = await post(gateway, '/v1/messages', { ...body, messages: next });
    expect(status).toBe(200);
    const sent = JSON.stringify(upstream.requests[2]);
    expect(sent).toContain('They want it fixed.');
    expect(sent).not.toContain('word word');
    expect(sent).toContain('Test it.');
  });

  it('of Anthropic comes and goes as it is', async () => {
    const block = { type: 'compaction', content: 'They want it fixed.', encrypted_content: null };
    upstream.playBlocks([block, text('Done.')]);
    const body = { model: 'anthropic', max_tokens: 9, messages: [user(text('Go on.'))], ...management };
    const { body: answer } = await post(gateway, '/v1/messages', body);
    expect(answer.content).toMatchObject([block, { type: 'text', text: 'Done.' }]);
    const events = await streamed(gateway, body);
    expect(events.filter(({ type }) => type === 'content_block_start')).toMatchObject([
      { index: 0, content_block: block },
      { index: 1, content_block: { type: 'text' } },
    ]);
    const content = answer.content ?? null;
    await ask('anthropic', {
      messages: [...body.messages, { role: 'assistant', content }, user(text('More.'))],
    });
    expect(upstream.requests[0]?.messages).toMatchObject([
      {},
      { content: [{ type: 'compaction', content: block.content }, { type: 'text' }] },
      {},
    ]);
  });

  it('of Anthropic is a message for other models', async () => {
    const block = { type: 'compaction', content: 'They want it fixed.' };
    const { asked } = await ask('chat', {
      messages: [{ role: 'assistant', content: [block] }, user(text('Go on.'))],
    });
    expect(asked.messages).toMatchObject([{ role: 'user' }, { role: 'user' }]);
    expect(JSON.stringify(asked)).toContain('They want it fixed.');
  });
});

it('speed and fallbacks go to Anthropic, and what says nothing about the answer goes nowhere', async () => {
  const asked = { speed: 'fast', fallbacks: [{ model: 'claude-sonnet-5-5' }] };
  const hints = { diagnostics: { previous_message_id: 'msg_1' }, context_hint: { enabled: true } };
  const headers = { 'anthropic-beta': 'claude-code-20250219,context-hint-2026-04-09' };
  const sent = await ask('anthropic', { messages: [user(text('Hi'))], ...asked, ...hints }, headers);
  expect(sent.asked).toMatchObject(asked);
  for (const name of Object.keys(hints)) expect(sent.asked).not.toHaveProperty(name);
  const other = await ask('responses', { messages: [user(text('Hi'))], ...asked, ...hints });
  for (const name of Object.keys({ ...asked, ...hints })) expect(other.asked).not.toHaveProperty(name);
});

it('beta features that no field asks for go to Anthropic, and others do not', async () => {
  const messages = [user(text('Hi'))];
  const headers = { 'anthropic-beta': 'claude-code-20250219, interleaved-thinking-2025-05-14,x-2025-01-01' };
  const { asked } = await ask('anthropic', { messages, speed: 'fast' }, headers);
  expect(upstream.headers['anthropic-beta']).toBe('interleaved-thinking-2025-05-14,fast-mode-2026-02-01');
  expect(asked).not.toHaveProperty('betas');
  await ask('chat', { messages }, headers);
  expect(upstream.headers).not.toHaveProperty('anthropic-beta');
});

describe('the list of models', () => {
  const read = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetchFrom(gateway)(`http://127.0.0.1:4100${path}`, { headers });
    return { status: response.status, body: (await response.json()) as JsonObject };
  };
  const VERSION = { 'anthropic-version': '2023-06-01' };

  it('has Anthropic’s form for Anthropic’s clients alone', async () => {
    const { body } = await read('/v1/models', VERSION);
    const ids = [...Object.keys(UPSTREAMS), 'newest'];
    expect(body).toMatchObject({ has_more: false, first_id: ids[0], last_id: 'newest' });
    expect(body.data).toMatchObject(ids.map(id => ({ id, type: 'model', display_name: id })));
    expect((await read('/v1/models')).body).toMatchObject({
      object: 'list',
      data: [{ object: 'model' }, {}, {}, {}, {}],
    });
  });

  it('has single models, and Anthropic’s error for unknown ones', async () => {
    expect((await read('/v1/models/chat', VERSION)).body).toMatchObject({ id: 'chat', type: 'model' });
    expect((await read('/v1/models/chat')).body).toMatchObject({ id: 'chat', object: 'model' });
    expect(await read('/v1/models/none', VERSION)).toMatchObject({
      status: 404,
      body: { type: 'error', error: { type: 'not_found_error', message: 'model: none' } },
    });
  });
});
