import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** The package as its users get it: packed, installed in an empty project, compiled and run there. */

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

test('the page and the picture are in the package', async () => {
  const svg = await inProject('npx', ['--no-install', 'agentchart', 'diagram', '--svg']);
  expect(svg.stdout).toContain('id="state-resting-awaitingApproval"');
  const script = `
    import { pageAssets } from './node_modules/agentchart/dist/visualizer/page-assets.js';
    const { html, find } = await pageAssets();
    console.log(html().includes('/assets/page.js'), find('/assets/page.js').body.length > 10_000);`;
  writeFileSync(join(project, 'page.mjs'), script);
  expect((await inProject(process.execPath, ['page.mjs'])).stdout).toBe('true true\n');
});

test('every entry of the package can be imported', async () => {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.keys(exports).filter(entry => entry !== './package.json');
  const imports = entries.map(entry => `await import('agentchart${entry.slice(1)}');`).join('\n');
  writeFileSync(join(project, 'entries.mjs'), `${imports}\nconsole.log('imported');`);
  const { stdout } = await inProject(process.execPath, ['entries.mjs']);
  expect(stdout).toBe('imported\n');
});
