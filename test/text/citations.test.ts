import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { ToolResult } from '../../protocol/finisher.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { type CitationOptions, citationFilter, numberCitations } from '../../text/citations.ts';
import { hideHtmlComments } from '../../text/hide-html-comments.ts';
import { filterText } from '../../text/text-filter.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { cutTexts, filterChunks } from '../support/engine/splits.ts';
import { randomCases } from '../support/sample.ts';

/** Every result of `read` is a document whose id is its output. */
const options: CitationOptions = {
  sources: ({ name, output }) => (name === 'read' ? [{ id: String(output), title: `About ${output}` }] : []),
};

function read(...ids: string[]): ToolResult[] {
  return ids.map((id, index) => ({
    callId: `c${index}`,
    name: 'read',
    input: {},
    output: id,
    isError: false,
  }));
}

function finish(text: string, results = read('a', 'b'), overrides: Partial<CitationOptions> = {}) {
  const finisher = numberCitations({ ...options, ...overrides });
  const wholeOutput = async ({ output }: Pick<ToolResult, 'output'>) => output as JsonValue;
  return finisher(
    { runId: 'r', runContext: undefined, text, results, transcript: [], wholeOutput },
    { signal: new AbortController().signal },
  );
}

const SOURCES_A = '\n\nSources:\n[1] About a (a)';

describe('numberCitations', () => {
  test('numbers sources in the order they are first cited', () => {
    expect(finish('Beta [doc:b], alpha [doc:a], beta [doc:b].')).toEqual({
      text: 'Beta [1], alpha [2], beta [1].\n\nSources:\n[1] About b (b)\n[2] About a (a)',
    });
  });

  test('removes a marker of an unread source with the space before it, and reports it', () => {
    expect(finish('So it is [doc:a], and so [doc:moon].')).toEqual({
      text: `So it is [1], and so.${SOURCES_A}\n\nCitations of unread sources were omitted: moon.`,
    });
    expect(finish('So it is [doc:moon].')).toEqual({
      text: 'So it is.\n\nCitations of unread sources were omitted: moon.',
    });
  });

  test('accepts several ids in one marker, and keeps those that were read', () => {
    expect(finish('So [doc:a, doc:b; c].')).toEqual({
      text: `So [1][2].${SOURCES_A}\n[2] About b (b)\n\nCitations of unread sources were omitted: c.`,
    });
    expect(finish('So [doc:a, b].', read('a, b'))).toEqual({
      text: 'So [1].\n\nSources:\n[1] About a, b (a, b)',
    });
  });

  test('accepts other markers', () => {
    const marker = { before: '[[', after: ']]' };
    expect(finish('So [[a]], [doc:a].', read('a'), { marker })).toEqual({
      text: `So [1], [doc:a].${SOURCES_A}`,
    });
  });

  test.each(['no marker', 'cut off [doc:a', 'over [doc:a\nb] lines', `too long [doc:${'x'.repeat(400)}]`])(
    'leaves %j unchanged',
    text => {
      expect(finish(text)).toBeUndefined();
    },
  );

  test('ignores failed results and those of other tools', () => {
    const [failed, searched] = read('a', 'b');
    const results = [
      { ...failed, isError: true },
      { ...searched, name: 'search' },
    ] as ToolResult[];
    expect(finish('So [doc:a][doc:b].', results)).toEqual({
      text: 'So.\n\nCitations of unread sources were omitted: a, b.',
    });
  });

  test('ignores a marker that readers do not see', () => {
    expect(
      finish('So [doc:a].<!-- or [doc:b]? -->', read('a', 'b'), { textFilters: [hideHtmlComments] }),
    ).toEqual({
      text: `So [1].${SOURCES_A}`,
    });
  });

  test('writes the list in the given format', () => {
    const format: CitationOptions['format'] = (cited, dropped) =>
      `${cited.length} read, ${dropped.length} not`;
    expect(finish('So [doc:a][doc:c].\n', read('a'), { format })).toEqual({
      text: 'So [1].\n\n1 read, 1 not',
    });
  });

  test('rejects an empty marker', () => {
    expect(() => numberCitations({ ...options, marker: { before: '', after: ']' } })).toThrow(
      /text before and after/,
    );
  });
});

describe('citationFilter', () => {
  const texts = cutTexts('[doc:a]', '[doc:b, doc:a]', '[doc:moon]', ' [doc:', '  ', 'word', ']', '[', '\n');

  test('numbers a text like the finisher does, however it is split', () => {
    fc.assert(
      fc.property(texts, ({ text, chunks }) => {
        const numbered = filterChunks(citationFilter(read('a', 'b'), options), chunks);
        expect(numbered).toBe(filterText(text, [() => citationFilter(read('a', 'b'), options)]));
        const finished = finish(text, read('a', 'b'), { format: () => 'LIST' });
        const answer = finished !== undefined && 'text' in finished ? finished.text : text;
        expect(answer.startsWith(numbered)).toBe(true);
        expect(answer.slice(numbered.length)).toMatch(finished === undefined ? /^$/ : /^\n{0,2}LIST$/);
      }),
      { numRuns: randomCases(500) },
    );
  });
});

describe('in a run', () => {
  const makeReader = (turns: Parameters<typeof scripted>[0]) =>
    createAgent({
      name: 'reader',
      host: new ManualHost(),
      model: scripted(turns),
      tools: [makeTool('read', { sideEffect: 'none', run: ({ id }) => id })],
      finishers: [numberCitations(options)],
    });

  test('sources read in any round can be cited', async () => {
    const agent = makeReader([
      calls(['read', { id: 'a' }], ['read', { id: 'b' }]),
      calls(['read', { id: 'c' }]),
      { text: 'So [doc:c] and so [doc:a] and so [doc:d].' },
    ]);
    expect(await agent.run('go')).toMatchObject({
      text: 'So [1] and so [2] and so.\n\nSources:\n[1] About c (c)\n[2] About a (a)\n\nCitations of unread sources were omitted: d.',
    });
  });

  test('sources read in the continued run can be cited', async () => {
    const agent = makeReader([
      calls(['read', { id: 'a' }]),
      { text: 'Read.' },
      { text: 'As I said [doc:a].' },
    ]);
    const first = await agent.start('read');
    await first.settled();
    expect(await agent.run('and?', { continues: first.id })).toMatchObject({
      text: `As I said [1].${SOURCES_A}`,
    });
  });
});
