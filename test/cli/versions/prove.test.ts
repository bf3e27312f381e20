import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { RunGroup } from '../../../explore/prove-runs.ts';
import { chartIdentity } from '../../../machines/snapshot.ts';
import type { JournalRest, Store } from '../../../protocol/store.ts';
import { begin } from '../../../stores/conformance/check.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { AGENT, calling, Desk, LIBRARY, REFUND } from '../../support/cli/desk.ts';

const SCRIPT = [{ text: 'Let me see.', ...calling(REFUND) }, { text: 'Done.' }];

/** The agent of the fixture with a few of its tools, and with these members of its options changed. */
const changed = (members: string, more = '') => `
  import { createAgent } from '${LIBRARY}';
  import desk from '${pathToFileURL(AGENT).href}';
  const few = ['lookup', 'refund', 'ask_customer', 'charge'];
  const tools = desk.options.tools.filter(({ name }) => few.includes(name));
  const without = name => tools.filter(tool => tool.name !== name);
  const change = (name, members) => tools.map(tool => tool.name === name ? { ...tool, ...members } : tool);
  export default createAgent({ ...desk.options, tools, ${members} });
  ${more}`;

const GONE = "tools: without('refund')";

type Line = { type: string; [name: string]: unknown };

async function prove(desk: Desk, ...args: string[]) {
  const { code, stdout, stderr } = await desk.run(['doctor', '--prove', '--json', ...args]);
  const lines: Line[] = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  const proof = lines.find(({ type }) => type === 'proof');
  const groups = (proof?.groups ?? []) as RunGroup[];
  return { code, stderr, lines, proof, groups, summary: lines.at(-1) };
}

/** What the fixture's agent becomes once `members` have changed, for one run that waits. */
async function proveChanged(desk: Desk, members: string, more = '') {
  // Commands share a process, which loads each module once.
  const module = desk.write(`changed-${members.length}.mjs`, changed(members, more));
  return { module, ...(await prove(desk, '--agent', module)) };
}

const eventsOf = ({ path = [] }: Partial<RunGroup>) => path.map(({ event }) => event.type);

/** Copies a run `count` times within the store, under the ids `NAME_0`, `NAME_1` and so on. */
async function multiply(store: Store, runId: string, name: string, count: number, chart = chartIdentity()) {
  const [first, ...entries] = await store.read(runId);
  const record = await store.get(runId);
  if (first?.event.type !== 'run.started' || record === undefined) return expect.fail();
  const { status, state, turns, tokens, cost, activeMs, waitsFor } = record;
  const events = entries.flatMap(({ event }) => (event.type === 'run.claimed' ? [] : [event]));
  const progress = { state, turns, tokens, cost, activeMs, ...(waitsFor && { waitsFor }) };
  const rest: JournalRest = { events, status, progress };
  for (let index = 0; index < count; index += 1)
    await store.create({ ...first.event, chart, runId: `${name}_${index}` }, undefined, rest);
}

describe.concurrent('doctor --prove', () => {
  test('says that a run continues with the agent that began it, and how many runs stand alike', async () => {
    const desk = new Desk(SCRIPT);
    const { runId } = await desk.begin();
    const { code, groups, proof, summary, module } = await proveChanged(desk, '');
    expect([code, summary]).toEqual([0, expect.objectContaining({ type: 'summary', runs: 1, stranded: 0 })]);
    expect(proof).toMatchObject({ complete: true, driven: 0 });
    expect(groups).toEqual([
      {
        agent: 'desk',
        state: 'resting.awaitingApproval',
        calls: ['refund waiting for approval'],
        count: 1,
        runs: [runId],
        verdict: 'continues',
        complete: true,
        states: expect.any(Number),
      },
    ]);
    const text = await desk.run(['doctor', '--prove', '--agent', module]);
    expect([text.code, text.stdout]).toEqual([
      0,
      expect.stringContaining(
        `continues  1 run of desk, resting.awaitingApproval, refund waiting for approval  ${runId}`,
      ),
    ]);
    expect(text.stdout).toContain('1 continue, 0 migrate, 0 stop, in 1 group');
  });

  test('finds that the tool of an open call is gone, with the shortest path to its start', async () => {
    const desk = new Desk(SCRIPT);
    const { runId } = await desk.begin();
    const { code, groups, module } = await proveChanged(desk, GONE);
    expect([code, groups]).toEqual([
      1,
      [
        expect.objectContaining({
          verdict: 'stops',
          runs: [runId],
          why: 'an open call of refund cannot run: the agent has no such tool',
        }),
      ],
    ]);
    expect(eventsOf(groups[0] ?? {})).toEqual(['approval.decided', 'tool.started']);
    const { code: same, stdout } = await desk.run(['doctor', '--prove', '--agent', module]);
    expect(same).toBe(1);
    expect(stdout).toMatch(
      /stops {6}1 run of desk.*\n +an open call of refund cannot run.*\n +1 {2}approval\.decided/,
    );
  });

  test.each([
    [
      'its schema refuses the input',
      "tools: change('refund', { validate: () => ({ valid: false, message: 'expected a reason' }) })",
      'an open call of refund cannot run: its input is not valid: expected a reason',
    ],
    [
      'its client runs it now',
      "tools: change('refund', { run: undefined })",
      'an open call of refund cannot run: the client runs this tool now',
    ],
  ])('finds that an open call cannot run because %s', async (_, members, why) => {
    const desk = new Desk(SCRIPT);
    await desk.begin();
    const { code, groups } = await proveChanged(desk, members);
    expect([code, groups]).toEqual([1, [expect.objectContaining({ verdict: 'stops', why })]]);
    expect(eventsOf(groups[0] ?? {})).toEqual(['approval.decided', 'tool.started']);
  });

  test('finds that the agent runs a tool itself whose client is to answer, where the run stands', async () => {
    const desk = new Desk([calling('ask_customer')]);
    await desk.begin();
    const { code, groups } = await proveChanged(desk, "tools: change('ask_customer', { run: () => 'ada' })");
    expect([code, groups]).toEqual([
      1,
      [expect.objectContaining({ calls: ['ask_customer waiting for its result'], verdict: 'stops' })],
    ]);
    expect(groups[0]?.why).toMatch(/waits for a client, and the agent runs this tool itself now$/);
    expect(groups[0]).not.toHaveProperty('path');
  });

  test('says nothing of a call that a client answers, also if it is not a tool of the agent any more', async () => {
    const desk = new Desk([calling('ask_customer')]);
    await desk.begin();
    const { code, groups } = await proveChanged(desk, "tools: without('ask_customer')");
    expect([code, groups.map(({ verdict }) => verdict)]).toEqual([0, ['continues']]);
  });

  test('finds a broken invariant and what may never start, with their paths', async () => {
    const desk = new Desk(SCRIPT);
    await desk.begin();
    const never = await proveChanged(desk, '', "export const never = 'refund unless approved by manager';");
    expect([never.code, never.groups[0]?.why]).toEqual([
      1,
      expect.stringMatching(
        /^rule never refund unless approved by manager: refund .* starts, not approved by manager/,
      ),
    ]);
    expect(eventsOf(never.groups[0] ?? {})).toEqual(['approval.decided', 'tool.started']);
    desk.write(
      'invariant.mjs',
      changed('', "export const invariants = { 'one turn': ({ context }) => context.turns < 2 };"),
    );
    const { code, groups } = await prove(desk, '--agent', 'invariant.mjs');
    expect([code, groups[0]?.why]).toEqual([1, 'one turn: it does not hold']);
    desk.write('unknown.mjs', changed('', "export const never = 'no_such_tool';"));
    const unknown = await desk.run(['doctor', '--prove', '--json', '--agent', 'unknown.mjs']);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('no tool is named')]);
    expect(unknown.stdout).not.toContain('"reachable":false');
    expect(eventsOf(groups[0] ?? {}).at(-1)).toBe('turn.completed');
  });

  test('tells runs that the deploy does not take, that it migrates, and whose migration fails', async () => {
    const desk = new Desk(SCRIPT);
    const { runId } = await desk.begin();
    const store = sqlite(desk.store);
    const { version } = chartIdentity();
    const older = { version: version - 1, hash: 'other' };
    await multiply(store, runId, 'older', 30, older);
    await multiply(store, runId, 'newer', 2, { version: version + 1, hash: 'other' });
    await store.create(begin('strange', { agent: { name: 'strange' }, chart: chartIdentity() }));
    await store.close();
    const { code, groups, summary } = await proveChanged(desk, '');
    expect([code, summary]).toEqual([1, expect.objectContaining({ runs: 34, stranded: 3, migrates: 30 })]);
    expect(groups.map(({ verdict, count, state }) => [verdict, count, state])).toEqual([
      ['stops', 2, 'resting.awaitingApproval'],
      ['stops', 1, 'running'],
      ['migrates', 30, 'resting.awaitingApproval'],
      ['continues', 1, 'resting.awaitingApproval'],
    ]);
    expect(groups[0]?.why).toContain('newer than');
    expect(groups[1]?.why).toContain('the deploy has no agent "strange"');
    expect(groups[2]?.why).toMatch(/older than.*Workers with these agents migrate it/);
    expect(groups[2]?.runs).toHaveLength(20);
    const failing = await proveChanged(
      desk,
      `migrations: [{ from: { chart: ${version - 1} }, to: { chart: ${version} }, migrate() { throw new Error('no such event') } }]`,
    );
    expect(failing.groups.find(({ count }) => count === 30)).toMatchObject({
      verdict: 'stops',
      why: 'its migration fails: no such event',
    });
    const gone = await proveChanged(desk, GONE);
    expect(gone.groups.find(({ count }) => count === 30)).toMatchObject({
      verdict: 'stops',
      why: 'an open call of refund cannot run: the agent has no such tool',
    });
  });

  test('knows runs that were migrated by hand, and journals that are damaged', async () => {
    const desk = new Desk(SCRIPT);
    const { runId } = await desk.begin();
    const store = sqlite(desk.store);
    await multiply(store, runId, 'older', 1, { version: chartIdentity().version - 1, hash: 'other' });
    await multiply(store, runId, 'damaged', 1);
    await store.close();
    expect((await desk.run(['migrate', 'older_0', '--agent', AGENT])).code).toBe(0);
    const db = new DatabaseSync(desk.store);
    db.exec(
      `UPDATE appends SET json = replace(json, '4200', '9200') WHERE run = (SELECT run FROM runs WHERE run_id = 'damaged_0')`,
    );
    db.close();
    const { code, groups } = await proveChanged(desk, '');
    const of = (id: string) => groups.find(({ runs }) => runs.includes(id));
    expect([code, groups.length]).toEqual([1, 3]);
    expect(of('damaged_0')).toMatchObject({ verdict: 'stops', why: expect.stringContaining('checksum') });
    expect(of('older_0')).toMatchObject({
      verdict: 'migrates',
      why: expect.stringMatching(/^it was migrated/),
    });
    expect(of('older_0_m2')).toMatchObject({ verdict: 'continues', count: 2 });
  });

  test('explores 3,000 runs of three kinds in seconds, each kind once, and changes nothing', async () => {
    const kinds = [calling(REFUND), calling('ask_customer'), calling('charge')];
    const desk = new Desk([kinds[0] ?? {}]);
    const first = await desk.begin();
    const others = kinds.slice(1).map(turn => new Desk([turn]));
    const store = sqlite(desk.store);
    await multiply(store, first.runId, 'refund', 999);
    for (const [index, other] of others.entries()) {
      const { runId } = await other.begin();
      const from = sqlite(other.store);
      const entries = await from.read(runId);
      const record = await from.get(runId);
      await from.close();
      const [start, ...rest] = entries;
      if (start?.event.type !== 'run.started' || record === undefined) return expect.fail();
      const events = rest.flatMap(({ event }) => (event.type === 'run.claimed' ? [] : [event]));
      const { status, state, turns, tokens, cost, activeMs } = record;
      await store.create({ ...start.event, runId: `kind_${index}` }, undefined, {
        events,
        status,
        progress: { state, turns, tokens, cost, activeMs },
      });
      await multiply(store, `kind_${index}`, `other_${index}`, 999);
    }
    const before = await store.list({ limit: 1_000 });
    const begun = performance.now();
    const { code, groups } = await proveChanged(desk, '');
    expect([code, groups.map(({ count, runs, verdict }) => [count, runs.length, verdict])]).toEqual([
      0,
      Array.from({ length: 3 }, () => [1_000, 20, 'continues']),
    ]);
    expect(groups.flatMap(({ calls }) => calls).sort()).toEqual([
      'ask_customer waiting for its result',
      'charge in doubt',
      'refund waiting for approval',
    ]);
    expect(performance.now() - begun).toBeLessThan(60_000);
    expect(await store.list({ limit: 1_000 })).toEqual(before);
    await store.close();
  }, 120_000);

  test('leaves out runs that a process drives, and needs the agents of the deploy', async () => {
    const desk = new Desk(SCRIPT);
    await desk.begin();
    const store = sqlite(desk.store);
    const owner = { id: 'here', host: 'elsewhere', pid: 77, startedAt: '1' };
    const now = Date.now();
    const started = begin('driven', { agent: { name: 'desk' }, chart: chartIdentity() });
    await store.create(started, { owner, now, leaseMs: 3_600_000, isDead: () => false });
    await store.create({ ...started, runId: 'left' });
    await store.close();
    const { code, proof, groups } = await proveChanged(desk, '');
    expect([code, proof?.driven, groups.flatMap(({ runs }) => runs)]).toEqual([
      0,
      1,
      expect.not.arrayContaining(['driven']),
    ]);
    expect(groups.map(({ state }) => state).sort()).toEqual(['resting.awaitingApproval', 'turn.planning']);
    for (const args of [
      ['--prove'],
      ['--agent', AGENT, '--connect'],
      ['--agent', AGENT, '--max-states', '5'],
      ['--prove', '--agent', AGENT, '--max-states', '0'],
    ])
      expect((await desk.run(['doctor', ...args])).code, args.join(' ')).toBe(2);
  });

  test('exits with 5 if not everything was walked, and says what would complete it', async () => {
    const desk = new Desk(SCRIPT);
    await desk.begin();
    const { code, groups } = await prove(
      desk,
      '--agent',
      desk.write('same.mjs', changed('')),
      '--max-states',
      '10',
    );
    expect([code, groups]).toEqual([5, [expect.objectContaining({ verdict: 'continues', complete: false })]]);
    expect(groups[0]?.why).toMatch(/^not walked: .*maxStates \(--max-states\) above 10\./);
  });

  test('ends a long exploration at Ctrl-C', async () => {
    const desk = new Desk(SCRIPT);
    await desk.begin();
    // A reader of all events makes more states than any maximum.
    desk.write(
      'endless.mjs',
      changed(
        '',
        "let told = 0; export const invariants = { told: ({ events }) => { if (events && ++told === 20_000) process.stderr.write('exploring\\n'); } };",
      ),
    );
    const started = desk.start([
      'doctor',
      '--prove',
      '--json',
      '--agent',
      'endless.mjs',
      '--max-states',
      '10000000',
    ]);
    await started.printed('exploring');
    started.child.kill('SIGINT');
    const { code, stdout } = await started.ended;
    const lines: Line[] = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line));
    const proof = lines.find(({ type }) => type === 'proof');
    expect([code, proof?.groups]).toEqual([
      5,
      [
        expect.objectContaining({
          verdict: 'continues',
          complete: false,
          why: 'the exploration was ended early',
        }),
      ],
    ]);
  });

  test('ends at Ctrl-C with what is known, and exits with 5', async () => {
    const desk = new Desk(SCRIPT);
    const { runId } = await desk.begin();
    const store = sqlite(desk.store);
    await multiply(store, runId, 'refund', 2_000);
    await store.close();
    desk.write(
      'slow.mjs',
      changed(
        '',
        "let told = false; export const invariants = { told: () => { if (!told) process.stderr.write('exploring\\n'); told = true; } };",
      ),
    );
    const started = desk.start(['doctor', '--prove', '--json', '--agent', 'slow.mjs']);
    await started.printed('exploring');
    started.child.kill('SIGINT');
    const { code, stdout } = await started.ended;
    const lines: Line[] = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line));
    const proof = lines.find(({ type }) => type === 'proof') as {
      complete: boolean;
      groups: RunGroup[];
    } & Line;
    expect([code, proof.complete, proof.groups.map(({ verdict }) => verdict)]).toEqual([
      5,
      false,
      ['continues'],
    ]);
    expect(proof.groups[0]?.count).toBeLessThan(2_001);
    expect(lines.at(-1)).toMatchObject({ type: 'summary' });
  });
});
