import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { atMost, createAgent, tool } from '../../agent/index.ts';
import { formatTest } from '../../cli/commands/export.ts';
import { recordRun } from '../../engine/replay/record-run.ts';
import { explore, type Invariants } from '../../testing/index.ts';
import { formatBreachTest } from '../../visualizer/breach-test.ts';
import { SCENES } from '../support/testing/scenarios.ts';
import type { Scene } from '../support/testing/stage.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RESULTS = join(ROOT, 'test-results');

type Report = { testResults: { name: string; status: string; message: string }[] };

/** Exported test files, which vitest runs in a child process without keys and network. */
class Exported {
  readonly #folder: string;
  #report = new Map<string, { status: string; message: string }>();

  constructor() {
    mkdirSync(RESULTS, { recursive: true });
    this.#folder = mkdtempSync(join(RESULTS, 'export-'));
  }

  write(name: string, text: string): void {
    this.writeModule(`${name}.test`, text);
  }

  writeModule(name: string, text: string): void {
    writeFileSync(join(this.#folder, `${name}.ts`), text);
  }

  async run(): Promise<void> {
    const alias = {
      'agentchart/testing': join(ROOT, 'testing/index.ts'),
      agentchart: join(ROOT, 'agent/index.ts'),
    };
    const config = {
      root: this.#folder,
      resolve: { alias },
      test: { include: ['*.test.ts'], maxWorkers: 1, isolate: false },
    };
    writeFileSync(join(this.#folder, 'vitest.config.mjs'), `export default ${JSON.stringify(config)};`);
    const output = join(this.#folder, 'report.json');
    const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
    const args = [vitest, 'run', '--reporter=json', `--outputFile=${output}`];
    const env = { PATH: process.env.PATH ?? '', NO_COLOR: '1' };
    await new Promise<void>(settle => {
      execFile(process.execPath, args, { cwd: this.#folder, env }, () => settle());
    });
    const { testResults }: Report = (await import(output, { with: { type: 'json' } })).default;
    this.#report = new Map(
      testResults.map(({ name, ...result }) => [name.replace(/^.*\/|\.test\.ts$/g, ''), result]),
    );
  }

  result(name: string): { status: string; message: string } | undefined {
    return this.#report.get(name);
  }

  clear(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const names = Object.keys(SCENES);
const exported = new Exported();
const changes: string[] = [];

async function exportScene({ store, runId }: Scene) {
  const recorded = await recordRun(store, runId);
  return { recorded, text: formatTest(recorded, { runId, agent: 'staged', version: '0.1.0' }) };
}

beforeAll(async () => {
  for (const [place, [name, play]] of Object.entries(SCENES).entries()) {
    const { recorded, text } = await exportScene(await play());
    exported.write(`scene-${place}`, text);
    const { recording, outcome } = structuredClone(recorded);
    const settled = recording.at(-1)?.events.findLast(event => event.type === 'tool.settled');
    // After an edit of the transcript, the removed output does not affect the outcome.
    if (settled === undefined || name.includes('edited')) continue;
    settled.output = 'something else';
    const changed = formatTest({ recording, outcome }, { runId: 'run_x', agent: 'staged', version: '0.1.0' });
    exported.write(`changed-${place}`, changed);
    changes.push(`changed-${place}`);
  }
  writeBreach();
  await writeOwn();
  await exported.run();
});

type Desk = { approval?: boolean; most?: number; sideEffect?: string; rules?: string; says?: string };

/** The source of an agent that pays. Its tool fails the test if it is executed. */
function writeDesk({
  approval = true,
  most = 100,
  sideEffect = 'once',
  rules = "[atMost(1).of('pay')]",
  says = 'Paid.',
}: Desk = {}): string {
  return `import { atMost, createAgent, tool } from 'agentchart';
    import * as z from 'zod';
    const input = z.object({ cents: z.number().max(${most}) });
    const run = () => { throw new Error('executed'); };
    const pay = tool({ name: 'pay', description: 'Pays.', input, approval: ${approval}, sideEffect: '${sideEffect}', run });
    const answer = () => ({ type: 'replace', value: '${says}' });
    export default createAgent({ name: 'payer', tools: [pay], rules: ${rules}, guardrails: { answer } });`;
}

const DESKS: Record<string, Desk> = {
  'a removed approval': { approval: false },
  'a schema that refuses': { most: 10 },
  'another side effect': { sideEffect: 'idempotent' },
  'a removed rule': { rules: '[]' },
  'another guardrail': { says: 'Done.' },
};

/** Writes the test of a run on the code of its agent: as it was recorded, and with each change of the code. */
async function writeOwn(): Promise<void> {
  const pays = { toolCalls: [{ name: 'pay', arguments: { cents: 42 } }] };
  const agent = createAgent({
    name: 'payer',
    model: scripted([pays, pays, { text: 'Yes.' }]),
    tools: [
      tool({
        name: 'pay',
        description: 'Pays.',
        input: z.object({ cents: z.number() }),
        approval: true,
        run: () => 'paid',
      }),
    ],
    rules: [atMost(1).of('pay')],
    guardrails: { answer: () => ({ type: 'replace', value: 'Paid.' }) },
  });
  const run = await agent.start('Pay.');
  await run.settled();
  await run.approve('call_0_0', { by: 'ann' });
  await run.settled();
  const recorded = await recordRun(agent.store, run.id, { raw: true });
  const desks = Object.entries({ 'no change': {}, ...DESKS });
  for (const [place, [name, desk]] of desks.entries()) {
    const module = `${name}, it's "desk ${place}"`;
    exported.writeModule(module, writeDesk(desk));
    const about = { runId: run.id, agent: 'payer', version: '0.1.0', module: `./${module}.ts` };
    exported.write(`own-${name.replaceAll(' ', '-')}`, formatTest(recorded, about));
  }
}

/** Writes the test of a path on which a tool ran without an approval: for the agent that broke it, and for a fixed one. */
function writeBreach(): void {
  const pay = (approval: boolean) =>
    tool({ name: 'pay', description: 'Pays.', input: z.object({}), approval, run: () => 'paid' });
  const invariants: Invariants = { 'pays nothing alone': ({ event }) => event.type !== 'tool.started' };
  const agent = createAgent({ name: 'payer', tools: [pay(false)] });
  const [{ invariant, path } = fail()] = explore(agent, { invariants, maxStates: 40 }).breaches;
  const [started = fail(), ...events] = path.map(({ event }) => event);
  for (const [name, approval] of [
    ['free', false],
    ['gated', true],
  ] as const) {
    exported.writeModule(
      name,
      `import { createAgent, tool } from 'agentchart';
       import * as z from 'zod';
       const pay = tool({ name: 'pay', description: 'Pays.', input: z.object({}), approval: ${approval}, run: () => 'paid' });
       export const invariants = { 'pays nothing alone': ({ event }) => event.type !== 'tool.started' };
       export default createAgent({ name: 'payer', tools: [pay] });`,
    );
    const breaches = [{ invariant, path: events }];
    exported.write(`breach-${name}`, formatBreachTest({ module: `./${name}.ts`, past: [started], breaches }));
  }
}

afterAll(() => exported.clear());

describe('an exported test', () => {
  test.each(names.map((name, place) => [name, place] as const))('of %s passes', (_, place) => {
    expect(exported.result(`scene-${place}`)).toMatchObject({ status: 'passed', message: '' });
  });

  test('fails when a recorded output was changed', () => {
    expect(changes.length).toBeGreaterThan(15);
    for (const name of changes) expect(exported.result(name)?.status, name).toBe('failed');
  });

  test('of a breach fails for the agent that broke it, and passes once the tool needs an approval', () => {
    expect(exported.result('breach-free')?.status).toBe('failed');
    expect(exported.result('breach-gated')).toMatchObject({ status: 'passed' });
  });

  test("of an agent's code passes while nothing changed, and executes nothing", () => {
    expect(exported.result('own-no-change')).toMatchObject({ status: 'passed', message: '' });
  });

  test.each(Object.keys(DESKS))("of an agent's code fails for %s", name => {
    expect(exported.result(`own-${name.replaceAll(' ', '-')}`)).toMatchObject({
      status: 'failed',
      message: '',
    });
  });

  test('imports only the package and vitest, and contains the command that generates it', async () => {
    const { text } = await exportScene(await (SCENES['an approval'] ?? fail)());
    const imported = [...text.matchAll(/from '([^']+)'/g)].map(([, name]) => name);
    expect(imported).toEqual(['agentchart/testing', 'vitest']);
    expect(text).toContain('agentchart export run_1 --test --out FILE');
  });

  test('is deterministic', async () => {
    const scene = await (SCENES['a chain of runs'] ?? fail)();
    expect((await exportScene(scene)).text).toBe((await exportScene(scene)).text);
  });
});

function fail(): never {
  throw new Error('there is no such scene');
}
