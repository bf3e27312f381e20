import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, deleteRuns } from '../../agent/index.ts';
import { exportRun } from '../../engine/replay/export-run.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { listAll, type Store } from '../../protocol/store.ts';
import { memory } from '../../stores/memory.ts';
import { postgres } from '../../stores/postgres.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { notes, readNotes } from '../../tools/notes/index.ts';
import { calls } from '../support/engine/agents.ts';
import { hostedOn, serveOn } from '../support/restate/hosted.ts';
import { RestateStandIn } from '../support/restate/restate-stand-in.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../support/stores/postgres-server.ts';
import { createContext, rejectionOf, runTool } from '../support/tools/call-context.ts';

const run = promisify(execFile);
const FIXTURE = fileURLToPath(new URL('../support/tools/notes-fixture.ts', import.meta.url));

const tools = [notes({ by: 'user' })];

/** A run of a user, and calls of it. */
async function begin(store: Store, labels: Record<string, string> = { user: '7' }) {
  const agent = createAgent({ name: 'desk', model: scripted([]), store });
  const { id: runId } = await agent.start('Hello', { labels, paused: true });
  let count = 0;
  return (input: JsonObject, given: { key?: string; store?: Store } = {}) => {
    count += 1;
    return runTool(tools, 'memory', input, {
      ...createContext(),
      runId,
      key: `${runId}:${count}`,
      store,
      ...given,
    });
  };
}

const create = (path: string, file_text = 'one\ntwo\nthree\n') => ({ command: 'create', path, file_text });
const view = (path = '/memories') => ({ command: 'view', path });
const messageOf = async (call: Promise<unknown>) => String(await rejectionOf(call));

/** The store, with some methods of its own. */
function withMethods(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      if (Object.hasOwn(methods, name)) return Reflect.get(methods, name);
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

let server: Promise<PostgresServer> | undefined;
let schemas = 0;
afterAll(async () => await (await server)?.stop());

async function openPostgres(): Promise<Store> {
  server ??= startPostgres();
  const { url } = await server;
  schemas += 1;
  return postgres(url, { schema: `notes_${schemas}` });
}

function openRestate(): Store {
  const restate = new RestateStandIn();
  onTestFinished(() => expect(restate.faults).toEqual([]));
  serveOn(restate, []);
  return hostedOn(restate, createAgent({ name: 'desk' })).store;
}

const PLACES = [
  { name: 'memory', open: () => memory() },
  { name: 'SQLite', open: () => sqlite(':memory:') },
  { name: 'PostgreSQL', open: openPostgres, isMissing: POSTGRES_BIN === undefined },
  { name: 'Restate', open: openRestate },
];

for (const { name, open, isMissing = false } of PLACES)
  describe.skipIf(isMissing)(`notes in ${name}`, () => {
    const openStore = async () => {
      const store = await open();
      onTestFinished(() => store.close());
      return store;
    };

    it('are kept from one run to the next, apart for each value of the label, in one run of the store', async () => {
      const store = await openStore();
      const call = await begin(store);
      await call(create('/memories/a.md', 'Prefers tea.'));
      await call(create('/memories/b.md', 'Is tall.'));
      const later = await begin(store, { user: '7', tenant: 'a' });
      expect(await later(view('/memories/a.md'))).toMatch(/Prefers tea\./);
      const other = await begin(store, { user: '8' });
      expect(await messageOf(other(view('/memories/a.md')))).toMatch(/does not exist/);
      const { runs } = await store.list({ agent: 'notes' });
      expect(runs).toMatchObject([{ labels: { user: '7' }, status: 'cancelled', title: 'Notes of user 7' }]);
    });

    it('are read with their sizes by path; nothing is noted before the first and after their deletion', async () => {
      const store = await openStore();
      const call = await begin(store);
      expect(await readNotes(store, { user: '7' })).toBeUndefined();
      await call(create('/memories/b.md', 'é'));
      await call(create('/memories/a/a.md', 'Prefers tea.'));
      await call({ command: 'delete', path: '/memories/b.md' });
      await call(create('/memories/c.md', 'é'));
      const read = await readNotes(store, { user: '7' });
      expect(read?.files).toEqual([
        { path: '/memories/a/a.md', bytes: 12, text: 'Prefers tea.' },
        { path: '/memories/c.md', bytes: 2, text: 'é' },
      ]);
      const record = await store.get(read?.runId ?? '');
      expect(record).toMatchObject({ agent: 'notes', updatedAt: read?.changedAt });
      expect(await readNotes(store, { user: '8' })).toBeUndefined();
      await store.delete(read?.runId ?? '');
      expect(await readNotes(store, { user: '7' })).toBeUndefined();
      for (const labels of [{}, { user: '7', tenant: 'a' }])
        await expect(readNotes(store, labels)).rejects.toMatchObject({ code: 'input-invalid' });
    });

    it('of two writers at once are all kept', async () => {
      const store = await openStore();
      const users = await Promise.all([begin(store), begin(store), begin(store)]);
      await Promise.all(
        users.flatMap((call, at) => [1, 2, 3, 4].map(n => call(create(`/memories/${at}-${n}.md`)))),
      );
      const listed = String(await users[0]?.(view()));
      expect(listed.match(/\.md$/gm)).toHaveLength(12);
      const edits = users.map((call, at) =>
        call({ command: 'insert', path: '/memories/0-1.md', insert_line: 0, insert_text: `by ${at}` }),
      );
      await Promise.all(edits);
      expect(
        String(await users[0]?.(view('/memories/0-1.md')))
          .match(/by \d/g)
          ?.toSorted(),
      ).toEqual(['by 0', 'by 1', 'by 2']);
    });

    it('are changed once by a call that comes again with its key, in another process too', async () => {
      const store = await openStore();
      const call = await begin(store);
      await call(create('/memories/a.md'));
      const append = { command: 'insert', path: '/memories/a.md', insert_line: 3, insert_text: 'four' };
      const first = await call(append, { key: 'key' });
      expect(await call(append, { key: 'key' })).toBe(first);
      const replace = { command: 'str_replace', path: '/memories/a.md', old_str: 'two', new_str: 'two two' };
      expect(await call(replace, { key: 'other' })).toMatch(
        /^The memory file has been edited\. Here is the snippet/,
      );
      expect(await call(replace, { key: 'other' })).toBe('The memory file has been edited.');
      const elsewhere = withMethods(store, {});
      expect(await call(append, { key: 'key', store: elsewhere })).toBe(first);
      expect(await call(view('/memories/a.md'))).toMatch(/3\tthree\n +4\tfour\n +5\t$/);
    });

    it('are changed once if the reply of the store is lost', async () => {
      const store = await openStore();
      const call = await begin(store);
      await call(create('/memories/a.md', ''));
      let lost = 0;
      const lossy = withMethods(store, {
        append: async (...given) => {
          const result = await store.append(...given);
          lost += 1;
          if (lost === 1) throw new EngineError('store-reply-lost', 'The reply was lost.');
          return result;
        },
      });
      const append = { command: 'insert', path: '/memories/a.md', insert_line: 0, insert_text: 'x' };
      expect(await call(append, { key: 'key', store: lossy })).toBe(
        'The file /memories/a.md has been edited.',
      );
      expect(lost).toBe(1);
      expect(await call(view('/memories/a.md'))).toMatch(/1\tx\n +2\t$/);
    });

    it('fail with a store that fails again and again', async () => {
      const store = await openStore();
      const call = await begin(store);
      for (const code of ['run-exists', 'store-reply-lost', 'store-full'] as const) {
        const refuse = () => Promise.reject(new EngineError(code, `It is ${code}.`));
        const failing = withMethods(store, { create: refuse });
        expect(await messageOf(call(create('/memories/a.md'), { store: failing }))).toMatch(code);
      }
      expect((await store.list({ agent: 'notes' })).runs).toEqual([]);
    });

    it('are redacted and deleted with the other runs of the label, and then begin anew', async () => {
      const store = await openStore();
      const call = await begin(store);
      await call(create('/memories/a.md', 'The secret.'));
      await call(create('/memories/b.md', 'Kept.'));
      const [kept] = (await store.list({ agent: 'notes' })).runs;
      const runId = kept?.runId ?? '';
      const entries = await store.read(runId);
      const at = entries.find(({ event }) => JSON.stringify(event).includes('secret'))?.seq;
      await store.redact(runId, { paths: [`/${at}/text`] });
      expect(await call(view('/memories/a.md'))).toMatch(/1\t\[redacted sha256:[0-9a-f]{64}\]$/);
      expect(await call(view('/memories/b.md'))).toMatch(/Kept\./);
      for await (const run of listAll(store, { labels: { user: '7' }, agent: 'notes' }))
        await store.delete(run.runId);
      expect(await call(view())).toMatch(/\n0B\t\/memories$/);
      await call(create('/memories/c.md', 'New.'));
      expect(await call(view())).toMatch(/\n4B\t\/memories\n4B\t\/memories\/c\.md$/);
    });

    it('do not come back after all runs of the label were deleted while a call noted something', async () => {
      const store = await openStore();
      const call = await begin(store);
      const slow = withMethods(store, {
        create: async (...given) => {
          await deleteRuns(store, { labels: { user: '7' } });
          return await store.create(...given);
        },
      });
      expect(await messageOf(call(create('/memories/a.md'), { store: slow }))).toMatch(
        /has changed since it was read/,
      );
      expect((await store.list({ labels: { user: '7' } })).runs).toEqual([]);
    });

    it('are not pruned as long as they are written, however old they are', async () => {
      const store = await openStore();
      const call = await begin(store);
      await call(create('/memories/a.md'));
      const [{ createdAt = 0 } = {}] = (await store.list({ agent: 'notes' })).runs;
      while (Date.now() <= createdAt + 1) await new Promise(resolve => setImmediate(resolve));
      await call(create('/memories/b.md'));
      expect(await store.prune({ before: createdAt + 1 })).toEqual([]);
      expect(await store.prune({ before: Date.now() + 1 })).toHaveLength(1);
    });

    it('are exported with the run that keeps them, without what was redacted', async () => {
      const store = await openStore();
      const call = await begin(store);
      await call(create('/memories/a.md', 'The secret.'));
      await call(create('/memories/b.md', 'Kept.'));
      const [{ runId = '' } = {}] = (await store.list({ agent: 'notes', labels: { user: '7' } })).runs;
      const textsOf = async () =>
        (await exportRun(store, runId)).journal.flatMap(({ event }) =>
          event.type === 'run.noted' ? [event.text] : [],
        );
      expect(await textsOf()).toEqual(['The secret.', 'Kept.']);
      const at = (await store.read(runId)).find(({ event }) => JSON.stringify(event).includes('secret'))?.seq;
      await store.redact(runId, { paths: [`/${at}/text`] });
      expect(JSON.stringify(await exportRun(store, runId))).not.toContain('secret');
      expect(await textsOf()).toEqual([expect.stringMatching(/^\[redacted /), 'Kept.']);
    });

    it('are at most 1 MiB, written by two processes at once', async () => {
      const store = await openStore();
      const call = await begin(store);
      const elsewhere = withMethods(store, {});
      const text = 'x'.repeat(65_536);
      for (let at = 0; at < 15; at += 1) await call(create(`/memories/${at}.md`, text));
      const last = [store, elsewhere].map((given, at) =>
        call(create(`/memories/last-${at}.md`, text), { store: given }),
      );
      const ended = await Promise.allSettled(last);
      expect(ended.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
      expect(String(await call(view(), { store: elsewhere }))).toMatch(/\n1024K\t\/memories\n/);
    });
  });

it('an agent writes notes in one run, and reads them in the next; rules know what it read as untrusted', async () => {
  const store = memory();
  const play = async (input: Record<string, string>, labels?: Record<string, string>) => {
    const model = scripted([calls(['memory', input]), { text: 'Done.' }]);
    const agent = createAgent({ name: 'desk', model, tools, store });
    const settled = await agent.run('Go.', labels && { labels });
    return settled.status === 'finished' ? settled.results[0] : undefined;
  };
  expect(await play(create('/memories/a.md', 'Tea.'), { user: '7' })).toMatchObject({
    output: 'File created successfully at: /memories/a.md',
  });
  expect(await play(view('/memories/a.md'), { user: '7' })).toMatchObject({
    output: expect.stringMatching(/Tea\./),
  });
  expect(await play(view(), undefined)).toMatchObject({
    isError: true,
    output: 'This run has no label "user", so it has no notes. Start it with labels: { user: … }.',
  });
  expect(tools[0]).toMatchObject({ sideEffect: 'idempotent', tags: ['untrusted'] });
});

it('a worker on Restate that crashes after every third step writes each note once', async () => {
  let steps = 0;
  const restate = new RestateStandIn({
    crashes: () => {
      steps += 1;
      return steps % 3 === 0;
    },
  });
  const path = '/memories/a.md';
  const insert = (insert_text: string) => ({ command: 'insert', path, insert_line: 0, insert_text });
  const make = () =>
    createAgent({
      name: 'desk',
      model: scripted([
        calls(['memory', create(path, 'one')]),
        calls(['memory', insert('two')]),
        calls(['memory', insert('three')]),
        calls(['memory', view(path)]),
        { text: 'Done.' },
      ]),
      tools,
    });
  serveOn(restate, [make()]);
  const settled = await hostedOn(restate, make()).run('Go.', { labels: { user: '7' } });
  if (settled.status !== 'finished') throw new Error(`The run is ${settled.status}.`);
  expect(settled.results.at(-1)?.output).toMatch(/1\tthree\n +2\ttwo\n +3\tone$/);
  expect(restate.crashed).toBeGreaterThan(2);
  expect(restate.faults).toEqual([]);
});

describe('a process that is killed after a note was written, before its result was', () => {
  const play = async (database: string) => {
    const start = (last: string) => run(process.execPath, [FIXTURE, database, last]);
    await expect(start('1')).rejects.toMatchObject({ signal: 'SIGKILL' });
    await expect(start('2')).rejects.toMatchObject({ signal: 'SIGKILL' });
    const { stdout } = await start('0');
    expect(JSON.parse(stdout)).toEqual([
      'File created successfully at: /memories/a.md',
      'The file /memories/a.md has been edited.',
      "Here's the content of /memories/a.md with line numbers:\n     1\tone\n     2\ttwo",
    ]);
  };

  it('writes it once in SQLite', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'agentchart-notes-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    await play(join(folder, 'runs.db'));
  });

  it.skipIf(POSTGRES_BIN === undefined)('writes it once in PostgreSQL', async () => {
    server ??= startPostgres();
    await play(await (await server).createDatabase());
  });
});

it('a call without a store is refused, and so is a label that cannot be given', async () => {
  expect(await messageOf(runTool(tools, 'memory', view()))).toMatch(/Notes need a run in a store/);
  for (const by of ['', 'a=b'])
    expect(() => notes({ by })).toThrow(expect.objectContaining({ code: 'agent-invalid' }));
});

describe('the commands', () => {
  const inFolder = async () => {
    const call = await begin(memory());
    await call(create('/memories/a.md'));
    await call(create('/memories/people/ann.md', 'x'.repeat(2048)));
    await call(create('/memories/people/old/bob.md', ''));
    return call;
  };

  it('view lists two levels with sizes, and a file with numbered lines, all or some', async () => {
    const call = await inFolder();
    expect(await call(view('/memories/'))).toBe(
      "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n" +
        '2.0K\t/memories\n14B\t/memories/a.md\n2K\t/memories/people/\n2K\t/memories/people/ann.md\n0B\t/memories/people/old/',
    );
    expect(await call(view('/memories/people'))).toMatch(
      /\n0B\t\/memories\/people\/old\/\n0B\t\/memories\/people\/old\/bob\.md$/,
    );
    const head = "Here's the content of /memories/a.md with line numbers:\n";
    expect(await call(view('/memories/a.md'))).toBe(
      `${head}     1\tone\n     2\ttwo\n     3\tthree\n     4\t`,
    );
    expect(await call({ ...view('/memories/a.md'), view_range: [2, 3] })).toBe(
      `${head}     2\ttwo\n     3\tthree`,
    );
    expect(await call({ ...view('/memories/a.md'), view_range: [3, -1] })).toBe(
      `${head}     3\tthree\n     4\t`,
    );
    expect(await messageOf(call(view('/memories/b.md')))).toBe(
      'Error: The path /memories/b.md does not exist. Please provide a valid path.',
    );
  });

  it('create writes only where nothing is', async () => {
    const call = await inFolder();
    expect(await messageOf(call(create('/memories/a.md')))).toBe('Error: File /memories/a.md already exists');
    expect(await messageOf(call(create('/memories/people')))).toMatch(/already exists/);
    expect(await messageOf(call(create('/memories')))).toMatch(/already exists/);
    expect(await messageOf(call(create('/memories/a.md/b.md')))).toMatch(/a\.md is a file, not a directory/);
  });

  it('str_replace replaces what is there once, also several lines, and shows the lines around', async () => {
    const call = await inFolder();
    const replace = (old_str: string, new_str: string, path = '/memories/a.md') =>
      call({ command: 'str_replace', path, old_str, new_str });
    expect(await replace('two\nthree', '$& 2\n3\n4')).toBe(
      'The memory file has been edited. Here is the snippet showing the change (with line numbers):\n' +
        '     1\tone\n     2\t$& 2\n     3\t3\n     4\t4\n     5\t',
    );
    expect(await messageOf(replace('five', ''))).toMatch(
      /old_str `five` did not appear verbatim in \/memories\/a\.md/,
    );
    expect(await messageOf(replace('\n', ''))).toMatch(
      /Multiple occurrences of old_str `\n` in lines: 1, 2, 3, 4\./,
    );
    expect(await messageOf(replace('x', '', '/memories/people'))).toMatch(/is not a file/);
  });

  it('insert adds lines after a line', async () => {
    const call = await inFolder();
    const insert = (insert_line: number) =>
      call({ command: 'insert', path: '/memories/a.md', insert_line, insert_text: 'new\n' });
    expect(await insert(1)).toBe('The file /memories/a.md has been edited.');
    expect(await call(view('/memories/a.md'))).toMatch(/1\tone\n +2\tnew\n +3\ttwo/);
    expect(await messageOf(insert(6))).toMatch(/Invalid `insert_line` parameter: 6\. .*\[0, 5\]/);
    expect(await messageOf(insert(-1))).toMatch(/Invalid `insert_line` parameter/);
  });

  it('delete and rename take files and folders', async () => {
    const call = await inFolder();
    const rename = (old_path: string, new_path: string) => call({ command: 'rename', old_path, new_path });
    expect(await rename('/memories/people', '/memories/all/people')).toBe(
      'Successfully renamed /memories/people to /memories/all/people',
    );
    expect(await call(view('/memories/all/people/old/bob.md'))).toMatch(/1\t$/);
    expect(await messageOf(rename('/memories/people', '/memories/b'))).toMatch(/does not exist/);
    expect(await messageOf(rename('/memories/a.md', '/memories/all'))).toMatch(/already exists/);
    expect(await messageOf(rename('/memories/all', '/memories/all/b'))).toMatch(/below itself/);
    expect(await messageOf(rename('/memories', '/memories/b'))).toMatch(/Cannot rename/);
    const remove = (path: string) => call({ command: 'delete', path });
    expect(await remove('/memories/all')).toBe('Successfully deleted /memories/all');
    expect(await messageOf(remove('/memories/all'))).toBe('Error: The path /memories/all does not exist');
    expect(await messageOf(remove('/memories'))).toMatch(/Cannot delete/);
    expect(await call(view())).toMatch(/\n14B\t\/memories\n14B\t\/memories\/a\.md$/);
  });

  it.each([
    '',
    '/',
    'memories',
    '/etc/passwd',
    '/memoriesx',
    '/memories/../a',
    '/memories/./a',
    '/memories//a',
    '/memories/.a',
    '/memories/a\\b',
    '/memories/a\0b',
    '/memories/a\nb',
    `/memories/${'a'.repeat(200)}`,
  ])('do not take the path %j', async path => {
    const call = await begin(memory());
    expect(await messageOf(call(create(path)))).toMatch(/invalid input/);
  });

  it('refuse what is too large: a file, too many files, and all together', async () => {
    const call = await begin(memory());
    expect(await messageOf(call(create('/memories/a.md', 'é'.repeat(32_769))))).toMatch(
      /at most 65536 bytes; this one would have 65538/,
    );
    for (let at = 0; at < 16; at += 1) await call(create(`/memories/${at}.md`, 'x'.repeat(65_536)));
    expect(await messageOf(call(create('/memories/a.md', 'x')))).toMatch(
      /at most 1048576 bytes; they would have 1048577/,
    );
    for (let at = 16; at < 200; at += 1) await call(create(`/memories/${at}.md`, ''));
    expect(await messageOf(call(create('/memories/a.md', '')))).toMatch(/There are 200 files/);
    expect(
      await call({
        command: 'str_replace',
        path: '/memories/0.md',
        old_str: 'x'.repeat(65_536),
        new_str: 'y',
      }),
    ).toMatch(/edited/);
  });

  it('have only their own fields', async () => {
    const call = await begin(memory());
    expect(await messageOf(call({ ...view(), file_text: 'x' }))).toMatch(/file_text/);
  });
});
