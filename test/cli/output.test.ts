import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { AGENT, calling, Desk, eventsOf, MAIN, REFUND, Started, typesOf } from '../support/cli/desk.ts';

const done = { text: 'Done.', usage: { inputTokens: 12, outputTokens: 3 } };
const ESCAPE = '\u001b';

describe.concurrent('when stdout is not a terminal', () => {
  test('a run is plain lines: states, tools, preamble, answer and usage', async () => {
    const lookup = { text: 'Let me look.', ...calling(['lookup', { orderId: 'A-1' }]) };
    const desk = new Desk([lookup, done]);
    const { stdout, code } = await desk.run(['run', '--agent', AGENT, 'go'], {
      ...desk.model,
      FORCE_COLOR: '1',
    });
    expect(code).toBe(0);
    expect(stdout).not.toContain(ESCAPE);
    const parts = [
      '● planning — the run starts',
      'preamble:\nLet me look.',
      '● executingTools — 1 call of lookup may run',
      '→ lookup {"orderId":"A-1"}',
      '✓ lookup',
      '● finalStreaming — text is streaming\n  answer:\nDone.',
      'finished · 2 turns, 12 tokens in, 3 out',
    ];
    const places = parts.map(part => stdout.indexOf(part));
    expect(places).not.toContain(-1);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(stdout.split('Done.')).toHaveLength(2);
  });

  test('a list of runs is sorted as asked, and has what they spent together', async () => {
    const desk = new Desk([calling(['lookup', { orderId: 'A-1' }]), done]);
    await desk.run(['run', '--agent', AGENT, '--title', 'Zoo', 'go'], desk.model);
    await desk.run(['run', '--agent', AGENT, '--title', 'apes', 'go'], desk.model);
    const listed = await desk.run(['runs', '--sort', 'title', '--folded', '--totals']);
    const [, first, second, totals] = listed.stdout.trimEnd().split('\n');
    expect([first, second]).toEqual([expect.stringContaining('Zoo'), expect.stringContaining('apes')]);
    expect(totals).toMatch(/^2 runs, 4 turns, \d+ tokens, \$0\.00, \d+ s of work$/);
    const lines = (await desk.run(['runs', '--json', '--totals'])).stdout.trimEnd().split('\n');
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ totals: { runs: 2, turns: 4, doubts: 0 } });
  });

  test('a run without streaming prints the same lines', async () => {
    const desk = new Desk([calling(['lookup', { orderId: 'A-1' }]), done]);
    const [streamed, whole] = await Promise.all([
      desk.run(['run', '--agent', AGENT, 'go'], desk.model),
      desk.run(['run', '--agent', AGENT, '--no-stream', 'go'], desk.model),
    ]);
    const plain = (text: string) => text.replaceAll(/run_\w+|[\d.]+ m?s/g, '');
    expect(plain(whole.stdout)).toBe(plain(streamed.stdout));
  });

  test('there is no prompt; the whole input and the commands to continue are printed', async () => {
    const note = `first line\nsecond line ${'long '.repeat(500)}`;
    const desk = new Desk([calling(['refund', { orderId: 'A-1', cents: 1, note }]), done]);
    const { stdout, code } = await desk.run(['run', '--agent', AGENT, 'go'], desk.model);
    expect(code).toBe(3);
    expect(stdout).toContain('reason      money leaves the house');
    expect(stdout).toContain('      │ first line\n      │ second line');
    expect(stdout).toContain('long '.repeat(500).trimEnd());
    expect(stdout).toMatch(/ approve run_\w+ call_0_0 --digest \w+\n/);
    expect(stdout).toMatch(/ reject run_\w+ call_0_0 --reason TEXT\n/);
  });

  test('tool output is data: control characters are not printed', async () => {
    const text = `${ESCAPE}[2Jwiped\r\n\u202eolleh`;
    const desk = new Desk([calling('paint'), { text }]);
    const { runId } = await desk.begin();
    const ended = await desk.run(['run', '--agent', AGENT, 'go'], desk.model);
    const shown = await desk.run(['show', runId]);
    for (const { stdout } of [ended, shown]) {
      expect(stdout).toContain('red paint');
      expect(stdout).toContain('\\x1b[2Jwiped\n\\u{202e}olleh');
      expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\u202e]/u);
    }
  });

  test('the input may come from stdin', async () => {
    const desk = new Desk([done]);
    const ended = await desk.run(['run', '--json'], desk.model, 'two\nlines\n');
    expect(ended.code).toBe(0);
    const [started] = eventsOf(ended.stdout);
    expect(started).toMatchObject({
      agent: { name: 'assistant' },
      input: [{ content: [{ text: 'two\nlines' }] }],
    });
  });
});

describe.concurrent('--json', () => {
  test('prints one event per line on stdout and nothing else, even if tools print', async () => {
    const desk = new Desk([calling('paint'), done]);
    const ended = await desk.begin();
    expect(ended.stdout).toMatch(/^\{"runId":"run_\w+","seq":1,"at":\d+,"type":"run.started"/);
    expect(ended.events).toEqual(await desk.journal(ended.runId));
    for (const char of [ESCAPE, '\u202e']) expect(ended.stdout).not.toContain(char);
    expect(ended.stderr).toContain('printed by a tool');
    expect(ended.stderr).toContain('written by a tool');
    expect(ended.stdout).not.toContain('decided');
  });

  test('also prints streamed text and decisions with --deltas', async () => {
    const desk = new Desk([calling(['lookup', { orderId: 'A-1' }]), done]);
    const ended = await desk.begin('--deltas');
    const types = typesOf(ended.events);
    expect(types).toEqual(expect.arrayContaining(['decided', 'text.delta', 'turn.completed']));
    const journaled = ended.events.filter(event => event.seq !== undefined);
    expect(journaled).toEqual(await desk.journal(ended.runId));
  });

  test('of runs and show prints one record per line, with the open decisions', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin();
    const [runs, none, show, events] = await Promise.all([
      desk.run(['runs', '--json']),
      desk.run(['runs', '--json', '--status', 'failed']),
      desk.run(['show', runId, '--json']),
      desk.run(['show', runId, '--events', '--json']),
    ]);
    expect(JSON.parse(runs.stdout)).toMatchObject({ runId, status: 'waiting', agent: 'desk' });
    expect(none).toMatchObject({ code: 0, stdout: '', stderr: '' });
    const summary = JSON.parse(show.stdout);
    expect(summary).toMatchObject({
      runId,
      status: 'waiting',
      state: 'resting.awaitingApproval',
      paused: false,
    });
    expect(summary.approvals).toMatchObject([{ callId: 'call_0_0', name: 'refund', sideEffect: 'once' }]);
    expect(summary.approvals[0].digest).toMatch(/^\w+$/);
    expect(eventsOf(events.stdout)).toEqual(await desk.journal(runId));
  });
});

describe.runIf(existsSync('/dev/full'))('stdout that cannot be written', () => {
  test.each([[], ['--json']])('does not end the run, and is a failure in the end: %j', async (...json) => {
    const desk = new Desk([done]);
    const redirected = ['-c', 'exec "$0" "$@" > /dev/full', process.execPath, MAIN];
    const run = ['run', '--agent', AGENT, ...json, 'go'];
    const started = new Started('sh', [...redirected, ...run], desk.folder, {
      ...process.env,
      ...desk.model,
    });
    const { code, stderr } = await started.ended;
    expect(stderr).toContain('Cannot write all of the output: ENOSPC');
    expect(stderr).not.toContain('at ');
    expect(code).toBe(1);
    expect((await desk.run(['runs'])).stdout).toContain('finished');
  });
});

describe.concurrent('read-only commands exit 0', () => {
  test('for every outcome of a run', async () => {
    const desk = new Desk([]);
    const begun = await desk.begin();
    expect(begun.code).toBe(1);
    const [runs, show, events] = await Promise.all([
      desk.run(['runs']),
      desk.run(['show', begun.runId]),
      desk.run(['show', begun.runId, '--events']),
    ]);
    expect([runs.code, show.code, events.code]).toEqual([0, 0, 0]);
    expect(runs.stdout).toMatch(new RegExp(`${begun.runId} +failed +desk +\\S+ m?s ago +go`));
    expect(show.stdout).toContain('script-exhausted');
    expect(events.stdout).toContain('turn.failed');
  });

  test('help, version and diagram', async () => {
    const desk = new Desk([]);
    const ended = await Promise.all(
      [['--help'], ['run', '--help'], ['--version'], ['diagram', '--mermaid'], ['diagram', '--json']].map(
        args => desk.run(args),
      ),
    );
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0]);
    const [help, run, version, mermaid, json] = ended.map(({ stdout }) => stdout);
    for (const part of ['AGENTCHART_MODEL', 'Exit codes', 'approve']) expect(help).toContain(part);
    expect(run).toContain('--continues <run>');
    expect(version).toMatch(/^\d+\.\d+\.\d+/);
    expect(mermaid).toContain('stateDiagram-v2');
    expect(JSON.parse(json ?? '')).toHaveProperty('states');
  });
});

test('runs finds runs by label, prints what they wait for, and says how to get the next page', async () => {
  const desk = new Desk([calling(REFUND), done]);
  const seven = await desk.begin('--label', 'user=7', '--label', 'tenant=a', '--title', 'Refund of A-1');
  const eight = await desk.begin('--label', 'user=8');
  const [waiting, none, noneShown, page, refused, unknown] = await Promise.all([
    desk.run(['runs', '--label', 'user=7', '--waiting']),
    desk.run(['runs', '--label', 'user=9', '--json']),
    desk.run(['runs', '--status', 'failed']),
    desk.run(['runs', '--limit', '1', '--json', '--agent', 'desk', '--since', '2020-01-01']),
    desk.run(['runs', '--label', 'user']),
    desk.run(['runs', '--since', 'yesterday']),
  ]);
  expect(waiting).toMatchObject({ code: 0, stderr: '' });
  expect(waiting.stdout).toMatch(new RegExp(`${seven.runId} +waiting .* Refund of A-1 +approval of refund`));
  expect(waiting.stdout).not.toContain(eight.runId);
  expect(none).toMatchObject({ code: 0, stdout: '', stderr: '' });
  expect(noneShown.stdout).toMatch(/^No runs in \S+ match\.\n$/);
  expect(JSON.parse(page.stdout)).toMatchObject({ runId: eight.runId, labels: { user: '8' }, title: 'go' });
  const cursor = /--cursor (\S+)/.exec(page.stderr)?.[1] ?? expect.unreachable('no cursor');
  const next = ['runs', '--limit', '1', '--json', '--agent', 'desk', '--since', '2020-01-01'];
  const [rest, other] = await Promise.all([
    desk.run([...next, '--cursor', cursor]),
    desk.run(['runs', '--cursor', cursor]),
  ]);
  expect(JSON.parse(rest.stdout)).toMatchObject({ runId: seven.runId });
  expect(rest.stderr).toBe('');
  for (const [ended, part] of [
    [refused, 'NAME=VALUE'],
    [unknown, '--since must be'],
    [other, 'cursor: from a list with another filter'],
  ] as const) {
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain(part);
  }
});
