import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, extname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { driveNotes } from '../support/package/drive-notes.ts';
import { findPackages, measureInBrowser } from '../support/package/measure-bundle.ts';
import { packCheckout } from '../support/package/pack-checkout.ts';
import { inAll, TAKES_ALL } from '../support/sample.ts';
import { CHROMIUM } from '../support/visualizer/browser.ts';

/** `npm test` compiles with the newer one. */
const COMPILERS = TAKES_ALL ? ['typescript', 'typescript-5.9'] : ['typescript'];

const STRICT = { strict: true, module: 'nodenext', target: 'es2023' };

const PACKED_KINDS = ['', '.js', '.json', '.map', '.md', '.png', '.svg', '.ts', '.txt', '.webp'];

/** What people write with typed tools, without a type argument or `as const`. */
const TYPED = `
import { createAgent, tool } from 'agentchart';
import * as z from 'zod';

const output = z.object({ status: z.enum(['shipped', 'lost']) });
const input = z.object({ orderId: z.string() });
const find = tool({ name: 'find', description: '', input, output, run: () => ({ status: 'lost' }) });
const pay = tool({ name: 'pay', description: '', input: z.object({ cents: z.number() }), run: ({ cents }) => cents });
const agent = createAgent({ name: 'desk', tools: [find, pay], output: z.object({ total: z.number() }) });
const run = await agent.start('go');
const settled = await run.settled();
if (settled.status === 'waiting') for (const call of settled.approvals) await run.approve(call, { by: 'ada' });
if (settled.status === 'finished' && settled.incomplete === undefined) console.log(settled.output.total);
`;

/** The package as its users get it: packed, installed in an empty project, compiled and run. */

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const home = mkdtempSync(join(tmpdir(), 'agentchart-package-'));
/** The sources, so that packing changes nothing in the checkout. */
const checkout = join(home, 'checkout');
const project = join(home, 'project');
const installed = join(project, 'node_modules/agentchart');
const path = [dirname(process.execPath), process.env.PATH].join(delimiter);
const env = { ...process.env, PATH: path, NO_COLOR: '1', npm_command: undefined };

async function inProject(command: string, args: string[], extra: Record<string, string> = {}) {
  return await run(command, args, { cwd: project, env: { ...env, ...extra } });
}

function readExample(): string {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const example = /## A first agent\n\n```ts\n([\s\S]*?)```/.exec(readme)?.[1];
  if (example === undefined)
    throw new Error('Expected a TypeScript example under "A first agent" in README.md.');
  return example;
}

function readManifest(folder: string) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}

/** The first address that a server prints. */
function readAddress(server: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let text = '';
    server.stderr?.on('data', piece => {
      text += piece;
      const address = /http:\/\/[\w.:]+/.exec(text)?.[0];
      if (address !== undefined) found(address);
    });
    server.on('close', () => failed(new Error(`The server ended without an address: ${text}`)));
  });
}

/** The package of a release has the address of its site. */
const SITE = 'https://docs.example/agentchart';

let tarball = '';

beforeAll(async () => {
  mkdirSync(project);
  writeFileSync(join(project, 'package.json'), '{ "type": "module", "private": true }');
  tarball = await packCheckout(checkout, project, SITE);
  await inProject('npm', [
    'install',
    '--omit=dev',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    '--silent',
    `./${tarball}`,
  ]);
});

afterAll(() => rmSync(home, { recursive: true, force: true }));

/** The entries that code imports, such as `agentchart/machine`. */
function listEntries(): string[] {
  const { exports } = readManifest(root);
  const entries = Object.keys(exports).filter(entry => entry !== './package.json');
  return entries.map(entry => `agentchart${entry.slice(1)}`);
}

test("the README's agent asks a person, one approves in another process, and with every entry it compiles under strict without types of other packages, in TypeScript 5.9 and 7", async () => {
  writeFileSync(join(project, 'example.ts'), readExample());
  writeFileSync(
    join(project, 'entries.ts'),
    listEntries()
      .map((entry, index) => `export * as entry${index} from '${entry}';`)
      .join('\n'),
  );
  writeFileSync(join(project, 'typed.ts'), TYPED);
  const compilerOptions = { ...STRICT, skipLibCheck: false, types: [], outDir: 'out' };
  writeFileSync(
    join(project, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, files: ['example.ts', 'entries.ts', 'typed.ts'] }),
  );
  for (const compiler of COMPILERS) {
    const tsc = join(root, 'node_modules', compiler, 'bin/tsc');
    const alone = compiler === 'typescript' ? ['--singleThreaded'] : [];
    const compiling = inProject(process.execPath, [tsc, ...alone, '-p', '.']);
    expect((await compiling.catch(error => error)).stdout).toBe('');
  }
  const script = [
    { toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1001', cents: 4200 } }] },
    { text: 'Paid back.' },
  ];
  writeFileSync(join(project, 'script.json'), JSON.stringify(script));
  const command = [join(installed, 'dist/cli/main.js'), '--agent', 'out/example.js', '--json'];
  const [main = '', ...options] = command;
  const scripted = { AGENTCHART_MODEL: 'scripted:script.json' };
  const asked = await inProject(
    process.execPath,
    [main, 'run', ...options, 'Refund A-1001.'],
    scripted,
  ).catch((failed: { code: number; stdout: string }) => failed);
  expect(asked).toMatchObject({ code: 3 });
  const run = /run_\w+/.exec(asked.stdout)?.[0] ?? expect.unreachable();
  const { stdout } = await inProject(
    process.execPath,
    [main, 'approve', run, 'call_0_0', ...options],
    scripted,
  );
  expect(stdout).toContain('Paid back.');
  expect(stdout).toContain('paid 4200 cents back for A-1001');
});

test('npx agentchart works', async () => {
  const { stdout } = await inProject('npx', ['--no-install', 'agentchart', 'diagram', '--mermaid']);
  expect(stdout).toMatch(/^stateDiagram-v2\n/);
});

test('the package has the documentation, with the pages that are made from the sources', async () => {
  const command = ['--no-install', 'agentchart', 'docs'];
  const [code, types, all] = await Promise.all([
    inProject('npx', [...command, 'lease-held']),
    inProject('npx', [...command, 'api/agentchart']),
    inProject('npx', [...command, '--json']),
  ]);
  expect(code.stdout).toMatch(/^# lease-held\n/);
  expect(types.stdout).toContain('### createAgent\n');
  const pages = globSync('**/*.md', { cwd: join(installed, 'docs') });
  expect(all.stdout.trimEnd().split('\n')).toHaveLength(pages.length - 1);
  expect(existsSync(join(installed, 'docs/.vitepress'))).toBe(false);
});

test('the package contains the page and the picture', async () => {
  const entry = join(installed, 'dist/cli/main.js');
  const svg = await inProject(process.execPath, [entry, 'diagram', '--svg']);
  expect(svg.stdout).toContain('id="state-resting-awaitingApproval"');
});

test('the page is served from the package', async () => {
  const entry = join(installed, 'dist/cli/main.js');
  const server = spawn(process.execPath, [entry, 'serve', '--port', '0'], { cwd: project, env });
  const closed = once(server, 'close');
  try {
    const url = await readAddress(server);
    const page = await fetch(url, { headers: { accept: 'text/html' } });
    expect(await page.text()).toContain('/assets/page.js');
    const script = await fetch(new URL('/assets/page.js', url));
    expect((await script.text()).length).toBeGreaterThan(10_000);
  } finally {
    server.kill();
    await closed;
  }
});

test('every entry of the package can be imported; that for React only with React', async () => {
  const imports = listEntries()
    .filter(entry => entry !== 'agentchart/react')
    .map(entry => `await import('${entry}');`)
    .join('\n');
  writeFileSync(join(project, 'entries.mjs'), `${imports}\nconsole.log('imported');`);
  const { stdout } = await inProject(process.execPath, ['entries.mjs']);
  expect(stdout).toBe('imported\n');
});

test('an error from one entry is an instance of the class from another', async () => {
  const script = `
    import { EngineError } from 'agentchart';
    import { sqlite } from 'agentchart/stores/sqlite';
    const store = sqlite(':memory:');
    await store.close();
    const error = await store.list().catch(error => error);
    console.log(error instanceof EngineError);`;
  writeFileSync(join(project, 'classes.mjs'), script);
  expect((await inProject(process.execPath, ['classes.mjs'])).stdout).toBe('true\n');
});

test('an error names the page of its code on the site, in code and on the command line', async () => {
  const script = `
    import { sqlite } from 'agentchart/stores/sqlite';
    await sqlite(':memory:').read('run_none');`;
  writeFileSync(join(project, 'uncaught.mjs'), script);
  const page = `${SITE}/errors/run-unknown.html`;
  const failed = { stderr: expect.stringContaining(`docs: '${page}'`) };
  await expect(inProject(process.execPath, ['uncaught.mjs'])).rejects.toMatchObject(failed);
  writeFileSync(join(project, 'empty.db'), '');
  const show = [join(installed, 'dist/cli/main.js'), 'show', 'run_none', '--db', 'empty.db'];
  await expect(inProject(process.execPath, show)).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`\nMore: agentchart docs run-unknown or ${page}\n`),
  });
});

test('importing agentchart loads only xstate', async () => {
  const entry = 'node_modules/agentchart/dist/agent/index.js';
  expect(await findPackages(project, entry)).toEqual(['xstate']);
});

test('the packed agentchart/react loads only React, and adds less than 12 kB to a page', async () => {
  const entry = 'node_modules/agentchart/dist/fronts/react/index.js';
  expect(await findPackages(project, entry)).toEqual(['react']);
  expect(await measureInBrowser(join(installed, 'dist/fronts/react/remote-run.js'))).toBeLessThan(12_000);
});

test('the packed agentchart/machine is no larger in a browser than the bundled sources, and under 215 kB', async () => {
  const packed = await measureInBrowser(join(installed, 'dist/agent/machine.js'));
  const sources = await measureInBrowser(join(root, 'agent/machine.ts'));
  expect(packed).toBeLessThanOrEqual(sources * 1.02);
  expect(packed).toBeLessThan(215_000);
});

test('the machine and a model take less than 120 kB of it in a browser', async () => {
  const names = '{ agentMachine, fromAdapter, decideNextAction, initial, next, toStored, fromStored }';
  const bytes = await measureInBrowser(join(installed, 'dist/agent/machine.js'), names);
  expect(bytes).toBeLessThan(120_000);
});

test('an installation takes less than 31 MB, without optional packages', async () => {
  const { stdout } = await inProject('du', ['-sk', 'node_modules']);
  expect(Number.parseInt(stdout, 10)).toBeLessThan(31 * 1024);
  for (const peer of Object.keys(readManifest(installed).peerDependencies))
    expect(existsSync(join(project, 'node_modules', peer)), peer).toBe(false);
});

test('the package holds dist, documents and licence, in at most 6 MB, and only kinds of files it needs', () => {
  const files = globSync('**/*', { cwd: installed }).filter(file => statSync(join(installed, file)).isFile());
  const places = new Set(files.map(file => (file.includes('/') ? file.split('/')[0] : file)));
  expect([...places].sort()).toEqual(
    ['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'dist', 'docs', 'package.json'].sort(),
  );
  const kinds = new Set(files.map(file => extname(file)));
  expect([...kinds].sort()).toEqual(PACKED_KINDS.toSorted());
  expect(statSync(join(project, tarball)).size).toBeLessThan(6_000_000);
});

test('no link of a document in the package leads out of it', () => {
  const documents = globSync('{*.md,docs/**/*.md}', { cwd: installed });
  expect(documents.length).toBeGreaterThan(30);
  const leading = documents.flatMap(document =>
    [...readFileSync(join(installed, document), 'utf8').matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)/g)]
      .filter(([, link = '']) => !existsSync(join(installed, dirname(document), link)))
      .map(([, link]) => `${document}: ${link}`),
  );
  expect(leading).toEqual([]);
});

test('the package has the docs, and nothing for developing it', () => {
  expect(existsSync(join(installed, 'docs/glossary.md'))).toBe(true);
  const { scripts, devDependencies } = readManifest(installed);
  expect([scripts, devDependencies]).toEqual([undefined, undefined]);
  expect(readManifest(checkout)).toEqual({ ...readManifest(root), homepage: SITE });
});

test('every declaration has a map, which refers to a source in the package', () => {
  const declarations = globSync('dist/**/*.d.ts', { cwd: installed });
  expect(declarations).toContain('dist/agent/index.d.ts');
  const sourceless = declarations.filter(file => {
    const { sources } = JSON.parse(readFileSync(join(installed, `${file}.map`), 'utf8'));
    return !existsSync(join(installed, dirname(file), sources[0]));
  });
  expect(sourceless).toEqual([]);
});

inAll('publint has no remark, and the types of every entry resolve for ES modules and bundlers', async () => {
  const check = join(root, 'test/support/package/fixtures/check-package.mjs');
  const { stdout } = await inProject(process.execPath, [check, tarball]);
  expect(JSON.parse(stdout)).toEqual({ messages: [], types: [] });
});

describe.runIf(TAKES_ALL)('the apps of examples/apps', () => {
  const apps = join(project, 'apps');

  /** Runs an app to its end, with a scripted model. */
  async function runApp(file: string, args: string[], turns: readonly object[], input = '') {
    const script = join(apps, `${randomUUID()}.json`);
    writeFileSync(script, JSON.stringify(turns));
    const child = spawn(process.execPath, [join(apps, 'out', file), ...args], {
      cwd: apps,
      env: { ...env, AGENTCHART_MODEL: `scripted:${script}` },
    });
    child.stdin.end(input);
    const [printed, errors, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    expect(code, errors).toBe(0);
    return printed;
  }

  beforeAll(async () => {
    cpSync(join(root, 'examples/apps'), apps, { recursive: true });
    const compilerOptions = {
      ...STRICT,
      noUncheckedIndexedAccess: true,
      allowImportingTsExtensions: true,
      rewriteRelativeImportExtensions: true,
      outDir: 'out',
      rootDir: '.',
      types: ['node'],
      typeRoots: [join(root, 'node_modules/@types')],
    };
    writeFileSync(join(apps, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['**/*.ts'] }));
    const compiling = run(
      process.execPath,
      [join(root, 'node_modules/typescript/bin/tsc'), '--singleThreaded', '-p', apps],
      { env },
    );
    expect((await compiling.catch(error => error)).stdout).toBe('');
  });

  test('compile without casts, `any` and comments for the compiler', () => {
    const files = globSync('**/*.ts', { cwd: join(root, 'examples/apps') });
    expect(files.length).toBeGreaterThan(4);
    for (const file of files) {
      const code = readFileSync(join(root, 'examples/apps', file), 'utf8').replaceAll(' as const', '');
      expect(code, file).not.toMatch(/\bany\b|\bas [A-Z{]|@ts-/);
    }
  });

  test('support.ts: a typed edit of an approval, typed results and a typed answer', async () => {
    const printed = await runApp(
      'support.js',
      [],
      [
        { toolCalls: [{ name: 'find_order', arguments: { orderId: 'A-1001' } }] },
        { toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1001', cents: 4200 } }] },
        { text: '{ "reply": "I refunded 20 dollars.", "refundedCents": 2000 }' },
      ],
    );
    expect(printed).toBe('order shipped\nrefund 2000 true\nI refunded 20 dollars. 2000\n');
  });

  test('webhook/: two users, three processes; a user decides about own runs only', async () => {
    const turns = [
      { toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1001', cents: 4200 } }] },
      { text: 'Done.' },
    ];
    const asked = await Promise.all(['7', '8'].map(user => runApp('webhook/ask.js', [user], turns)));
    const [seven, eight] = asked.map(line => JSON.parse(line));
    const script = join(apps, 'webhook.json');
    writeFileSync(script, JSON.stringify(turns));
    const server = spawn(process.execPath, [join(apps, 'out/webhook/webhook.js')], {
      cwd: apps,
      env: { ...env, PORT: '0', AGENTCHART_MODEL: `scripted:${script}` },
    });
    const ended = once(server, 'close');
    const [address] = await once(server.stdout, 'data');
    const decide = async (user: string, open: object) => {
      const response = await fetch(`http://127.0.0.1:${JSON.parse(String(address)).port}/`, {
        method: 'POST',
        headers: { 'x-user': user },
        body: JSON.stringify({ ...open, approve: true }),
      });
      return [response.status, await response.json()];
    };
    expect(await decide('8', seven)).toEqual([404, { message: 'There is no such run.' }]);
    expect(await decide('7', seven)).toEqual([200, { accepted: true }]);
    expect((await decide('7', seven))[0]).toBe(409);
    server.kill('SIGTERM');
    await ended;
    expect(await runApp('webhook/outcome.js', ['7'], turns)).toBe(
      `${seven.run} finished {"paidTo":"7","cents":4200}\n`,
    );
    expect(await runApp('webhook/outcome.js', ['8'], turns)).toBe(`${eight.run} waiting\n`);
  });

  test('chat.ts: another process continues the chat, with an image', async () => {
    writeFileSync(join(apps, 'dot.png'), Buffer.from([137, 80, 78, 71]));
    const turns = [{ text: 'Hello, Ada.' }, { text: 'A dot.' }];
    expect(await runApp('chat.js', ['c1'], turns, 'I am Ada.\n')).toContain('Hello, Ada.');
    const printed = await runApp('chat.js', ['c1'], turns, '/image dot.png What is this?\n');
    expect(printed).toContain('(continues "I am Ada.")');
    expect(printed).toContain('A dot.');
  });

  test.skipIf(CHROMIUM === undefined)('browser-tab/: a page that vite builds survives a reload', async () => {
    const folder = join(apps, 'browser-tab');
    await build({ root: folder, configFile: false, logLevel: 'error' });
    await driveNotes({ folder, proxy: join(apps, 'out/browser-tab/proxy.js'), env });
  });
});
