import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { CHART_VERSION } from '../../machines/agent.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { AGENT, calling, Desk, LIBRARY, REFUND } from '../support/cli/desk.ts';
import { rewriteJournal } from '../support/versions/rewrite-journal.ts';

const done = { text: 'Done.' };

describe.concurrent('bad usage exits 2 with advice', () => {
  const lines: [string[], string][] = [
    [[], 'Usage: agentchart'],
    [['bogus'], "unknown command 'bogus'"],
    [['run', '--bogus', 'go'], "unknown option '--bogus'"],
    [['run', '--agnt', 'a.ts', 'go'], 'Did you mean --agent?'],
    [['fork', 'run_1', '--at', '1', '--replay-tool'], 'Did you mean --replay-tools?'],
    [['breakk'], 'Did you mean break?'],
    [['show'], "missing required argument 'run'"],
    [['approve', 'run_1'], 'agentchart show RUN lists its open calls'],
    [['answer', 'run_1', 'call_1'], 'exactly one of --output, --answers'],
    [['answer', 'run_1', 'call_1', '--output', 'yes'], '--output must be valid JSON'],
    [['runs', '--status', 'sleeping'], '--status must be one of running'],
    [['runs', '--limit', '0'], '--limit must be a positive integer'],
    [['diagram'], 'exactly one of --mermaid, --json'],
    [['show', 'run_1'], 'does not exist'],
    [['run'], 'No input. Give it as an argument'],
    [['send', 'run_1', ' '], 'The message must not be empty'],
    [['approve', 'run_1', 'call_1', '--by', ''], '--by must not be empty'],
    [['run', '--thread', '', 'go'], 'The id of the thread is invalid'],
    [['worker', '--agent', AGENT, '--host', '127.0.0.1'], 'Give --host only with --port'],
    [['worker', '--agent', AGENT, '--token', 'x'.repeat(20)], 'Give --token only with --port'],
    [['mcp', '--agent', AGENT, '--host', '127.0.0.1'], 'Give --host only with --port'],
    [['mcp', '--agent', AGENT, '--token', 'x'.repeat(20)], 'Give --token only with --port'],
  ];
  test.each(lines)('%j', async (args, expected) => {
    const ended = await new Desk([done]).run(args);
    expect(ended.code).toBe(2);
    expect(ended.stdout).toBe('');
    expect(ended.stderr).toContain(expected);
  });

  const modules: [string, string][] = [
    ['export default { name: "desk" }', 'an object (name)'],
    ['export const agent = 1; export const other = 2', 'no default export (named exports: agent, other)'],
    ['export default Promise.resolve(1)', 'export default await'],
    ['export default function makeAgent() {}', 'the function makeAgent'],
    ['throw new Error("no database")', 'it fails to load: no database'],
    ['import "./absent.mjs"', 'absent.mjs'],
    ['export default {', 'it fails to load'],
  ];
  test.each(modules)('an agent module with %j', async (source, expected) => {
    const desk = new Desk([done]);
    desk.write('agent.mjs', source);
    const ended = await desk.run(['run', '--agent', 'agent.mjs', 'go'], desk.model);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('Cannot use agent module agent.mjs: ');
    expect(ended.stderr).toContain(expected);
  });

  test('an agent module with a misspelt option', async () => {
    const desk = new Desk([done]);
    const source = `import { createAgent } from '${LIBRARY}'; export default createAgent({ name: 'desk', modle: 1 })`;
    desk.write('agent.mjs', source);
    const ended = await desk.run(['run', '--agent', 'agent.mjs', 'go'], desk.model);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('unknown option "modle" of createAgent; did you mean "model"?');
  });

  test('an agent module that never finishes loading', async () => {
    const desk = new Desk([done]);
    desk.write('agent.mjs', 'await new Promise(() => {}); export default 1');
    const ended = await desk.runAlone(['run', '--agent', 'agent.mjs', 'go'], desk.model);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('Cannot use agent module agent.mjs: it never finishes loading');
  });

  test("an agent other than the run's own cannot decide", async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    desk.write(
      'other.mjs',
      `import { createAgent } from '${LIBRARY}'; export default createAgent({ name: 'other' });`,
    );
    const ended = await desk.run(['approve', runId, 'call_0_0', '--agent', 'other.mjs'], desk.model);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('is "other"');
    expect(ended.stderr).toContain('belongs to agent');
    expect((await desk.journal(runId)).map(({ type }) => type)).not.toContain('approval.decided');
  });

  test("an agent other than the run's own cannot fork or migrate it, and the default agent cannot resume it", async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    const chart = `{ chart: ${CHART_VERSION}`;
    const general = `{ from: ${chart} }, to: ${chart}, agent: "2" }, migrate: events => events }`;
    desk.write(
      'other.mjs',
      `import { createAgent } from '${LIBRARY}';
       export default createAgent({ name: 'other', version: '2', migrations: [${general}] });`,
    );
    const store = sqlite(desk.store);
    const [first] = await store.read(runId);
    if (first?.event.type !== 'run.started') throw new Error('a journal begins with run.started');
    const { launch: _, ...start } = first.event;
    await store.create({ ...start, runId: 'run_plain' });
    await store.close();
    for (const args of [
      ['fork', runId, '--at', '2', '--agent', 'other.mjs'],
      ['migrate', runId, '--agent', 'other.mjs'],
      ['resume', 'run_plain'],
    ]) {
      const ended = await desk.run(args, desk.model);
      expect(ended, args[0]).toMatchObject({ code: 2 });
      expect(ended.stderr).toContain(`Run ${args[1]} belongs to agent "desk"`);
    }
    expect((await desk.run(['cancel', 'run_plain'])).code).toBe(0);
    const runs = await desk.run(['runs', '--json']);
    expect(runs.stdout.trim().split('\n')).toHaveLength(2);
  });

  test('a missing agent module', async () => {
    const desk = new Desk([done]);
    const ended = await desk.run(['run', '--agent', 'absent.ts', 'go'], desk.model);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('Cannot use agent module absent.ts: no such file');
  });

  test('no model, an unknown provider, a missing key, an invalid script', async () => {
    const desk = new Desk([done]);
    desk.write('broken.json', '[{"txt": 1}]');
    const models = [
      undefined,
      'openay:gpt-5',
      'openai:gpt-5',
      'scripted:broken.json',
      'scripted:absent.json',
    ];
    const ended = await Promise.all(
      models.map(model => desk.run(['run', '--agent', AGENT, 'go'], { AGENTCHART_MODEL: model })),
    );
    expect(ended.map(({ code }) => code)).toEqual([2, 2, 2, 2, 2]);
    const [none, provider, key, script, absent] = ended;
    expect(none?.stderr).toContain('AGENTCHART_MODEL');
    expect(provider?.stderr).toContain('openay');
    expect(key?.stderr).toContain('OPENAI_API_KEY');
    const [, runId = ''] = /resume (run_\w+)/.exec(key?.stderr ?? '') ?? [];
    expect((await desk.run(['resume', runId], desk.model)).code).toBe(0);
    expect(script?.stderr).toContain('turns');
    expect(absent?.stderr).toContain('absent.json');
  });

  test('an unknown run, call, or id prefix', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const [first, second] = [await desk.begin(), await desk.begin()];
    const [run, call, both, prefix] = await Promise.all([
      desk.run(['show', 'run_none']),
      desk.run(['approve', first.runId, 'call_9_9']),
      desk.run(['show', 'run_']),
      desk.run(['show', first.runId.slice(0, -1)]),
    ]);
    expect([run.code, call.code, both.code, prefix.code]).toEqual([2, 2, 2, 0]);
    expect(call.stderr).toContain(
      'has no call "call_9_9". Its open calls: refund (call_0_0), waiting for approval.\nMore: agentchart docs call-unknown\n',
    );
    for (const { runId } of [first, second]) expect(both.stderr).toContain(runId);
  });
});

describe.concurrent('a failing run', () => {
  test("exits 1 with the provider's message, after its retries", async () => {
    const environment = {
      AGENTCHART_MODEL: 'openai:gpt-5',
      OPENAI_API_KEY: 'sk-test-0123456789abcdef',
      OPENAI_BASE_URL: 'http://127.0.0.1:1/v1',
    };
    const ended = await new Desk([done]).runAlone(['run', 'go'], environment);
    expect(ended.code).toBe(1);
    expect(ended.stdout).toContain('● backingOff — attempt 2 of 3 after network');
    expect(ended.stdout).toContain('127.0.0.1:1');
    expect(ended.stdout + ended.stderr).not.toContain('0123456789abcdef');
    expect(ended.stdout).toMatch(
      /new run from its transcript: (?:node \S+|agentchart) run --continues run_\w+/,
    );
  });

  test('exits 1 when its own code ends the process, and stays resumable', async () => {
    const desk = new Desk([calling(REFUND), done]);
    desk.write('agent.mjs', 'process.exit(0)');
    const ended = await desk.runAlone(['run', '--agent', 'agent.mjs', 'go'], desk.model);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('process.exit');
  });

  test('exits 1 when the script has no more turns', async () => {
    const desk = new Desk([]);
    const ended = await desk.run(['run', '--json', 'go'], desk.model);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('script-exhausted');
  });
});

describe.concurrent('the version of Node is checked before anything is loaded', () => {
  const pretend = (version: string) =>
    `data:text/javascript,${encodeURIComponent(`Object.defineProperty(process,'versions',{value:{...process.versions,node:'${version}'}})`)}`;
  const versions: [string, string[], string][] = [
    ['22.12.0', ['runs'], 'agentchart needs Node 22.13 or later; this is Node 22.12.0.'],
    [
      '20.20.0',
      ['run', '--agent', 'a.ts', 'go'],
      'agentchart needs Node 22.13 or later; this is Node 20.20.0.',
    ],
    ['22.17.0', ['run', '--agent', 'a.ts', 'go'], 'An agent module in TypeScript needs Node 22.18 or later'],
    ['22.17.0', ['run', '--agent=a.mts', 'go'], 'An agent module in TypeScript needs Node 22.18 or later'],
  ];
  test.each(versions)('Node %s, %j', async (version, args, expected) => {
    const ended = await new Desk([]).runAlone(args, { NODE_OPTIONS: `--import=${pretend(version)}` });
    expect(ended.code).toBe(2);
    expect(ended.stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(ended.stderr).toContain(expected);
  });
});

function changeFirstEvent(file: string, change: (json: string) => string): void {
  const db = new DatabaseSync(file);
  const row = db.prepare('SELECT seq, json FROM appends ORDER BY place LIMIT 1').get();
  db.prepare('UPDATE appends SET json = ? WHERE seq = ?').run(change(String(row?.json)), Number(row?.seq));
  db.close();
}

describe.concurrent('an unusable store exits 1 with advice', () => {
  test('a file that is not a database', async () => {
    const desk = new Desk([done]);
    const file = desk.write(
      'notes.db',
      'these are notes, long enough to be read as a page of a database. '.repeat(20),
    );
    const [begun, listed] = await Promise.all([
      desk.run(['run', '--db', 'notes.db', 'go'], desk.model),
      desk.run(['runs'], { AGENTCHART_DB: 'notes.db' }),
    ]);
    expect([begun.code, listed.code]).toEqual([1, 1]);
    expect(begun.stderr).toContain(`${file} is not a database of runs`);
    expect(listed.stderr).toContain('Restore it from a backup');
  });

  test('an unwritable location', async () => {
    const desk = new Desk([done]);
    const ended = await desk.run(['run', '--db', 'turns.json/runs.db', 'go'], desk.model);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('cannot be opened or written');
  });

  test('a store locked by another process', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    const db = new DatabaseSync(desk.store);
    db.exec('BEGIN IMMEDIATE');
    const ended = await desk.runAlone(['approve', runId, 'call_0_0']);
    db.close();
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('is locked by another process');
    expect((await desk.run(['approve', runId, 'call_0_0'])).code).toBe(0);
  });

  test('a journal of another chart version, whose events can still be listed', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    rewriteJournal(desk.store, runId, json => json.replace(/"hash":"[^"]*"/, '"hash":"other"'));
    const [approved, shown, listed] = await Promise.all([
      desk.run(['approve', runId, 'call_0_0']),
      desk.run(['show', runId]),
      desk.run(['show', runId, '--events']),
    ]);
    expect([approved.code, shown.code, listed.code]).toEqual([1, 1, 0]);
    expect(approved.stderr).toContain('(other)');
    expect(listed.stdout).toContain('run.started');
  });

  test('a journal with an unreadable entry', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    changeFirstEvent(desk.store, () => '{"type":"run.started"');
    const ended = await desk.run(['resume', runId], desk.model);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(runId);
  });
});

describe.concurrent('a missing store', () => {
  test('has no runs, and reading does not create it', async () => {
    const desk = new Desk([]);
    const listed = await desk.run(['runs', '--db', 'none/runs.db']);
    expect(listed).toMatchObject({
      code: 0,
      stdout: 'No runs: none/runs.db does not exist. Give the file with --db or AGENTCHART_DB.\n',
    });
    const again = await desk.run(['show', 'run_1', '--db', 'none/runs.db']);
    expect(again.code).toBe(2);
    expect(again.stderr).toContain('does not exist');
  });
});
