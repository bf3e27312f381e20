import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { RunExport } from '../../engine/replay/export-run.ts';
import { AGENT, calling, Desk, eventsOf, REFUND, typesOf } from '../support/cli/desk.ts';

const SCRIPT = [
  { text: 'Let me see.', ...calling(['lookup', { orderId: 'A-1' }], REFUND) },
  { text: 'Done.' },
];

let finished: ReturnType<typeof finishOnce> | undefined;

/** A new desk whose store has one approved and finished run. */
async function finish() {
  finished ??= finishOnce();
  const { desk: first, runId, journal } = await finished;
  const desk = new Desk(SCRIPT);
  cpSync(first.path('.agentchart'), desk.path('.agentchart'), { recursive: true });
  return { desk, runId, journal };
}

async function finishOnce() {
  const desk = new Desk(SCRIPT);
  const { runId } = await desk.begin();
  expect((await desk.run(['approve', runId, 'call_0_1'])).code).toBe(0);
  return { desk, runId, journal: await desk.journal(runId) };
}

function makeFifo(desk: Desk): string {
  execFileSync('mkfifo', [desk.path('pipe')]);
  return desk.path('pipe');
}

function seqOf(journal: readonly { type: string; seq: number }[], type: string): string {
  return String(journal.find(event => event.type === type)?.seq);
}

describe.concurrent('replay and inspect', () => {
  const kinds: [string, (desk: Desk) => string][] = [
    ['folder', desk => `${desk.folder}/`],
    ['FIFO', desk => makeFifo(desk)],
    ['FIFO without a path', desk => basename(makeFifo(desk))],
    ['device', () => '/dev/zero'],
  ];

  test.each(kinds)('refuse a %s and never wait for it', async (_, nameIn) => {
    const desk = new Desk(SCRIPT);
    const named = nameIn(desk);
    for (const command of ['replay', 'inspect']) {
      const { code, stderr, stdout } = await desk.run([command, named]);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(
        /^Cannot read .*: it is not a regular file. Expected a run id or an exported file./,
      );
    }
  });
});

describe.concurrent('replay', () => {
  test('proves that a run is reproduced, needs no agent and no model, and writes nothing', async () => {
    const { desk, runId, journal } = await finish();
    const before = createHash('sha256').update(readFileSync(desk.store)).digest('hex');
    const replayed = await desk.run(['replay', runId, '--json'], {
      AGENTCHART_MODEL: 'scripted:missing.json',
    });
    expect(replayed.code).toBe(0);
    const lines = replayed.stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line));
    const verdict = lines.pop();
    expect(lines.map(({ seq, type }) => ({ seq, type }))).toEqual(
      journal.map(({ seq, type }) => ({ seq, type })),
    );
    expect(lines.map(({ state }) => state)).toContain('resting.awaitingApproval');
    expect(lines[0]).toMatchObject({
      runId,
      state: 'turn.planning',
      next: { type: 'callModel', why: 'the run starts' },
    });
    expect(verdict).toMatchObject({ runId, equal: true, entries: journal.length, state: 'finished' });
    expect(verdict.hash).toMatch(/^[0-9a-f]{64}$/);
    expect(createHash('sha256').update(readFileSync(desk.store)).digest('hex')).toBe(before);
    expect(await desk.journal(runId)).toEqual(journal);
  });

  test('prints the states in order, each with its reason, and the verdict', async () => {
    const { desk, runId } = await finish();
    const { code, stdout } = await desk.run(['replay', runId.slice(0, 12)]);
    expect(code).toBe(0);
    const path = ['planning — the run starts', 'executingTools — ', 'awaitingApproval — ', 'finished — '];
    const places = path.map(words => stdout.indexOf(words));
    expect(places).not.toContain(-1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(stdout).toMatch(/equal +yes/);
  });

  test('of an export needs no store, and exits 1 with the changed entry of a tampered export', async () => {
    const { desk, runId, journal } = await finish();
    expect((await desk.run(['export', runId, '--out', 'run.json'])).code).toBe(0);
    const printed = await desk.run(['export', runId]);
    expect(printed.stdout).toBe(readFileSync(desk.path('run.json'), 'utf8'));
    const exported: RunExport = JSON.parse(printed.stdout);
    const nowhere = { AGENTCHART_DB: 'nowhere.db' };
    const replayed = await desk.run(['replay', 'run.json', '--json'], nowhere);
    expect(replayed.code).toBe(0);
    expect(replayed.stdout).toContain(`"hash":"${exported.end.stateHash}"`);

    desk.write('changed.json', printed.stdout.replace('"refunded": 4200', '"refunded": 42'));
    const changed = await desk.run(['replay', 'changed.json'], nowhere);
    expect(changed.code).toBe(1);
    const place = journal.findLast(event => event.type === 'tool.settled')?.seq;
    expect(changed.stderr).toContain(`entry ${place} `);
    expect(changed.stdout).toMatch(/equal +no/);
  });

  test('--until shows the state, the pending decision, the reason, and that the run continues after it', async () => {
    const { desk, runId, journal } = await finish();
    const until = String(Number(seqOf(journal, 'approval.decided')) - 1);
    const { code, stdout } = await desk.run(['replay', runId, '--until', until]);
    expect(code).toBe(0);
    expect(stdout).toContain('resting.awaitingApproval');
    expect(stdout).toContain('why      1 call of refund needs a decision');
    expect(stdout).toContain('refund waits for approval');
    expect(stdout).toContain(`The journal continues to entry ${journal.length}.`);
    expect(stdout).toContain(`fork ${runId} --at ${until}`);
    expect(stdout).not.toContain('approval.decided');

    expect((await desk.run(['export', runId, '--out', 'run.json'])).code).toBe(0);
    for (const named of [runId, 'run.json']) {
      const json = await desk.run(['replay', named, '--until', until, '--json']);
      const last = JSON.parse(json.stdout.trim().split('\n').at(-1) ?? '');
      expect(last).toMatchObject({
        equal: true,
        entries: Number(until),
        of: journal.length,
        isEnd: false,
        state: 'resting.awaitingApproval',
        next: { type: 'interruptForApproval' },
        settled: { status: 'waiting', approvals: [{ callId: 'call_0_1' }] },
      });
    }
    const end = await desk.run(['replay', runId, '--until', String(journal.length)]);
    expect(end.stdout).toMatch(/status +finished/);
    expect(end.stdout).not.toContain('The journal continues');
  });

  test.each(['0', '-1', '1.5', '999', 'x', ''])(
    '--until %j exits 2 and prints the valid range',
    async until => {
      const desk = new Desk([{ text: 'Done.' }]);
      const { runId } = await desk.begin();
      await desk.run(['export', runId, '--out', 'run.json']);
      for (const named of [runId, 'run.json']) {
        const { code, stdout, stderr } = await desk.run(['replay', named, '--until', until]);
        expect([code, stdout]).toEqual([2, '']);
        expect(stderr).toMatch(
          /^-?\d+$/.test(until) ? /a whole number from 1 to \d/ : /must be an entry number/,
        );
      }
    },
  );

  test.each([
    ['does not exist', 'missing.json', undefined],
    ['is not JSON', 'text.json', 'not json'],
    ['is not an export', 'other.json', '{"format":"other"}'],
  ])('of a file that %s exits 2', async (_, name, text) => {
    const desk = new Desk([{ text: 'Done.' }]);
    if (text !== undefined) desk.write(name, text);
    const { code, stderr, stdout } = await desk.run(['replay', name]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(name);
  });

  test('and export exit 2 for an unknown run, and for an --out that cannot be written', async () => {
    const { desk, runId } = await finish();
    for (const args of [
      ['replay', 'run_x'],
      ['export', 'run_x'],
      ['export', runId, '--out', 'no/such/folder.json'],
    ])
      expect((await desk.run(args)).code, args.join(' ')).toBe(2);
  });
});

describe.concurrent('export --test', () => {
  test('writes a test of the run to stdout or to a file, without an agent', async () => {
    const { desk, runId } = await finish();
    const printed = await desk.run(['export', runId, '--test']);
    expect(printed.code).toBe(0);
    expect(printed.stdout).toContain("from 'agentchart/testing'");
    expect(printed.stdout).toContain('"refunded": 4200');
    const { code, stdout } = await desk.run(['export', runId.slice(0, 12), '--test', '--out', 'run.test.ts']);
    expect(code).toBe(0);
    expect(stdout).toContain('npx vitest run run.test.ts');
    expect(readFileSync(desk.path('run.test.ts'), 'utf8')).toBe(printed.stdout);
    const json = await desk.run(['export', runId, '--test', '--out', 'run.test.ts', '--json']);
    expect(JSON.parse(json.stdout)).toEqual({ runId, file: 'run.test.ts' });
  });

  test('exits 2 for an agent module that is not there', async () => {
    const { desk, runId } = await finish();
    const ended = await desk.run(['export', runId, '--test', '--agent', 'absent.ts']);
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toContain('Cannot use agent module absent.ts: no such file');
  });

  test('exits 2 for an unknown run and for an unwritable destination', async () => {
    const { desk, runId } = await finish();
    expect((await desk.run(['export', 'run_x', '--test'])).code).toBe(2);
    expect((await desk.run(['export', runId, '--test', '--out', 'no/such/run.test.ts'])).code).toBe(2);
  });
});

describe.concurrent('fork', () => {
  test('prints its id, continues from the entry, and waits like any run', async () => {
    const { desk, runId, journal } = await finish();
    const at = seqOf(journal, 'turn.completed');
    const forked = await desk.run(['fork', runId, '--at', at, '--json']);
    expect(forked.code).toBe(3);
    const events = eventsOf(forked.stdout);
    const fork = events[0]?.runId ?? '';
    expect(events[0]).toMatchObject({ type: 'run.started', forkOf: { runId, at: Number(at) } });
    expect(typesOf(events)).toContain('tool.settled');
    expect(await desk.journal(fork)).toEqual(events);
    expect(await desk.journal(runId)).toEqual(journal);
    expect((await desk.run(['reject', fork, 'call_0_1'])).code).toBe(0);
    expect((await desk.run(['replay', fork])).code).toBe(0);
  });

  test('during a running call leaves the call in doubt and runs nothing', async () => {
    const { desk, runId, journal } = await finish();
    const at = String(journal.findLast(event => event.type === 'tool.started')?.seq);
    const forked = await desk.run(['fork', runId, '--at', at]);
    expect(forked.code).toBe(3);
    expect(forked.stdout).toContain('refund is in doubt');
    expect(forked.stdout).toContain(`fork of ${runId} at entry ${at}`);
    const fork = /run_\w+/.exec(forked.stdout)?.[0] ?? '';
    expect(typesOf(await desk.journal(fork)).filter(type => type === 'tool.started')).toHaveLength(2);
    const resolved = await desk.run(['resolve', fork, 'call_0_1', '--happened', '{"refunded":4200}']);
    expect(resolved.code).toBe(0);
  });

  test('with --no-drive stops at its first entry until a later command', async () => {
    const { desk, runId, journal } = await finish();
    const at = seqOf(journal, 'turn.completed');
    const forked = await desk.run(['fork', runId, '--at', at, '--no-drive', '--json']);
    expect(forked.code).toBe(0);
    const events = eventsOf(forked.stdout);
    expect(events.at(-1)?.type).toBe('turn.completed');
    expect((await desk.run(['resume', events[0]?.runId ?? ''])).code).toBe(3);
  });

  test('with --replay-tools, --model and a changed decision executes no tool and journals what it replayed', async () => {
    const { desk, runId, journal } = await finish();
    const at = seqOf(journal, 'turn.completed');
    const model = `scripted:${desk.path('other.json')}`;
    writeFileSync(desk.path('other.json'), JSON.stringify([{ text: '' }, { text: 'Told by another.' }]));
    const args = ['fork', runId, '--at', at, '--replay-tools', '--model', model, '--json'];
    const forked = await desk.run([
      ...args,
      '--reject',
      'call_0_1',
      '--set-param',
      'settings={"temperature":0}',
    ]);
    expect(forked.code).toBe(0);
    const events = eventsOf(forked.stdout);
    expect(events[0]).toMatchObject({ launch: { model }, config: { playsResultsOf: runId } });
    expect(events.filter(event => event.type === 'tool.settled')).toMatchObject([
      { callId: 'call_0_0', played: { runId, seq: Number(seqOf(journal, 'tool.settled')) } },
    ]);
    expect(events.findLast(event => event.type === 'turn.completed')).toMatchObject({
      text: 'Told by another.',
    });
    const shown = await desk.run(['show', events[0]?.runId ?? '', '--events']);
    expect(shown.stdout).toContain(`replayed from entry ${seqOf(journal, 'tool.settled')} of ${runId}`);

    const runs = await desk.run(['runs', '--json']);
    expect((await desk.run([...args, '--approve', 'no_such_call'])).code).toBe(2);
    expect((await desk.run([...args, '--result', 'call_0_1'])).code).toBe(2);
    expect((await desk.run([...args, '--result', 'call_0_1', '--output', '{no'])).code).toBe(2);
    expect((await desk.run([...args, '--approve', 'call_0_1', '--input', '{no'])).code).toBe(2);
    expect((await desk.run([...args, '--set-param', 'settings'])).code).toBe(2);
    expect(eventsOf((await desk.run(['runs', '--json'])).stdout)).toHaveLength(eventsOf(runs.stdout).length);
  });

  test('with --model keeps that model, whatever AGENTCHART_MODEL says when it is resumed', async () => {
    const { desk, runId } = await finish();
    const model = `scripted:${desk.path('other.json')}`;
    writeFileSync(desk.path('other.json'), JSON.stringify([{ text: 'Told by another.' }]));
    writeFileSync(desk.path('third.json'), JSON.stringify([{ text: 'Told by a third.' }]));
    const args = ['fork', runId, '--at', '1', '--model', model, '--no-drive', '--json'];
    const [started] = eventsOf((await desk.run(args)).stdout);
    expect(started).toMatchObject({ config: { forkModel: { model: 'other.json' } } });
    const environment = { AGENTCHART_MODEL: `scripted:${desk.path('third.json')}` };
    const resumed = await desk.run(['resume', started?.runId ?? ''], environment);
    expect(resumed.stdout + resumed.stderr).toContain('Told by another.');
    expect(resumed.stdout + resumed.stderr).not.toContain('Told by a third.');
  });

  test('with --message delivers the message immediately; a fork after the end of a run rejects messages', async () => {
    const { desk, runId, journal } = await finish();
    const at = seqOf(journal, 'turn.completed');
    const forked = await desk.run([
      'fork',
      runId,
      '--at',
      at,
      '--message',
      'In euros.',
      '--by',
      'ann',
      '--json',
    ]);
    expect(forked.code).toBe(3);
    const events = eventsOf(forked.stdout);
    expect(events[Number(at) - 1]).toMatchObject({ type: 'message.received', by: 'ann' });

    expect((await desk.run(['fork', runId, '--at', at, '--message', ''])).code).toBe(2);
    const refused = await desk.run(['fork', runId, '--at', String(journal.length), '--message', 'More.']);
    expect([refused.code, refused.stdout]).toEqual([4, '']);
    expect(refused.stderr).toMatch(/Fork it at entry \d+ or earlier/);
  });

  test.each(['0', '-1', '1.5', '999', 'x', ''])('--at %j exits 2 and creates nothing', async at => {
    const desk = new Desk([{ text: 'Done.' }]);
    const { runId } = await desk.begin();
    const forked = await desk.run(['fork', runId, '--at', at]);
    expect([forked.code, forked.stdout]).toEqual([2, '']);
    expect((await desk.run(['runs', '--json'])).stdout.trim().split('\n')).toHaveLength(1);
  });

  test('with an agent that does not load creates nothing', async () => {
    const desk = new Desk([{ text: 'Done.' }]);
    const { runId } = await desk.begin();
    expect((await desk.run(['fork', runId, '--at', '1', '--agent', 'missing.ts'])).code).toBe(2);
    expect((await desk.run(['runs', '--json'])).stdout.trim().split('\n')).toHaveLength(1);
    expect((await desk.run(['fork', runId, '--at', '1', '--agent', AGENT])).code).toBe(0);
  });
});
