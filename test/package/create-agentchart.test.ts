import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { packCheckout, packCreate } from '../support/package/pack-checkout.ts';
import { TAKES_ALL } from '../support/sample.ts';
import { POSTGRES_BIN, startPostgres } from '../support/stores/postgres-server.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';
import { CHROMIUM, sharedChromium, WatchedPage } from '../support/visualizer/browser.ts';

/** `npm create agentchart`: what it writes, and that a project works as its README says. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAM = join(ROOT, 'create-agentchart/main.ts');
const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
const env = { ...process.env, PATH, NO_COLOR: '1', AGENTCHART_MODEL: '' };
const run = promisify(execFile);

/** Runs the program in a new folder, without a terminal. */
function create(folder: string, ...args: string[]) {
  return spawnSync(process.execPath, [PROGRAM, ...args], { cwd: folder, env, encoding: 'utf8' });
}

const COMMON = [
  '.dockerignore',
  '.env',
  '.gitignore',
  'Dockerfile',
  'README.md',
  'agent.test.ts',
  'agent.ts',
  'model.ts',
  'package.json',
  'page/index.html',
  'page/page.js',
  'page/style.css',
  'people.ts',
  'server.ts',
  'store.ts',
  'tsconfig.json',
];

const listFiles = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

describe('the project', () => {
  test.each([
    ['sqlite', [], COMMON, 'data/runs.db'],
    [
      'postgres',
      ['--store', 'postgres'],
      [...COMMON, 'compose.yaml'].sort(),
      'postgres://agents:agents@127.0.0.1:5432/agents',
    ],
  ] as const)(
    'has the files for %s, with its name, and asks nothing without a terminal',
    (store, args, files, db) => {
      const folder = makeTemporaryFolder('create');
      const { status, stdout, stderr } = create(folder, 'my-desk', ...args);
      expect([status, stderr]).toEqual([0, '']);
      expect(stdout).toContain(
        `Wrote my-desk, with runs in ${store}. Next:\n\n  cd my-desk\n  npm install\n`,
      );
      const project = join(folder, 'my-desk');
      expect(listFiles(project)).toEqual(files);
      const manifest = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
      expect(manifest.name).toBe('my-desk');
      expect('pg' in manifest.dependencies).toBe(store === 'postgres');
      expect(readFileSync(join(project, '.env'), 'utf8')).toContain(`AGENTCHART_DB=${db}\n`);
      for (const file of listFiles(project))
        expect(readFileSync(join(project, file), 'utf8'), file).not.toMatch(/\{\{/);
    },
  );

  test('is written by a program that a shell starts with Node', () => {
    expect(readFileSync(PROGRAM, 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
  });

  test('is written into an empty folder, or one with nothing but .git', () => {
    const folder = join(makeTemporaryFolder('create'), 'desk');
    mkdirSync(join(folder, '.git'), { recursive: true });
    expect(create(folder, '.')).toMatchObject({ status: 0, stderr: '' });
    expect(existsSync(join(folder, 'agent.ts'))).toBe(true);
  });

  test('replaces nothing without --force', () => {
    const folder = join(makeTemporaryFolder('create'), 'desk');
    mkdirSync(folder);
    writeFileSync(join(folder, 'agent.ts'), 'mine');
    const refused = create(folder, '.');
    expect(refused).toMatchObject({ status: 1, stdout: '' });
    expect(refused.stderr).toBe(
      `${folder} is not empty: it has agent.ts. Name another folder, or add --force, which replaces files of the same name.\n`,
    );
    expect(readFileSync(join(folder, 'agent.ts'), 'utf8')).toBe('mine');
    expect(create(folder, '.', '--force').status).toBe(0);
    expect(readFileSync(join(folder, 'agent.ts'), 'utf8')).toContain('createAgent');
  });

  test.each([
    [['My Desk'], '"My Desk" cannot be the name of a package'],
    [['agentchart'], '"agentchart" cannot be the name of the project'],
    [['one', 'two'], 'Expected one folder, got one, two.'],
    [['desk', '--store', 'redis'], 'There is no store "redis": use sqlite or postgres.'],
    [['desk', '--stor', 'sqlite'], "Unknown option '--stor'"],
  ])('is refused for %j, without a stack', (args, message) => {
    const folder = makeTemporaryFolder('create');
    const { status, stderr } = create(folder, ...args);
    expect(status).toBe(1);
    expect(stderr).toContain(message);
    expect(stderr).not.toContain('    at ');
    expect(readdirSync(folder)).toEqual([]);
  });
});

const script = spawnSync('script', ['--version']).status === 0;

test.runIf(script)('on a terminal it asks for the folder and the store, each with a default', async () => {
  const folder = makeTemporaryFolder('create');
  const command = `${process.execPath} ${PROGRAM}`;
  const child = spawn('script', ['-qec', command, '/dev/null'], { cwd: folder, env });
  let shown = '';
  child.stdout.on('data', piece => {
    const before = shown;
    shown += piece;
    if (!before.includes('Folder (my-agent): ') && shown.includes('Folder (my-agent): '))
      child.stdin.write('\n');
    if (!before.includes('(sqlite): ') && shown.includes('(sqlite): ')) child.stdin.write('postgres\n');
  });
  const [code] = await once(child, 'close');
  expect(code, shown).toBe(0);
  expect(existsSync(join(folder, 'my-agent/compose.yaml'))).toBe(true);
});

/** Starts a server of a project; resolves to its address. */
async function start(folder: string, more: Record<string, string>, options: readonly string[] = []) {
  const args = [...options, '--env-file-if-exists=.env', 'server.ts'];
  const child = spawn(process.execPath, args, { cwd: folder, env: { ...env, PORT: '0', ...more } });
  const errors = text(child.stderr);
  const found = (async () => {
    for await (const piece of child.stdout) {
      const address = /http:\/\/[\d.]+:\d+/.exec(String(piece))?.[0];
      if (address !== undefined) return address;
    }
    throw new Error(`The server ended without an address: ${await errors}`);
  })();
  const url = await found;
  child.stdout.resume();
  return { url, child };
}

async function stop(child: ChildProcess): Promise<void> {
  const closed = once(child, 'close');
  child.kill('SIGTERM');
  expect(await closed).toEqual([0, null]);
}

const headersOf = (name: string) => ({
  authorization: `Bearer example-key-of-${name}`,
  'content-type': 'application/json',
});

async function readLines(response: Response) {
  expect(response.status).toBe(200);
  const lines = (await response.text()).split('\n').filter(line => line !== '');
  return lines.map(line => JSON.parse(line));
}

describe.runIf(TAKES_ALL && CHROMIUM !== undefined)('the page', () => {
  test('a customer asks, a manager approves, and the answer comes; without barriers', async () => {
    const folder = makeTemporaryFolder('create');
    create(folder, 'desk');
    const project = join(folder, 'desk');
    symlinkSync(join(ROOT, 'node_modules'), join(project, 'node_modules'));
    const sources = pathToFileURL(join(ROOT, 'test/support/use-sources.ts')).href;
    const { url, child } = await start(project, {}, ['--import', sources]);
    const watched = await WatchedPage.open(await sharedChromium(), `${url}/`);
    const { page } = watched;
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Waits for a decision: refunds 4200 cents').waitFor();
    expect(await watched.findBarriers()).toEqual([]);
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('I refunded order A-1001.').waitFor();
    await page.getByText('Nothing waits.').waitFor();
    expect(watched.problems).toEqual([]);
    await watched.close();
    await stop(child);
  });
});

/** A folder as the project's Dockerfile makes the image's. */
async function makeImage(project: string, image: string): Promise<void> {
  const dockerfile = readFileSync(join(project, 'Dockerfile'), 'utf8');
  const [install = '', final = ''] = dockerfile.split(/^FROM /m).slice(1);
  mkdirSync(image);
  const copy = (stage: string) => {
    for (const [, paths = ''] of stage.matchAll(/^COPY (?!--from)(.+)$/gm)) {
      const [to = '', ...from] = paths.split(' ').reverse();
      const sources = from.flatMap(pattern => globSync(pattern, { cwd: project }));
      expect(sources.length, paths).toBeGreaterThanOrEqual(from.length);
      for (const source of sources) {
        const target = to === './' ? join(image, basename(source)) : join(image, to);
        cpSync(join(project, source), target, { recursive: true });
      }
    }
  };
  copy(install);
  // Of what it only develops with, a registry may lack packages for other systems, and npm refuses its own lock then.
  const { devDependencies: _, ...manifest } = JSON.parse(readFileSync(join(image, 'package.json'), 'utf8'));
  writeFileSync(join(image, 'package.json'), JSON.stringify(manifest));
  await run('npm', ['install', '--package-lock-only', '--prefer-offline', '--silent'], { cwd: image, env });
  const [command = '', ...args] = /^RUN (npm ci .+)$/m.exec(install)?.[1]?.split(' ') ?? [];
  await run(command, [...args, '--prefer-offline', '--loglevel=error'], { cwd: image, env });
  copy(final);
  expect(final).toMatch(/^USER [1-9]\d*$/m);
  expect(JSON.parse(/^CMD (.+)$/m.exec(final)?.[1] ?? '')).toEqual(['node', 'server.ts']);
}

describe.runIf(TAKES_ALL)('from the tarballs', () => {
  const home = makeTemporaryFolder('created');
  const checkout = join(home, 'checkout');
  const tarballs = { agentchart: '', 'create-agentchart': '' };
  let program = '';

  beforeAll(async () => {
    tarballs.agentchart = join(home, await packCheckout(checkout, home));
    tarballs['create-agentchart'] = join(home, await packCreate(checkout, home));
    const installed = join(home, 'installed');
    const args = ['--prefix', installed, '--prefer-offline', '--no-audit', '--no-fund', '--silent'];
    await run('npm', ['install', ...args, tarballs['create-agentchart']], { cwd: home, env });
    program = join(installed, 'node_modules/.bin/create-agentchart');
  });

  /** Creates a project, and installs it with the packed `agentchart`. */
  async function install(store: string): Promise<string> {
    await run(program, [`${store}-desk`, '--store', store], { cwd: home, env });
    const project = join(home, `${store}-desk`);
    const file = join(project, 'package.json');
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    manifest.dependencies.agentchart = `file:../${basename(tarballs.agentchart)}`;
    writeFileSync(file, JSON.stringify(manifest, null, 2));
    await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--silent'], {
      cwd: project,
      env,
    });
    return project;
  }

  /** Ann asks in development; another server, as the image runs it, has Mia's approval and continues the run. */
  async function runApproval(project: string, db: string): Promise<void> {
    const image = `${project}-image`;
    const [tested] = await Promise.all([
      run('npm', ['test'], { cwd: project, env }).catch(error => error),
      makeImage(project, image),
    ]);
    expect(tested.stdout).toMatch(/Tests +4 passed/);

    const first = await start(project, { AGENTCHART_DB: db });
    const page = await fetch(first.url);
    expect(await page.text()).toContain('page.js');
    expect((await fetch(`${first.url}/inbox`)).status).toBe(401);
    const body = JSON.stringify({ input: 'Refund order A-1001.', thread: 'chat-1' });
    const asked = await fetch(`${first.url}/story`, { method: 'POST', headers: headersOf('ann'), body });
    const lines = await readLines(asked);
    expect(lines.at(-1)).toMatchObject({ type: 'settled', status: 'waiting' });
    expect(
      lines
        .filter(({ type }) => type === 'text')
        .map(line => line.text)
        .join(''),
    ).toContain('scripted stand-in');
    await stop(first.child);

    const people = {
      'example-key-of-ann': { name: 'ann', role: 'requester' },
      'example-key-of-mia': { name: 'mia', role: 'approver', groups: ['managers'] },
    };
    const refused = await start(image, { AGENTCHART_DB: db, NODE_ENV: 'production' }).catch(String);
    expect(refused).toContain('Set PEOPLE');
    const production = {
      AGENTCHART_DB: db,
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      PEOPLE: JSON.stringify(people),
    };
    const second = await start(image, production);
    const health = /^ {2}CMD (.+)$/m.exec(readFileSync(join(project, 'Dockerfile'), 'utf8'))?.[1] ?? '[]';
    const [, ...probe] = JSON.parse(health);
    await run(process.execPath, probe, { env: { ...env, PORT: new URL(second.url).port } });
    const inbox = await fetch(`${second.url}/inbox`, { headers: headersOf('mia') });
    const { items } = (await inbox.json()) as {
      items: { runId: string; call: { callId: string; digest: string } }[];
    };
    const [item] = items;
    const decide = (name: string) =>
      fetch(`${second.url}/runs/${item?.runId}/approve`, {
        method: 'POST',
        headers: headersOf(name),
        body: JSON.stringify({ callId: item?.call.callId, digest: item?.call.digest }),
      });
    expect((await decide('ann')).status).toBe(403);
    expect((await decide('mia')).status).toBe(200);
    const rest = await fetch(`${second.url}/story/${item?.runId}?follow=1`, { headers: headersOf('ann') });
    expect((await readLines(rest)).at(-1)).toMatchObject({
      status: 'finished',
      text: 'I refunded order A-1001.',
    });
    await stop(second.child);
  }

  test('a project with SQLite tests itself, and continues a run in its image', async () => {
    const project = await install('sqlite');
    await runApproval(project, join(home, 'runs.db'));
  });

  test.skipIf(POSTGRES_BIN === undefined)('so does one with PostgreSQL', async () => {
    const project = await install('postgres');
    const compose = parse(readFileSync(join(project, 'compose.yaml'), 'utf8'));
    expect(Object.keys(compose.services)).toEqual(['postgres', 'server']);
    const server = await startPostgres();
    try {
      await runApproval(project, await server.createDatabase());
    } finally {
      await server.stop();
    }
  });

  test.each(['agentchart', 'create-agentchart'] as const)('npm would publish %s without a warning', name => {
    const args = ['publish', '--dry-run', '--json', '--access', 'public', tarballs[name]];
    const { status, stdout, stderr } = spawnSync('npm', args, { cwd: home, env, encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    const warnings = stderr
      .split('\n')
      .filter(line => /warn|error/i.test(line) && !line.includes('logged in'));
    expect(warnings).toEqual([]);
    const paths: string[] = JSON.parse(stdout)[name].files.map(({ path }: { path: string }) => path);
    expect([...new Set(paths.map(path => path.split('/')[0]))].sort()).toEqual(PLACES[name]);
  });
});

const PLACES = {
  agentchart: ['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'dist', 'docs', 'package.json'],
  'create-agentchart': ['LICENSE', 'README.md', 'dist', 'package.json', 'template', 'template-postgres'],
};
