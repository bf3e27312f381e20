import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { indexDocuments, readDocuments } from '../../examples/research/document-index.ts';
import { readSections } from '../../examples/research/read-sections.ts';
import { makeResearcher } from '../../examples/research/researcher.ts';
import { standInModel } from '../../examples/research/stand-in-model.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { recordRequests } from '../support/engine/models.ts';
import { runProgram } from '../support/examples/run-program.ts';

const start = fileURLToPath(new URL('../../examples/research/start.ts', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'agentchart-research-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const QUESTION = 'What shall not perish from the earth, and what may Congress not abridge?';
const GETTYSBURG = 'examples/research/documents/gettysburg-address.md';
const FIRST = 'examples/research/documents/us-constitution.md#first-amendment';

/** Runs the example without any API key. */
function runStart(args: readonly string[], model?: string) {
  const kept = Object.entries(process.env).filter(([name]) => !/_API_KEY$|^AGENTCHART_/.test(name));
  const env = { ...Object.fromEntries(kept), ...omitUndefined({ AGENTCHART_MODEL: model }) };
  return runProgram(start, args, { cwd: folder, env });
}

/** The printed answer without the notes. */
function answerIn(output: string): string {
  const lines = output.split('\n').filter(line => !line.startsWith('· '));
  return lines.join('\n').trim();
}

describe.concurrent('npm run example:research', () => {
  test('without a key, answers with correct citations and names the stand-in; without streaming, too', async () => {
    const [streamed, whole] = await Promise.all([runStart([QUESTION]), runStart(['--no-stream', QUESTION])]);
    for (const { code, stdout, stderr } of [streamed, whole]) {
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toContain('using a stand-in (fixed rules, not a language model)');
      expect(stdout).toMatch(/· search ×\d, in parallel: /);
      expect(stdout).toMatch(/· read ×\d, in parallel: /);
      expect(stdout).not.toContain('\u001b');
    }
    const answer = answerIn(streamed.stdout);
    expect(answerIn(whole.stdout)).toBe(answer);
    expect(answer).toMatch(/shall not perish from the earth\.” \[\d\]/);
    expect(answer).toMatch(/abridging the freedom of speech.*” \[\d\]/);
    const [, list = ''] = answer.split('Sources:\n');
    expect(
      list
        .split('\n')
        .map(line => line.replace(/^\[\d\] .* \((.*)\)$/, '$1'))
        .toSorted(),
    ).toEqual([GETTYSBURG, FIRST]);
    expect(answer).not.toMatch(/<!--|-->|\[doc:/);
  });

  test('with AGENTCHART_MODEL, that model answers, and its invented citations are omitted', async () => {
    const file = join(folder, 'script.json');
    const turns = [
      { toolCalls: [{ name: 'search', arguments: { query: 'hope' } }] },
      {
        toolCalls: [
          { name: 'read', arguments: { id: FIRST } },
          { name: 'read', arguments: { id: 'no.md' } },
        ],
      },
      {
        text: `Speech is free [doc:${FIRST}]<!-- [doc:b.md] -->, and the moon is cheese [doc:no.md]. <!-- So`,
      },
    ];
    writeFileSync(file, JSON.stringify(turns));
    const { code, stdout } = await runStart(['--json', 'Is it?'], `scripted:${file}`);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      question: 'Is it?',
      model: `scripted:${file}`,
      status: 'finished',
      turns: 4,
      text: `Speech is free [1], and the moon is cheese. \n\nSources:\n[1] The Constitution of the United States: First Amendment (${FIRST})\n\nCitations of unread sources were omitted: no.md.`,
      read: [FIRST],
    });
  });

  test('exits with a usage error for an unknown option or a missing key', async () => {
    const [option, key] = await Promise.all([
      runStart(['--fast']),
      runStart(['Is it?'], 'openai:gpt-5-mini'),
    ]);
    expect(option).toMatchObject({ code: 2, stderr: expect.stringContaining('npm run example:research') });
    expect(key).toMatchObject({ code: 2, stderr: expect.stringContaining('OPENAI_API_KEY') });
  });
});

describe('the researcher', () => {
  test('must search first, works in rounds of parallel calls, and answers with tools off', async () => {
    const { model, requests } = recordRequests(standInModel());
    const settled = await makeResearcher(model).run(QUESTION);
    expect(requests.map(({ toolChoice }) => toolChoice)).toEqual(['required', 'auto', 'auto', 'none']);
    const called =
      requests.at(-1)?.transcript.map(item => (item.type === 'tool_call' ? item.name : '-')) ?? [];
    expect(called.join(' ')).toMatch(/search search.* - .*read read/);
    expect(settled).toMatchObject({ status: 'finished', turns: 4 });
  });

  test('keeps its notes in the transcript and hides them from readers', async () => {
    const run = await makeResearcher(standInModel()).start(QUESTION);
    let read = '';
    for await (const text of run.text()) read += text;
    expect(read).not.toContain('Notes:');
    expect(run.context.transcript.map(textOf).at(-1)).toContain('<!-- Notes:');
  });

  test('reports when it finds nothing, and cites nothing', async () => {
    const settled = await makeResearcher(standInModel()).run('zebra quantum lasagne');
    expect(settled).toMatchObject({ status: 'finished', text: expect.stringContaining('I found nothing') });
    expect(settled).not.toMatchObject({ text: expect.stringContaining('[1]') });
  });

  test('searches again for a word that no document it read contains', async () => {
    const { model, requests } = recordRequests(standInModel());
    await makeResearcher(model).run('ozymandias tortoise crow grapes desert militia bail');
    expect(requests.length).toBeGreaterThan(4);
  });

  test('may invent a citation, which is omitted', async () => {
    const settled = await makeResearcher(standInModel({ invent: true })).run('Who wins the race?');
    expect(settled).toMatchObject({ text: expect.stringMatching(/omitted: .*atlantis\.md\.$/) });
  });

  test('continues with a second question, and may cite documents read for the first', async () => {
    const researcher = makeResearcher(standInModel());
    const first = await researcher.start('What shall not perish from the earth?');
    await first.settled();
    const settled = await researcher.run('Who wins the race, hare or tortoise?', { continues: first.id });
    expect(settled).toMatchObject({ text: expect.stringContaining('aesop.md#the-hare-and-the-tortoise') });
    expect(settled).not.toMatchObject({ text: expect.stringContaining(GETTYSBURG) });
  });
});

describe('the index', () => {
  const documents = readDocuments();
  const index = indexDocuments(documents);

  test('has the README, the docs and the sample texts, by path and heading', () => {
    const paths = new Set(documents.map(({ id }) => id.replace(/#.*/, '')));
    expect([...paths]).toEqual(expect.arrayContaining(['README.md', 'docs/final-answer.md', GETTYSBURG]));
    expect(index.read(FIRST)?.text).toMatch(/^Congress shall make no law/);
    expect(index.size).toBe(documents.length);
  });

  test.each(['"', 'NEAR(', 'a AND', 'title: x', '*', "'; DROP TABLE documents; --", ''])(
    'searches %j as words, not as a query language',
    query => {
      expect(() => index.search(query, 5)).not.toThrow();
    },
  );

  test('finds words by their stem, the best document first', () => {
    expect(index.search('crows and pitchers', 5)[0]?.id).toMatch(/#the-crow-and-the-pitcher$/);
  });

  test('ignores headings in code blocks, and gives a repeated heading its own anchor', () => {
    const markdown = '# T\n\n## A\n\n```sh\n## no\n```\n\n## A\n\nagain\n\n## Empty\n';
    expect(readSections('d.md', markdown).map(({ id, title }) => [id, title])).toEqual([
      ['d.md#a', 'T: A'],
      ['d.md#a-1', 'T: A'],
    ]);
  });
});
