import type { UIMessage } from 'ai';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { toUIMessages } from '../../../fronts/ai-sdk-ui/index.ts';
import type { Item } from '../../../protocol/item.ts';
import { memory } from '../../../stores/memory.ts';
import { recordedPlayer } from '../../support/adapters/play-recorded.ts';
import { recordedTurns, recordingsArePresent } from '../../support/adapters/recordings.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { PushedModel } from '../../support/engine/pushed-model.ts';
import { ChatPage } from '../../support/fronts/ai-sdk-ui/chat-page.ts';
import { until } from '../../support/server/runs-app.ts';

type Part = UIMessage['parts'][number];

/** A page that has sent a message to an agent whose model answers with what `play` pushes. */
async function ask(play: (model: PushedModel) => void, parts: Part[] = [{ type: 'text', text: 'go' }]) {
  const model = new PushedModel();
  const agent = createAgent({ name: 'desk', model, store: memory() });
  const page = new ChatPage(agent);
  play(model);
  await page.chat.sendMessage({ role: 'user', parts });
  const [record] = (await agent.store.list()).runs;
  const run = await agent.open(record?.runId ?? '');
  return { page, run, messages: await toUIMessages(run) };
}

/** An answer with these items. */
function answer(model: PushedModel, ...items: Item[]): void {
  const content = items.flatMap(item => (item.type === 'message' ? item.content : []));
  const text = content.map(part => (part.type === 'text' ? part.text : '')).join('');
  const turn = { text, reasoning: '', toolCalls: [], usage: null, model: 'pushed', items };
  model.push({ type: 'text', text }, { type: 'turn', turn: { ...turn, finishReason: 'stop' } });
}

const said = (...content: Extract<Item, { type: 'message' }>['content']): Item => ({
  type: 'message',
  role: 'assistant',
  content,
});
const ranItem = (kind: string, data: object): Item => ({
  type: 'provider_item',
  kind,
  opaque: { provider: 'pushed', data: data as never },
});

/** The parts of the answer but text, reasoning, steps and state. */
function shownBy(page: ChatPage): Part[] {
  const plain = ['text', 'reasoning', 'step-start', 'data-run'];
  return page.last.parts.filter(({ type }) => !plain.includes(type));
}

describe('useChat shows', () => {
  test('the pages and documents that an answer cites, once the text is there', async () => {
    const annotations = [
      { type: 'url_citation', url: 'https://a.example/x', title: 'X' },
      { type: 'file_citation', file_id: 'f1', filename: 'terms.pdf' },
      { type: 'char_location', document_title: 'Handbook', cited_text: 'two weeks' },
      { type: 'url_citation', url: 'javascript:alert(1)' },
      'nonsense',
    ];
    const { page, messages } = await ask(model =>
      answer(model, said({ type: 'text', text: 'See X.', annotations })),
    );
    expect(shownBy(page)).toEqual([
      { type: 'source-url', sourceId: expect.any(String), url: 'https://a.example/x', title: 'X' },
      {
        type: 'source-document',
        sourceId: expect.any(String),
        mediaType: 'text/plain',
        title: 'terms.pdf',
        filename: 'terms.pdf',
      },
      {
        type: 'source-document',
        sourceId: expect.any(String),
        mediaType: 'text/plain',
        title: 'Handbook',
      },
    ]);
    const ids = shownBy(page).map(part => 'sourceId' in part && part.sourceId);
    expect(new Set(ids).size).toBe(3);
    expect(page.text).toBe('See X.');
    expect(page.errors).toEqual([]);
    expect(messages).toEqual(page.messages);
  });

  test('the files of an answer, and the files that its user sent', async () => {
    const image = 'data:image/webp;base64,AAAA';
    const { page, run, messages } = await ask(
      model =>
        answer(
          model,
          said({ type: 'text', text: 'Drawn.' }, { type: 'image', url: image }),
          said({ type: 'file', url: 'https://a.example/b.pdf', mediaType: 'application/pdf' }),
        ),
      [
        { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,BBBB', filename: 'seen.png' },
        { type: 'file', mediaType: 'text/csv', url: 'data:text/csv;base64,CCCC', filename: 'rows.csv' },
        { type: 'text', text: 'Draw é漢🖌.' },
      ],
    );
    expect(shownBy(page)).toEqual([
      { type: 'file', mediaType: 'image/webp', url: image },
      { type: 'file', mediaType: 'application/pdf', url: 'https://a.example/b.pdf' },
    ]);
    expect(run.context.transcript[0]).toMatchObject({
      content: [
        { type: 'image', url: 'data:image/png;base64,BBBB' },
        { type: 'file', url: 'data:text/csv;base64,CCCC', name: 'rows.csv', mediaType: 'text/csv' },
        { type: 'text', text: 'Draw é漢🖌.' },
      ],
    });
    expect(messages[1]).toEqual(page.last);
    expect(messages[0]?.parts).toMatchObject([
      { type: 'file', mediaType: 'image/png' },
      { type: 'file', filename: 'rows.csv' },
      { text: 'Draw é漢🖌.' },
    ]);
  });

  test('the tools that a provider ran as such, with their inputs and outputs, and posts nothing about them', async () => {
    const { page, messages } = await ask(model =>
      answer(
        model,
        ranItem('web_search_call', { item: { id: 'ws1', action: { query: 'é' }, status: 'completed' } }),
        ranItem('mcp_call', {
          item: { id: 'm1', name: 'lookup', arguments: '{"id":7}', output: 'found' },
        }),
        ranItem('image_generation_call', { item: { id: 'i1', result: 'DDDD', output_format: 'jpeg' } }),
        ranItem('server_tool_use', { block: { id: 's1', name: 'web_fetch', input: { url: 'u' } } }),
        ranItem('web_fetch_tool_result', {
          block: { tool_use_id: 's1', content: [{ title: 'T', encrypted_content: 'x'.repeat(99) }] },
        }),
        ranItem('tool-call', {
          part: { type: 'tool-call', toolCallId: 'a1', toolName: 'run', input: '{"n":1}' },
        }),
        ranItem('tool-result', {
          part: { type: 'tool-result', toolCallId: 'a1', toolName: 'run', result: 2 },
        }),
        ranItem('reasoning_state', { secret: 'kept' }),
        said({ type: 'text', text: 'Found.' }),
      ),
    );
    const by = { state: 'output-available', providerExecuted: true };
    expect(shownBy(page)).toMatchObject([
      { ...by, type: 'tool-web_search', toolCallId: 'ws1', input: { query: 'é' } },
      { ...by, type: 'tool-lookup', toolCallId: 'm1', input: { id: 7 }, output: 'found' },
      { ...by, type: 'tool-image_generation', output: { status: 'completed' } },
      { type: 'file', mediaType: 'image/jpeg', url: 'data:image/jpeg;base64,DDDD' },
      { ...by, type: 'tool-web_fetch', toolCallId: 's1', input: { url: 'u' }, output: [{ title: 'T' }] },
      { ...by, type: 'tool-run', toolCallId: 'a1', input: { n: 1 }, output: 2 },
    ]);
    expect(shownBy(page)).toHaveLength(6);
    expect(page.requests).toHaveLength(1);
    expect(page.errors).toEqual([]);
    expect(messages).toEqual(page.messages);
  });

  test('the state of the chart as it changes, in one data part, and the progress of tools, which is not kept', async () => {
    const model = scripted([calls('dig'), { text: 'Dug.' }]);
    const gate = makeGate();
    const run = async (_: unknown, { progress }: { progress(data: unknown): void }) => {
      await gate.promise;
      progress({ metres: 3 });
      return 'deep';
    };
    const agent = createAgent({
      name: 'digger',
      model,
      store: memory(),
      tools: [makeTool('dig', { run, approval: true })],
    });
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'dig' });
    expect(page.data('run')).toMatchObject([{ state: 'resting.awaitingApproval', status: 'waiting' }]);
    page.seen.length = 0;
    const decided = page.decide(page.open()[0], true);
    await until(() => (JSON.stringify(page.seen).includes('executingTools') ? true : undefined));
    gate.open();
    await decided;
    const states = page.seen.flatMap(part => (part.type === 'data-run' ? [part.data] : []));
    expect(states).toContainEqual(expect.objectContaining({ state: 'executingTools', status: 'running' }));
    expect(page.data('run')).toMatchObject([{ state: 'finished', status: 'finished' }]);
    expect(page.seen.filter(({ type }) => type === 'data-progress').map(({ data }) => data)).toEqual([
      { toolCallId: 'call_0_0', data: { metres: 3 } },
    ]);
    expect(page.data('progress')).toEqual([]);
  });
});

describe.skipIf(!recordingsArePresent)('useChat shows what a provider sent, as it was recorded:', () => {
  test.each([
    ['openai-responses/stream-web-search-annotations', 'tool-web_search', 'source-url', 'britannica'],
    ['anthropic/stream-web-search', 'tool-web_search', 'source-url', 'ruby-lang'],
    ['gemini/stream-web-search', 'source-url', 'source-url', 'google.com/search'],
    ['gemini/stream-code-execution', 'tool-code_execution', 'tool-code_execution', '-428330955.97745'],
    ['groq/web-search', 'tool-search', 'tool-search', 'weatherapi.com'],
  ])('%s', async (name, first, last, content) => {
    const [recorded] = recordedTurns(name);
    if (recorded === undefined) throw new Error(`no recording ${name}`);
    const { turn } = await recordedPlayer(recorded)();
    const { page, messages } = await ask(model => model.push({ type: 'turn', turn }));
    const shown = shownBy(page);
    expect([shown[0]?.type, shown.at(-1)?.type]).toEqual([first, last]);
    expect(JSON.stringify(shown)).toContain(content);
    expect(JSON.stringify(shown)).not.toMatch(/"encrypted_|thoughtSignature/);
    expect(page.errors).toEqual([]);
    expect(messages).toEqual(page.messages);
  });
});
