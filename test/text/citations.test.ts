import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { ToolResult } from '../../protocol/tool-result.ts';
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

/** What the guardrail makes of an answer; the answer itself if it passes. */
async function finish(text: string, results = read('a', 'b'), overrides: Partial<CitationOptions> = {}) {
  const verdict = await numberCitations({ ...options, ...overrides })(text, {
    runId: 'r',
    runContext: undefined,
    results,
    transcript: [],
    wholeOutput: async ({ output }: Pick<ToolResult, 'output'>) => output as JsonValue,
    signal: new AbortController().signal,
    countUsage: () => {},
  });
  if (verdict.type === 'block') throw new Error(verdict.reason);
  return verdict.type === 'replace' ? verdict.value : text;
}

const SOURCES_A = '\n\nSources:\n[1] About a (a)';

describe('numberCitations', () => {
  test('numbers sources in the order they are first cited', async () => {
    expect(await finish('Beta [doc:b], alpha [doc:a], beta [doc:b].')).toBe(
      'Beta [1], alpha [2], beta [1].\n\nSources:\n[1] About b (b)\n[2] About a (a)',
    );
  });

  test('removes a marker of an unread source with the space before it, and reports it', async () => {
    expect(await finish('So it is [doc:a], and so [doc:moon].')).toBe(
      `So it is [1], and so.${SOURCES_A}\n\nCitations of unread sources were omitted: moon.`,
    );
    expect(await finish('So it is [doc:moon].')).toBe(
      'So it is.\n\nCitations of unread sources were omitted: moon.',
    );
  });

  test('accepts several ids in one marker, and keeps those that were read', async () => {
    expect(await finish('So [doc:a, doc:b; c].')).toBe(
      `So [1][2].${SOURCES_A}\n[2] About b (b)\n\nCitations of unread sources were omitted: c.`,
    );
    expect(await finish('So [doc:a, b].', read('a, b'))).toBe('So [1].\n\nSources:\n[1] About a, b (a, b)');
  });

  test('accepts other markers', async () => {
    const marker = { before: '[[', after: ']]' };
    expect(await finish('So [[a]], [doc:a].', read('a'), { marker })).toBe(`So [1], [doc:a].${SOURCES_A}`);
  });

  test.each(['no marker', 'cut off [doc:a', 'over [doc:a\nb] lines', `too long [doc:${'x'.repeat(400)}]`])(
    'leaves %j unchanged',
    async text => {
      expect(await finish(text)).toBe(text);
    },
  );

  test('ignores failed results and those of other tools', async () => {
    const [failed, searched] = read('a', 'b');
    const results = [
      { ...failed, isError: true },
      { ...searched, name: 'search' },
    ] as ToolResult[];
    expect(await finish('So [doc:a][doc:b].', results)).toBe(
      'So.\n\nCitations of unread sources were omitted: a, b.',
    );
  });

  test('ignores a marker that readers do not see', async () => {
    expect(
      await finish('So [doc:a].<!-- or [doc:b]? -->', read('a', 'b'), { textFilters: [hideHtmlComments] }),
    ).toBe(`So [1].${SOURCES_A}`);
  });

  test('writes the list in the given format', async () => {
    const format: CitationOptions['format'] = (cited, dropped) =>
      `${cited.length} read, ${dropped.length} not`;
    expect(await finish('So [doc:a][doc:c].\n', read('a'), { format })).toBe('So [1].\n\n1 read, 1 not');
  });

  test('rejects an empty marker', () => {
    expect(() => numberCitations({ ...options, marker: { before: '', after: ']' } })).toThrow(
      /text before and after/,
    );
  });
});

describe('citationFilter', () => {
  const texts = cutTexts('[doc:a]', '[doc:b, doc:a]', '[doc:moon]', ' [doc:', '  ', 'word', ']', '[', '\n');

  test('numbers a text like the guardrail does, however it is split', async () => {
    await fc.assert(
      fc.asyncProperty(texts, async ({ text, chunks }) => {
        const numbered = filterChunks(citationFilter(read('a', 'b'), options), chunks);
        expect(numbered).toBe(filterText(text, [() => citationFilter(read('a', 'b'), options)]));
        const answer = await finish(text, read('a', 'b'), { format: () => 'LIST' });
        expect(answer.startsWith(numbered)).toBe(true);
        expect(answer.slice(numbered.length)).toMatch(/^(\n{0,2}LIST)?$/);
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
      guardrails: { answer: numberCitations(options) },
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
