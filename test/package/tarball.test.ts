import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** The package as its users get it: packed, installed in an empty project, compiled and run. */

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const project = mkdtempSync(join(tmpdir(), 'agentchart-package-'));
const path = [dirname(process.execPath), process.env.PATH].join(delimiter);
const env = { ...process.env, PATH: path, NO_COLOR: '1' };

async function inProject(command: string, args: string[], extra: Record<string, string> = {}) {
  return await run(command, args, { cwd: project, env: { ...env, ...extra } });
}

function readExample(): string {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const example = /## An agent\n\n```ts\n([\s\S]*?)```/.exec(readme)?.[1];
  if (example === undefined) throw new Error('Expected a TypeScript example under "An agent" in README.md.');
  return example;
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

/** The bytes that an entry adds to a page that already has xstate. */
async function measureInBrowser(file: string): Promise<number> {
  const { outputFiles } = await build({
    entryPoints: [file],
    ...{ bundle: true, minify: true, platform: 'browser', format: 'esm' },
    ...{ external: ['xstate'], write: false, logLevel: 'silent' },
  });
  return outputFiles[0]?.contents.length ?? Number.NaN;
}

/** The packages that a built file imports when it loads, directly or through its chunks, without Node's modules. */
async function findPackages(file: string): Promise<string[]> {
  const { metafile } = await build({
    absWorkingDir: project,
    entryPoints: [file],
    ...{ bundle: true, splitting: true, outdir: 'measured', write: false, metafile: true },
    ...{ packages: 'external', platform: 'node', format: 'esm', logLevel: 'silent' },
  });
  const { inputs } = metafile;
  const found = new Set<string>();
  const seen = new Set<string>();
  const visit = (name: string) => {
    if (seen.has(name)) return;
    seen.add(name);
    for (const { path, kind, external } of inputs[name]?.imports ?? []) {
      if (kind !== 'import-statement') continue;
      if (external) found.add(path);
      else visit(path);
    }
  };
  visit(file);
  return [...found].filter(name => !name.startsWith('node:'));
}

beforeAll(async () => {
  const packed = await run('npm', ['pack', '--silent', '--pack-destination', project], { cwd: root, env });
  writeFileSync(join(project, 'package.json'), '{ "type": "module", "private": true }');
  const tarball = packed.stdout.trim().split('\n').at(-1) ?? '';
  await inProject('npm', [
    'install',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    '--silent',
    `./${tarball}`,
  ]);
}, 120_000);

afterAll(() => rmSync(project, { recursive: true, force: true }));

test("the README's example compiles under strict and runs", async () => {
  writeFileSync(join(project, 'example.ts'), readExample());
  const options = { strict: true, module: 'nodenext', target: 'es2023', types: [], outDir: 'out' };
  writeFileSync(
    join(project, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: options, files: ['example.ts'] }),
  );
  const compiler = createRequire(import.meta.url).resolve('typescript/package.json');
  await inProject(process.execPath, [join(dirname(compiler), 'bin/tsc'), '-p', '.']);
  const script = [
    { toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1001', cents: 4200 } }] },
    { text: 'Paid back.' },
  ];
  writeFileSync(join(project, 'script.json'), JSON.stringify(script));
  const { stdout } = await inProject(process.execPath, ['out/example.js'], {
    AGENTCHART_MODEL: 'scripted:script.json',
  });
  expect(stdout).toContain("text: 'Paid back.'");
  expect(stdout).toContain('A-1001: 4200 cents paid back');
});

test('npx agentchart works', async () => {
  const { stdout } = await inProject('npx', ['--no-install', 'agentchart', 'diagram', '--mermaid']);
  expect(stdout).toMatch(/^stateDiagram-v2\n/);
});

test('the package contains the page and the picture', async () => {
  const svg = await inProject('npx', ['--no-install', 'agentchart', 'diagram', '--svg']);
  expect(svg.stdout).toContain('id="state-resting-awaitingApproval"');
});

test('the page is served from the package', async () => {
  const entry = join(project, 'node_modules/agentchart/dist/cli/main.js');
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

test('every entry of the package can be imported', async () => {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.keys(exports).filter(entry => entry !== './package.json');
  const imports = entries.map(entry => `await import('agentchart${entry.slice(1)}');`).join('\n');
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

test('importing agentchart loads only xstate', async () => {
  const entry = 'node_modules/agentchart/dist/tools/agent/index.js';
  expect(await findPackages(entry)).toEqual(['xstate']);
});

test('the packed agentchart/machine is no larger in a browser than the bundled sources, and under 60 kB', async () => {
  const packed = await measureInBrowser(join(project, 'node_modules/agentchart/dist/tools/agent/machine.js'));
  const sources = await measureInBrowser(join(root, 'tools/agent/machine.ts'));
  expect(packed).toBeLessThanOrEqual(sources * 1.01);
  expect(packed).toBeLessThan(60_000);
});
