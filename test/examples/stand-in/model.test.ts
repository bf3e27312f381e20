import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type StandIn, startStandIn } from '../../../examples/stand-in/wire/provider.ts';
import { checkDocuments } from '../../../examples/steward/check-documents.ts';
import { STEWARD_TASK } from '../../../examples/steward/instructions.ts';
import { writeReport } from '../../../examples/steward/write-report.ts';
import {
  functionTool,
  memoryFolder,
  openSession,
  type SessionOptions,
  TOOLS,
  type Turn,
} from '../../support/examples/steward-session.ts';

const FOLDER = fileURLToPath(new URL('../../../examples/steward/documents', import.meta.url));
const ROOT = '/home/me/hand book';

let standIn: StandIn;
let client: OpenAI;

beforeAll(async () => {
  standIn = await startStandIn();
  client = new OpenAI({ apiKey: 'anything', baseURL: `${standIn.root}/openai/v1`, maxRetries: 0 });
});

afterAll(() => standIn[Symbol.asyncDispose]());

function readExample(): Map<string, string> {
  const paths = readdirSync(FOLDER, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => `${entry.parentPath}/${entry.name}`.slice(FOLDER.length + 1));
  return new Map(paths.map(path => [path, readFileSync(`${FOLDER}/${path}`, 'utf8')]));
}

function open(files: Map<string, string>, options: Partial<SessionOptions> = {}) {
  return openSession({ client, root: ROOT, execute: memoryFolder(ROOT, files), ...options });
}

function shape(turns: Turn[]): string[][] {
  return turns.map(turn => turn.calls.map(call => call.name));
}

function lastText(turns: Turn[]): string {
  return turns.at(-1)?.text ?? '';
}

const MODES = [
  { chained: false, stream: false },
  { chained: false, stream: true },
  { chained: true, stream: false },
  { chained: true, stream: true },
];

describe.each(MODES)('with %o', mode => {
  test('lists the folder, reads every document at once, proposes the report and answers with quotes', async () => {
    const files = readExample();
    const original = [...files]
      .filter(([path]) => path.endsWith('.md'))
      .map(([path, text]) => ({ path, text }));
    const expected = writeReport(original, checkDocuments(original, [...files.keys()]));
    const turns = await open(files, mode).say(STEWARD_TASK);

    expect(shape(turns)).toEqual([['directory_tree'], Array(8).fill('read_text_file'), ['write_file'], []]);
    expect(turns.every(turn => turn.text !== '')).toBe(true);
    const read = turns[1]?.calls.map(call => call.input.path);
    expect(read).toEqual(original.map(file => `${ROOT}/${file.path}`).sort());
    expect(turns[2]?.calls[0]?.input).toEqual({ path: `${ROOT}/REPORT.md`, content: expected });
    expect(files.get('REPORT.md')).toBe(expected);

    const summary = lastText(turns);
    expect(summary).toContain(
      '5 findings (2 broken links, 1 dead anchor, 1 missing title, 1 duplicated heading)',
    );
    expect(summary).toContain(`The report is in ${ROOT}/REPORT.md.`);
    expect(summary).toContain('stand-in');
    const quotes = [...summary.matchAll(/^> (.+)\n> \((.+)\)$/gm)];
    expect(quotes).toHaveLength(3);
    for (const [, sentence = '', path = ''] of quotes) expect(files.get(path)).toContain(sentence);
  });

  test('reports changes in edited files, and reads the folder again for a second check', async () => {
    const files = readExample();
    const session = open(files, mode);
    await session.say(STEWARD_TASK);
    const before = files.get('REPORT.md');
    files.set('desk/on-call.md', '# The on-call rota\n');
    files.set('glossary.md', `${files.get('glossary.md')}\n## In limbo\n\nSee [nothing](nothing.md).\n`);
    const turns = await session.say('I changed two things, please check again.');
    expect(shape(turns)).toEqual([['directory_tree'], Array(9).fill('read_text_file'), ['write_file'], []]);
    expect(files.get('REPORT.md')).not.toBe(before);
    expect(files.get('REPORT.md')).toContain('9 documents checked: 4 findings (2 broken links');
    expect(files.get('REPORT.md')).toContain('`nothing.md` does not exist');
    expect(files.get('REPORT.md')).not.toContain('on-call.md` does not exist');
  });

  test('reports a refused write, and gives the findings in the answer', async () => {
    const files = readExample();
    const folder = memoryFolder(ROOT, files);
    const turns = await open(files, {
      ...mode,
      execute: (name, input) =>
        name === 'write_file' ? 'Not run: the call was rejected: not today' : folder(name, input),
    }).say(STEWARD_TASK);
    expect(shape(turns).at(-2)).toEqual(['write_file']);
    expect(lastText(turns)).toContain('REPORT.md was not written');
    expect(lastText(turns)).toContain('not today');
    expect(lastText(turns)).toContain('`desk/on-call.md` does not exist');
    expect(lastText(turns)).not.toContain('The report is in');
  });

  test('answers a later question honestly and without calls', async () => {
    const session = open(readExample(), mode);
    await session.say(STEWARD_TASK);
    const turns = await session.say('Did you check my grammar?');
    expect(shape(turns)).toEqual([[]]);
    expect(lastText(turns)).toContain('Did you check my grammar?');
    expect(lastText(turns)).toContain('stand-in for a model');
  });
});

describe('the folder determines the work', () => {
  test('more than 40 documents are read in batches', async () => {
    const files = new Map(Array.from({ length: 93 }, (_, index) => [`a/${index}.md`, `# ${index}\n`]));
    const turns = await open(files).say(STEWARD_TASK);
    expect(turns.map(turn => turn.calls.length)).toEqual([1, 40, 40, 13, 1, 0]);
    expect(files.get('REPORT.md')).toContain('93 documents checked: no findings.');
  });

  test('an unreadable document is named in the report, and the others are checked', async () => {
    const files = new Map([
      ['a.md', '# A\n\n[b](b.md#x)\n'],
      ['b.md', '# B\n'],
    ]);
    const folder = memoryFolder(ROOT, files);
    const reason = `EACCES: permission denied, open '${ROOT}/b.md'`;
    const turns = await open(files, {
      execute: (name, input) => (input.path?.endsWith('b.md') ? reason : folder(name, input)),
    }).say(STEWARD_TASK);
    expect(files.get('REPORT.md')).toContain(`## Not read`);
    expect(files.get('REPORT.md')).toContain(reason);
    expect(files.get('REPORT.md')).toContain('1 document checked: no findings.');
    expect(lastText(turns)).toContain(reason);
  });

  test('without Markdown documents, it reports that and writes nothing', async () => {
    const turns = await open(
      new Map([
        ['REPORT.md', 'old'],
        ['x.txt', ''],
      ]),
    ).say(STEWARD_TASK);
    expect(shape(turns)).toEqual([['directory_tree'], []]);
    expect(lastText(turns)).toContain('no Markdown document');
  });

  test('an unreadable folder ends the work with the reason', async () => {
    const reason = `ENOENT: no such file or directory, scandir '${ROOT}'`;
    const turns = await open(new Map(), { execute: () => reason }).say(STEWARD_TASK);
    expect(shape(turns)).toEqual([['directory_tree'], []]);
    expect(lastText(turns)).toContain(reason);
  });

  test('a document that mentions errors or looks like JSON is still a document', async () => {
    const files = new Map([
      ['a.md', 'Error handling and ENOENT: what to do\n\n# A\n'],
      ['b.md', '[one][]\n\n# B\n\n[one]: a.md\n'],
      ['c.md', '{"content": 1}\n\n# C\n'],
    ]);
    await open(files).say(STEWARD_TASK);
    expect(files.get('REPORT.md')).toContain('3 documents checked: no findings.');
  });
});

describe('the available tools determine the work', () => {
  test('without directory_tree, it walks the folder with list_directory', async () => {
    const files = readExample();
    const turns = await open(files, { tools: TOOLS.slice(1) }).say(STEWARD_TASK);
    expect(shape(turns).slice(0, 2)).toEqual([['list_directory'], ['list_directory', 'list_directory']]);
    expect(files.get('REPORT.md')).toContain('8 documents checked: 5 findings');
  });

  test('tools with a server prefix are called by their full names', async () => {
    const files = new Map([['a.md', '# A\n']]);
    const folder = memoryFolder(ROOT, files);
    const turns = await open(files, {
      tools: TOOLS.map(tool => functionTool(`fs__${tool.name}`)),
      execute: (name, input) => folder(name.replace('fs__', ''), input),
    }).say(STEWARD_TASK);
    expect(shape(turns)).toEqual([['fs__directory_tree'], ['fs__read_text_file'], ['fs__write_file'], []]);
  });

  test.each([
    [[], 'directory_tree or list_directory'],
    [TOOLS.slice(0, 1), 'read_text_file'],
    [TOOLS.slice(0, 3), 'REPORT.md was not written'],
  ])('the answer names a missing tool', async (tools, expected) => {
    expect(lastText(await open(new Map([['a.md', '# A\n']]), { tools }).say(STEWARD_TASK))).toContain(
      expected,
    );
  });

  test('parallel_tool_calls false makes one call per turn', async () => {
    const files = new Map([
      ['a.md', '# A\n'],
      ['b.md', '# B\n'],
    ]);
    const turns = await open(files, { parallel: false }).say(STEWARD_TASK);
    expect(turns.map(turn => turn.calls.length)).toEqual([1, 1, 1, 1, 0]);
  });

  test('tool_choice none produces text about the results so far', async () => {
    const session = open(readExample());
    await session.say(STEWARD_TASK);
    const lists = session.items.findIndex(item => item.type === 'function_call_output');
    const request = { model: 'any', tools: TOOLS, input: session.items.slice(0, lists + 1) };
    const response = await client.responses.create({ ...request, tool_choice: 'none' });
    expect(response.output.map(item => item.type)).toEqual(['message']);
    expect(response.output_text).toContain('I had to stop early: 8 documents');
  });

  test('a forced tool is called if the rules call it at this point, and refused otherwise', async () => {
    const request = { model: 'any', tools: TOOLS, input: 'The folder is /x.' };
    const forced = await client.responses.create({
      ...request,
      tool_choice: { type: 'function', name: 'list_directory' },
    });
    expect(forced.output.at(-1)).toMatchObject({
      type: 'function_call',
      name: 'list_directory',
      arguments: '{"path":"/x"}',
    });
    const refused = client.responses.create({
      ...request,
      tool_choice: { type: 'function', name: 'write_file' },
    });
    await expect(refused).rejects.toMatchObject({ status: 400, param: 'tool_choice' });
  });

  test('without a folder, it asks the server or the user for one', async () => {
    const request = { model: 'any', input: 'Check my documents.' };
    const asked = await client.responses.create({
      ...request,
      tools: [functionTool('list_allowed_directories')],
    });
    expect(asked.output.at(-1)).toMatchObject({ type: 'function_call', name: 'list_allowed_directories' });
    expect((await client.responses.create({ ...request, tools: TOOLS })).output_text).toContain(
      'which folder',
    );
  });
});

test('a message that supersedes the proposed report is mentioned, but not followed as an instruction', async () => {
  const session = open(new Map([['a.md', '# A\n']]));
  await session.say(STEWARD_TASK);
  const write = session.items.findLastIndex(item => item.type === 'function_call');
  const call = session.items[write];
  const input = session.items.slice(0, write + 1);
  const call_id = call?.type === 'function_call' ? call.call_id : '';
  input.push({ type: 'function_call_output', call_id, output: 'Not run: superseded by a new message.' });
  input.push({ role: 'user', content: 'Write it in German' });
  const { output_text } = await client.responses.create({ model: 'any', tools: TOOLS, input });
  expect(output_text).toContain('superseded by a new message');
  expect(output_text).toContain('Write it in German');
});
